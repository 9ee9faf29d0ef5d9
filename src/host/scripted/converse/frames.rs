//! Replies of a script in pieces, as `ConverseStream` sends them: a frame each (smithy.io, "Amazon Event Stream Specification").

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use bytes::Bytes;
use serde_json::{Value, json};

use super::render::{blocks, error_body, stop_reason, usage};
use crate::host::scripted::chunks::{ARGUMENTS_PIECE, AnswerChunks, TEXT_PIECE, pieces};
use crate::host::scripted::render::AnswerRendering;
use crate::host::scripted::script::ErrorReply;

/// The events of an answer. Blocks of text and of reasoning begin without saying so, and the tokens follow the end.
pub(in crate::host::scripted) fn chunks(rendering: &AnswerRendering<'_>) -> AnswerChunks {
    let mut events = vec![event("messageStart", &json!({"role": "assistant"}).to_string())];
    for (index, block) in blocks(rendering).iter().enumerate() {
        let mut push = |kind: &str, mut payload: Value| {
            payload["contentBlockIndex"] = index.into();
            events.push(event(kind, &payload.to_string()));
        };
        if let Some(tool) = block.get("toolUse") {
            let begun = json!({"toolUseId": tool["toolUseId"], "name": tool["name"]});
            push("contentBlockStart", json!({"start": {"toolUse": begun}}));
        }
        for delta in deltas(rendering, block) {
            push("contentBlockDelta", json!({ "delta": delta }));
        }
        push("contentBlockStop", json!({}));
    }
    let before_end = events.len();
    let stop = json!({"stopReason": stop_reason(rendering.answer.finish_reason())});
    events.push(event("messageStop", &stop.to_string()));
    let mut metadata = json!({"metrics": {"latencyMs": 1}});
    if let Some(usage) = usage(rendering) {
        metadata["usage"] = usage;
    }
    events.push(event("metadata", &metadata.to_string()));
    AnswerChunks { events, before_end }
}

/// A block in pieces.
fn deltas(rendering: &AnswerRendering<'_>, block: &Value) -> Vec<Value> {
    if let Some(text) = block["text"].as_str() {
        return pieces(text, TEXT_PIECE).iter().map(|text| json!({ "text": text })).collect();
    }
    if let Some(reasoning) = block.pointer("/reasoningContent/reasoningText") {
        let text = reasoning["text"].as_str().unwrap_or_default();
        let texts = pieces(text, TEXT_PIECE).into_iter().map(|text| json!({ "text": text }));
        let signed = [json!({"signature": reasoning["signature"]})];
        return texts.chain(signed).map(|piece| json!({ "reasoningContent": piece })).collect();
    }
    // As the script has them: they may be broken on purpose.
    let id = &block["toolUse"]["toolUseId"];
    let mut calls = rendering.answer.calls.iter().enumerate();
    let arguments =
        calls.find(|(at, _)| *id == rendering.call_id(*at)).map(|(_, call)| call.arguments.as_str());
    let pieces = pieces(arguments.unwrap_or_default(), ARGUMENTS_PIECE);
    pieces.iter().map(|input| json!({"toolUse": {"input": input}})).collect()
}

/// A frame that is an event.
pub(super) fn event(kind: &str, payload: &str) -> Bytes {
    frame(
        &[(":message-type", "event"), (":event-type", kind), (":content-type", "application/json")],
        payload,
    )
}

/// A frame that is an exception.
pub(super) fn exception(error: &ErrorReply) -> Bytes {
    let kind = error.kind.as_deref().or(error.code.as_deref()).unwrap_or("internalServerException");
    let headers =
        [(":message-type", "exception"), (":exception-type", kind), (":content-type", "application/json")];
    frame(&headers, &error_body(error))
}

fn frame(headers: &[(&'static str, &str)], payload: &str) -> Bytes {
    let frame = headers.iter().fold(Frame::new(payload.as_bytes().to_vec()), |frame, (name, value)| {
        frame.add_header(Header::new(*name, HeaderValue::String((*value).to_owned().into())))
    });
    let mut bytes = Vec::new();
    match write_message_to(&frame, &mut bytes) {
        Ok(()) => bytes.into(),
        // A header of the script is too long for a frame. The client reads a stream that ends here.
        Err(error) => {
            tracing::warn!(%error, "an event of the script does not fit into a frame");
            Bytes::new()
        }
    }
}
