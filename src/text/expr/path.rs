//! Expressions that do no more than name a value, such as `event.feedback`: the language library would copy all of the
//! variable twice to give back a part of it.

use cel::common::ast::{Expr as Node, IdedExpr, SelectExpr};
use serde_json::{Map, Value};

/// The words that name no value: the grammar of CEL, "RESERVED" and literals.
/// <https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax>
const WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A variable, and the fields that lead from it to a value.
pub(super) struct FieldPath {
    variable: String,
    fields: Vec<String>,
}

/// The expression of a text that names a value, in which only `variables` may occur. `None`: the parser has to read it. The first
/// expression that the parser reads costs millions of instructions, and most policies have only such paths.
pub(super) fn read(text: &str, variables: &[&str]) -> Option<IdedExpr> {
    let mut names = text.split('.');
    let variable = names.next().filter(|name| variables.contains(name) && is_name(name))?;
    let mut expr = IdedExpr { id: 1, expr: Node::Ident(variable.to_owned()) };
    for field in names {
        if !is_name(field) {
            return None;
        }
        let id = expr.id.saturating_add(1);
        let select = SelectExpr { operand: Box::new(expr), field: field.to_owned(), test: false };
        expr = IdedExpr { id, expr: Node::Select(select) };
    }
    Some(expr)
}

/// Whether it is a name to the parser, too.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !WORDS.contains(&text)
}

impl FieldPath {
    /// The path, if the expression is nothing else.
    pub(super) fn of(ast: &IdedExpr) -> Option<Self> {
        match &ast.expr {
            Node::Ident(variable) => Some(Self { variable: variable.clone(), fields: Vec::new() }),
            Node::Select(select) if !select.test => {
                let mut path = Self::of(&select.operand)?;
                path.fields.push(select.field.clone());
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether it leads to this field of a variable.
    pub(super) fn is(&self, variable: &str, field: &str) -> bool {
        self.variable == variable && matches!(&*self.fields, [only] if only == field)
    }

    /// The value of the variable, and the one the path leads to. `None`: it leads nowhere, and the caller finds out why.
    pub(super) fn find<'v>(&self, vars: &'v Map<String, Value>) -> Option<(&'v Value, &'v Value)> {
        let variable = vars.get(&self.variable)?;
        let value = self.fields.iter().try_fold(variable, |value, field| value.as_object()?.get(field))?;
        Some((variable, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_here_the_parser_reads_alike(
            text in r"(args|event|true|in|_a1|a-b|[a-z]{1,3})(\.{1,2}(args|while|null|[a-zA-Z_0-9]{1,4}|x\[0\]| y)){0,3}",
        ) {
            let variables = ["args", "event", "_a1", "in", "true"];
            if let Some(mine) = read(&text, &variables) {
                let parsed = super::super::env().parser().parse_with_source_info(&text);
                let (theirs, _) = parsed.map_err(|errors| TestCaseError::fail(format!("{text}: {errors:?}")))?;
                prop_assert_eq!(mine, theirs);
            }
        }
    }

    #[test]
    fn a_long_path_is_accepted_or_refused_as_the_parser_does() {
        for fields in [90, 94, 95, 96, 97, 98, 150, 198, 199, 200, 250] {
            let text = format!("args{}", ".a".repeat(fields));
            let parser = super::super::env().parser().max_recursion_depth(super::super::PARSER_DEPTH);
            let parsed = parser.parse_with_source_info(&text).map(|(expr, _)| expr).ok();
            assert_eq!(read(&text, &["args"]), parsed, "{fields} fields");
        }
    }

    #[test]
    fn a_path_of_names_is_read_here() {
        let is_read = |text| read(text, &["event", "args", "in"]).is_some();
        assert!(is_read("event") && is_read("event.feedback") && is_read("args.a_1.B"));
        for text in
            ["", "e", "event.", ".event", "event..a", "event.in", "in", "event.1", "event [0]", "event.a()"]
        {
            assert!(!is_read(text), "{text}");
        }
    }
}
