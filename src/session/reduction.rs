//! A reduction of the conversation: its replacements and the resulting size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::history::HistorySplice;

/// The mark (`guidance`) of the note about dropped messages.
pub(crate) const LEFT_OUT: &str = "left_out";

/// What a model is asked for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryRequest {
    /// The request: what it is to do, the summary there is, and the messages.
    /// Example: `Sum up this conversation in a few words.`
    pub prompt: String,
    /// How many tokens it has.
    /// Example: `1800`
    pub tokens: u64,
    /// How many tokens of the messages were cut out, because it would be too large for its model.
    /// Example: `0`
    #[serde(default)]
    pub cut: u64,
}

/// What one step of a reduction comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextReduction {
    /// The replacements; none: the step gains nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splices: Vec<HistorySplice>,
    /// How many messages are shorter then.
    /// Example: `3`
    #[serde(default)]
    pub shortened: u64,
    /// How many messages are left out then.
    /// Example: `12`
    #[serde(default)]
    pub dropped: u64,
    /// How many messages there are then.
    /// Example: `9`
    pub messages: u64,
    /// How many tokens they have then.
    /// Example: `4200`
    pub message_tokens: u64,
    /// How many calls and results of them providers would object to.
    /// Example: `0`
    #[serde(default)]
    pub history_faults: u64,
    /// What a model is to be asked for a summary of what is left out; the splices have a message for it, which is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarize: Option<SummaryRequest>,
    /// Why there are still more tokens than there may be, if there are.
    /// Example: `what cannot be cut has 9000 tokens, and there is room for 4000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
}
