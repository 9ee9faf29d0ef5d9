//! Token counters: a vocabulary, or an estimate from the bytes.

use crate::policy::estimated_tokens;

/// A counter of the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// The tokens of `text`.
    fn count(&self, text: &str) -> u64;
}

/// An estimate from the bytes: four per token of prose, 2.8 per token of JSON.
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
