//! Streams of one text in every dialect, as their servers send them, for `benches/decode.rs`.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::host::model::answer::HttpAnswer;
use crate::host::model::wire::{StreamProgress, WireFormat};

/// The dialects; the first is chat completions.
pub const DIALECTS: &[&str] = &[
    "chat",
    "messages",
    "responses",
    "gemini",
    #[cfg(feature = "bedrock")]
    "converse",
];
const WORD: &str = "word ";

/// A stream of that dialect that says so many words, one in a chunk: each chunk as it is on the wire.
pub fn streamed(dialect: &str, words: usize) -> Vec<Vec<u8>> {
    match dialect {
        "messages" => messages(words),
        "responses" => responses(words),
        "gemini" => gemini(words),
        #[cfg(feature = "bedrock")]
        "converse" => converse(words),
        _ => chat(words),
    }
}

/// What a stream of that dialect says; `None`: it is no answer.
pub fn decoded(dialect: &str, stream: &[Vec<u8>]) -> Option<String> {
    let format: Box<dyn WireFormat> = match dialect {
        "messages" => Box::new(super::messages()),
        "responses" => Box::new(super::responses()),
        "gemini" => Box::new(super::gemini()),
        #[cfg(feature = "bedrock")]
        "converse" => Box::new(super::converse()),
        _ => Box::new(super::chat()),
    };
    let is_sse = stream.first()?.is_ascii();
    let kind = if is_sse { "text/event-stream" } else { "application/vnd.amazon.eventstream" };
    let headers: HeaderMap = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
    let mut answer = HttpAnswer::announced_by(&headers);
    for chunk in stream {
        if answer.take(&*format, chunk, &headers).ok()? == StreamProgress::Done {
            break;
        }
    }
    answer.reply(&*format, &headers, &[]).ok().map(|reply| reply.text)
}

fn repeated(chunk: Vec<u8>, words: usize) -> impl Iterator<Item = Vec<u8>> {
    std::iter::repeat_n(chunk, words)
}

fn event(kind: &str, mut data: Value) -> Vec<u8> {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n").into_bytes()
}

fn chat(words: usize) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        let data = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "system_fingerprint": "fp_1", "choices": [choice],
        });
        format!("data: {data}\n\n").into_bytes()
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    chunks.extend(repeated(chunk(json!({"content": WORD}), Value::Null), words));
    chunks.extend([chunk(json!({}), json!("stop")), b"data: [DONE]\n\n".to_vec()]);
    chunks
}

fn messages(words: usize) -> Vec<Vec<u8>> {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    });
    let mut chunks = vec![
        event("message_start", json!({ "message": message })),
        event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
    ];
    let delta = json!({"index": 0, "delta": {"type": "text_delta", "text": WORD}});
    chunks.extend(repeated(event("content_block_delta", delta), words));
    let end =
        json!({"delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 20}});
    chunks.extend([
        event("content_block_stop", json!({"index": 0})),
        event("message_delta", end),
        event("message_stop", json!({})),
    ]);
    chunks
}

fn responses(words: usize) -> Vec<Vec<u8>> {
    let said = WORD.repeat(words);
    let response = |status: &str, output: Value| {
        json!({"response": {
            "id": "resp_1", "object": "response", "status": status, "model": "m", "output": output,
            "usage": {"input_tokens": 9, "output_tokens": 20},
        }})
    };
    let item = |status: &str, content: Value| {
        json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content,
        })
    };
    let whole = item("completed", json!([{"type": "output_text", "text": said, "annotations": []}]));
    let place = |field: &str, text: &str| {
        let mut place =
            json!({"sequence_number": 7, "item_id": "msg_1", "output_index": 0, "content_index": 0});
        place[field] = text.into();
        place["logprobs"] = json!([]);
        place
    };
    let begun = json!({"output_index": 0, "item": item("in_progress", json!([]))});
    let mut chunks = vec![
        event("response.created", response("in_progress", json!([]))),
        event("response.output_item.added", begun),
    ];
    chunks.extend(repeated(event("response.output_text.delta", place("delta", WORD)), words));
    chunks.extend([
        event("response.output_text.done", place("text", &said)),
        event("response.output_item.done", json!({"output_index": 0, "item": whole})),
        event("response.completed", response("completed", json!([whole]))),
    ]);
    chunks
}

fn gemini(words: usize) -> Vec<Vec<u8>> {
    let chunk = |candidate: Value| {
        let usage = json!({"promptTokenCount": 9, "totalTokenCount": 29});
        let data = json!({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r",
        });
        format!("data: {data}\r\n\r\n").into_bytes()
    };
    let content = |text: &str| json!({"parts": [{"text": text}], "role": "model"});
    let last = json!({"content": content(""), "finishReason": "STOP", "index": 0});
    repeated(chunk(json!({"content": content(WORD), "index": 0})), words).chain([chunk(last)]).collect()
}

#[cfg(feature = "bedrock")]
fn converse(words: usize) -> Vec<Vec<u8>> {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

    let frame = |kind: &'static str, payload: Value| {
        let headers =
            [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
        let message = headers
            .into_iter()
            .fold(Message::new(payload.to_string().into_bytes()), |message, (name, value)| {
                message.add_header(Header::new(name, HeaderValue::String(value.into())))
            });
        let mut bytes = Vec::new();
        // What cannot be written is missing, and then the stream says something else.
        let _ = write_message_to(&message, &mut bytes);
        bytes
    };
    let mut chunks = vec![frame("messageStart", json!({"p": "abcd", "role": "assistant"}))];
    let delta = json!({"contentBlockIndex": 0, "delta": {"text": WORD}, "p": "abcdefghijkl"});
    chunks.extend(repeated(frame("contentBlockDelta", delta), words));
    let usage = json!({"inputTokens": 9, "outputTokens": 20, "totalTokens": 29});
    chunks.extend([
        frame("contentBlockStop", json!({"contentBlockIndex": 0, "p": "abc"})),
        frame("messageStop", json!({"p": "abcdefg", "stopReason": "end_turn"})),
        frame("metadata", json!({"metrics": {"latencyMs": 1}, "p": "ab", "usage": usage})),
    ]);
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_says_the_same() {
        for dialect in DIALECTS {
            let said = decoded(dialect, &streamed(dialect, 3));
            assert_eq!(said.as_deref(), Some("word word word "), "{dialect}");
        }
    }
}
