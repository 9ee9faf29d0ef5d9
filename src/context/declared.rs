//! The forms of requests as far as counting needs them: the declaration of tools, and the rule for images.

use serde_json::{Map, Value, json};

use super::counter::TokenCounter;
use super::fixed::signature_rules;
use super::images::ImageRule;
use crate::engine::ToolSpec;

/// The form in which tools are declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolForm {
    /// The form of chat completions.
    #[default]
    Chat,
    /// The form of Anthropic's messages.
    Messages,
    /// The form of `OpenAI`'s Responses.
    Responses,
    /// As Gemini wants them.
    Gemini,
    /// The form of Bedrock's Converse.
    Converse,
}

impl ToolForm {
    /// The form of a request body with these messages. Anthropic's has a separate system prompt, another name for
    /// schemas, and blocks for calls and results.
    pub(super) fn of(body: &Value, messages: &[Value]) -> Self {
        let tools = body.get("tools").and_then(Value::as_array);
        let declared = tools.into_iter().flatten().any(|tool| tool.get("input_schema").is_some());
        let mut parts = messages.iter().filter_map(|message| message.get("content")?.as_array()).flatten();
        // Blocks of these types exist in Anthropic's messages only; a text part looks the same in both formats.
        let blocks = parts.any(|part| {
            let kind = part.get("type").and_then(Value::as_str);
            matches!(kind, Some("tool_use" | "tool_result" | "thinking")) || part.get("source").is_some()
        });
        if body.get("system").is_some() || declared || blocks { Self::Messages } else { Self::Chat }
    }

    /// The provider's rule for counting image tokens.
    pub(super) const fn image_rule(self) -> ImageRule {
        match self {
            Self::Chat | Self::Responses | Self::Gemini => ImageRule::Tiles,
            // Most of what Bedrock serves that sees is Claude.
            Self::Messages | Self::Converse => ImageRule::Pixels,
        }
    }

    /// The declaration of a tool as it is sent.
    pub fn declare(self, spec: &ToolSpec) -> Value {
        let mut tool = Map::new();
        tool.insert("name".to_owned(), json!(spec.name));
        if !spec.description.is_empty() {
            tool.insert("description".to_owned(), json!(spec.description));
        }
        match self {
            Self::Chat => {
                tool.insert("parameters".to_owned(), spec.parameters.clone());
                json!({"type": "function", "function": tool})
            }
            Self::Responses => {
                tool.insert("parameters".to_owned(), spec.parameters.clone());
                // `false`, as in chat completions. Without the field, arguments follow the schema strictly, which not
                // every schema allows (`function_tool_param.py` of OpenAI's SDK requires the field).
                tool.insert("strict".to_owned(), json!(false));
                with_type("function", tool)
            }
            Self::Gemini => {
                // `parameters` takes a part of JSON Schema alone (`FunctionDeclaration` in `types.py` of google-genai).
                if spec.parameters.as_object().is_some_and(|schema| !schema.is_empty()) {
                    tool.insert("parametersJsonSchema".to_owned(), spec.parameters.clone());
                }
                Value::Object(tool)
            }
            Self::Converse => {
                tool.insert("inputSchema".to_owned(), json!({ "json": object_schema(spec) }));
                json!({ "toolSpec": tool })
            }
            Self::Messages => {
                // Anthropic requires a schema, and one with `type: object` (`tool_param.py` of its SDK).
                tool.insert("input_schema".to_owned(), object_schema(spec));
                Value::Object(tool)
            }
        }
    }

    /// The tokens of a tool by `counter`: in the form that is sent, or in the form that a model of this name is known
    /// to see.
    pub fn tokens(self, counter: &dyn TokenCounter, model: &str, spec: &ToolSpec) -> u64 {
        let declared = self.declare(spec);
        let function = if self == Self::Responses { Some(&declared) } else { declared.get("function") };
        match (signature_rules(model), function) {
            (Some(rules), Some(function)) => rules.tokens(counter, function),
            _ => counter.count(&declared.to_string()),
        }
    }
}

/// The schema of the arguments, which are an object.
fn object_schema(spec: &ToolSpec) -> Value {
    let mut schema = spec.parameters.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    Value::Object(schema)
}

fn with_type(kind: &str, tool: Map<String, Value>) -> Value {
    let kind = ("type".to_owned(), json!(kind));
    Value::Object(core::iter::once(kind).chain(tool).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(description: &str, parameters: Value) -> ToolSpec {
        ToolSpec { name: "look".into(), description: description.into(), parameters, effect: None }
    }

    #[test]
    fn each_provider_has_a_form_of_its_own() {
        let spec = tool("Looks.", json!({"type": "object"}));
        let chat = r#"{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object"}}}"#;
        assert_eq!(ToolForm::Chat.declare(&spec).to_string(), chat);
        let messages = r#"{"name":"look","description":"Looks.","input_schema":{"type":"object"}}"#;
        assert_eq!(ToolForm::Messages.declare(&spec).to_string(), messages);
        let responses = r#"{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"},"strict":false}"#;
        assert_eq!(ToolForm::Responses.declare(&spec).to_string(), responses);
        let converse =
            r#"{"toolSpec":{"name":"look","description":"Looks.","inputSchema":{"json":{"type":"object"}}}}"#;
        assert_eq!(ToolForm::Converse.declare(&spec).to_string(), converse);
        let gemini = r#"{"name":"look","description":"Looks.","parametersJsonSchema":{"type":"object"}}"#;
        assert_eq!(ToolForm::Gemini.declare(&spec).to_string(), gemini);
    }

    #[test]
    fn what_is_not_said_is_not_sent() {
        let spec = tool("", Value::Null);
        assert_eq!(
            ToolForm::Chat.declare(&spec),
            json!({"type": "function", "function": {"name": "look", "parameters": null}})
        );
        assert_eq!(
            ToolForm::Messages.declare(&spec),
            json!({"name": "look", "input_schema": {"type": "object"}})
        );
        assert_eq!(
            ToolForm::Responses.declare(&spec),
            json!({"type": "function", "name": "look", "parameters": null, "strict": false})
        );
        assert_eq!(ToolForm::Gemini.declare(&spec), json!({"name": "look"}));
    }

    #[test]
    fn a_tool_costs_the_same_in_both_forms_of_a_provider() {
        let parameters = json!({"type": "object", "properties": {"item": {"type": "integer"}}});
        let spec = tool("Looks.", parameters);
        let tokens = |form: ToolForm| form.tokens(&crate::context::ByteEstimate, "gpt-5", &spec);
        assert_eq!(tokens(ToolForm::Responses), tokens(ToolForm::Chat));
    }
}
