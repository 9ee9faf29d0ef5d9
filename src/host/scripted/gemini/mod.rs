//! The same scripts in Gemini's `generateContent` format.

mod chunks;
mod render;
mod request;

use super::dialect::{Dialect, SSE, error_event, not_json};

pub(super) static GEMINI: Dialect = Dialect {
    paths: &["/v1beta/models/{call}", "/v1/models/{call}"],
    read: |uri, _, body| request::read(uri, body),
    body: render::body,
    chunks: |rendering, _| chunks::chunks(rendering),
    error_body: render::error_body,
    stream_type: SSE,
    error_event: |error| error_event(&render::error_body(error)),
    broken_event: not_json,
    class_header: None,
};
