//! `tokens:` of the context and of a model: how tokens are counted.

use serde_json::json;

use crate::policy::decode::choice_of;
use crate::policy::merge::{layer, plain_leaf};
use crate::policy::{CountBy, Ratio, TokensPolicy};

layer! {
    /// How tokens are counted.
    /// Example: `{"method": "max", "safety": 1.1}`
    pub(crate) struct TokensLayer => MergedTokens {
        leaves {
            /// By what they are counted.
            method: CountBy,
            /// What an estimate is multiplied by.
            /// Example: `1.2`
            safety: Ratio,
            /// Whether what a provider counts corrects the count of later turns, for each model.
            /// Example: `true`
            learn: bool,
        }
        blocks {
            /// How many bytes make a token, where that is estimated.
            bytes_per_token: BytesLayer => MergedBytes,
        }
    }
}

layer! {
    /// How many bytes make a token, by what a text is.
    /// Example: `{"prose": 3.2, "json": 2.8}`
    pub(crate) struct BytesLayer => MergedBytes {
        leaves {
            /// Text that is neither of the others.
            /// Example: `4`
            prose: Ratio,
            /// JSON.
            /// Example: `2.8`
            json: Ratio,
            /// Programs.
            /// Example: `3.5`
            code: Ratio,
        }
    }
}

impl MergedTokens {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<TokensPolicy> {
        Some(TokensPolicy {
            method: self.method.setting()?,
            safety: self.safety.setting()?,
            learn: self.learn.setting()?,
            prose: self.bytes_per_token.prose.setting()?,
            json: self.bytes_per_token.json.setting()?,
            code: self.bytes_per_token.code.setting()?,
        })
    }
}

choice_of! {
    /// By what tokens are counted.
    CountBy {
        /// By the vocabulary of the model, if that is known; else by the estimate.
        Tokenizer = "tokenizer",
        /// By the estimate: so many bytes for each token.
        Estimate = "estimate",
        /// By both; the larger number counts.
        Max = "max",
    }
}

plain_leaf! {
    CountBy => |value| json!(value),
}
