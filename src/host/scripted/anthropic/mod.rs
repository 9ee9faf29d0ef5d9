//! The same scripts in Anthropic's messages format.

mod chunks;
mod render;
mod request;

use super::dialect::Dialect;

pub(super) static MESSAGES: Dialect = Dialect {
    paths: &["/v1/messages"],
    read: |_, headers, body| request::read(headers, body),
    body: render::body,
    chunks: |rendering, _| chunks::chunks(rendering),
    error_body: render::error_body,
    error_event: render::error_body,
};
