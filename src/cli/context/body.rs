//! The conversation in the body of a request, in either wire format.

use std::collections::HashMap;

use crate::context::{RequestTokens, TokenCounter, message_tokens};
use crate::session::{Message, ToolCall};
use serde_json::{Map, Value};

/// The conversation of a body that has a list of messages. What is no text is left out.
pub(super) fn conversation(body: &Value) -> Vec<Message> {
    let mut read = ReadBody::default();
    if let Some(system) = body.get("system") {
        read.messages.push(Message::System { text: text_of(system) });
    }
    let listed = body.get("messages").and_then(Value::as_array);
    for message in listed.into_iter().flatten() {
        read.add(message);
    }
    read.messages
}

/// How many tokens each message of that conversation has. What a message of the body has besides its text (ids, images)
/// is counted with the first of those that it became.
pub(super) fn weights(counter: &dyn TokenCounter, body: &Value, request: &RequestTokens) -> Vec<u64> {
    let mut weights = Vec::new();
    weights.extend(body.get("system").map(|_| request.system));
    let mut read = ReadBody::default();
    let listed = body.get("messages").and_then(Value::as_array);
    for (message, counted) in listed.into_iter().flatten().zip(&request.messages) {
        let from = read.messages.len();
        read.add(message);
        let own: Vec<u64> =
            read.messages.iter().skip(from).skip(1).map(|message| message_tokens(counter, message)).collect();
        weights.push(own.iter().copied().fold(counted.tokens, u64::saturating_sub));
        weights.extend(own);
    }
    weights
}

/// What was read so far of a body.
#[derive(Default)]
struct ReadBody {
    messages: Vec<Message>,
    /// The tools by the ids of the calls of them.
    called: HashMap<String, String>,
}

impl ReadBody {
    fn add(&mut self, message: &Value) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match field(message, "role") {
            "system" | "developer" => self.messages.push(Message::System { text: text_of(content) }),
            "assistant" => {
                let calls = calls_of(message, content);
                self.called.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
                self.messages.push(Message::Assistant { text: text_of(content), calls, extra: Map::new() });
            }
            "tool" => self.add_result(field(message, "tool_call_id"), content),
            _ => {
                let before = self.messages.len();
                let blocks = content.as_array().into_iter().flatten();
                for block in blocks.filter(|block| field(block, "type") == "tool_result") {
                    let content = block.get("content").unwrap_or(&Value::Null);
                    self.add_result(field(block, "tool_use_id"), content);
                }
                let text = text_of(content);
                if !text.is_empty() || self.messages.len() == before {
                    self.messages.push(Message::user(text));
                }
            }
        }
    }

    /// The result of a call, under the name the tool was called by.
    fn add_result(&mut self, call: &str, content: &Value) {
        let tool = self.called.get(call).cloned().unwrap_or_default();
        let (call, text) = (call.to_owned(), text_of(content));
        self.messages.push(Message::Tool { call, tool, text, error: false, handle: None });
    }
}

fn calls_of(message: &Value, content: &Value) -> Vec<ToolCall> {
    let chat = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(|call| {
        let function = call.get("function").unwrap_or(&Value::Null);
        let (id, name) = (field(call, "id"), field(function, "name"));
        ToolCall { id: id.into(), name: name.into(), arguments: field(function, "arguments").into() }
    });
    let blocks = content.as_array().into_iter().flatten();
    let blocks = blocks.filter(|block| field(block, "type") == "tool_use").map(|block| {
        let input = block.get("input").map(Value::to_string).unwrap_or_default();
        ToolCall { id: field(block, "id").into(), name: field(block, "name").into(), arguments: input }
    });
    chat.chain(blocks).collect()
}

/// The text of a content, and of the blocks of text in it.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| field(block, "text")).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn field<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::context::ByteEstimate;
    use serde_json::json;

    use super::*;

    fn told(body: &Value) -> Vec<String> {
        let shown = |message: &Message| match message {
            Message::System { text } => format!("system {text}"),
            Message::User { text, .. } => format!("user {text}"),
            Message::Assistant { text, calls, .. } => {
                let calls: Vec<_> =
                    calls.iter().map(|call| format!(" {}{}", call.name, call.arguments)).collect();
                format!("assistant {text}{}", calls.concat())
            }
            Message::Tool { tool, text, .. } => format!("{tool} {text}"),
        };
        conversation(body).iter().map(shown).collect()
    }

    #[test]
    fn both_formats_are_the_same_conversation() {
        let chat = json!({"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Oslo?"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
        ]});
        let messages = json!({"system": "Be brief.", "messages": [
            {"role": "user", "content": "Oslo?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Rain."}]},
            ]},
        ]});
        assert_eq!(
            told(&chat),
            ["system Be brief.", "user Oslo?", "assistant  look{\"at\":1}", "look Rain."]
        );
        assert_eq!(told(&chat), told(&messages));
    }

    #[test]
    fn each_message_has_the_tokens_of_the_body() {
        let body = json!({"system": "Be brief.", "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "Rain."},
                {"type": "text", "text": "And in Bergen?"},
            ]},
        ]});
        let request = RequestTokens::of(&ByteEstimate, &body).unwrap();
        let weights = weights(&ByteEstimate, &body, &request);
        assert_eq!(weights.len(), conversation(&body).len());
        assert_eq!(weights.iter().sum::<u64>(), request.total());
    }

    #[test]
    fn whatever_is_in_a_body_is_no_panic() {
        for body in [
            json!(null),
            json!({"messages": 3}),
            json!({"messages": [null, 1, {"role": 5}, {"content": [[["a"]]]}, {"role": "assistant", "tool_calls": {}}]}),
        ] {
            conversation(&body);
        }
    }
}
