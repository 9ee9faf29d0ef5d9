//! How tokens are counted in a case.

use std::sync::Arc;

use crate::context::TokenCounter;
use crate::host::counter_by;
use crate::policy::TokensPolicy;
use crate::policy::decode::record;

record! {
    /// How tokens are counted. Left out: as the policy says for the first model.
    #[derive(Copy, Default)]
    pub(crate) struct CaseTokens {
        /// So many tokens for each character of a text: small texts stand for large ones.
        /// Example: `10`
        pub(crate) per_char: Option<u32>,
        /// So many tokens of the definitions of all tools together.
        /// Example: `5000`
        pub(crate) tools: Option<u64>,
    }
}

/// Counts as the case says, or as a host would: by the policy's `tokens` of the model.
pub(super) struct CaseCounter {
    per_char: Option<u32>,
    of_model: Arc<dyn TokenCounter>,
}

impl CaseCounter {
    pub(super) fn new(tokens: CaseTokens, policy: &TokensPolicy, model: &str) -> Self {
        Self { per_char: tokens.per_char, of_model: counter_by(policy, model) }
    }
}

impl TokenCounter for CaseCounter {
    fn count(&self, text: &str) -> u64 {
        match self.per_char {
            Some(each) => u64::try_from(text.chars().count()).unwrap_or(u64::MAX).saturating_mul(each.into()),
            None => self.of_model.count(text),
        }
    }
}
