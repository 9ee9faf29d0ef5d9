//! The tools that are built in.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{FunctionTool, ToolError, calc};
use crate::engine::ToolSpec;
use crate::host::Tool;
use crate::policy::Effect;

/// The names of the tools that are built in.
pub(crate) const BUILTINS: &[&str] = &["calc", "echo"];

/// The tool that is built in under that name.
pub fn builtin(name: &str) -> Option<Arc<dyn Tool>> {
    match name {
        "calc" => Some(Arc::new(FunctionTool::new(calc_spec(), |arguments, _| async move {
            calc::evaluate(text(&arguments, "expression")?)
        }))),
        "echo" => Some(Arc::new(FunctionTool::new(echo_spec(), |arguments, _| async move {
            text(&arguments, "text").map(Value::from)
        }))),
        _ => None,
    }
}

fn calc_spec() -> ToolSpec {
    spec(
        "calc",
        "Evaluates an arithmetic expression of decimal numbers, + - * / and parentheses. Sums and products are exact.",
        "expression",
        &json!({"type": "string", "minLength": 1, "maxLength": calc::MAX_CHARS, "description": "For example (19.99 + 5) * 3"}),
    )
}

fn echo_spec() -> ToolSpec {
    spec("echo", "Answers with the text it is given.", "text", &json!({"type": "string"}))
}

/// A read-only tool of one argument.
fn spec(name: &str, description: &str, argument: &str, schema: &Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {argument: schema},
            "required": [argument],
            "additionalProperties": false,
        }),
        effect: Some(Effect::ReadOnly),
    }
}

fn text<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, ToolError> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| ToolError::invalid_args(format!("`{name}` must be text")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolOutcome;
    use crate::host::tool::test_support::{failure, input};

    #[test]
    fn every_name_is_a_read_only_tool_of_that_name() {
        for name in BUILTINS {
            let tool = builtin(name).unwrap();
            assert_eq!((tool.spec().name.as_str(), tool.spec().effect), (*name, Some(Effect::ReadOnly)));
        }
        assert!(builtin("dig").is_none());
    }

    #[tokio::test]
    async fn echo_answers_with_its_text() {
        let outcome = builtin("echo").unwrap().run(input(&json!({"text": "hi"}))).await;
        assert_eq!(outcome, ToolOutcome::Ok { data: json!("hi") });
    }

    #[tokio::test]
    async fn calc_evaluates() {
        let outcome = builtin("calc").unwrap().run(input(&json!({"expression": "2 * (3 + 4)"}))).await;
        assert_eq!(outcome, ToolOutcome::Ok { data: json!(14) });
    }

    #[tokio::test]
    async fn a_missing_argument_is_named() {
        let said = failure(builtin("echo").unwrap().run(input(&json!({}))).await);
        assert_eq!(said.2, "`text` must be text");
    }
}
