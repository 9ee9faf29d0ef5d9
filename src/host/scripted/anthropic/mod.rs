//! The same scripts in Anthropic's messages format.

mod chunks;
mod render;
mod request;

use super::dialect::{Dialect, SSE, error_event, not_json};

pub(super) static MESSAGES: Dialect = Dialect {
    paths: &["/v1/messages"],
    read: |_, headers, body| request::read(headers, body),
    body: render::body,
    chunks: |rendering, _| chunks::chunks(rendering),
    error_body: render::error_body,
    stream_type: SSE,
    error_event: |error| error_event(&render::error_body(error)),
    broken_event: not_json,
    class_header: None,
};
