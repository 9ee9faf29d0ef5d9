//! Replies of a script as Anthropic's API writes them.

use serde_json::{Map, Value, json};

use crate::host::scripted::render::AnswerRendering;
use crate::host::scripted::script::{ErrorReply, ScriptedCall};

/// The field of a reply's `extra` that becomes a block of thinking.
const REASONING: &str = "reasoning_content";
/// The signature of all thinking; a real one is longer.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// The whole answer as one body.
pub(in crate::host::scripted) fn body(rendering: &AnswerRendering<'_>) -> String {
    let mut content: Vec<Value> = thinking(rendering).into_iter().collect();
    if !rendering.answer.text.is_empty() {
        content.push(json!({"type": "text", "text": rendering.answer.text}));
    }
    for (at, call) in rendering.answer.calls.iter().enumerate() {
        let mut block = begun(rendering, at, call);
        block["input"] = input(&call.arguments);
        content.push(block);
    }
    let mut message = envelope(rendering, &content);
    message["stop_reason"] = stop_reason(rendering.answer.finish_reason()).into();
    message["usage"] = usage(rendering).unwrap_or_else(|| json!({}));
    message.to_string()
}

/// The message without what comes at its end.
pub(super) fn envelope(rendering: &AnswerRendering<'_>, content: &[Value]) -> Value {
    let mut message = json!({
        "id": format!("msg_scripted_{}", rendering.number), "type": "message", "role": "assistant",
        "model": rendering.model, "content": content, "stop_reason": null, "stop_sequence": null,
    });
    if let Value::Object(fields) = &mut message {
        let more = rendering.answer.extra.iter().filter(|(field, _)| *field != REASONING);
        fields.extend(more.map(|(field, value)| (field.clone(), value.clone())));
    }
    message
}

/// The block of thinking, if there is any.
pub(super) fn thinking(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let text = rendering.answer.extra.get(REASONING)?.as_str()?;
    Some(json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}))
}

/// A tool call as its block begins.
pub(super) fn begun(rendering: &AnswerRendering<'_>, at: usize, call: &ScriptedCall) -> Value {
    json!({"type": "tool_use", "id": rendering.call_id(at), "name": call.name, "input": {}})
}

/// Why the model stopped, in the API's words where the script uses those of others.
pub(super) fn stop_reason(said: &str) -> &str {
    match said {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    }
}

/// The tokens. Those of a cache are not among the others.
pub(super) fn usage(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let usage = rendering.answer.usage?;
    let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
    Some(json!({
        "input_tokens": plain, "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read, "cache_creation_input_tokens": usage.cache_write,
    }))
}

/// Arguments as they stand in a whole answer; those that are broken on purpose as text.
fn input(arguments: &str) -> Value {
    match serde_json::from_str::<Value>(arguments) {
        Ok(input) => input,
        Err(_) if arguments.trim().is_empty() => Value::Object(Map::new()),
        Err(_) => arguments.into(),
    }
}

/// The body of an error.
pub(in crate::host::scripted) fn error_body(error: &ErrorReply) -> String {
    if let Some(body) = &error.body {
        return body.clone();
    }
    let ErrorReply { code, kind, message, .. } = error;
    let mut told = json!({"type": kind.as_ref().or(code.as_ref()), "message": message});
    if let (Some(_), Some(code)) = (kind, code) {
        told["details"] = json!({"error_code": code});
    }
    json!({"type": "error", "error": told}).to_string()
}
