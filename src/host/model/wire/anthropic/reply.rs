//! Responses of the messages format, read into replies.

use reqwest::header::HeaderMap;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::blocks::kept;
use super::paused::PAUSE;
use crate::engine::{Failure, FinishReason, ModelReply, ProposedCall};
use crate::host::model::failure;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::extras::KEPT;
use crate::host::model::wire::ids::CallIds;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::usage::{UsageBesideCache, count, within};
use crate::host::model::wire::{finish, lenient, unread};
use crate::session::{Message, ToolCall};

/// The fields of a message that are read, or that say which one it is. All others are kept.
const OF_MESSAGE: [&str; 7] = ["content", "stop_reason", "usage", "id", "type", "role", "model"];

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct MessagesResponse {
    #[serde(default)]
    content: Option<Vec<Map<String, Value>>>,
    #[serde(default, deserialize_with = "finish::reason")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "usage")]
    usage: Option<UsageBesideCache>,
}

/// Tokens. Older servers do not report the share of reasoning.
pub(super) fn usage<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UsageBesideCache>, D::Error> {
    let said = Value::deserialize(from)?;
    Ok(said.as_object().map(|said| UsageBesideCache {
        reasoning: within(said, "output_tokens_details", &["thinking_tokens"]),
        ..counts(said).at_least(of_iterations(said))
    }))
}

/// The counts of an answer, or of one of its iterations.
fn counts(said: &Map<String, Value>) -> UsageBesideCache {
    UsageBesideCache {
        input: count(said, &["input_tokens"]),
        output: count(said, &["output_tokens"]),
        cache_read: count(said, &["cache_read_input_tokens"]),
        cache_write: count(said, &["cache_creation_input_tokens"]),
        reasoning: None,
    }
}

/// The counts of all iterations of the model together: beside them, the answer leaves out what its compaction took. Those of an advisor or
/// of another model that stood in have another price. Source: "Compaction", platform.claude.com.
fn of_iterations(said: &Map<String, Value>) -> UsageBesideCache {
    let all = said.get("iterations").and_then(Value::as_array).into_iter().flatten();
    let own = all.filter_map(Value::as_object).filter(|iteration| {
        matches!(iteration.get("type").and_then(Value::as_str), Some("message" | "compaction"))
    });
    own.map(counts).fold(UsageBesideCache::default(), UsageBesideCache::plus)
}

/// An answer that looks whole but does not say why the model stopped.
pub(super) fn without_reason() -> Failure {
    failure::cut_off("the answer has no `stop_reason`, so it may be cut")
}

/// Reads the body of a response whose status says that all is well. `conversation` is what was sent: the ids of
/// calls are unique in it; `of`: who answers, and whether turns that were paused are continued.
///
/// # Errors
/// The body holds an error, is cut off, is not JSON, holds no content, or some that is not whole.
pub(crate) fn read_body(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
    of: (&str, bool),
) -> Result<ModelReply, Failure> {
    let mut value = unread::json(body)?;
    // Gateways answer with status 200 and an error in the body.
    if let Some(failure) = failure::inside_success(&value, headers) {
        return Err(failure);
    }
    let mut fields = AnswerFields::default();
    fields.take(&mut value, &OF_MESSAGE, 0);
    let response: MessagesResponse = serde_json::from_value(value).map_err(|error| unexpected(&error))?;
    let content = response.content.ok_or_else(|| failure::unreadable("the answer holds no content"))?;
    // A stream that broke off behind a router may come as a whole message.
    if response.stop_reason.is_none() {
        return Err(without_reason());
    }
    to_reply(content, response.stop_reason, response.usage, fields, (conversation, of))
}

/// Takes out of an event what it says of the whole answer and nothing reads. Returns how much is kept afterwards if it was `kept` before.
pub(super) fn take_rest(event: &mut Value, name: &str, fields: &mut AnswerFields, kept: usize) -> usize {
    let places: &[(&str, &[&str])] = match event.get("type").and_then(Value::as_str).unwrap_or(name) {
        "message_start" => &[("/message", &OF_MESSAGE)],
        // The container is in the delta, and `context_management` beside it (`raw_message_delta_event.py` of the SDK).
        "message_delta" => &[("/delta", &["type", "stop_reason"]), ("", &["type", "delta", "usage"])],
        _ => &[],
    };
    places.iter().fold(kept, |kept, (place, read)| match event.pointer_mut(place) {
        Some(from) => fields.take(from, read, kept),
        None => kept,
    })
}

/// JSON of another shape than the format's.
pub(super) fn unexpected(error: &serde_json::Error) -> Failure {
    misshapen(&error.to_string())
}

/// The reply that complete blocks are. The input of a tool call may be text that was put together, and broken.
///
/// # Errors
/// The model stopped because something went wrong.
pub(super) fn to_reply(
    mut blocks: Vec<Map<String, Value>>,
    stop: Option<String>,
    usage: Option<UsageBesideCache>,
    fields: AnswerFields,
    (conversation, (issuer, pauses)): (&[Message], (&str, bool)),
) -> Result<ModelReply, Failure> {
    let finish = match stop {
        Some(stop) if pauses && stop == PAUSE => FinishReason::Other(stop),
        stop => finish::finish(stop)?,
    };
    let mut ids = None;
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in &mut blocks {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                text.push_str(word(block, "text")?);
            }
            Some("tool_use") => {
                word(block, "name")?;
                let ids = ids.get_or_insert_with(|| CallIds::of(conversation));
                let id = ids.next(block.get("id").and_then(Value::as_str).map(str::to_owned));
                block.insert("id".to_owned(), id.as_str().into());
                calls.push(call(id, block));
            }
            _ => {}
        }
    }
    let mut extra = kept(&blocks, issuer).map(|kept| (KEPT.to_owned(), kept)).into_iter().collect();
    fields.keep(&mut extra, Some(issuer));
    let calls = finish::found(calls, &finish)?;
    Ok(ModelReply {
        text,
        calls,
        finish,
        usage: usage.map(UsageBesideCache::usage),
        extra,
        ..ModelReply::default()
    })
}

/// A field of a block that is text; empty if it has none.
///
/// # Errors
/// It is of another type: to pass over it would make another reply of it.
fn word<'b>(block: &'b Map<String, Value>, field: &str) -> Result<&'b str, Failure> {
    match block.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(misshapen(&format!("`{field}` of a block is not a string"))),
    }
}

/// An answer of another shape than the format's.
pub(super) fn misshapen(what: &str) -> Failure {
    failure::unreadable(format!("the answer is not a message: {what}"))
}

fn call(id: String, block: &Map<String, Value>) -> ProposedCall {
    let name = block.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    ToolCall { id, name, arguments: lenient::read_input(block.get("input")) }.into()
}

of_objects!(MessagesResponse);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ErrorClass;
    use crate::session::Usage;
    use serde_json::json;

    fn read(body: &Value) -> ModelReply {
        read_body(body.to_string().as_bytes(), &HeaderMap::new(), &[], ("here", false)).unwrap()
    }

    #[test]
    fn text_and_calls_are_read_from_their_blocks() {
        let reply = read(&json!({"type": "message", "role": "assistant", "content": [
            {"type": "text", "text": "Let me "}, {"type": "text", "text": "look."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"x": 1}},
            {"type": "tool_use", "id": "toolu_1", "name": "rest"},
        ], "stop_reason": "tool_use"}));
        let call = |id: &str, name: &str, arguments: &str| {
            ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
        };
        let calls = vec![call("toolu_1", "look", r#"{"x":1}"#), call("call_2", "rest", "{}")];
        let expected = ModelReply {
            text: "Let me look.".into(),
            calls,
            finish: FinishReason::ToolCalls,
            ..ModelReply::default()
        };
        assert_eq!(reply, expected);
    }

    #[test]
    fn thinking_is_kept_with_its_signature_and_its_place() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
        let reply = read(&json!({"content": [
            thinking, {"type": "tool_use", "id": "", "name": "look", "input": {}},
        ], "stop_reason": "tool_use"}));
        let place = json!({"type": "tool_use", "id": reply.calls[0].call.id});
        let kept = json!({"issuer": "here", "items": [thinking, place]});
        assert_eq!(Value::Object(reply.extra), json!({ "thinking_anthropic": kept }));
    }

    #[test]
    fn every_reason_to_stop() {
        let reason = |said: Value| read(&json!({"content": [], "stop_reason": said})).finish;
        for (said, expected) in [
            ("end_turn", FinishReason::Stop),
            ("stop_sequence", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::ContextWindow),
            ("refusal", FinishReason::ContentFilter),
            ("new", FinishReason::Other("new".into())),
        ] {
            assert_eq!(reason(json!(said)), expected, "{said}");
        }
        let call = json!({"type": "tool_use", "id": "a", "name": "look", "input": {}});
        let of = |content: Value| json!({"content": content, "stop_reason": "tool_use"});
        assert_eq!(read(&of(json!([call]))).finish, FinishReason::ToolCalls);
        let none = of(json!([])).to_string();
        let lost = read_body(none.as_bytes(), &HeaderMap::new(), &[], ("here", false)).unwrap_err();
        assert_eq!(lost.message, "the model stopped for a call, but the answer has none");
    }

    #[test]
    fn tokens_of_a_cache_are_tokens_of_the_request() {
        let usage =
            |usage: Value| read(&json!({"content": [], "stop_reason": "end_turn", "usage": usage})).usage;
        let all = json!({
            "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 20,
        });
        assert_eq!(
            usage(all),
            Some(Usage { input: 330, output: 5, cache_read: 300, cache_write: 20, reasoning: 0 })
        );
        let plain = json!({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": null});
        assert_eq!(usage(plain), Some(Usage { input: 10, output: 5, ..Usage::default() }));
        let thought =
            json!({"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}});
        assert_eq!(usage(thought), Some(Usage { input: 1, output: 9, reasoning: 4, ..Usage::default() }));
        let odd = json!({"input_tokens": 11.0, "output_tokens": "4", "cache_read_input_tokens": -1, "iterations": [7]});
        assert_eq!(usage(odd), Some(Usage { input: 11, output: 4, ..Usage::default() }));
        assert_eq!(usage(json!("many")), None);
    }

    #[test]
    fn all_iterations_of_the_model_count() {
        let usage = |iterations: Value| {
            let usage = json!({"input_tokens": 180, "output_tokens": 8, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "iterations": iterations});
            read(&json!({"content": [], "stop_reason": "end_turn", "usage": usage})).usage
        };
        let last = json!({"type": "message", "input_tokens": 180, "output_tokens": 8});
        // The counts of the answer are those of its last message.
        let compaction = json!({"type": "compaction", "input_tokens": 100, "output_tokens": 82,
            "cache_creation_input_tokens": 55_096, "cache_read_input_tokens": 0});
        let all = Usage { input: 55_376, output: 90, cache_write: 55_096, ..Usage::default() };
        assert_eq!(usage(json!([compaction, last])), Some(all));
        // They have all messages, and nothing of other models.
        let one = json!({"type": "message", "input_tokens": 80, "output_tokens": 3});
        let two = json!({"type": "message", "input_tokens": 100, "output_tokens": 5});
        let advisor =
            json!({"type": "advisor_message", "model": "x", "input_tokens": 2728, "output_tokens": 874});
        let refused = json!({"type": "message", "model": "x", "input_tokens": 170, "output_tokens": 0});
        let instead =
            json!({"type": "fallback_message", "model": "y", "input_tokens": 180, "output_tokens": 8});
        let plain = Usage { input: 180, output: 8, ..Usage::default() };
        for iterations in [json!([one, advisor, two]), json!([refused, instead]), json!([]), json!(null)] {
            assert_eq!(usage(iterations.clone()), Some(plain), "{iterations}");
        }
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        let table = [
            ("", ErrorClass::ModelError, "the answer is empty"),
            ("{}", ErrorClass::ModelError, "the answer holds no content"),
            (
                r#"{"content":[{"ty"#,
                ErrorClass::NetworkError,
                "the answer ends in the middle, after 16 bytes",
            ),
            (
                r#"{"content":[],"stop_reason":null}"#,
                ErrorClass::NetworkError,
                "the answer has no `stop_reason`, so it may be cut",
            ),
            (
                r#"{"content":[1]}"#,
                ErrorClass::ModelError,
                "the answer is not a message: invalid type: integer `1`, expected a map",
            ),
        ];
        for (body, class, says) in table {
            let failure = read_body(body.as_bytes(), &HeaderMap::new(), &[], ("here", false)).unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (Some(class), says), "{body}");
        }
    }
}
