//! From a reply to the chunks of a streamed chat completion.

use serde_json::{Value, json};

use super::reply::{call, finish_reason, id, usage};
use crate::engine::ModelReply;
use crate::host::model::front::{ReplyHead, ReplyWriter, on_one_line};

/// The chunks of one completion.
pub(in crate::host::model::front) struct ChatStream {
    head: ReplyHead,
    /// Whether the client wants the tokens.
    counts: bool,
    has_begun: bool,
}

impl ChatStream {
    pub(in crate::host::model::front) const fn new(head: ReplyHead, counts: bool) -> Self {
        Self { head, counts, has_begun: false }
    }

    fn chunk(&self, choices: &Value, tokens: Value) -> String {
        let ReplyHead { model, created, .. } = &self.head;
        let mut chunk = json!({
            "id": id(&self.head), "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices,
        });
        if self.counts {
            chunk["usage"] = tokens;
        }
        format!("data: {}\n\n", on_one_line(&chunk))
    }

    fn delta(&self, delta: &Value, reason: Option<&str>) -> String {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
        self.chunk(&json!([choice]), Value::Null)
    }

    fn begin(&mut self) -> String {
        if core::mem::replace(&mut self.has_begun, true) {
            return String::new();
        }
        self.delta(&json!({"role": "assistant", "content": ""}), None)
    }
}

impl ReplyWriter for ChatStream {
    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        self.begin() + &self.delta(&json!({"content": text}), None)
    }

    fn end(&mut self, reply: &ModelReply) -> String {
        let mut events = self.begin();
        for (index, proposed) in reply.calls.iter().enumerate() {
            let mut call = call(proposed);
            call["index"] = index.into();
            events += &self.delta(&json!({"tool_calls": [call]}), None);
        }
        events += &self.delta(&json!({}), Some(finish_reason(reply)));
        // A server that has not counted says nothing, and neither does its chunk.
        if let Some(reported) = reply.usage.filter(|_| self.counts) {
            events += &self.chunk(&json!([]), usage(reported));
        }
        events + "data: [DONE]\n\n"
    }
}
