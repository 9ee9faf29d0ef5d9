//! A reduction of the conversation: what is replaced, and how large it is then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::history::Splice;

/// What one step of a reduction comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reduction {
    /// The replacements; none: the step gains nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splices: Vec<Splice>,
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
    /// Why there are still more tokens than there may be, if there are.
    /// Example: `what cannot be cut has 9000 tokens, and there is room for 4000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
}
