//! Requests of the `generateContent` format.

use serde_json::{Map, Value, json};

use super::GeminiFormat;
use super::contents::contents;
use crate::context::ToolForm;
use crate::engine::ToolChoice;
use crate::host::model::wire::turns::system;
use crate::host::model::wire::{lower, merge_extra};
use crate::host::port::ModelRequest;

/// The field that has the settings of an answer.
const SETTINGS: &str = "generationConfig";
/// That of them which sets the most tokens of a reply, its thoughts among them.
const MAX_TOKENS: &str = "maxOutputTokens";

/// The body of one request. The model and whether the answer is streamed are in the address.
pub(super) fn body(format: &GeminiFormat, request: &ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    let mut write = |field: &str, value: Value| drop(body.insert(field.to_owned(), value));
    if let Some(system) = system(request.messages) {
        write("systemInstruction", json!({"parts": [{"text": system}]}));
    }
    write("contents", contents(format, request).into());
    let tools: Vec<Value> = request.tools.iter().map(|spec| ToolForm::Gemini.declare(spec)).collect();
    match &request.tool_choice {
        // "Function calling config is set without function_declarations" (`models/google.py` of pydantic-ai).
        _ if tools.is_empty() => {}
        ToolChoice::Auto => {}
        ToolChoice::Required => write("toolConfig", json!({"functionCallingConfig": {"mode": "ANY"}})),
        ToolChoice::Tool(name) => {
            write(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}),
            );
        }
    }
    if !tools.is_empty() {
        write("tools", json!([{"functionDeclarations": tools}]));
    }
    let mut settings = Map::new();
    if let Some(temperature) = format.temperature {
        settings.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(max_tokens) = format.max_tokens {
        settings.insert(MAX_TOKENS.to_owned(), max_tokens.into());
    }
    if !settings.is_empty() {
        body.insert(SETTINGS.to_owned(), settings.into());
    }
    merge_extra(&mut body, &format.extra);
    if let Some(most) = request.max_output {
        lower(&mut body, (SETTINGS, MAX_TOKENS), most);
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolSpec;
    use crate::host::model::fuzzed::{gemini, request};
    use crate::session::Message;

    fn written(extra: &Value, max_tokens: Option<u32>, request: &ModelRequest<'_>) -> Value {
        let extra = extra.as_object().cloned().unwrap_or_default();
        body(&GeminiFormat { max_tokens, extra, ..gemini() }, request)
    }

    fn tool() -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"item": {"type": "integer"}}});
        ToolSpec { name: "look".into(), description: "Looks.".into(), parameters, effect: None }
    }

    #[test]
    fn a_request_has_the_fields_of_the_api() {
        let messages = [Message::System { text: "Be brief.".into() }, Message::user("go")];
        let tool = tool();
        let request = ModelRequest { tools: vec![&tool], ..request(&messages) };
        let extra = json!({"generationConfig": {"temperature": 0}, "safetySettings": []});
        assert_eq!(
            written(&extra, Some(100), &request),
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [{"role": "user", "parts": [{"text": "go"}]}],
                "tools": [{"functionDeclarations": [{
                    "name": "look", "description": "Looks.", "parametersJsonSchema": tool.parameters,
                }]}],
                "safetySettings": [],
                "generationConfig": {"temperature": 0, "maxOutputTokens": 100},
            })
        );
    }

    #[test]
    fn a_choice_is_written_only_with_tools() {
        let (messages, tool) = ([Message::user("go")], tool());
        let choice = |tools, tool_choice| {
            let request = ModelRequest { tools, tool_choice, ..request(&messages) };
            written(&Value::Null, None, &request)["toolConfig"]["functionCallingConfig"].clone()
        };
        assert_eq!(choice(vec![&tool], ToolChoice::Auto), Value::Null);
        assert_eq!(choice(vec![], ToolChoice::Required), Value::Null);
        assert_eq!(choice(vec![&tool], ToolChoice::Required), json!({"mode": "ANY"}));
        let named = choice(vec![&tool], ToolChoice::Tool("look".into()));
        assert_eq!(named, json!({"mode": "ANY", "allowedFunctionNames": ["look"]}));
    }

    #[test]
    fn a_budget_lowers_the_reply_and_never_raises_it() {
        let messages = [Message::user("go")];
        let most = |said: Option<u32>, most: Option<u64>| {
            let request = ModelRequest { max_output: most, ..request(&messages) };
            written(&Value::Null, said, &request)["generationConfig"]["maxOutputTokens"].as_u64()
        };
        assert_eq!(most(None, None), None);
        assert_eq!(most(None, Some(50)), Some(50));
        assert_eq!(most(Some(100), Some(50)), Some(50));
        assert_eq!(most(Some(100), Some(500)), Some(100));
    }
}
