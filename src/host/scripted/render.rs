//! Replies of a script as they go over the wire.

use indexmap::IndexMap;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::script::{ErrorReply, ScriptAnswer};

/// What is cut by default.
const FILLER: &str = "This answer was meant to be longer.";

/// A body that is no JSON.
pub(super) const NOT_JSON: &str = "{\"choices\": [oops]}";

/// One answer on its way.
pub(super) struct AnswerRendering<'a> {
    /// The model's name.
    pub(super) model: &'a str,
    /// The number of the request; ids are made from it, so that a script always gives the same bytes.
    pub(super) number: u32,
    pub(super) answer: &'a ScriptAnswer,
}

impl AnswerRendering<'_> {
    /// The whole answer as one body.
    pub(super) fn body(&self) -> String {
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        let silent = self.answer.text.is_empty() && !self.answer.calls.is_empty();
        message.insert("content".to_owned(), if silent { Value::Null } else { json!(self.answer.text) });
        if !self.answer.calls.is_empty() {
            let calls = self.answer.calls.iter().enumerate().map(|(at, call)| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": self.call_id(at), "type": "function", "function": function})
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        message.extend(self.answer.extra.clone());
        let mut body = self.envelope("chat.completion");
        body["choices"] =
            json!([{"index": 0, "message": message, "finish_reason": self.answer.finish_reason()}]);
        if let Some(usage) = self.usage() {
            body["usage"] = usage;
        }
        body.to_string()
    }

    pub(super) fn envelope(&self, object: &str) -> Value {
        let id = format!("chatcmpl-scripted-{}", self.number);
        json!({"id": id, "object": object, "created": 0, "model": self.model})
    }

    pub(super) fn usage(&self) -> Option<Value> {
        let usage = self.answer.usage?;
        let mut tokens = json!({
            "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total(),
        });
        if usage.cache_read + usage.cache_write > 0 {
            tokens["prompt_tokens_details"] =
                json!({"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write});
        }
        if usage.reasoning > 0 {
            tokens["completion_tokens_details"] = json!({"reasoning_tokens": usage.reasoning});
        }
        Some(tokens)
    }

    pub(super) fn call_id(&self, at: usize) -> String {
        let id = self.answer.calls.get(at).and_then(|call| call.id.clone());
        id.unwrap_or_else(|| format!("call_{}_{}", self.number, at + 1))
    }
}

/// An answer of which half can be sent.
pub(super) fn with_a_middle(answer: ScriptAnswer) -> ScriptAnswer {
    if answer.text.is_empty() && answer.calls.is_empty() {
        ScriptAnswer { text: FILLER.to_owned(), ..answer }
    } else {
        answer
    }
}

/// How many characters come of an answer that breaks off in the middle.
pub(super) fn half(answer: &ScriptAnswer) -> u64 {
    let chars = |text: &str| u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let calls = answer.calls.iter().map(|call| chars(&call.name).saturating_add(chars(&call.arguments)));
    let all = calls.fold(chars(&answer.text), u64::saturating_add);
    let all = if all == 0 { chars(FILLER) } else { all };
    all.div_ceil(2)
}

/// The body of an error.
pub(super) fn error_body(error: &ErrorReply) -> String {
    if let Some(body) = &error.body {
        return body.clone();
    }
    let ErrorReply { code, kind, message, .. } = error;
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

/// The headers of an answer or an error.
///
/// # Errors
/// The name of a header that cannot be sent.
pub(super) fn header_map(headers: &IndexMap<String, String>) -> Result<HeaderMap, String> {
    let one = |(name, value): (&String, &String)| {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        parsed.ok_or_else(|| name.clone())
    };
    headers.iter().map(one).collect()
}
