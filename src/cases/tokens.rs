//! How tokens are counted in a case.

use crate::context::{Estimate, TokenCounter};
use crate::policy::decode::record;

record! {
    /// How tokens are counted. Left out: they are estimated, four bytes of prose for one and 2.8 of JSON.
    #[derive(Copy, Default)]
    pub(crate) struct Tokens {
        /// So many tokens for each character of a text: small texts stand for large ones.
        /// Example: `10`
        pub(crate) per_char: Option<u32>,
        /// So many tokens of the definitions of all tools together.
        /// Example: `5000`
        pub(crate) tools: Option<u64>,
    }
}

impl TokenCounter for Tokens {
    fn count(&self, text: &str) -> u64 {
        match self.per_char {
            Some(each) => u64::try_from(text.chars().count()).unwrap_or(u64::MAX).saturating_mul(each.into()),
            None => Estimate.count(text),
        }
    }
}
