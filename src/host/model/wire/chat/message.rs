//! Messages of the chat-completions format, as they stand in requests, responses and stream deltas alike.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::host::model::wire::chars;
use crate::host::model::wire::extras::{CALL_EXTRAS, take_out_kept};
use crate::host::model::wire::finish::is_half;
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::lenient;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::sendable::sendable;
use crate::session::{Message, object_arguments};

/// A conversation as chat-completions servers take it: every call with arguments that are an object and an id of its own.
pub(crate) fn chat_messages(messages: &[Message]) -> Vec<Value> {
    sendable(messages, IdForm::Any, &[])
        .iter()
        .map(|message| serde_json::to_value(ChatMessage::from(&**message)).unwrap_or_default())
        .collect()
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatMessage {
    #[serde(default, deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) content: Option<ChatContent>,
    #[serde(default, deserialize_with = "lenient::listed", skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<WireCall>,
    #[serde(default, deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call_id: Option<String>,
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

/// What a message says: a text, or parts of which the texts count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "the content of a message is neither a text nor a list of parts")]
pub(crate) enum ChatContent {
    Text(String),
    Parts(Vec<Value>),
}

/// A tool call, or one piece of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireCall {
    // z.ai and SGLang write -1.
    #[serde(default, deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(
        default,
        rename = "type",
        deserialize_with = "lenient::text",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) kind: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(crate) function: WireFunction,
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

/// What is called and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub(crate) struct WireFunction {
    #[serde(default, deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "lenient::arguments", skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<String>,
    /// What else came. It is never sent.
    #[serde(flatten, skip_serializing)]
    pub(crate) more: Map<String, Value>,
}

/// What calls are called that came in the field `function_call`, which `tool_calls` have replaced (`OpenAI`'s
/// `chat_completion_message.py`). Older servers write it still.
const LEGACY: &str = "function_call";

impl ChatMessage {
    /// The call, or the piece of it, that is in the field of old; `None`: the field is empty, or it repeats one of `tool_calls`.
    pub(super) fn take_legacy_call(&mut self) -> Option<WireCall> {
        let function = self.extra.get(LEGACY).filter(|said| said.is_object())?;
        let function: WireFunction = serde_json::from_value(function.clone()).unwrap_or_default();
        let said = [&function.name, &function.arguments].into_iter().flatten();
        if !self.tool_calls.is_empty() || said.map(String::len).sum::<usize>() == 0 {
            return None;
        }
        self.extra.shift_remove(LEGACY);
        Some(WireCall { kind: Some(LEGACY.to_owned()), function, ..WireCall::default() })
    }
}

impl WireCall {
    /// Whether it came in the field of old.
    pub(super) fn is_legacy(&self) -> bool {
        self.kind.as_deref() == Some(LEGACY)
    }

    /// Whether its arguments stop before their end.
    pub(super) fn is_half(&self) -> bool {
        self.function.arguments.as_deref().is_some_and(is_half)
    }
}

impl ChatContent {
    /// The text; of parts, all their texts in order.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.iter().filter_map(part).collect(),
        }
    }

    /// How many characters it has.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Text(text) => chars(text),
            Self::Parts(parts) => parts.iter().filter_map(part).map(chars).sum(),
        }
    }
}

fn part(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

impl From<&Message> for ChatMessage {
    fn from(message: &Message) -> Self {
        let text = |text: &String| Some(ChatContent::Text(text.clone()));
        let role = |role: &str| Some(role.to_owned());
        match message {
            Message::System { text: said } => {
                Self { role: role("system"), content: text(said), ..Self::default() }
            }
            Message::User { text: said, .. } => {
                Self { role: role("user"), content: text(said), ..Self::default() }
            }
            Message::Tool { text: said, call, .. } => Self {
                role: role("tool"),
                content: text(said),
                tool_call_id: Some(call.clone()),
                ..Self::default()
            },
            Message::Assistant { text: said, calls, extra } => {
                let mut extra = extra.clone();
                take_out_kept(&mut extra);
                let mut call_extras = match extra.remove(CALL_EXTRAS) {
                    Some(Value::Object(extras)) => extras,
                    _ => Map::new(),
                };
                let tool_calls = calls.iter().map(|call| WireCall {
                    index: None,
                    id: Some(call.id.clone()),
                    kind: Some("function".to_owned()),
                    function: WireFunction {
                        name: Some(call.name.clone()),
                        // llama.cpp and vLLM refuse a conversation with broken JSON in its calls.
                        arguments: Some(object_arguments(&call.arguments).into_owned()),
                        more: Map::new(),
                    },
                    extra: match call_extras.remove(&call.id) {
                        Some(Value::Object(extra)) => extra,
                        _ => Map::new(),
                    },
                });
                let tool_calls: Vec<_> = tool_calls.collect();
                // Null is what the format asks for next to tool calls; without calls it would be refused. Databricks refuses
                // a blank text.
                let content =
                    if said.trim().is_empty() && !tool_calls.is_empty() { None } else { text(said) };
                Self { role: role("assistant"), content, tool_calls, tool_call_id: None, extra }
            }
        }
    }
}

of_objects!(WireFunction);

impl Serialize for WireFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ToolCall;
    use serde_json::json;

    fn written(message: &Message) -> Value {
        serde_json::to_value(ChatMessage::from(message)).unwrap()
    }

    #[test]
    fn what_is_no_content_is_said_in_plain_words() {
        let error = serde_json::from_value::<ChatMessage>(json!({"content": 5})).unwrap_err();
        assert_eq!(error.to_string(), "the content of a message is neither a text nor a list of parts");
    }

    #[test]
    fn each_role_as_it_is_written() {
        assert_eq!(written(&Message::System { text: "s".into() }), json!({"role": "system", "content": "s"}));
        assert_eq!(written(&Message::user("u")), json!({"role": "user", "content": "u"}));
        let result = Message::Tool {
            call: "c1".into(),
            tool: "t".into(),
            text: "r".into(),
            error: true,
            handle: None,
        };
        assert_eq!(written(&result), json!({"role": "tool", "content": "r", "tool_call_id": "c1"}));
        let silent = Message::Assistant { text: String::new(), calls: vec![], extra: Map::new() };
        assert_eq!(written(&silent), json!({"role": "assistant", "content": ""}));
    }

    #[test]
    fn a_call_goes_back_with_what_came_with_it() {
        let call = ToolCall { id: "c1".into(), name: "t".into(), arguments: "{".into() };
        let Value::Object(extra) =
            json!({"reasoning_content": "hm", "tool_calls": {"c1": {"signature": "x"}}})
        else {
            unreachable!()
        };
        let message = Message::Assistant { text: String::new(), calls: vec![call], extra };
        assert_eq!(
            written(&message),
            json!({"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "t", "arguments": r#"{"INVALID_JSON":"{"}"#}, "signature": "x"},
            ]})
        );
    }
}
