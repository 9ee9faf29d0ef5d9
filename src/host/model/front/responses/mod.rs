//! Responses, as clients speak them.

mod custom;
pub(super) mod reply;
pub(super) mod request;
pub(super) mod stream;
