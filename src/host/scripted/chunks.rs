//! Replies of a script in pieces, as a model streams them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::render::AnswerRendering;

/// The sizes, in characters, of the pieces a streamed text and streamed arguments are cut into.
pub(super) const TEXT_PIECE: usize = 12;
pub(super) const ARGUMENTS_PIECE: usize = 8;

/// A streamed answer.
pub(super) struct AnswerChunks {
    /// Its events as they are sent, in order.
    pub(super) events: Vec<Bytes>,
    /// How many of them come before the reason to stop.
    pub(super) before_end: usize,
}

impl AnswerChunks {
    /// The pieces of `rendering`, each as a server sends it.
    pub(super) fn of(rendering: &AnswerRendering<'_>, include_usage: bool) -> Self {
        let mut data = vec![delta(rendering, &json!({"role": "assistant", "content": ""}))];
        for (field, value) in &rendering.answer.extra {
            data.push(delta(
                rendering,
                &Value::Object([(field.clone(), value.clone())].into_iter().collect()),
            ));
        }
        data.extend(
            pieces(&rendering.answer.text, TEXT_PIECE)
                .iter()
                .map(|text| delta(rendering, &json!({"content": text}))),
        );
        for (at, call) in rendering.answer.calls.iter().enumerate() {
            let first = json!({
                "index": at, "id": rendering.call_id(at), "type": "function",
                "function": {"name": call.name, "arguments": ""},
            });
            data.push(delta(rendering, &json!({"tool_calls": [first]})));
            for piece in pieces(&call.arguments, ARGUMENTS_PIECE) {
                let more = json!({"index": at, "function": {"arguments": piece}});
                data.push(delta(rendering, &json!({"tool_calls": [more]})));
            }
        }
        let before_end = data.len();
        let mut end = rendering.envelope("chat.completion.chunk");
        end["choices"] =
            json!([{"index": 0, "delta": {}, "finish_reason": rendering.answer.finish_reason()}]);
        data.push(end.to_string());
        if let Some(usage) = rendering.usage().filter(|_| include_usage) {
            let mut last = rendering.envelope("chat.completion.chunk");
            last["choices"] = json!([]);
            last["usage"] = usage;
            data.push(last.to_string());
        }
        data.push("[DONE]".to_owned());
        Self { events: data.iter().map(|data| event(data).into()).collect(), before_end }
    }

    /// The part that comes before a stream breaks: about half, never the end.
    pub(super) fn half(self) -> Vec<Bytes> {
        let mut events = self.events;
        events.truncate(self.before_end.div_ceil(2));
        events
    }
}

/// An event of a stream.
pub(super) fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn delta(rendering: &AnswerRendering<'_>, delta: &Value) -> String {
    let mut chunk = rendering.envelope("chat.completion.chunk");
    chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    chunk.to_string()
}

/// The text in pieces of so many characters.
pub(super) fn pieces(text: &str, size: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(size).map(|piece| piece.iter().collect()).collect()
}
