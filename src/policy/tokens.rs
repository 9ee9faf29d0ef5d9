//! How the tokens of a model are counted.

use serde::Serialize;

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
