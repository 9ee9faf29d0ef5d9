//! The same scripts in `OpenAI`'s Responses format.

mod chunks;
mod render;
mod request;
mod stored;

pub(super) use stored::StoredResponses;

use super::dialect::{Dialect, SSE, error_event, not_json};
use super::render::error_body;

pub(super) static RESPONSES: Dialect = Dialect {
    paths: &["/v1/responses"],
    read: |_, _, body| request::read(body),
    body: render::body,
    chunks: |rendering, _| chunks::chunks(rendering),
    error_body,
    stream_type: SSE,
    error_event: |error| error_event(&render::error_event(error)),
    broken_event: not_json,
    class_header: None,
};
