//! From a reply to the pieces of a streamed answer.

use serde_json::{Value, json};

use super::reply::{calls, last, piece};
use crate::engine::ModelReply;
use crate::host::model::front::{ReplyHead, ReplyWriter, on_one_line};

/// The pieces of one answer.
pub(in crate::host::model::front) struct GeminiStream(pub(in crate::host::model::front) ReplyHead);

impl ReplyWriter for GeminiStream {
    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        event(&piece(&self.0, &[json!({"text": text})]))
    }

    fn end(&mut self, reply: &ModelReply) -> String {
        let calls: Vec<Value> = calls(reply).collect();
        event(&last(&self.0, &calls, reply))
    }

    /// Google's SDK takes a comment for an error (`_iter_response_stream` in `_api_client.py`).
    fn still(&self) -> String {
        event(&piece(&self.0, &[json!({"text": ""})]))
    }
}

fn event(data: &Value) -> String {
    format!("data: {}\n\n", on_one_line(data))
}
