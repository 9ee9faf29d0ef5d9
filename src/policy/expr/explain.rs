//! What the language library reports, in plain words.

use cel::{ExecutionError, ParseErrors};

use super::ExprError;
use crate::policy::excerpt::excerpt;

/// What a person is told of an evaluation that failed: what happened, and what to write.
pub(super) type Told = (String, Option<String>);

/// The first thing the parser stumbled over.
pub(super) fn parse_error(text: &str, errors: &ParseErrors) -> ExprError {
    let Some(first) = errors.errors.first() else {
        return ExprError { message: "this is not an expression".to_owned(), at: None, help: None };
    };
    let found = |start: &str| {
        let (_, after) = first.msg.split_once(start)?;
        after.split_once('\'').map(|(token, _)| token.trim())
    };
    let token = found("at input '").or_else(|| found("input '")).or_else(|| found("recognition error at: '"));
    let message = match token {
        Some("<EOF>") => "the expression ends too early".to_owned(),
        Some(token) if !token.is_empty() => format!("`{token}` is not expected here"),
        _ if first.msg.starts_with("Syntax error") => "this is not an expression".to_owned(),
        _ => excerpt(&first.msg.to_lowercase(), 120),
    };
    let help = match token {
        _ if message.contains("has() macro") => Some("write `has(args.field)`"),
        Some("<EOF>") => Some("write what the last operator takes on its right"),
        Some("is") => Some("compare with `==`: `args.x == null`"),
        Some("?") => Some("a choice is `condition ? a : b`"),
        Some(token) if token.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '"')) => {
            Some("an operator is missing before it: `==`, `<`, `&&`, `||`, `in`, …")
        }
        Some(_) => Some("remove it, or write what is missing before it"),
        None => None,
    };
    let help = help.map(str::to_owned);
    ExprError { message, at: position(text, first.pos), help }
}

/// The expression that failed, and why.
pub(super) fn evaluation(text: &str, message: &str, help: Option<String>) -> ExprError {
    ExprError { message: format!("`{}`: {message}", excerpt(text, 80)), at: None, help }
}

/// Why an evaluation failed.
pub(super) fn execution(error: &ExecutionError) -> Told {
    let plain = |message: &str| (message.to_owned(), None);
    match error {
        ExecutionError::NoSuchKey(key) => {
            let key = excerpt(key, 80);
            (format!("no such key `{key}`"), Some(format!("ask first: `has(….{key}) && …`")))
        }
        ExecutionError::UndeclaredReference(name) => {
            (format!("`{}` has no value here", excerpt(name, 80)), None)
        }
        ExecutionError::NoSuchOverload(call) => {
            operands(call.function(), call.argument_types().iter().map(String::as_str))
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            let names = [left, right].map(|value| value.type_of().to_string());
            operands(operator, names.iter().map(String::as_str))
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            let names = [left, right].map(|value| value.type_of().to_string());
            let [left, right] = names.each_ref().map(|name| type_name(name));
            (format!("{left} and {right} cannot be compared"), None)
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => plain("division by zero"),
        ExecutionError::Overflow(..) => plain("the number is too large"),
        ExecutionError::IndexOutOfBounds(cel::Value::Int(index)) => {
            (format!("there is no element {index}"), Some("ask for the `size` first".to_owned()))
        }
        ExecutionError::IndexOutOfBounds(_) => plain("there is no such element"),
        ExecutionError::DuplicateKey(_) => plain("a key occurs twice in a map"),
        ExecutionError::UnsupportedKeyType(_) => plain("a key of a map must be a string or a whole number"),
        ExecutionError::UnsupportedIndex(..) => {
            plain("an element is asked for by something that is no whole number")
        }
        ExecutionError::UnexpectedType { want, .. } if want == "Arc<String>" => plain("a string is needed"),
        ExecutionError::UnexpectedType { .. } => plain("a value of another type is needed"),
        ExecutionError::FunctionError { function, message } => {
            (format!("`{function}` failed: {}", excerpt(&message.to_lowercase(), 120)), None)
        }
        _ => plain("it has no value for this data"),
    }
}

/// An operator or function that does not take what it was given.
fn operands<'a>(function: &str, types: impl Iterator<Item = &'a str>) -> Told {
    let types: Vec<&str> = types.map(type_name).collect();
    let list = types.join(" and ");
    if function == super::check::EACH {
        return (format!("only a list or a map has elements, not {list}"), None);
    }
    if let "_[_]" | "_._" = function {
        return (format!("elements cannot be taken from {}", types.first().unwrap_or(&"this")), None);
    }
    let operator = match function {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        "@in" => "in",
        super::strict::SAME_TYPE => "==",
        other => other.trim_matches('_'),
    };
    let mixed = types.contains(&"int") && types.contains(&"double");
    let help = mixed.then(|| {
        "numbers with and without a decimal point do not mix: write `2.0`, or `double(x)`".to_owned()
    });
    (format!("`{operator}` does not take {list}"), help)
}

fn type_name(name: &str) -> &str {
    match name.split_once('(').map_or(name, |(name, _)| name) {
        "null_type" => "null",
        "float" => "double",
        name => name,
    }
}

/// The bytes at a 1-based line and column, in characters.
fn position(text: &str, (line, column): (isize, isize)) -> Option<core::ops::Range<usize>> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let this = text.get(before..)?;
    let start = before.saturating_add(byte(this, usize::try_from(column).ok()?.saturating_sub(1)));
    let length = text.get(start..)?.chars().next().map_or(0, char::len_utf8);
    Some(start..start.saturating_add(length))
}

/// Where the character number `index` begins.
fn byte(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}
