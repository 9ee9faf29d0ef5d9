//! How much a provider allows, and how much of it is left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// A limit that a provider states in the headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderLimit {
    /// What it counts.
    pub unit: LimitUnit,
    /// How much is allowed in a period; not zero.
    /// Example: `50`
    pub limit: u64,
    /// How much of it is left; at most `limit`.
    /// Example: `49`
    pub remaining: u64,
    /// The period, in nanoseconds; `None`: the headers do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Nanos>,
    /// When all of it is left again, in nanoseconds from the answer; `None`: the headers do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Nanos>,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
}
