//! Requests of the chat-completions format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::{ChatMessage, Content};
use crate::engine::{ToolChoice, ToolSpec};
use crate::host::model::wire::lenient;
use crate::host::port::ModelRequest;
use crate::session::Message;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) messages: Vec<ChatMessage>,
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<ChatTool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stream: bool,
    /// Sampling parameters and all other fields.
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

/// A tool as it is declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatTool {
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Function {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default)]
    parameters: Value,
}

/// What is the same for every request to a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampling {
    pub(crate) stream: bool,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
    /// The server refuses what a user says right after the result of a tool.
    pub(crate) guidance_in_results: bool,
    /// The server may leave out why the model stopped.
    pub(crate) finish_optional: bool,
}

impl ChatRequest {
    /// The request for a model of that name.
    pub(crate) fn new(model: &str, request: &ModelRequest<'_>, sampling: &Sampling) -> Self {
        let tools: Vec<_> = request.tools.iter().map(|spec| ChatTool::from(*spec)).collect();
        let tool_choice = match &request.tool_choice {
            // Refused by servers where there is no tool.
            _ if tools.is_empty() => None,
            ToolChoice::Auto => None,
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
        };
        let mut extra = Map::new();
        if sampling.stream {
            extra.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        if let Some(temperature) = sampling.temperature {
            extra.insert("temperature".to_owned(), json!(temperature));
        }
        if let Some(max_tokens) = sampling.max_tokens {
            extra.insert("max_tokens".to_owned(), json!(max_tokens));
        }
        for (field, value) in &sampling.extra {
            if value.is_null() {
                extra.shift_remove(field);
            } else {
                extra.insert(field.clone(), value.clone());
            }
        }
        Self {
            model: model.to_owned(),
            messages: messages(request.messages, sampling.guidance_in_results),
            tools,
            tool_choice,
            stream: sampling.stream,
            extra,
        }
    }
}

/// The conversation; guidance after the result of a tool becomes a part of that result, where it must.
fn messages(conversation: &[Message], guidance_in_results: bool) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(conversation.len());
    for message in conversation {
        let result = messages.last_mut().filter(|last| last.role.as_deref() == Some("tool"));
        match (message, result) {
            (Message::User { text, guidance: Some(_) }, Some(result)) if guidance_in_results => {
                let said = result.content.take().map(Content::into_text).unwrap_or_default();
                result.content = Some(Content::Text(format!("{said}\n\n{text}")));
            }
            _ => messages.push(ChatMessage::from(message)),
        }
    }
    messages
}

impl From<&ToolSpec> for ChatTool {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            kind: "function".to_owned(),
            function: Function {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ToolForm;
    use crate::host::port::Traffic;

    use tokio_util::sync::CancellationToken;

    fn written(tools: Vec<&ToolSpec>, tool_choice: ToolChoice, sampling: &Sampling) -> Value {
        let messages = [Message::user("hello")];
        let request = ModelRequest {
            messages: &messages,
            tools,
            tool_choice,
            timeout: None,
            timeouts: crate::engine::CallTimeouts::default(),
            streamed: None,
            traffic: Traffic::default(),
            cancel: CancellationToken::new(),
        };
        serde_json::to_value(ChatRequest::new("m", &request, sampling)).unwrap()
    }

    fn tool() -> ToolSpec {
        ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            parameters: json!({"type": "object"}),
            effect: None,
        }
    }

    #[test]
    fn a_plain_request_has_two_fields() {
        let plain = written(vec![], ToolChoice::Required, &Sampling::default());
        assert_eq!(plain, json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}));
    }

    #[test]
    fn tools_are_counted_as_they_are_written() {
        for spec in [tool(), ToolSpec { description: String::new(), ..tool() }] {
            let written = serde_json::to_string(&ChatTool::from(&spec)).unwrap();
            assert_eq!(ToolForm::Chat.declare(&spec).to_string(), written);
        }
    }

    #[test]
    fn tools_and_the_choice_among_them() {
        let with = |choice| written(vec![&tool()], choice, &Sampling::default());
        let function = json!({"name": "look", "description": "Looks.", "parameters": {"type": "object"}});
        assert_eq!(with(ToolChoice::Auto)["tools"], json!([{"type": "function", "function": function}]));
        assert_eq!(with(ToolChoice::Auto)["tool_choice"], Value::Null);
        assert_eq!(with(ToolChoice::Required)["tool_choice"], json!("required"));
        let named = json!({"type": "function", "function": {"name": "look"}});
        assert_eq!(with(ToolChoice::Tool("look".into()))["tool_choice"], named);
    }

    #[test]
    fn extra_fields_replace_and_null_leaves_out() {
        let Value::Object(extra) =
            json!({"max_tokens": null, "max_completion_tokens": 9, "stream_options": null, "top_p": 0.5})
        else {
            unreachable!()
        };
        let sampling = Sampling {
            stream: true,
            temperature: Some(0.0),
            max_tokens: Some(5),
            extra,
            ..Sampling::default()
        };
        let Value::Object(mut request) = written(vec![], ToolChoice::Auto, &sampling) else { unreachable!() };
        request.shift_remove("messages");
        assert_eq!(
            Value::Object(request),
            json!({"model": "m", "stream": true, "temperature": 0.0, "max_completion_tokens": 9, "top_p": 0.5})
        );
    }

    #[test]
    fn guidance_after_a_result_goes_into_it_where_it_must() {
        let result = Message::Tool {
            call: "c".into(),
            tool: "t".into(),
            text: "12".into(),
            error: false,
            handle: None,
        };
        let guidance = Message::User { text: "Report now.".into(), guidance: Some("final_turn".into()) };
        let conversation = [Message::user("go"), result, guidance, Message::user("and then?")];
        let contents = |strict| -> Vec<String> {
            let all = messages(&conversation, strict).into_iter();
            all.map(|message| message.content.map(Content::into_text).unwrap_or_default()).collect()
        };
        assert_eq!(contents(true), ["go", "12\n\nReport now.", "and then?"]);
        assert_eq!(contents(false), ["go", "12", "Report now.", "and then?"]);
    }
}
