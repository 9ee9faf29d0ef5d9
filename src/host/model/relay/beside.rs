//! What a reply has beside its text and its calls: no other dialect says it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::verdict::{is_silent, thinks};
use crate::engine::{Failure, ModelReply};
use crate::policy::ErrorClass;
use crate::session::Message;

/// What is no loss: calls and messages, which are said otherwise, what belongs to them or to a text, and what says nothing of the answer:
/// `prefix` of Mistral, `name` of `MiniMax`, `padding` of Copilot, and where `LiteLLM` repeats what stands elsewhere.
const SAID: [&str; 19] = [
    Message::ANSWER_FIELDS,
    "annotations",
    "call",
    "citations",
    "custom_tool_call",
    "extra_content",
    "function_call",
    "functionCall",
    "message",
    "name",
    "padding",
    "prefix",
    "provider_specific_fields",
    "refusal",
    "thought",
    "thoughtSignature",
    "tool_calls",
    "tool_use",
    "toolUse",
];

/// The most names, and the most characters of one.
const MOST: usize = 16;
const LONGEST: usize = 64;

/// The names of it, such as `answer.inlineData`. What the model thought has none: every client can do without.
pub(super) fn left_out(reply: &ModelReply) -> Vec<String> {
    let mut names = BTreeSet::new();
    for (field, value) in &reply.extra {
        match items(field, value) {
            Some(items) => names.extend(items.iter().filter_map(Value::as_object).filter_map(name)),
            None if field.starts_with("reasoning") || field.starts_with("thinking") => {}
            None => names.extend(Some(field.as_str()).filter(|field| !SAID.contains(field))),
        }
    }
    let names: BTreeSet<&str> =
        names.into_iter().map(|name| if is_word(name) { name } else { "other" }).collect();
    names.into_iter().take(MOST).map(|name| format!("answer.{name}")).collect()
}

/// The failure of a reply of which nothing else is there: the client would get an empty one.
pub(super) fn fault_of(reply: &ModelReply) -> Option<Failure> {
    let names = left_out(reply);
    (is_silent(reply) && !names.is_empty()).then(|| {
        let names = names.join("`, `");
        let what =
            format!("the dialect of the client has nothing for what the answer consists of: `{names}`");
        Failure::of(ErrorClass::ModelError, what)
    })
}

/// Whether a header can hold the name: it is a stranger's.
fn is_word(name: &str) -> bool {
    name.len() <= LONGEST && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// The parts of a reply that a wire format keeps in that field, whatever they are.
fn items<'v>(field: &str, value: &'v Value) -> Option<&'v Vec<Value>> {
    value.get("items").or_else(|| field.starts_with("thinking_").then_some(value))?.as_array()
}

/// What a part is called.
fn name(part: &Map<String, Value>) -> Option<&str> {
    if thinks(part) {
        return None;
    }
    // Where Bedrock's format keeps what it does not know.
    let part = part.get("beside").and_then(Value::as_object).unwrap_or(part);
    match part.get("type").and_then(Value::as_str) {
        Some(kind) => Some(kind).filter(|kind| !SAID.contains(kind)),
        None => part.keys().map(String::as_str).find(|field| !SAID.contains(field)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(text: &str, extra: Value) -> ModelReply {
        let Value::Object(extra) = extra else { panic!("{extra}") };
        ModelReply { text: text.to_owned(), extra, ..ModelReply::default() }
    }

    #[test]
    fn what_no_other_dialect_says_has_a_name() {
        let kept = |field: &str, items: Value| json!({field: {"issuer": "m", "items": items}});
        for (extra, names) in [
            (
                kept("thinking_gemini", json!([{"chars": 3}, {"inlineData": {}, "thoughtSignature": "s"}])),
                vec!["answer.inlineData"],
            ),
            (
                kept(
                    "thinking_gemini",
                    json!([{"thought": true}, {"functionCall": {}, "call": "a", "thoughtSignature": "s"}]),
                ),
                vec![],
            ),
            (
                kept(
                    "thinking_anthropic",
                    json!([{"type": "server_tool_use"}, {"type": "thinking"}, {"type": "tool_use"}]),
                ),
                vec!["answer.server_tool_use"],
            ),
            (
                kept(
                    "output_responses",
                    json!([{"type": "reasoning"}, {"type": "image_generation_call"}, {"type": "message"}]),
                ),
                vec!["answer.image_generation_call"],
            ),
            (
                kept(
                    "thinking_bedrock",
                    json!([{"chars": 1}, {"call": "a"}, {"citations": []}, {"beside": {"video": {}}}]),
                ),
                vec!["answer.video"],
            ),
            (json!({"images": [{}], "audio": {"id": "a"}}), vec!["answer.audio", "answer.images"]),
            (json!({"a\r\nb": 1}), vec!["answer.other"]),
            (json!({"name": "MiniMax AI", "prefix": false}), vec![]),
            (
                json!({"reasoning_content": "hm", "reasoning_details": [{}], "annotations": [{}], "tool_calls": {}, "answer_fields": {}}),
                vec![],
            ),
        ] {
            assert_eq!(left_out(&reply("hi", extra.clone())), names, "{extra}");
            assert_eq!(fault_of(&reply("hi", extra.clone())), None, "{extra}");
            let class = fault_of(&reply(" ", extra.clone())).and_then(|failure| failure.class);
            assert_eq!(class, (!names.is_empty()).then_some(ErrorClass::ModelError), "{extra}");
        }
    }
}
