//! From a reply to the body of one of Anthropic's messages.

use serde_json::{Value, json};

use crate::engine::{FinishReason, ModelReply, ProposedCall};
use crate::host::model::front::ReplyHead;
use crate::host::model::wire::sent_input;
use crate::session::Usage;

/// The body.
pub(in crate::host::model::front) fn body(head: &ReplyHead, reply: &ModelReply) -> Value {
    let text = Some(&reply.text).filter(|text| !text.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let calls = reply.calls.iter().map(|proposed| tool_use(proposed, &sent_input(&proposed.call.arguments)));
    let content: Vec<Value> = text.into_iter().chain(calls).collect();
    let mut message = message(head, &content, &usage(reply.usage.unwrap_or_default()));
    message["stop_reason"] = stop_reason(reply).into();
    message
}

/// A message that has not stopped.
pub(super) fn message(head: &ReplyHead, content: &[Value], usage: &Value) -> Value {
    json!({
        "id": format!("msg_{}", head.id), "type": "message", "role": "assistant", "model": head.model,
        "content": content, "stop_reason": null, "stop_sequence": null, "usage": usage,
    })
}

/// A call with that input.
pub(super) fn tool_use(proposed: &ProposedCall, input: &Value) -> Value {
    json!({"type": "tool_use", "id": proposed.call.id, "name": proposed.call.name, "input": input})
}

/// Why the model stopped. An unknown word stays the word it is: `end_turn` would pass it for an end.
pub(super) fn stop_reason(reply: &ModelReply) -> &str {
    match &reply.finish {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Unsaid => {
            if reply.calls.is_empty() {
                "end_turn"
            } else {
                "tool_use"
            }
        }
        FinishReason::Length => "max_tokens",
        FinishReason::ContextWindow => "model_context_window_exceeded",
        FinishReason::ContentFilter => "refusal",
        FinishReason::Other(word) => word,
    }
}

/// The tokens: those of a cache are not among those of the input here.
pub(super) fn usage(usage: Usage) -> Value {
    let Usage { input, output, cache_read, cache_write, reasoning } = usage;
    json!({
        "input_tokens": input.saturating_sub(cache_read).saturating_sub(cache_write),
        "cache_creation_input_tokens": cache_write, "cache_read_input_tokens": cache_read, "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": reasoning},
    })
}
