//! Requests of the Responses format.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::ResponsesFormat;
use super::input::input;
use crate::context::ToolForm;
use crate::engine::ToolChoice;
use crate::host::model::wire::add_extra;
use crate::host::port::ModelRequest;

/// The field that sets the most tokens of a reply, its reasoning among them.
const MAX_TOKENS: &str = "max_output_tokens";

/// The body of one request.
pub(super) fn body(format: &ResponsesFormat, request: &ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    let mut write = |field: &str, value: Value| drop(body.insert(field.to_owned(), value));
    write("model", json!(format.model));
    let (input, previous) = input(format, request);
    write("input", input.into());
    if let Some(previous) = previous {
        write("previous_response_id", previous.into());
    }
    let tools: Vec<Value> = request.tools.iter().map(|spec| ToolForm::Responses.declare(spec)).collect();
    match &request.tool_choice {
        // Refused where there is no tool.
        _ if tools.is_empty() => {}
        ToolChoice::Auto => {}
        ToolChoice::Required => write("tool_choice", json!("required")),
        ToolChoice::Tool(name) => write("tool_choice", json!({"type": "function", "name": name})),
    }
    if !tools.is_empty() {
        write("tools", tools.into());
    }
    if format.stream {
        write("stream", json!(true));
    }
    // The session has the conversation, so the server need not keep it; reasoning then comes back sealed. It does in any case,
    // for requests that cannot continue what the server keeps.
    write("store", json!(format.continues));
    write("include", json!(["reasoning.encrypted_content"]));
    if let Some(temperature) = format.temperature {
        write("temperature", json!(temperature));
    }
    if let Some(max_tokens) = format.max_tokens {
        write(MAX_TOKENS, json!(max_tokens));
    }
    add_extra(&mut body, &format.extra);
    if let Some(most) = request.max_output {
        let said = body.get(MAX_TOKENS).and_then(Value::as_u64);
        body.insert(MAX_TOKENS.to_owned(), said.map_or(most, |said| said.min(most)).into());
    }
    Value::Object(body)
}

impl ResponsesFormat {
    /// Whether the server keeps responses, so that it knows an item by its id.
    pub(super) fn stores(&self) -> bool {
        // Left out, `store` is true (`response_create_params.py` of OpenAI's SDK).
        self.extra.get("store").map_or(self.continues, |store| store.is_null() || store == true)
    }

    /// Whether a request continues the last response.
    pub(super) fn continues(&self) -> bool {
        self.continues && self.stores()
    }

    /// The most tokens of a reply, as far as they are the same in every request.
    pub(super) fn most(&self) -> Option<u64> {
        let said = self.extra.get("max_output_tokens").and_then(Value::as_u64);
        said.or(self.max_tokens.map(u64::from))
    }

    /// Whether the server has refused what the model thought before.
    pub(super) fn refuses_reasoning(&self) -> bool {
        self.refuses_reasoning.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolSpec;
    use crate::host::model::fuzzed::{request, responses};
    use crate::session::Message;

    fn written(
        format: &ResponsesFormat,
        tools: Vec<&ToolSpec>,
        tool_choice: ToolChoice,
        most: Option<u64>,
    ) -> Value {
        let messages = [Message::user("go")];
        let request = ModelRequest { tools, tool_choice, max_output: most, ..request(&messages) };
        body(format, &request)
    }

    #[test]
    fn a_choice_is_written_only_with_tools() {
        let spec =
            ToolSpec { name: "look".into(), description: String::new(), parameters: json!({}), effect: None };
        let choice = |tools, choice| written(&responses(), tools, choice, None).get("tool_choice").cloned();
        assert_eq!(choice(vec![&spec], ToolChoice::Auto), None);
        assert_eq!(choice(vec![], ToolChoice::Required), None);
        assert_eq!(choice(vec![&spec], ToolChoice::Required), Some(json!("required")));
        let named = choice(vec![&spec], ToolChoice::Tool("look".into()));
        assert_eq!(named, Some(json!({"type": "function", "name": "look"})));
    }

    #[test]
    fn fields_of_the_user_take_the_place_of_those_that_would_be_sent() {
        let extra =
            json!({"store": true, "include": null, "reasoning": {"effort": "low"}, "max_output_tokens": 900});
        let format = ResponsesFormat {
            stream: false,
            max_tokens: Some(500),
            extra: extra.as_object().cloned().unwrap(),
            ..responses()
        };
        let input = json!([{"type": "message", "role": "user", "content": "go"}]);
        assert_eq!(
            written(&format, vec![], ToolChoice::Auto, None),
            json!({"model": "main", "input": input, "store": true, "max_output_tokens": 900, "reasoning": {"effort": "low"}})
        );
        assert_eq!(written(&format, vec![], ToolChoice::Auto, Some(100))["max_output_tokens"], 100);
        assert_eq!(written(&format, vec![], ToolChoice::Auto, Some(1000))["max_output_tokens"], 900);
        assert_eq!(written(&responses(), vec![], ToolChoice::Auto, Some(70))["max_output_tokens"], 70);
    }
}
