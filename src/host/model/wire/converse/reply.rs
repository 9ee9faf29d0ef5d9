//! Responses of Converse, read into replies.

use reqwest::header::HeaderMap;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::blocks::{is_of_server, kept};
use crate::engine::{Failure, ModelReply, ProposedCall};
use crate::host::model::failure;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::drawn::or_images;
use crate::host::model::wire::extras::CONVERSE;
use crate::host::model::wire::ids::CallIds;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::usage::{UsageBesideCache, count};
use crate::host::model::wire::{finish, lenient, unread};
use crate::session::{Message, ToolCall};

/// The fields of an answer, or of the events of its end, that are read or pad it. All others are kept.
pub(super) const OF_ANSWER: [&str; 4] = ["output", "stopReason", "usage", "p"];

#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "camelCase")]
struct ConverseResponse {
    #[serde(default)]
    output: Option<ConverseOutput>,
    #[serde(default, deserialize_with = "finish::reason")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "usage")]
    usage: Option<UsageBesideCache>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ConverseOutput {
    message: ConverseMessage,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ConverseMessage {
    content: Vec<Value>,
}

/// Tokens. The share of reasoning is not reported.
pub(super) fn usage<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UsageBesideCache>, D::Error> {
    let said = Value::deserialize(from)?;
    Ok(said.as_object().map(|said| UsageBesideCache {
        input: count(said, &["inputTokens"]),
        output: count(said, &["outputTokens"]),
        cache_read: count(said, &["cacheReadInputTokens"]),
        cache_write: count(said, &["cacheWriteInputTokens"]),
        reasoning: None,
    }))
}

/// Reads the body of a response whose status says that all is well.
///
/// # Errors
/// The body holds an error, is cut off, is not JSON, or holds no message that is whole.
pub(super) fn read_body(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
    issuer: &str,
) -> Result<ModelReply, Failure> {
    let mut value = unread::json(body)?;
    if let Some(failure) = failure::inside_success(&value, headers) {
        return Err(failure);
    }
    let mut fields = AnswerFields::default();
    fields.take(&mut value, &OF_ANSWER, 0);
    let response: ConverseResponse = serde_json::from_value(value).map_err(|error| unexpected(&error))?;
    let output = response.output.ok_or_else(|| failure::unreadable("the answer holds no message"))?;
    if response.stop_reason.is_none() {
        return Err(failure::cut_off("the answer has no `stopReason`, so it may be cut"));
    }
    to_reply(output.message.content, response.stop_reason, response.usage, fields, (conversation, issuer))
}

/// JSON of another shape than the format's.
pub(super) fn unexpected(error: &serde_json::Error) -> Failure {
    misshapen(&error.to_string())
}

/// The reply that complete blocks are. The input of a tool call may be text that was put together, and broken.
///
/// # Errors
/// The model stopped because something went wrong, or a block is none.
pub(super) fn to_reply(
    mut blocks: Vec<Value>,
    stop: Option<String>,
    usage: Option<UsageBesideCache>,
    fields: AnswerFields,
    (conversation, issuer): (&[Message], &str),
) -> Result<ModelReply, Failure> {
    let finish = finish::finish(stop)?;
    let mut ids = None;
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in &mut blocks {
        if !block.is_object() {
            return Err(misshapen("one of its blocks is no object"));
        }
        cited(block);
        let said = word(block, "text")?;
        if block.get("text").is_some_and(Value::is_string) {
            text.push_str(said);
        } else if is_of_server(block) {
            // The server has run it, or will.
        } else if let Some(tool) = block.get_mut("toolUse") {
            if !tool.is_object() {
                return Err(misshapen("a tool call is no object"));
            }
            word(tool, "name")?;
            let ids = ids.get_or_insert_with(|| CallIds::of(conversation));
            let id = ids.next(tool.get("toolUseId").and_then(Value::as_str).map(str::to_owned));
            calls.push(call(&id, tool));
            if let Value::Object(tool) = tool {
                tool.insert("toolUseId".to_owned(), id.into());
            }
        }
    }
    let text = or_images(text, blocks.iter().filter(|block| block.get("image").is_some()).count());
    let mut extra = kept(&blocks, issuer).map(|kept| (CONVERSE.to_owned(), kept)).into_iter().collect();
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

/// An answer of another shape than the format's.
pub(super) fn misshapen(what: &str) -> Failure {
    failure::unreadable(format!("the answer is not a message: {what}"))
}

/// A field that is text, or empty without it.
///
/// # Errors
/// It is of another type: to pass over it would make another reply of it.
fn word<'b>(block: &'b Value, field: &str) -> Result<&'b str, Failure> {
    match block.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(misshapen(&format!("`{field}` of a block is not a string"))),
    }
}

/// A text with citations is a text.
fn cited(block: &mut Value) {
    let pieces = block.pointer("/citationsContent/content").and_then(Value::as_array);
    let text = pieces
        .map(|pieces| pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect::<String>());
    if let (Some(text), Value::Object(block)) = (text, block) {
        block.insert("text".to_owned(), text.into());
    }
}

fn call(id: &str, tool: &Value) -> ProposedCall {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    ToolCall { id: id.to_owned(), name, arguments: lenient::read_input(tool.get("input")) }.into()
}

of_objects!(ConverseResponse, ConverseOutput, ConverseMessage);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FinishReason;
    use crate::policy::ErrorClass;
    use crate::session::Usage;
    use serde_json::json;

    fn read(body: &Value) -> Result<ModelReply, Failure> {
        read_body(body.to_string().as_bytes(), &HeaderMap::new(), &[], "here")
    }

    fn answer(content: &Value, stop: &str) -> Value {
        json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop})
    }

    #[test]
    fn text_calls_and_tokens_are_read() {
        let mut body = answer(
            &json!([
                {"text": "Let me "},
                {"citationsContent": {"content": [{"text": "look."}], "citations": []}},
                {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"x": 1}}},
                {"toolUse": {"toolUseId": "t1", "name": "rest"}},
            ]),
            "tool_use",
        );
        body["usage"] = json!({
            "inputTokens": 10, "outputTokens": 5, "totalTokens": 335, "cacheReadInputTokens": 300, "cacheWriteInputTokens": 20,
        });
        let reply = read(&body).unwrap();
        let call = |id: &str, name: &str, arguments: &str| {
            ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
        };
        assert_eq!(reply.calls, [call("t1", "look", r#"{"x":1}"#), call("call_2", "rest", "{}")]);
        assert_eq!((reply.text.as_str(), reply.finish), ("Let me look.", FinishReason::ToolCalls));
        let usage = Usage { input: 330, output: 5, cache_read: 300, cache_write: 20, reasoning: 0 };
        assert_eq!(reply.usage, Some(usage));
    }

    #[test]
    fn every_reason_to_stop() {
        for (said, expected) in [
            ("end_turn", FinishReason::Stop),
            ("stop_sequence", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::ContextWindow),
            ("guardrail_intervened", FinishReason::ContentFilter),
            ("content_filtered", FinishReason::ContentFilter),
            ("new", FinishReason::Other("new".into())),
        ] {
            assert_eq!(read(&answer(&json!([]), said)).unwrap().finish, expected, "{said}");
        }
        let call = json!([{"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}]);
        assert_eq!(read(&answer(&call, "tool_use")).unwrap().finish, FinishReason::ToolCalls);
        let lost = read(&answer(&json!([]), "tool_use")).unwrap_err();
        assert_eq!(lost.message, "the model stopped for a call, but the answer has none");
        let failure = read(&answer(&json!([]), "malformed_tool_use")).unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("malformed_tool_use"));
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        for (body, class, says) in [
            ("", ErrorClass::ModelError, "the answer is empty"),
            ("{}", ErrorClass::ModelError, "the answer holds no message"),
            (
                r#"{"output":{"mess"#,
                ErrorClass::NetworkError,
                "the answer ends in the middle, after 16 bytes",
            ),
            (
                r#"{"output":{"message":{"content":[]}}}"#,
                ErrorClass::NetworkError,
                "the answer has no `stopReason`, so it may be cut",
            ),
            (
                r#"{"output":{"message":{"content":[1]}},"stopReason":"end_turn"}"#,
                ErrorClass::ModelError,
                "the answer is not a message: one of its blocks is no object",
            ),
        ] {
            let failure = read_body(body.as_bytes(), &HeaderMap::new(), &[], "").unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (Some(class), says), "{body}");
        }
    }

    #[test]
    fn a_block_of_another_type_is_no_answer() {
        for block in
            [json!({"text": 5}), json!({"toolUse": "x"}), json!({"toolUse": {"toolUseId": "t", "name": 5}})]
        {
            let failure = read(&answer(&json!([block]), "end_turn")).unwrap_err();
            assert_eq!(failure.class, Some(ErrorClass::ModelError), "{block}");
        }
    }
}
