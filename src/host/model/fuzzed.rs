//! What providers send, for the fuzz targets: bodies and streams of events, in every wire format.

#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod lenient_tests;
mod measured;

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Map;

pub use self::measured::{DIALECTS, decoded, streamed};
use super::answer::HttpAnswer;
use super::failure::from_status;
use super::sse::{SseEvent, SseParser};
use super::wire::anthropic::MessagesFormat;
use super::wire::chat::{ChatFormat, ChatServer, LearnedForms, SamplingOptions};
use super::wire::gemini::{GeminiFormat, SignatureRules};
use super::wire::responses::ResponsesFormat;
use super::wire::{StreamProgress, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::policy::Policy;

/// The statuses of errors that providers send.
const STATUSES: [u16; 12] = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529];
/// More characters than this no message of a failure has.
const MAX_MESSAGE: usize = 4000;

/// The first byte says which error an answer is, the rest is its body: it is read as an error, and as an answer.
pub fn provider_bodies(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let status = STATUSES[usize::from(*first) % STATUSES.len()];
    let status = StatusCode::from_u16(status).unwrap_or_default();
    check(&from_status(status, &HeaderMap::new(), body));
    check(&Failure::from_body(body));
    let _ = read_as(&chat(), "application/json", &[body]);
    let _ = read_as(&messages(), "application/json", &[body]);
    let _ = read_as(&responses(), "application/json", &[body]);
    let _ = read_as(&gemini(), "application/json", &[body]);
    #[cfg(feature = "bedrock")]
    let _ = read_as(&converse(), "application/json", &[body]);
}

/// The first bytes say how long the pieces are in which the rest arrives: the events, and the answer they make, are the
/// same as if all had come at once.
pub fn sse_bytes(data: &[u8]) {
    let (lengths, bytes) = data.split_at(data.len().min(8));
    let split = pieces(bytes, lengths);
    assert!(events(&[bytes]) == events(&split), "the events depend on how their bytes arrive");
    arrives(&chat(), bytes, &split);
    arrives(&messages(), bytes, &split);
    arrives(&responses(), bytes, &split);
    arrives(&gemini(), bytes, &split);
}

/// The same for frames of AWS.
#[cfg(feature = "bedrock")]
pub fn frame_bytes(data: &[u8]) {
    let (lengths, bytes) = data.split_at(data.len().min(8));
    let split = pieces(bytes, lengths);
    let kind = "application/vnd.amazon.eventstream";
    let told = |read: Result<ModelReply, Failure>| read.ok();
    let whole = told(read_as(&converse(), kind, &[bytes]));
    assert_eq!(whole, told(read_as(&converse(), kind, &split)), "the answer depends on how its bytes arrive");
}

/// A request with these messages and nothing else.
#[cfg(test)]
pub(super) fn request(messages: &[crate::session::Message]) -> crate::host::port::ModelRequest<'_> {
    crate::host::port::ModelRequest {
        messages,
        tools: Vec::new(),
        tool_choice: crate::engine::ToolChoice::Auto,
        max_output: None,
        timeout: None,
        timeouts: crate::engine::CallTimeouts::default(),
        streamed: None,
        traffic: crate::host::port::ByteTraffic::default(),
        files: crate::host::AttachedFiles::default(),
        cancel: tokio_util::sync::CancellationToken::new(),
    }
}

pub(super) fn chat() -> ChatFormat {
    let sampling = SamplingOptions { stream: true, temperature: None, max_tokens: None, extra: Map::new() };
    ChatFormat {
        model: "main".into(),
        sampling,
        issuer: "host main".into(),
        server: ChatServer::default(),
        learned_forms: LearnedForms::default(),
    }
}

pub(super) fn messages() -> MessagesFormat {
    MessagesFormat {
        model: "main".into(),
        issuer: "host main".into(),
        pauses: false,
        max_tokens: 100,
        stream: true,
        temperature: None,
        extra: Map::new(),
    }
}

pub(super) fn responses() -> ResponsesFormat {
    ResponsesFormat {
        model: "main".into(),
        issuer: "host main".into(),
        stream: true,
        temperature: None,
        max_tokens: None,
        extra: Map::new(),
        continues: false,
        lost: Arc::default(),
        refuses_reasoning: Arc::default(),
    }
}

pub(super) fn gemini() -> GeminiFormat {
    GeminiFormat {
        model: "main".into(),
        issuer: "host main".into(),
        temperature: None,
        max_tokens: None,
        extra: Map::new(),
        signatures: SignatureRules::default().into(),
    }
}

#[cfg(feature = "bedrock")]
pub(super) fn converse() -> super::wire::converse::ConverseFormat {
    super::wire::converse::ConverseFormat {
        model: "anthropic.claude".into(),
        issuer: "host main".into(),
        temperature: None,
        max_tokens: None,
        extra: Map::new(),
        family: super::wire::converse::ModelFamily::of("anthropic.claude"),
    }
}

fn pieces<'d>(mut bytes: &'d [u8], lengths: &[u8]) -> Vec<&'d [u8]> {
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !bytes.is_empty() {
        let length = lengths.next().map_or(1, |length| usize::from(*length) + 1);
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// All events, what comes between them, and whether there was one too large.
fn events(pieces: &[&[u8]]) -> (Vec<SseEvent>, Vec<String>, bool) {
    let mut parser = SseParser::with_limit(4096);
    let (mut events, mut strays) = (Vec::new(), Vec::new());
    for piece in pieces {
        if parser.push(piece, &mut events).is_err() {
            return (events, Vec::new(), true);
        }
        strays.extend(parser.strays());
    }
    events.extend(parser.finish());
    strays.extend(parser.strays());
    (events, strays, false)
}

fn arrives(format: &dyn WireFormat, bytes: &[u8], split: &[&[u8]]) {
    let whole = read_as(format, "text/event-stream", &[bytes]);
    let split = read_as(format, "text/event-stream", split);
    let told = |read: &Result<ModelReply, Failure>| read.as_ref().ok().cloned();
    assert_eq!(told(&whole), told(&split), "the answer depends on how its bytes arrive: {whole:?} {split:?}");
}

/// Reads an answer that arrives in these pieces.
pub(super) fn read_as(
    format: &dyn WireFormat,
    kind: &'static str,
    pieces: &[&[u8]],
) -> Result<ModelReply, Failure> {
    let headers: HeaderMap = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
    let mut answer = HttpAnswer::announced_by(&headers);
    let mut read = Ok(StreamProgress::More);
    for piece in pieces {
        read = answer.take(format, piece, &headers);
        let _ = (answer.fresh(), answer.received(), answer.has_begun(), answer.is_whole());
        if read != Ok(StreamProgress::More) {
            break;
        }
    }
    let reply = read.and_then(|_| answer.reply(format, &headers, &[]));
    match &reply {
        Ok(reply) => {
            let ids: BTreeSet<&str> = reply.calls.iter().map(|proposal| proposal.call.id.as_str()).collect();
            assert_eq!(ids.len(), reply.calls.len(), "two calls have one id: {reply:?}");
            assert!(!ids.contains(""), "a call has no id: {reply:?}");
        }
        Err(failure) => check(failure),
    }
    reply
}

fn check(failure: &Failure) {
    let _ = (
        failure.classified(&Policy::builtin()),
        failure.limit(),
        failure.size(),
        failure.retry_after.ignored(),
    );
    let length = failure.message.chars().count();
    assert!(length <= MAX_MESSAGE, "a message of {length} characters");
}
