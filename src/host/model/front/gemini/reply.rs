//! From a reply to an answer of `generateContent`.

use serde_json::{Value, json};

use crate::engine::{FinishReason, ModelReply, ProposedCall};
use crate::host::model::front::ReplyHead;
use crate::host::model::wire::gemini::STAND_IN;
use crate::host::model::wire::sent_input;
use crate::session::Usage;

/// The body.
pub(in crate::host::model::front) fn body(head: &ReplyHead, reply: &ModelReply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({"text": reply.text}));
    let parts: Vec<Value> = text.into_iter().chain(calls(reply)).collect();
    last(head, &parts, reply)
}

/// A piece of an answer, with these parts.
pub(super) fn piece(head: &ReplyHead, parts: &[Value]) -> Value {
    let content = json!({"role": "model", "parts": parts});
    json!({
        "candidates": [{"content": content, "index": 0}], "modelVersion": head.model, "responseId": head.id,
    })
}

/// The last piece of an answer, or all of it.
pub(super) fn last(head: &ReplyHead, parts: &[Value], reply: &ModelReply) -> Value {
    let mut piece = piece(head, parts);
    piece["candidates"][0]["finishReason"] = finish_reason(reply).into();
    if let Some(reported) = reply.usage {
        piece["usageMetadata"] = usage(reported);
    }
    piece
}

/// The calls as parts.
pub(super) fn calls(reply: &ModelReply) -> impl Iterator<Item = Value> {
    reply.calls.iter().enumerate().map(|(at, proposed): (usize, &ProposedCall)| {
        let call = &proposed.call;
        let mut part =
            json!({"functionCall": {"id": call.id, "name": call.name, "args": sent_input(&call.arguments)}});
        // The next turn may be Gemini's, which wants a signature of the first call.
        if at == 0 {
            part["thoughtSignature"] = STAND_IN.into();
        }
        part
    })
}

/// Why the model stopped. An unknown word stays the word it is: `STOP` would pass it for an end.
fn finish_reason(reply: &ModelReply) -> &str {
    match &reply.finish {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Unsaid => "STOP",
        FinishReason::Length | FinishReason::ContextWindow => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
        FinishReason::Other(word) => word,
    }
}

/// The tokens: those of thoughts are not among those of the candidates here.
fn usage(usage: Usage) -> Value {
    let Usage { input, output, cache_read, reasoning, .. } = usage;
    json!({
        "promptTokenCount": input, "cachedContentTokenCount": cache_read,
        "candidatesTokenCount": output.saturating_sub(reasoning), "thoughtsTokenCount": reasoning,
        "totalTokenCount": input.saturating_add(output),
    })
}
