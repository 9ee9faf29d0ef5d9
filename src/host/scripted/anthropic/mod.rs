//! The same scripts in Anthropic's messages format.

mod chunks;
mod render;
mod request;

use super::dialect::Dialect;

pub(super) static MESSAGES: Dialect = Dialect {
    path: "/v1/messages",
    read: request::read,
    body: render::body,
    chunks: |rendering, _| chunks::chunks(rendering),
    error_body: render::error_body,
    error_event: render::error_body,
};
