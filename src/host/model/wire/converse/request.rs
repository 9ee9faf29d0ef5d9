//! Requests of Converse.

use serde_json::{Map, Value, json};

use super::blocks::messages;
use super::{ConverseFormat, OwnChoice};
use crate::context::ToolForm;
use crate::engine::ToolChoice;
use crate::host::model::wire::anthropic::ClaudeFamily;
use crate::host::model::wire::sendable::called;
use crate::host::model::wire::turns::system;
use crate::host::model::wire::{lower, merge_extra};
use crate::host::port::ModelRequest;

/// The body of one request. The model stands in the address.
pub(super) fn body(format: &ConverseFormat, request: &ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    body.insert("messages".to_owned(), messages(format, request).into());
    if let Some(system) = system(request.messages) {
        body.insert("system".to_owned(), json!([{"text": system}]));
    }
    let mut inference = Map::new();
    if let Some(most) = format.max_tokens {
        inference.insert("maxTokens".to_owned(), json!(most));
    }
    if let Some(temperature) = format.temperature {
        inference.insert("temperature".to_owned(), json!(temperature));
    }
    add(&mut body, "inferenceConfig", inference);
    add(&mut body, "toolConfig", tools(format, request));
    if forbids_calls(format, request) {
        let none = json!({"tool_choice": {"type": "none"}});
        body.insert("additionalModelRequestFields".to_owned(), none);
    }
    merge_extra(&mut body, &format.extra);
    if let Some(most) = request.max_output {
        lower(&mut body, ("inferenceConfig", "maxTokens"), most);
    }
    Value::Object(body)
}

fn add(body: &mut Map<String, Value>, field: &str, fields: Map<String, Value>) {
    if !fields.is_empty() {
        body.insert(field.to_owned(), fields.into());
    }
}

/// The tools, and whether one must be called.
fn tools(format: &ConverseFormat, request: &ModelRequest<'_>) -> Map<String, Value> {
    let mut config = Map::new();
    let mut tools: Vec<Value> = request.tools.iter().map(|spec| ToolForm::Converse.declare(spec)).collect();
    if tools.is_empty() {
        // "The toolConfig field must be defined when using toolUse and toolResult content blocks"
        // (vxcontrol/pentagi#196): in a final turn too.
        let tool = |name| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}});
        tools = called(request.messages).into_iter().map(tool).collect();
    }
    if tools.is_empty() {
        return config;
    }
    config.insert("tools".to_owned(), tools.into());
    let choice = match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        // A model that thinks cannot be forced; the request would be refused.
        ToolChoice::Required | ToolChoice::Tool(_)
            if thinks(&format.extra) || !ClaudeFamily::of(&format.model).forced_calls =>
        {
            None
        }
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Tool(name) => Some(json!({"tool": {"name": name}})),
    };
    if let Some(choice) = choice {
        config.insert("toolChoice".to_owned(), choice);
    }
    config
}

/// Whether calls have to be forbidden: tools are declared for the history alone.
fn forbids_calls(format: &ConverseFormat, request: &ModelRequest<'_>) -> bool {
    format.family.choice != OwnChoice::Missing
        && request.tools.is_empty()
        && !called(request.messages).is_empty()
}

/// Whether the model is asked to think.
fn thinks(extra: &Map<String, Value>) -> bool {
    let fields = extra.get("additionalModelRequestFields");
    let kind = fields.and_then(|fields| fields.get("thinking")?.get("type")?.as_str());
    kind.is_some_and(|kind| kind != "disabled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolSpec;
    use crate::host::model::fuzzed::{converse, request};
    use crate::host::model::wire::converse::ModelFamily;
    use crate::session::{Message, ToolCall};

    fn tool() -> ToolSpec {
        ToolSpec { name: "look".into(), description: "Looks.".into(), parameters: json!({}), effect: None }
    }

    fn called_before() -> Vec<Message> {
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
        let tool = Message::Tool {
            call: "a".into(),
            tool: "look".into(),
            text: "x".into(),
            error: false,
            handle: None,
        };
        let said = Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() };
        vec![Message::user("go"), said, tool]
    }

    #[test]
    fn a_request_has_the_fields_of_the_api() {
        let format = ConverseFormat {
            temperature: Some(0.5),
            max_tokens: Some(100),
            extra:
                json!({"inferenceConfig": {"topP": 0.9, "temperature": null}, "requestMetadata": {"a": "b"}})
                    .as_object()
                    .cloned()
                    .unwrap(),
            ..converse()
        };
        let (messages, tool) = ([Message::System { text: "Be brief.".into() }, Message::user("go")], tool());
        let asked = ModelRequest {
            tools: vec![&tool],
            tool_choice: ToolChoice::Tool("look".into()),
            max_output: Some(50),
            ..request(&messages)
        };
        assert_eq!(
            body(&format, &asked),
            json!({
                "messages": [{"role": "user", "content": [{"text": "go"}]}],
                "system": [{"text": "Be brief."}],
                "inferenceConfig": {"maxTokens": 50, "topP": 0.9},
                "toolConfig": {
                    "tools": [{"toolSpec": {
                        "name": "look", "description": "Looks.", "inputSchema": {"json": {"type": "object"}},
                    }}],
                    "toolChoice": {"tool": {"name": "look"}},
                },
                "requestMetadata": {"a": "b"},
            })
        );
    }

    #[test]
    fn a_history_of_calls_keeps_its_tools_in_a_final_turn() {
        let history = called_before();
        let sent = body(&converse(), &request(&history));
        assert_eq!(sent["toolConfig"]["tools"][0]["toolSpec"]["name"], "look");
        assert_eq!(sent["additionalModelRequestFields"], json!({"tool_choice": {"type": "none"}}));
        let nova = ConverseFormat { family: ModelFamily::of("amazon.nova-pro-v1:0"), ..converse() };
        assert_eq!(body(&nova, &request(&history)).get("additionalModelRequestFields"), None);
    }

    #[test]
    fn no_call_is_demanded_of_a_model_that_is_known_to_choose_itself() {
        let (tool, messages) = (tool(), [Message::user("go")]);
        let written = |model: &str| {
            let format = ConverseFormat { model: model.into(), ..converse() };
            let asked =
                ModelRequest { tools: vec![&tool], tool_choice: ToolChoice::Required, ..request(&messages) };
            body(&format, &asked)["toolConfig"].get("toolChoice").cloned()
        };
        assert_eq!(written("us.anthropic.claude-opus-4-8-v1:0"), Some(json!({"any": {}})));
        assert_eq!(written("us.anthropic.claude-opus-5-5-v1:0"), None);
    }
}
