//! Responses, as clients speak them.

pub(super) mod reply;
pub(super) mod request;
pub(super) mod stream;
