//! The same scripts in Bedrock's Converse format, whole and as a stream of binary frames.

mod frames;
mod render;
mod request;

use super::dialect::Dialect;
use super::render::NOT_JSON;

pub(super) static CONVERSE: Dialect = Dialect {
    paths: &["/model/{model}/converse", "/model/{model}/converse-stream"],
    read: |uri, _, body| request::read(uri, body),
    body: render::body,
    chunks: |rendering, _| frames::chunks(rendering),
    error_body: render::error_body,
    stream_type: "application/vnd.amazon.eventstream",
    error_event: frames::exception,
    broken_event: || frames::event("contentBlockDelta", NOT_JSON),
    class_header: Some("x-amzn-errortype"),
};
