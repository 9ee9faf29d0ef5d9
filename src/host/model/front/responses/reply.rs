//! From a reply to a response.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::custom;
use crate::engine::{FinishReason, ModelReply, ProposedCall};
use crate::host::model::front::ReplyHead;
use crate::session::Usage;

/// What a response says besides what the model said.
pub(in crate::host::model::front) struct ResponseHead {
    pub(in crate::host::model::front) head: ReplyHead,
    /// Fields of the request.
    pub(in crate::host::model::front) repeated: Map<String, Value>,
    /// The namespace and the name of tools, by the name that stands for both.
    pub(in crate::host::model::front) namespaced: BTreeMap<String, (String, String)>,
    /// The tools that take a text.
    pub(in crate::host::model::front) customs: BTreeSet<String>,
}

/// The body.
pub(in crate::host::model::front) fn body(head: &ResponseHead, reply: &ModelReply) -> Value {
    head.ended(reply, output(head, &reply.text, reply))
}

impl ResponseHead {
    /// A response that has not ended.
    pub(super) fn begun(&self) -> Value {
        let ReplyHead { id, model, created } = &self.head;
        // All that its type requires; of what the client did not say, what holds then (`response.py` of the SDK).
        let mut response = json!({
            "id": format!("resp_{id}"), "object": "response", "created_at": created, "status": "in_progress",
            "background": false, "error": null, "incomplete_details": null, "instructions": null,
            "max_output_tokens": null, "model": model, "output": [], "parallel_tool_calls": true,
            "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "store": false,
            "temperature": null, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
            "top_p": null, "truncation": "disabled", "usage": null, "metadata": {},
        });
        for (field, value) in &self.repeated {
            response[field] = value.clone();
        }
        response
    }

    /// A response whose model has stopped.
    pub(super) fn ended(&self, reply: &ModelReply, output: Vec<Value>) -> Value {
        let mut response = self.begun();
        response["status"] = status(reply).into();
        response["incomplete_details"] =
            unfinished(reply).map_or(Value::Null, |reason| json!({"reason": reason}));
        response["output"] = output.into();
        response["usage"] = reply.usage.map_or(Value::Null, usage);
        response
    }
}

/// The items of a response that says that text.
pub(super) fn output(head: &ResponseHead, text: &str, reply: &ModelReply) -> Vec<Value> {
    let said = (!text.is_empty()).then(|| message(&head.head, "completed", &[part(text)]));
    let calls = reply.calls.iter().enumerate().map(|(at, proposed)| call(head, at, proposed));
    let mut items: Vec<Value> = said.into_iter().chain(calls).collect();
    if let Some(last) = items.last_mut() {
        last["status"] = status(reply).into();
    }
    items
}

/// A message with these parts.
pub(super) fn message(head: &ReplyHead, status: &str, content: &[Value]) -> Value {
    json!({
        "id": format!("msg_{}", head.id), "type": "message", "role": "assistant", "status": status,
        "content": content,
    })
}

/// A part of a message.
pub(super) fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn call(head: &ResponseHead, at: usize, proposed: &ProposedCall) -> Value {
    let call = &proposed.call;
    if head.customs.contains(&call.name) {
        return json!({
            "id": format!("ctc_{}_{at}", head.head.id), "type": "custom_tool_call", "status": "completed",
            "call_id": call.id, "name": call.name, "input": custom::input(&call.arguments),
        });
    }
    // A model may leave out the arguments of a tool that has none; clients read JSON.
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let mut item = json!({
        "id": format!("fc_{}_{at}", head.head.id), "type": "function_call", "status": "completed",
        "call_id": call.id, "name": call.name, "arguments": arguments,
    });
    if let Some((namespace, name)) = head.namespaced.get(&call.name) {
        (item["name"], item["namespace"]) = (name.as_str().into(), namespace.as_str().into());
    }
    item
}

/// How a response ended.
pub(super) fn status(reply: &ModelReply) -> &'static str {
    if unfinished(reply).is_some() { "incomplete" } else { "completed" }
}

/// Why a response is not complete. An unknown word stays the word it is: `completed` would pass it for an end.
fn unfinished(reply: &ModelReply) -> Option<&str> {
    match &reply.finish {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Unsaid => None,
        FinishReason::Length | FinishReason::ContextWindow => Some("max_output_tokens"),
        FinishReason::ContentFilter => Some("content_filter"),
        FinishReason::Other(word) => Some(word),
    }
}

fn usage(usage: Usage) -> Value {
    let Usage { input, output, cache_read, cache_write, reasoning } = usage;
    json!({
        "input_tokens": input, "output_tokens": output, "total_tokens": input.saturating_add(output),
        "input_tokens_details": {"cached_tokens": cache_read, "cache_write_tokens": cache_write},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    })
}
