//! What counts the tokens of a text: a vocabulary, or an estimate from its bytes.

use crate::policy::estimated_tokens;

/// Something that counts the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// The tokens of `text`.
    fn count(&self, text: &str) -> u64;
}

/// Estimates from the bytes: four for a token of prose, 2.8 for a token of JSON.
///
/// ```
/// use unfazed::context::{ByteEstimate, TokenCounter};
/// assert_eq!(ByteEstimate.count("These are nine tokens or so, I think."), 10);
/// assert_eq!(ByteEstimate.count(r#"{"city":"Oslo"}"#), 6);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteEstimate;

impl TokenCounter for ByteEstimate {
    fn count(&self, text: &str) -> u64 {
        estimated_tokens(text)
    }
}
