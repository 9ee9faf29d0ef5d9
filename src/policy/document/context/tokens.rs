//! `tokens:` of the context and of a model: how tokens are counted.

use crate::policy::form::{Block, Effective, Form};
use serde_json::json;

use crate::policy::decode::choice;
use crate::policy::layer_value::plain_leaf;
use crate::text::GrowthFactor;

/// How tokens are counted.
/// Example: `{"method": "max", "safety": 1.1}`
#[derive(Clone, Debug, Block)]
pub struct TokensPolicy<F: Form = Effective> {
    /// By what they are counted.
    pub method: F::Of<CountBy>,
    /// What an estimate is multiplied by.
    /// Example: `1.2`
    pub safety: F::Of<GrowthFactor>,
    /// Whether what a provider counts corrects the count of later turns, for each model.
    /// Example: `true`
    #[key(looser = Neither)]
    pub learn: F::Of<bool>,
    /// How many bytes make a token, where that is estimated.
    pub bytes_per_token: F::In<BytesPerToken<F>>,
}

/// How many bytes make a token, by what a text is.
/// Example: `{"prose": 3.2, "json": 2.8}`
#[derive(Clone, Debug, Block)]
pub struct BytesPerToken<F: Form = Effective> {
    /// Text that is neither of the others.
    /// Example: `4`
    pub prose: F::Of<GrowthFactor>,
    /// JSON.
    /// Example: `2.8`
    pub json: F::Of<GrowthFactor>,
    /// Programs.
    /// Example: `3.5`
    pub code: F::Of<GrowthFactor>,
}

choice! {
    /// By what tokens are counted.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CountBy {
        /// By the vocabulary of the model, if that is known; else by the estimate.
        Tokenizer = "tokenizer",
        /// By the estimate: so many bytes for each token.
        Estimate = "estimate",
        /// By both; the larger number counts.
        Max = "max",
    }
}

plain_leaf! {
    CountBy => |value| json!(value);
}
