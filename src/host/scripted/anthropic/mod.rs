//! The same scripts in Anthropic's messages format.

mod chunks;
mod render;
mod request;

pub(super) use chunks::chunks;
pub(super) use render::{body, error_body};
pub(super) use request::read;
