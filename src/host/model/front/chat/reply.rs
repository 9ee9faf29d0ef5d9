//! From a reply to the body of a chat completion.

use serde_json::{Value, json};

use crate::engine::{FinishReason, ModelReply, ProposedCall};
use crate::host::model::front::ReplyHead;
use crate::session::Usage;

/// The body.
pub(in crate::host::model::front) fn body(head: &ReplyHead, reply: &ModelReply) -> Value {
    // Clients take a text for an answer and null for none.
    let content = if reply.text.is_empty() && !reply.calls.is_empty() { None } else { Some(&reply.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !reply.calls.is_empty() {
        message["tool_calls"] = reply.calls.iter().map(call).collect();
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply)});
    let mut body = json!({
        "id": id(head), "object": "chat.completion", "created": head.created, "model": head.model, "choices": [choice],
    });
    if let Some(reported) = reply.usage {
        body["usage"] = usage(reported);
    }
    body
}

/// The id of a completion.
pub(super) fn id(head: &ReplyHead) -> String {
    format!("chatcmpl-{}", head.id)
}

/// A call.
pub(super) fn call(proposed: &ProposedCall) -> Value {
    let call = &proposed.call;
    // A model may leave out the arguments of a tool that has none; clients read JSON.
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// Why the model stopped. An unknown word stays the word it is: `stop` would pass it for an end.
pub(super) fn finish_reason(reply: &ModelReply) -> &str {
    match &reply.finish {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Unsaid => {
            if reply.calls.is_empty() {
                "stop"
            } else {
                "tool_calls"
            }
        }
        FinishReason::Length | FinishReason::ContextWindow => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Other(word) => word,
    }
}

/// The tokens.
pub(super) fn usage(usage: Usage) -> Value {
    let Usage { input, output, cache_read, cache_write, reasoning } = usage;
    json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": cache_read, "cache_write_tokens": cache_write},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    })
}
