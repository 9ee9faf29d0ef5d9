//! From a reply to the events of one of Anthropic's messages.

use serde_json::{Value, json};

use super::reply::{message, stop_reason, tool_use, usage};
use crate::engine::ModelReply;
use crate::host::model::front::{ReplyHead, ReplyWriter, on_one_line};
use crate::host::model::wire::sent_input;
use crate::session::Usage;

/// The events of one message.
pub(in crate::host::model::front) struct MessagesStream {
    head: ReplyHead,
    has_begun: bool,
    /// Whether the block of the text, which is the first, is open.
    in_text: bool,
}

impl MessagesStream {
    pub(in crate::host::model::front) const fn new(head: ReplyHead) -> Self {
        Self { head, has_begun: false, in_text: false }
    }

    fn begin(&mut self) -> String {
        if core::mem::replace(&mut self.has_begun, true) {
            return String::new();
        }
        // How many tokens it were is known at the end.
        let message = message(&self.head, &[], &usage(Usage::default()));
        event("message_start", json!({"message": message}))
    }
}

impl ReplyWriter for MessagesStream {
    /// Anthropic's own word for it (`ping` in "Streaming messages").
    fn still(&self) -> String {
        event("ping", json!({}))
    }

    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let mut events = self.begin();
        if !core::mem::replace(&mut self.in_text, true) {
            events += &start(0, &json!({"type": "text", "text": ""}));
        }
        events + &delta(0, &json!({"type": "text_delta", "text": text}))
    }

    fn end(&mut self, reply: &ModelReply) -> String {
        let mut events = self.begin();
        let mut index = 0_usize;
        if core::mem::take(&mut self.in_text) {
            events += &stop(index);
            index += 1;
        }
        for proposed in &reply.calls {
            let input = sent_input(&proposed.call.arguments).to_string();
            events += &start(index, &tool_use(proposed, &json!({})));
            events += &delta(index, &json!({"type": "input_json_delta", "partial_json": input}));
            events += &stop(index);
            index += 1;
        }
        let ended = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
        let tokens = usage(reply.usage.unwrap_or_default());
        events += &event("message_delta", json!({"delta": ended, "usage": tokens}));
        events + &event("message_stop", json!({}))
    }
}

fn start(index: usize, block: &Value) -> String {
    event("content_block_start", json!({"index": index, "content_block": block}))
}

fn delta(index: usize, delta: &Value) -> String {
    event("content_block_delta", json!({"index": index, "delta": delta}))
}

fn stop(index: usize) -> String {
    event("content_block_stop", json!({"index": index}))
}

fn event(name: &str, mut data: Value) -> String {
    data["type"] = name.into();
    format!("event: {name}\ndata: {}\n\n", on_one_line(&data))
}
