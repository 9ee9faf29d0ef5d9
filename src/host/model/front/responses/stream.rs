//! From a reply to the events of a streamed response.

use serde_json::{Value, json};

use super::reply::{ResponseHead, message, output, part, status};
use crate::engine::ModelReply;
use crate::host::model::front::{ReplyWriter, on_one_line};

/// The events of one response.
pub(in crate::host::model::front) struct ResponsesStream {
    head: ResponseHead,
    /// How many events there were.
    sent: u64,
    /// What the message says so far, which is the first item if there is one.
    said: String,
}

impl ResponsesStream {
    pub(in crate::host::model::front) const fn new(head: ResponseHead) -> Self {
        Self { head, sent: 0, said: String::new() }
    }

    fn event(&mut self, name: &str, mut data: Value) -> String {
        data["type"] = name.into();
        data["sequence_number"] = self.sent.into();
        self.sent = self.sent.saturating_add(1);
        format!("event: {name}\ndata: {}\n\n", on_one_line(&data))
    }

    fn begin(&mut self) -> String {
        if self.sent > 0 {
            return String::new();
        }
        let response = self.head.begun();
        let created = self.event("response.created", json!({"response": response}));
        created + &self.event("response.in_progress", json!({"response": response}))
    }

    fn begin_message(&mut self) -> String {
        let item = message(&self.head.head, "in_progress", &[]);
        let part = json!({"item_id": item["id"], "output_index": 0, "content_index": 0, "part": part("")});
        let added = self.event("response.output_item.added", json!({"output_index": 0, "item": item}));
        added + &self.event("response.content_part.added", part)
    }

    /// The end of an item that is a message.
    fn end_message(&mut self, index: usize, item: &Value) -> String {
        let place = json!({"item_id": item["id"], "output_index": index, "content_index": 0});
        let (mut text, mut part) = (place.clone(), place);
        (text["text"], text["logprobs"]) = (self.said.as_str().into(), json!([]));
        part["part"] = item["content"][0].clone();
        let events = self.event("response.output_text.done", text);
        events + &self.event("response.content_part.done", part)
    }

    /// All of an item that is a call but for its end.
    fn call(&mut self, index: usize, item: &Value) -> String {
        let (field, of_field) = if item["type"] == "custom_tool_call" {
            ("input", "response.custom_tool_call_input")
        } else {
            ("arguments", "response.function_call_arguments")
        };
        let mut open = item.clone();
        (open[field], open["status"]) = ("".into(), "in_progress".into());
        let place = json!({"item_id": item["id"], "output_index": index});
        let (mut delta, mut done) = (place.clone(), place);
        delta["delta"] = item[field].clone();
        done[field] = item[field].clone();
        if field == "arguments" {
            done["name"] = item["name"].clone();
        }
        let events = self.event("response.output_item.added", json!({"output_index": index, "item": open}));
        let events = events + &self.event(&format!("{of_field}.delta"), delta);
        events + &self.event(&format!("{of_field}.done"), done)
    }
}

impl ReplyWriter for ResponsesStream {
    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let mut events = self.begin();
        if self.said.is_empty() {
            events += &self.begin_message();
        }
        self.said.push_str(text);
        let item = message(&self.head.head, "in_progress", &[]);
        let delta = json!({
            "item_id": item["id"], "output_index": 0, "content_index": 0, "delta": text, "logprobs": [],
        });
        events + &self.event("response.output_text.delta", delta)
    }

    fn end(&mut self, reply: &ModelReply) -> String {
        let mut events = self.begin();
        let items = output(&self.head, &self.said, reply);
        for (index, item) in items.iter().enumerate() {
            events += &if item["type"] == "message" {
                self.end_message(index, item)
            } else {
                self.call(index, item)
            };
            events += &self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        }
        let response = self.head.ended(reply, items);
        events + &self.event(&format!("response.{}", status(reply)), json!({"response": response}))
    }
}
