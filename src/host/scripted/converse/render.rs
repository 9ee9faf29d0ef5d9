//! Replies of a script as Converse writes them.

use serde_json::{Map, Value, json};

use crate::host::scripted::render::AnswerRendering;
use crate::host::scripted::script::ErrorReply;

/// The field of a reply's `extra` that becomes a block of reasoning.
const REASONING: &str = "reasoning_content";
/// The signature of all reasoning; a real one is longer.
pub(super) const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// The whole answer as one body.
pub(in crate::host::scripted) fn body(rendering: &AnswerRendering<'_>) -> String {
    let mut body = json!({
        "output": {"message": {"role": "assistant", "content": blocks(rendering)}},
        "stopReason": stop_reason(rendering.answer.finish_reason()),
        "metrics": {"latencyMs": 1},
    });
    if let Some(usage) = usage(rendering) {
        body["usage"] = usage;
    }
    let more: Map<String, Value> =
        rendering.answer.extra.clone().into_iter().filter(|(field, _)| field != REASONING).collect();
    if !more.is_empty() {
        body["additionalModelResponseFields"] = more.into();
    }
    body.to_string()
}

/// The blocks of the answer: what the model thought, said and calls.
pub(super) fn blocks(rendering: &AnswerRendering<'_>) -> Vec<Value> {
    let answer = rendering.answer;
    let thought = answer.extra.get(REASONING).and_then(Value::as_str);
    let reasoning = thought
        .map(|text| json!({"reasoningContent": {"reasoningText": {"text": text, "signature": SIGNATURE}}}));
    let said = (!answer.text.is_empty()).then(|| json!({"text": answer.text}));
    let calls = answer.calls.iter().enumerate().map(|(at, call)| {
        json!({"toolUse": {
            "toolUseId": rendering.call_id(at), "name": call.name, "input": input(&call.arguments),
        }})
    });
    reasoning.into_iter().chain(said).chain(calls).collect()
}

/// Why the model stopped, in the API's words where the script uses those of others.
pub(super) fn stop_reason(said: &str) -> &str {
    match said {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "content_filtered",
        other => other,
    }
}

/// The tokens. Those of a cache are not among the others.
pub(super) fn usage(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let usage = rendering.answer.usage?;
    let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
    Some(json!({
        "inputTokens": plain, "outputTokens": usage.output, "totalTokens": usage.total(),
        "cacheReadInputTokens": usage.cache_read, "cacheWriteInputTokens": usage.cache_write,
    }))
}

/// Arguments as they stand in a whole answer; those that are broken on purpose as text.
fn input(arguments: &str) -> Value {
    match serde_json::from_str::<Value>(arguments) {
        Ok(input) => input,
        Err(_) if arguments.trim().is_empty() => json!({}),
        Err(_) => arguments.into(),
    }
}

/// The body of an error. Its class stands in a header.
pub(in crate::host::scripted) fn error_body(error: &ErrorReply) -> String {
    error.body.clone().unwrap_or_else(|| json!({"message": error.message}).to_string())
}
