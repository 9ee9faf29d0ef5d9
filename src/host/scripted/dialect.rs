//! The wire formats that the scripted model's server speaks, one entry each.

use axum::http::{HeaderMap, Uri};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::chunks::{self, AnswerChunks};
use super::facts::RequestFacts;
use super::history;
use super::render::{self, AnswerRendering};
use super::script::ErrorReply;
use crate::host::model::ChatRequest;

/// A wire format that the server speaks.
pub(super) struct Dialect {
    /// Where its requests go.
    pub(super) paths: &'static [&'static str],
    /// Reads a request; an error is what its API answers to one that it does not take.
    pub(super) read: fn(&Uri, &HeaderMap, &Value) -> Result<Asked, Box<ErrorReply>>,
    /// The body of an answer.
    pub(super) body: fn(&AnswerRendering<'_>) -> String,
    /// The same as it is streamed. `include_usage`: the client asks for the tokens.
    pub(super) chunks: fn(&AnswerRendering<'_>, include_usage: bool) -> AnswerChunks,
    /// The body of an error.
    pub(super) error_body: fn(&ErrorReply) -> String,
    /// The type of a stream.
    pub(super) stream_type: &'static str,
    /// An event of a stream that is an error.
    pub(super) error_event: fn(&ErrorReply) -> Bytes,
    /// One whose data is no JSON.
    pub(super) broken_event: fn() -> Bytes,
    /// The header that has the class of an error.
    pub(super) class_header: Option<&'static str>,
}

/// What matters of a request.
pub(super) struct Asked {
    pub(super) facts: RequestFacts,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

/// The type of server-sent events.
pub(super) const SSE: &str = "text/event-stream";

/// The chat completions of `OpenAI`.
pub(super) static CHAT: Dialect = Dialect {
    // The deployments of Azure are in the address.
    paths: &["/v1/chat/completions", "/openai/deployments/{deployment}/chat/completions"],
    read: |_, _, body| read_chat(body),
    body: |rendering| rendering.body(),
    chunks: |rendering, include_usage| AnswerChunks::of(rendering, include_usage),
    error_body: render::error_body,
    stream_type: SSE,
    error_event: |error| error_event(&render::error_body(error)),
    broken_event: not_json,
    class_header: None,
};

fn read_chat(body: &Value) -> Result<Asked, Box<ErrorReply>> {
    let request = ChatRequest::deserialize(body).map_err(|error| not_a_request(&error))?;
    history::check(&request.messages)?;
    let options = request.extra.get("stream_options");
    Ok(Asked {
        facts: RequestFacts::of_chat(&request.model, &request.messages),
        stream: request.stream,
        include_usage: options.is_some_and(|options| options["include_usage"] == true),
    })
}

/// An error as a server-sent event.
pub(super) fn error_event(data: &str) -> Bytes {
    format!("event: error\n{}", chunks::event(data)).into()
}

/// A server-sent event whose data is no JSON.
pub(super) fn not_json() -> Bytes {
    chunks::event(render::NOT_JSON).into()
}

/// What is answered to a body that is no request.
pub(super) fn not_a_request(error: &serde_json::Error) -> Box<ErrorReply> {
    let message = format!("the request is not one to a model: {error}");
    let kind = Some("invalid_request_error".to_owned());
    Box::new(ErrorReply { kind, ..ErrorReply::new(400, "bad_request", message) })
}
