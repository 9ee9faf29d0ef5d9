//! Replies of a script as Gemini's API writes them.

use serde_json::{Value, json};

use crate::host::scripted::render::AnswerRendering;
use crate::host::scripted::script::ErrorReply;

/// The field of a reply's `extra` that becomes a thought.
const REASONING: &str = "reasoning_content";
/// The signature of all thoughts; a real one is longer.
pub(super) const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// The whole answer as one body.
pub(in crate::host::scripted) fn body(rendering: &AnswerRendering<'_>) -> String {
    let mut whole = answer(rendering, &parts(rendering));
    end(rendering, &mut whole);
    whole.to_string()
}

/// An answer with these parts that has not ended.
pub(super) fn answer(rendering: &AnswerRendering<'_>, parts: &[Value]) -> Value {
    let content = json!({"role": "model", "parts": parts});
    let id = format!("scripted-{}", rendering.number);
    json!({"candidates": [{"content": content, "index": 0}], "modelVersion": rendering.model, "responseId": id})
}

/// Adds why the model stopped, and the tokens.
pub(super) fn end(rendering: &AnswerRendering<'_>, answer: &mut Value) {
    answer["candidates"][0]["finishReason"] = finish_reason(rendering.answer.finish_reason()).into();
    if let Some(usage) = rendering.answer.usage {
        answer["usageMetadata"] = json!({
            "promptTokenCount": usage.input, "cachedContentTokenCount": usage.cache_read,
            "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
            "thoughtsTokenCount": usage.reasoning, "totalTokenCount": usage.total(),
        });
    }
}

/// The parts of the answer: what the model thought, said and calls. A model that thinks signs its first call.
pub(super) fn parts(rendering: &AnswerRendering<'_>) -> Vec<Value> {
    let answer = rendering.answer;
    let thought = answer.extra.get(REASONING).and_then(Value::as_str);
    let mut parts: Vec<Value> =
        thought.map(|text| json!({"text": text, "thought": true})).into_iter().collect();
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}));
    }
    for (at, call) in answer.calls.iter().enumerate() {
        let args = args(&call.arguments);
        let mut part =
            json!({"functionCall": {"id": rendering.call_id(at), "name": call.name, "args": args}});
        if thought.is_some() && at == 0 {
            part["thoughtSignature"] = SIGNATURE.into();
        }
        parts.push(part);
    }
    parts
}

/// Why the model stopped, in the API's words where the script uses those of others.
fn finish_reason(said: &str) -> &str {
    match said {
        "stop" | "tool_calls" => "STOP",
        "length" => "MAX_TOKENS",
        "content_filter" => "SAFETY",
        other => other,
    }
}

/// Arguments as they stand in an answer; those that are broken on purpose as text.
fn args(arguments: &str) -> Value {
    match serde_json::from_str::<Value>(arguments) {
        Ok(args @ Value::Object(_)) => args,
        _ if arguments.trim().is_empty() => json!({}),
        _ => arguments.into(),
    }
}

/// The body of an error.
pub(in crate::host::scripted) fn error_body(error: &ErrorReply) -> String {
    if let Some(body) = &error.body {
        return body.clone();
    }
    let ErrorReply { status, code, kind, message, .. } = error;
    let code = code.as_ref().map_or_else(|| json!(status), |code| json!(code));
    json!({"error": {"code": code, "message": message, "status": kind}}).to_string()
}
