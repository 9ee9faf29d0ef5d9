//! Replies of a script in pieces, as Anthropic's API streams them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::render::{begun, envelope, stop_reason, thinking, usage};
use crate::host::scripted::chunks::{ARGUMENTS_PIECE, AnswerChunks, TEXT_PIECE, pieces};
use crate::host::scripted::render::AnswerRendering;

/// The events of an answer.
pub(in crate::host::scripted) fn chunks(rendering: &AnswerRendering<'_>) -> AnswerChunks {
    let mut events = EventChunks::default();
    let mut message = envelope(rendering, &[]);
    message["usage"] = start_usage(rendering);
    events.push("message_start", json!({ "message": message }));
    events.push("ping", json!({}));
    if let Some(mut block) = thinking(rendering) {
        let (text, signature) = (block["thinking"].take(), block["signature"].take());
        block["thinking"] = "".into();
        block["signature"] = "".into();
        let text = text.as_str().unwrap_or_default().to_owned();
        let mut deltas: Vec<_> = pieces(&text, TEXT_PIECE)
            .iter()
            .map(|text| json!({"type": "thinking_delta", "thinking": text}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": signature}));
        events.block(&block, deltas);
    }
    if !rendering.answer.text.is_empty() {
        let deltas = pieces(&rendering.answer.text, TEXT_PIECE);
        let deltas = deltas.iter().map(|text| json!({"type": "text_delta", "text": text}));
        events.block(&json!({"type": "text", "text": ""}), deltas);
    }
    for (at, call) in rendering.answer.calls.iter().enumerate() {
        let deltas = pieces(&call.arguments, ARGUMENTS_PIECE);
        let deltas = deltas.iter().map(|json| json!({"type": "input_json_delta", "partial_json": json}));
        events.block(&begun(rendering, at, call), deltas);
    }
    let before_end = events.texts.len();
    let delta = json!({"stop_reason": stop_reason(rendering.answer.finish_reason()), "stop_sequence": null});
    let mut end = json!({ "delta": delta });
    if let Some(usage) = rendering.answer.usage {
        end["usage"] = json!({"output_tokens": usage.output});
    }
    events.push("message_delta", end);
    events.push("message_stop", json!({}));
    AnswerChunks { events: events.texts.into_iter().map(Bytes::from).collect(), before_end }
}

/// What is known of the tokens when the answer begins.
fn start_usage(rendering: &AnswerRendering<'_>) -> Value {
    let mut usage = usage(rendering).unwrap_or_else(|| json!({}));
    if usage.get("output_tokens").is_some() {
        usage["output_tokens"] = 1.into();
    }
    usage
}

#[derive(Default)]
struct EventChunks {
    texts: Vec<String>,
    blocks: u64,
}

impl EventChunks {
    fn push(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        self.texts.push(format!("event: {name}\ndata: {data}\n\n"));
    }

    fn block(&mut self, block: &Value, deltas: impl IntoIterator<Item = Value>) {
        let index = self.blocks;
        self.blocks += 1;
        self.push("content_block_start", json!({"index": index, "content_block": block}));
        for delta in deltas {
            self.push("content_block_delta", json!({"index": index, "delta": delta}));
        }
        self.push("content_block_stop", json!({ "index": index }));
    }
}
