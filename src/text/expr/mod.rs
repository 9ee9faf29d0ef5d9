//! Conditions and values written in CEL, checked and bounded when the policy is loaded.
//!
//! What the language library leaves open is closed here: depth and size are limited before its parser sees a
//! text, loops do not nest, regular expressions are compiled once, and maps are walked in the order of their
//! keys, so that a result never depends on chance.

mod check;
mod explain;
mod json;
mod path;
mod quick;
mod scan;
mod strict;

use core::fmt;
use core::ops::Range;
use std::sync::{Arc, OnceLock};

pub(crate) use self::json::kind;
use cel::common::ast::{IdedExpr, SourceInfo};
use cel::{Context, Env};
use regex::Regex;
use serde_json::{Map, Value};

use self::check::CheckedExpr;
use self::path::FieldPath;

/// A compiled expression. Cloning shares it.
#[derive(Clone)]
pub struct Expr(Arc<CompiledExpr>);

struct CompiledExpr {
    text: String,
    ast: IdedExpr,
    variables: Vec<String>,
    fields: Vec<(String, String)>,
    regexes: Arc<[Regex]>,
    cost: usize,
    /// If it does no more than name a value.
    path: Option<FieldPath>,
}

/// What is wrong with an expression, or why it could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong.
    pub message: String,
    /// The bytes of the expression it is about, if they are known.
    pub at: Option<Range<usize>>,
    /// What to write instead.
    pub help: Option<String>,
}

/// Deeper nesting than [`scan`] lets through; the parser's own last line of defence.
const PARSER_DEPTH: u16 = 96;

impl Expr {
    /// Compiles `text`, in which only `variables` may occur.
    ///
    /// # Errors
    /// If `text` is not an expression, uses an unknown name, or is larger than an expression may be.
    ///
    /// ```
    /// use unfazed::text::Expr;
    /// assert!(Expr::parse("args.qty > 0", &["args"]).is_ok());
    /// let error = Expr::parse("arg.qty > 0", &["args"]).unwrap_err();
    /// assert_eq!(error.help.unwrap(), "did you mean `args`?");
    /// ```
    pub fn parse(text: &str, variables: &[&str]) -> Result<Self, ExprError> {
        Self::compile(text, variables, false)
    }

    /// As [`parse`](Self::parse), for the condition of a gate: compared with a value of another type that is written out, a
    /// value has no result.
    pub(crate) fn parse_gate(text: &str, variables: &[&str]) -> Result<Self, ExprError> {
        Self::compile(text, variables, true)
    }

    fn compile(text: &str, variables: &[&str], gate: bool) -> Result<Self, ExprError> {
        // The parser recurses, so its stack is protected before it sees the text.
        scan::scan(text)?;
        let quick = quick::read(text).and_then(|mut ast| {
            let checked = check::check(&mut ast, &SourceInfo::default(), text, variables).ok()?;
            Some((ast, checked))
        });
        // Only the usual parser knows the places of mistakes.
        let (mut ast, checked) = match quick {
            Some(read) => read,
            None => Self::read(text, variables)?,
        };
        if gate {
            strict::make_strict(&mut ast);
        }
        Ok(Self(Arc::new(CompiledExpr {
            text: text.to_owned(),
            path: FieldPath::of(&ast),
            ast,
            variables: checked.variables,
            fields: checked.fields,
            regexes: checked.regexes.into(),
            cost: checked.cost,
        })))
    }

    /// The expression as the usual parser reads it.
    fn read(text: &str, variables: &[&str]) -> Result<(IdedExpr, CheckedExpr), ExprError> {
        let parser = env().parser().max_recursion_depth(PARSER_DEPTH);
        let read = parser.parse_with_source_info(text);
        let (mut ast, positions) = read.map_err(|errors| explain::parse_error(text, &errors))?;
        let checked = check::check(&mut ast, &positions, text, variables)?;
        Ok((ast, checked))
    }

    /// What it takes to keep it, in nodes.
    pub(crate) fn cost(&self) -> usize {
        self.0.cost
    }

    /// The value for these variables.
    ///
    /// # Errors
    /// If a step has no result: a missing key, a wrong type, an overflow.
    pub fn eval(&self, vars: &Map<String, Value>) -> Result<Value, ExprError> {
        let compiled = &*self.0;
        let fail =
            |(message, help): explain::EvaluationError| explain::evaluation(&compiled.text, &message, help);
        let mut budget = json::JsonBudget::default();
        // The usual expression names a value, and the library would copy the whole variable to find it.
        if let Some((variable, value)) = compiled.path.as_ref().and_then(|path| path.find(vars)) {
            json::measure(variable, &mut budget).map_err(|message| fail((message, None)))?;
            return Ok(json::in_order(value));
        }
        let mut context = Context::with_env(Arc::clone(env()));
        for name in &compiled.variables {
            if let Some(value) = vars.get(name) {
                let value = json::to_cel(value, &mut budget).map_err(|message| fail((message, None)))?;
                context.add_variable_as_val(name.as_str(), value);
            }
        }
        if !compiled.regexes.is_empty() {
            let regexes = Arc::clone(&compiled.regexes);
            let is_match = move |text: Arc<String>, index: i64| {
                let regex = usize::try_from(index).ok().and_then(|index| regexes.get(index));
                regex.is_some_and(|regex| regex.is_match(&text))
            };
            context
                .add_function(check::MATCHES, is_match)
                .map_err(|error| fail((error.to_string(), None)))?;
        }
        let value =
            cel::Value::resolve(&compiled.ast, &context).map_err(|error| fail(explain::execution(&error)))?;
        json::from_cel(&value, &mut json::MAX_RESULT.clone()).map_err(|message| fail((message, None)))
    }

    /// Whether it is true for these variables.
    ///
    /// # Errors
    /// As [`eval`](Self::eval), and if the value is neither true nor false.
    pub fn holds(&self, vars: &Map<String, Value>) -> Result<bool, ExprError> {
        match self.eval(vars)? {
            Value::Bool(holds) => Ok(holds),
            other => {
                let message = format!("it is {}, where true or false is needed", kind(&other));
                Err(explain::evaluation(&self.0.text, &message, None))
            }
        }
    }

    /// Whether it reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.0.variables.iter().any(|name| name == variable)
    }

    /// Whether it does no more than name this field of a variable.
    pub(crate) fn names(&self, variable: &str, field: &str) -> bool {
        self.0.path.as_ref().is_some_and(|path| path.is(variable, field))
    }

    /// The fields of a variable it speaks of: `path` of `args` in `args.path`.
    pub fn fields_of(&self, variable: &str) -> impl Iterator<Item = &str> {
        self.0.fields.iter().filter(move |(of, _)| of == variable).map(|(_, field)| field.as_str())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

/// The functions and macros of expressions, built once: building takes longer than evaluating.
fn env() -> &'static Arc<Env> {
    static ENV: OnceLock<Arc<Env>> = OnceLock::new();
    ENV.get_or_init(|| {
        // Optional values are an extension that not every implementation of CEL has.
        let mut env = Env::stdlib().with_optional_support(false);
        // Fails only for a name declared twice, and no declared name can begin with `@`.
        let _ = env.add_overload(
            check::EACH,
            "each_list",
            vec![cel::common::types::LIST_TYPE],
            json::each_element,
        );
        let _ = env.add_overload(check::EACH, "each_map", vec![cel::common::types::MAP_TYPE], json::each_key);
        for [value, like] in strict::overloads() {
            let id = format!("same_type_{}_{}", value.name(), like.name());
            let _ = env.add_overload(strict::SAME_TYPE, &id, vec![value, like], json::each_element);
        }
        Arc::new(env)
    })
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text && self.0.variables == other.0.variables
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({:?})", self.0.text)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

#[cfg(test)]
mod tests;
