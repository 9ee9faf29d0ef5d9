//! Replies of a script in pieces, as Gemini streams them: each chunk is an answer of its own.

use serde_json::{Value, json};

use super::render::{answer, end, parts};
use crate::host::scripted::chunks::{AnswerChunks, TEXT_PIECE, event, pieces};
use crate::host::scripted::render::AnswerRendering;

/// The events of an answer. Calls come whole.
pub(in crate::host::scripted) fn chunks(rendering: &AnswerRendering<'_>) -> AnswerChunks {
    let mut data = Vec::new();
    for part in parts(rendering) {
        let Some(text) = part["text"].as_str() else {
            data.push(answer(rendering, &[part]));
            continue;
        };
        for piece in pieces(text, TEXT_PIECE) {
            let mut part = part.clone();
            part["text"] = piece.into();
            data.push(answer(rendering, &[part]));
        }
    }
    let before_end = data.len();
    let mut last = answer(rendering, &[json!({"text": ""})]);
    end(rendering, &mut last);
    data.push(last);
    let events = data.iter().map(Value::to_string).map(|data| event(&data).into()).collect();
    AnswerChunks { events, before_end }
}
