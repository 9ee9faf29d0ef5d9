//! Responses of the chat-completions format, read into replies.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::message::{ChatContent, ChatMessage, WireCall, WireFunction};
use super::parts::{join_pieces, take_reasoning, take_thought};
use super::plain::{self, ChatChoice, PlainAnswer};
use crate::engine::{Failure, FinishReason, ModelReply, ProposedCall};
use crate::host::model::failure;
use crate::host::model::wire::answer_fields::{AnswerFields, is_blank};
use crate::host::model::wire::drawn::or_images;
use crate::host::model::wire::extras::{ANSWER_FIELDS, CALL_EXTRAS, ISSUER, REASONING_PARTS, SIGNER};
use crate::host::model::wire::ids::CallIds;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::usage::{WireUsage, tokens};
use crate::host::model::wire::{finish, lenient, unread, without_mark};
use crate::session::{Message, ToolCall};

/// The fields of a message that may hold signatures.
pub(super) const SIGNED: [&str; 4] = [CALL_EXTRAS, "reasoning_details", "extra_content", REASONING_PARTS];

/// The fields of an answer, or of a piece of it, that are read, that say which one it is, or that pad it. All others are kept.
const OF_ANSWER: [&str; 9] =
    ["choices", "usage", "id", "object", "created", "model", "system_fingerprint", "error", "obfuscation"];
/// Those of a choice that are read.
const OF_CHOICE: [&str; 8] =
    ["index", "delta", "message", "text", "usage", "finish_reason", "finishReason", "error"];

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ChatResponse {
    #[serde(default, deserialize_with = "lenient::or_default")]
    choices: Vec<ReplyChoice>,
    #[serde(default, deserialize_with = "tokens")]
    usage: Option<WireUsage>,
}

/// A choice from which all is taken that is not read.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct ReplyChoice {
    #[serde(default, deserialize_with = "lenient::if_readable")]
    index: Option<u64>,
    #[serde(default)]
    message: Option<ChatMessage>,
    #[serde(default, deserialize_with = "finish::reason")]
    finish_reason: Option<String>,
    /// As Google's server has called it.
    #[serde(default, rename = "finishReason", deserialize_with = "finish::reason")]
    google_reason: Option<String>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default, rename = "delta")]
    _delta: IgnoredAny,
    #[serde(default, rename = "usage")]
    _usage: IgnoredAny,
    #[serde(default, rename = "text")]
    _text: IgnoredAny,
    /// Null, as most say; what is something is kept.
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
}

impl ChatChoice for ReplyChoice {
    fn holds_error(&self) -> bool {
        self.error.is_some()
    }
}

/// Reads the body of a response whose status says that all is well. `conversation` is what was sent: the ids of
/// calls are unique in it.
///
/// # Errors
/// The body holds an error, is cut off, is not JSON, holds no message, or one that is not whole.
pub(crate) fn read_body(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
) -> Result<ModelReply, Failure> {
    read_answer(body, headers, conversation, false)
}

/// The same. Where `finish_optional`, the answer need not say why the model stopped.
///
/// # Errors
/// As those of [`read_body`].
pub(crate) fn read_answer(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
    finish_optional: bool,
) -> Result<ModelReply, Failure> {
    let text = str::from_utf8(without_mark(body)).ok();
    let mut fields = AnswerFields::default();
    let response = match text.and_then(plain::read) {
        Some(PlainAnswer { choices, usage, service_tier, .. }) => {
            fields.take_word("service_tier", service_tier, 0);
            ChatResponse { choices, usage }
        }
        None => read_response(body, headers, &mut fields)?,
    };
    let mut choices = response.choices.into_iter();
    let choice = choices.next().ok_or_else(|| failure::unreadable("the answer holds no choices"))?;
    let mut message = choice.message.ok_or_else(|| failure::unreadable("the answer holds no message"))?;
    // GitHub Copilot writes the calls of Claude into choices of their own, which are no other answers.
    let further = choices.filter(|further| further.index.is_none_or(|index| Some(index) == choice.index));
    for part in further.filter_map(|further| further.message) {
        message.tool_calls.extend(part.tool_calls);
    }
    let finish = choice.finish_reason.or(choice.google_reason);
    // Without a reason the answer may be cut: a router may close a stream properly that broke off behind it.
    if finish.is_none() && !finish_optional {
        return Err(unread::without_reason());
    }
    to_reply(message, finish, response.usage, fields, conversation)
}

/// A response that may be an error.
fn read_response(
    body: &[u8],
    headers: &HeaderMap,
    fields: &mut AnswerFields,
) -> Result<ChatResponse, Failure> {
    let mut value = unread::json(body)?;
    // MiniMax and gateways answer with status 200 and an error in the body.
    if let Some(failure) = failure::inside_success(&value, headers) {
        return Err(failure);
    }
    take_rest(&mut value, fields, 0);
    serde_json::from_value(value).map_err(|error| unexpected(&error))
}

/// Takes out of an answer, or of a piece of one, what is not read. Returns how much is kept afterwards if it was `kept` before.
pub(super) fn take_rest(from: &mut Value, fields: &mut AnswerFields, kept: usize) -> usize {
    let kept = fields.take(from, &OF_ANSWER, kept);
    fields.take_of_choices(from.get_mut("choices"), &OF_CHOICE, kept)
}

/// JSON of another shape than the format's.
pub(super) fn unexpected(error: &serde_json::Error) -> Failure {
    failure::unreadable(format!("the answer is not a chat completion: {error}"))
}

/// The reply a complete message is.
///
/// # Errors
/// The model stopped because something went wrong.
pub(super) fn to_reply(
    mut message: ChatMessage,
    finish: Option<String>,
    usage: Option<WireUsage>,
    mut fields: AnswerFields,
    conversation: &[Message],
) -> Result<ModelReply, Failure> {
    let mut finish = finish::finish(finish)?;
    let legacy = message.take_legacy_call();
    message.tool_calls.extend(legacy);
    take_thought(&mut message);
    take_reasoning(&mut message);
    if let Some(Value::Array(parts)) = message.extra.get_mut(REASONING_PARTS) {
        join_pieces(parts);
    }
    let mut extra = message.extra;
    extra.retain(|_, value| !is_blank(value));
    let mut text = message.content.map(ChatContent::into_text).unwrap_or_default();
    // OpenAI puts a refusal next to the text, with `stop` as the reason.
    if let Some(Value::String(refusal)) = extra.get("refusal") {
        finish = FinishReason::ContentFilter;
        if text.is_empty() {
            text.clone_from(refusal);
            extra.shift_remove("refusal");
        }
    }
    // What an audio model says is in the audio alone.
    if let Some(Value::String(transcript)) = extra.get("audio").and_then(|audio| audio.get("transcript"))
        && text.is_empty()
    {
        text.clone_from(transcript);
    }
    // OpenRouter has the images of an answer beside its text.
    let text = or_images(text, extra.get("images").and_then(Value::as_array).map_or(0, Vec::len));
    let ReadCalls { calls, extras, functions } = calls(message.tool_calls, conversation);
    if !extras.is_empty() {
        extra.insert(CALL_EXTRAS.to_owned(), Value::Object(extras));
    }
    if !functions.is_empty() {
        fields.add(Map::from_iter([(CALL_EXTRAS.to_owned(), functions.into())]), 0);
    }
    fields.keep(&mut extra, None);
    let calls = finish::begun(calls, &finish);
    Ok(ModelReply { text, calls, finish, usage: usage.map(WireUsage::usage), extra, ..ModelReply::default() })
}

/// The reply with the name of who signed it, if somebody did: Gemini's models sign calls, and `OpenRouter` has the signatures of others
/// among `reasoning_details`.
pub(super) fn signed(mut reply: ModelReply, issuer: &str) -> ModelReply {
    if SIGNED.iter().any(|field| reply.extra.contains_key(*field)) {
        reply.extra.insert(SIGNER.to_owned(), issuer.into());
    }
    if let Some(Value::Object(kept)) = reply.extra.get_mut(ANSWER_FIELDS) {
        kept.insert(ISSUER.to_owned(), issuer.into());
    }
    reply
}

/// Calls, and what came with them, by their ids.
#[derive(Default)]
struct ReadCalls {
    calls: Vec<ProposedCall>,
    extras: Map<String, Value>,
    /// What came within `function`.
    functions: Map<String, Value>,
}

/// The calls, each with an id that no other call of the conversation has.
fn calls(wire: Vec<WireCall>, conversation: &[Message]) -> ReadCalls {
    let mut read = ReadCalls::default();
    if wire.is_empty() {
        return read;
    }
    let mut ids = CallIds::of(conversation);
    for call in wire {
        // Some servers send no id, or number calls from the start in every reply.
        let id = ids.next(call.id);
        if !call.extra.is_empty() {
            read.extras.insert(id.clone(), Value::Object(call.extra));
        }
        let WireFunction { name, arguments, mut more } = call.function;
        more.retain(|_, value| !is_blank(value));
        if !more.is_empty() {
            read.functions.insert(id.clone(), json!({ "function": more }));
        }
        let (name, arguments) = (name.unwrap_or_default(), arguments.unwrap_or_default());
        read.calls.push(ToolCall { id, name, arguments }.into());
    }
    read
}

of_objects!(ChatResponse, ReplyChoice);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ErrorClass;
    use crate::session::Usage;

    fn read(body: &Value) -> Result<ModelReply, Failure> {
        read_body(body.to_string().as_bytes(), &HeaderMap::new(), &[])
    }

    fn message(message: &Value) -> ModelReply {
        read(&json!({"choices": [{"message": message, "finish_reason": "stop"}]})).unwrap()
    }

    fn call(id: &str, arguments: &str) -> ProposedCall {
        ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into() }.into()
    }

    #[test]
    fn an_answer_may_be_images_or_audio_alone() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let drawn = message(&json!({"content": "", "images": [image, image]}));
        assert_eq!(drawn.text, "[2 images]");
        assert_eq!(drawn.extra["images"].as_array().unwrap().len(), 2);
        assert_eq!(message(&json!({"content": "Look:", "images": [image]})).text, "Look:");
        let audio = json!({"id": "audio_1", "data": "UklGR", "transcript": "Hello there."});
        assert_eq!(message(&json!({"content": null, "audio": audio})).text, "Hello there.");
    }

    #[test]
    fn content_may_be_text_parts_or_nothing() {
        assert_eq!(message(&json!({"content": "hi"})).text, "hi");
        assert_eq!(message(&json!({"content": null})).text, "");
        assert_eq!(message(&json!({})).text, "");
        let parts = json!([{"type": "text", "text": "a"}, "b", {"type": "thinking", "thinking": []}]);
        assert_eq!(message(&json!({ "content": parts })).text, "ab");
    }

    #[test]
    fn calls_may_be_in_a_choice_of_their_own() {
        let look = json!({"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}});
        let choice = |index: Value, message: Value| json!({"index": index, "message": message, "finish_reason": "tool_calls"});
        let calls = json!({"role": "assistant", "tool_calls": [look]});
        let of = |index: Value, second: Value| {
            let first = choice(index, json!({"role": "assistant", "content": "I will look."}));
            read(&json!({"choices": [first, choice(second, calls.clone())]})).unwrap()
        };
        for index in [Value::Null, json!(0)] {
            let reply = of(index.clone(), index);
            assert_eq!((reply.text.as_str(), reply.calls), ("I will look.", vec![call("a", "{}")]));
        }
        assert_eq!(of(json!(0), json!(1)).calls, [], "another answer");
    }

    #[test]
    fn arguments_may_be_text_an_object_or_nothing() {
        let calls = json!([
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{broken"}},
            {"id": "b", "function": {"name": "look", "arguments": {"x": 1}}},
            {"id": "c", "function": {"name": "look", "arguments": ""}},
            {"id": "d", "function": {"name": "look"}},
        ]);
        let expected = [call("a", "{broken"), call("b", r#"{"x":1}"#), call("c", "{}"), call("d", "{}")];
        assert_eq!(message(&json!({"content": null, "tool_calls": calls})).calls, expected);
    }

    #[test]
    fn a_call_of_old_is_one() {
        let old = json!({"name": "look", "arguments": "{\"x\":1}"});
        let said = json!({"content": null, "function_call": old});
        let reply = read(&json!({"choices": [{"message": said, "finish_reason": "function_call"}]})).unwrap();
        assert_eq!(
            (&reply.calls, reply.finish),
            (&vec![call("call_1", r#"{"x":1}"#)], FinishReason::ToolCalls)
        );
        assert!(reply.extra.is_empty(), "{:?}", reply.extra);
        // Some servers write both.
        let new = json!([{"id": "a", "function": old}]);
        let reply = message(&json!({"content": null, "function_call": old, "tool_calls": new}));
        assert_eq!(reply.calls, [call("a", r#"{"x":1}"#)]);
        for none in [json!(null), json!({"name": "", "arguments": ""}), json!("auto")] {
            assert_eq!(message(&json!({"content": "x", "function_call": none})).calls, []);
        }
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let before = Message::Assistant {
            text: String::new(),
            calls: vec![call("call_2", "{}").call, call("x", "{}").call],
            extra: Map::new(),
        };
        let look = json!({"name": "look"});
        let body = json!({"choices": [{"message": {"tool_calls": [
            {"function": look}, {"id": "", "function": look}, {"id": "x", "function": look}, {"id": "y", "function": look},
        ]}, "finish_reason": "tool_calls"}]});
        let reply = read_body(body.to_string().as_bytes(), &HeaderMap::new(), &[before]).unwrap();
        let ids: Vec<_> = reply.calls.iter().map(|proposal| proposal.call.id.as_str()).collect();
        assert_eq!(ids, ["call_3", "call_4", "call_5", "y"]);
    }

    #[test]
    fn unknown_fields_are_kept_and_blank_ones_are_not() {
        let reply = message(&json!({
            "role": "assistant", "content": "x", "reasoning_content": "hm", "audio": null, "annotations": [],
            "tool_calls": [{"id": "a", "function": {"name": "look"}, "signature": "s"}],
        }));
        let expected = json!({"reasoning_content": "hm", "tool_calls": {"a": {"signature": "s"}}});
        assert_eq!(Value::Object(reply.extra), expected);
    }

    #[test]
    fn a_refusal_is_the_text_and_the_reason() {
        let reply = message(&json!({"content": null, "refusal": "I cannot."}));
        assert_eq!((reply.text.as_str(), reply.finish), ("I cannot.", FinishReason::ContentFilter));
    }

    #[test]
    fn every_reason_to_stop() {
        let reason = |said: Value| {
            read(&json!({"choices": [{"message": {"content": ""}, "finish_reason": said}]})).unwrap().finish
        };
        assert_eq!(reason(json!("tool_calls")), FinishReason::ToolCalls);
        assert_eq!(reason(json!("max_tokens")), FinishReason::Length);
        assert_eq!(reason(json!("weird")), FinishReason::Other("weird".into()));
    }

    #[test]
    fn usage_that_cannot_be_read_does_not_matter() {
        let usage = |usage: Value| {
            read(&json!({"choices": [{"message": {}, "finish_reason": "stop"}], "usage": usage}))
                .unwrap()
                .usage
        };
        let plain = Usage { input: 12, output: 3, ..Usage::default() };
        let both = Some(plain);
        assert_eq!(usage(json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15})), both);
        assert_eq!(usage(json!({"input_tokens": 12, "output_tokens": 3})), both);
        assert_eq!(usage(json!({"prompt_tokens": 12, "completion_tokens": null})).unwrap().input, 12);
        let cached = Some(Usage { cache_read: 8, ..plain });
        for (said, output, reasoning) in [
            // Among the tokens of the completion, as OpenAI has it.
            (
                json!({"prompt_tokens": 12, "completion_tokens": 30, "total_tokens": 42,
                "completion_tokens_details": {"reasoning_tokens": 20}}),
                30,
                20,
            ),
            // In addition to them, as xAI and Gemini do.
            (
                json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 35,
                "completion_tokens_details": {"reasoning_tokens": 20}}),
                23,
                20,
            ),
            (json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 35}), 23, 0),
            // A total that is none.
            (json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 0}), 3, 0),
        ] {
            let usage = WireUsage::of(&said).unwrap();
            let expected = Usage { output, reasoning, ..plain };
            assert_eq!(usage.usage(), expected);
        }
        let details = json!({"cached_tokens": 8, "audio_tokens": null});
        assert_eq!(
            usage(json!({"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": details})),
            cached
        );
        assert_eq!(
            usage(json!({"prompt_tokens": 12, "completion_tokens": 3, "prompt_cache_hit_tokens": 8})),
            cached
        );
        assert_eq!(usage(json!("many")), None);
        assert_eq!(usage(Value::Null), None);
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        let table = [
            ("", ErrorClass::ModelError, "the answer is empty"),
            ("{}", ErrorClass::ModelError, "the answer holds no choices"),
            (r#"{"choices":[{}]}"#, ErrorClass::ModelError, "the answer holds no message"),
            (
                r#"{"choices":[{"message":{"content":"half"},"finish_reason":null}]}"#,
                ErrorClass::NetworkError,
                "the answer does not say why the model stopped, so it may be cut; if the server never says it, set \
                 `finish_reason: optional` at the model",
            ),
            (
                r#"{"choices":{}}"#,
                ErrorClass::ModelError,
                "the answer is not a chat completion: invalid type: map, expected a sequence",
            ),
            (
                r#"{"choices":[{"mess"#,
                ErrorClass::NetworkError,
                "the answer ends in the middle, after 18 bytes",
            ),
            ("<html><title>Log in</title></html>", ErrorClass::ModelError, "the answer is not JSON: Log in"),
            ("[[[[", ErrorClass::NetworkError, "the answer ends in the middle, after 4 bytes"),
        ];
        for (body, class, says) in table {
            let failure = read_body(body.as_bytes(), &HeaderMap::new(), &[]).unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (Some(class), says), "{body}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let failure = read_body("[".repeat(100_000).as_bytes(), &HeaderMap::new(), &[]).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::ModelError));
    }
}
