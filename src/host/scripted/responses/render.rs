//! Replies of a script as the Responses API writes them.

use serde_json::{Map, Value, json};

use crate::host::scripted::render::AnswerRendering;
use crate::host::scripted::script::ErrorReply;

/// The field of a reply's `extra` that becomes an item of reasoning.
const REASONING: &str = "reasoning_content";
/// The field that becomes a part of the message.
const REFUSAL: &str = "refusal";
/// All reasoning, sealed; a real one is longer.
pub(super) const SEALED: &str = "c2NyaXB0ZWQ=";

/// The whole answer as one body.
pub(in crate::host::scripted) fn body(rendering: &AnswerRendering<'_>) -> String {
    ended(rendering).to_string()
}

/// The response as it ends.
pub(super) fn ended(rendering: &AnswerRendering<'_>) -> Value {
    let mut response = begun(rendering);
    response["output"] = items(rendering).into();
    response["usage"] = usage(rendering).unwrap_or_default();
    let (status, reason) = status(rendering.answer.finish_reason());
    response["status"] = status.into();
    if status == "failed" {
        let message = format!("the model stopped with `{}`", rendering.answer.finish_reason());
        response["error"] = json!({"code": "server_error", "message": message});
    }
    if let Some(reason) = reason {
        response["incomplete_details"] = json!({ "reason": reason });
    }
    response
}

/// The response as it begins.
pub(super) fn begun(rendering: &AnswerRendering<'_>) -> Value {
    json!({
        "id": format!("resp_{}", rendering.number), "object": "response", "created_at": 0,
        "status": "in_progress", "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "model": rendering.model, "output": [], "parallel_tool_calls": true,
        "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null, "usage": null,
    })
}

/// How the response ends, and why, in the API's words.
pub(super) fn status(said: &str) -> (&'static str, Option<&str>) {
    match said {
        "stop" | "tool_calls" | "completed" => ("completed", None),
        "error" | "failed" => ("failed", None),
        "length" => ("incomplete", Some("max_output_tokens")),
        other => ("incomplete", Some(other)),
    }
}

/// The items of the answer: what the model thought, said and calls.
pub(super) fn items(rendering: &AnswerRendering<'_>) -> Vec<Value> {
    let calls = rendering.answer.calls.iter().enumerate().map(|(at, call)| {
        json!({
            "type": "function_call", "id": format!("fc_{}_{}", rendering.number, at + 1),
            "call_id": rendering.call_id(at), "name": call.name, "arguments": call.arguments,
            "status": "completed",
        })
    });
    reasoning(rendering).into_iter().chain(message(rendering)).chain(calls).collect()
}

fn reasoning(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let text = rendering.answer.extra.get(REASONING)?.as_str()?;
    let summary = json!([{"type": "summary_text", "text": text}]);
    let id = format!("rs_{}", rendering.number);
    Some(json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": SEALED}))
}

/// The message; there is none if the model only calls tools.
fn message(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let answer = rendering.answer;
    let mut content = Vec::new();
    let refusal = answer.extra.get(REFUSAL);
    if !answer.text.is_empty() || (answer.calls.is_empty() && refusal.is_none()) {
        content.push(json!({"type": "output_text", "text": answer.text, "annotations": []}));
    }
    content.extend(refusal.map(|refusal| json!({"type": "refusal", "refusal": refusal})));
    if content.is_empty() {
        return None;
    }
    let id = format!("msg_{}", rendering.number);
    let mut message: Map<String, Value> = [
        ("type".to_owned(), json!("message")),
        ("id".to_owned(), json!(id)),
        ("role".to_owned(), json!("assistant")),
        ("status".to_owned(), json!("completed")),
        ("content".to_owned(), content.into()),
    ]
    .into_iter()
    .collect();
    let more = answer.extra.iter().filter(|(field, _)| ![REASONING, REFUSAL].contains(&field.as_str()));
    message.extend(more.map(|(field, value)| (field.clone(), value.clone())));
    Some(Value::Object(message))
}

fn usage(rendering: &AnswerRendering<'_>) -> Option<Value> {
    let usage = rendering.answer.usage?;
    Some(json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    }))
}

/// An error as an event of a stream, where its fields have no object of their own (`response_error_event.py` of `OpenAI`'s
/// SDK).
pub(in crate::host::scripted) fn error_event(error: &ErrorReply) -> String {
    if let Some(body) = &error.body {
        return body.clone();
    }
    let ErrorReply { code, message, .. } = error;
    json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 0})
        .to_string()
}
