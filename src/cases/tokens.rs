//! How tokens are counted in a case.

use crate::context::{Estimator, TokenCounter};
use crate::policy::TokensPolicy;
use crate::policy::decode::record;

record! {
    /// How tokens are counted. Left out: they are estimated, as `context.tokens` of the policy says.
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

/// Counts as the case says. Whatever the policy counts by, no vocabulary does: a case is the same wherever it is played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    per_char: Option<u32>,
    estimator: Estimator,
}

impl Counter {
    pub(super) fn new(tokens: Tokens, policy: &TokensPolicy) -> Self {
        Self { per_char: tokens.per_char, estimator: Estimator::from(policy) }
    }
}

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> u64 {
        match self.per_char {
            Some(each) => u64::try_from(text.chars().count()).unwrap_or(u64::MAX).saturating_mul(each.into()),
            None => self.estimator.count(text),
        }
    }
}
