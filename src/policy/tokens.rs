//! How the tokens of a model are counted.

use serde::Serialize;

use super::{Ratio, Setting};

/// How the tokens of a model are counted.
#[derive(Clone, Debug)]
pub struct TokensPolicy {
    /// By what.
    pub method: Setting<CountBy>,
    /// What an estimate is multiplied by.
    pub safety: Setting<Ratio>,
    /// Whether what a provider counts corrects the count of later turns.
    pub learn: Setting<bool>,
    /// How many bytes of prose make a token, where that is estimated.
    pub prose: Setting<Ratio>,
    /// The same for JSON.
    pub json: Setting<Ratio>,
    /// The same for programs.
    pub code: Setting<Ratio>,
}

/// By what tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountBy {
    /// By the vocabulary of the model, if that is known; else by the estimate.
    Tokenizer,
    /// By the estimate.
    Estimate,
    /// By both; the larger number counts.
    Max,
}
