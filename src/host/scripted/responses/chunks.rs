//! Replies of a script in pieces, as the Responses API streams them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::render::{begun, ended, items, status};
use crate::host::scripted::chunks::{ARGUMENTS_PIECE, AnswerChunks, TEXT_PIECE, pieces};
use crate::host::scripted::render::AnswerRendering;

/// The events of an answer.
pub(in crate::host::scripted) fn chunks(rendering: &AnswerRendering<'_>) -> AnswerChunks {
    let mut events = NumberedEvents::default();
    for name in ["response.created", "response.in_progress"] {
        events.push(name, json!({ "response": begun(rendering) }));
    }
    for (index, item) in items(rendering).iter().enumerate() {
        let mut begun = item.clone();
        if item.get("status").is_some() {
            begun["status"] = "in_progress".into();
        }
        let place = json!({"output_index": index, "item_id": item["id"]});
        match item["type"].as_str() {
            Some("reasoning") => {
                begun["summary"] = json!([]);
                events.added(index, &begun);
                events.summary(&place, item);
            }
            Some("function_call") => {
                begun["arguments"] = "".into();
                events.added(index, &begun);
                let field = ("arguments", item["arguments"].as_str().unwrap_or_default());
                events.text("response.function_call_arguments", &place, field, ARGUMENTS_PIECE);
            }
            _ => {
                begun["content"] = json!([]);
                events.added(index, &begun);
                events.message(&place, item);
            }
        }
        events.push("response.output_item.done", json!({"output_index": index, "item": item}));
    }
    let before_end = events.texts.len();
    let end = format!("response.{}", status(rendering.answer.finish_reason()).0);
    events.push(&end, json!({ "response": ended(rendering) }));
    AnswerChunks { events: events.texts.into_iter().map(Bytes::from).collect(), before_end }
}

#[derive(Default)]
struct NumberedEvents {
    texts: Vec<String>,
}

impl NumberedEvents {
    fn push(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.texts.len().into();
        self.texts.push(format!("event: {name}\ndata: {data}\n\n"));
    }

    fn added(&mut self, index: usize, item: &Value) {
        self.push("response.output_item.added", json!({"output_index": index, "item": item}));
    }

    fn message(&mut self, place: &Value, item: &Value) {
        for (at, part) in item["content"].as_array().into_iter().flatten().enumerate() {
            let (name, field) = match part["type"].as_str() {
                Some("refusal") => ("response.refusal", "refusal"),
                _ => ("response.output_text", "text"),
            };
            let mut place = place.clone();
            place["content_index"] = at.into();
            let mut begun = part.clone();
            begun[field] = "".into();
            self.push("response.content_part.added", with(&place, "part", begun));
            let text = part[field].as_str().unwrap_or_default();
            self.text(name, &place, (field, text), TEXT_PIECE);
            self.push("response.content_part.done", with(&place, "part", part.clone()));
        }
    }

    fn summary(&mut self, place: &Value, item: &Value) {
        for (at, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            let mut place = place.clone();
            place["summary_index"] = at.into();
            let mut begun = part.clone();
            begun["text"] = "".into();
            self.push("response.reasoning_summary_part.added", with(&place, "part", begun));
            let text = part["text"].as_str().unwrap_or_default();
            self.text("response.reasoning_summary_text", &place, ("text", text), TEXT_PIECE);
            self.push("response.reasoning_summary_part.done", with(&place, "part", part.clone()));
        }
    }

    /// A text in pieces, and then all of it in a field.
    fn text(&mut self, name: &str, place: &Value, (field, text): (&str, &str), size: usize) {
        for piece in pieces(text, size) {
            self.push(&format!("{name}.delta"), with(place, "delta", piece.into()));
        }
        self.push(&format!("{name}.done"), with(place, field, text.into()));
    }
}

fn with(place: &Value, field: &str, value: Value) -> Value {
    let mut data = place.clone();
    data[field] = value;
    data
}
