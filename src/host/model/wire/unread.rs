//! Answers that cannot be read, whatever their format.

use super::{readable, without_mark};
use crate::engine::Failure;
use crate::host::model::failure::{cut_off, unreadable};

/// The most characters that are shown of what should have been an answer.
const SHOWN: usize = 200;

/// The JSON of a body.
///
/// # Errors
/// It is empty, is cut off, or is no JSON.
pub(super) fn json(body: &[u8]) -> Result<serde_json::Value, Failure> {
    let body = without_mark(body);
    if body.trim_ascii().is_empty() {
        return Err(unreadable("the answer is empty"));
    }
    serde_json::from_slice(body).or_else(|error| {
        let other = core::str::from_utf8(body).ok().and_then(readable);
        other.and_then(|other| serde_json::from_str(&other).ok()).ok_or_else(|| not_json(&error, body))
    })
}

/// Text that should be JSON and is not.
pub(super) fn not_json(error: &serde_json::Error, body: &[u8]) -> Failure {
    let text = Failure::plain_text(&String::from_utf8_lossy(body));
    let start: String = text.chars().take(SHOWN).collect();
    // JSON that ends too early is a broken connection, which another attempt may mend.
    if error.is_eof() {
        cut_off(format!("the answer ends in the middle, after {} bytes", body.len()))
    } else {
        unreadable(format!("the answer is not JSON: {start}"))
    }
}

/// An answer that looks whole but does not say why the model stopped. Routers end streams properly that broke off behind
/// them.
pub(super) fn without_reason() -> Failure {
    cut_off(
        "the answer does not say why the model stopped, so it may be cut; if the server never says it, set \
         `finish_reason: optional` at the model",
    )
}

/// A stream that has ended before the answer was whole.
pub(super) fn ended_early(started: bool) -> Failure {
    cut_off(if started {
        "the stream of the answer ends in the middle"
    } else {
        "the stream of the answer ends before it has begun"
    })
}
