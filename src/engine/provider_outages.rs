//! What hosts tell each other of providers that fail: cooldowns of models, and what holds the calls of pools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::{Instant, Nanos};

/// What is known of providers that fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderOutages {
    /// The ends of cooldowns, by model or provider, in nanoseconds since 1970; in a change 0: it is over.
    /// Example: `{"model main": 1763768419250000000}`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) cooldowns: BTreeMap<String, Instant>,
    /// What holds the calls of pools, by their names.
    /// Example: `{"model main": {"held_until": 1763768419250000000}}`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pools: BTreeMap<String, PoolOutage>,
}

/// What holds the calls of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PoolOutage {
    /// The end of the pause that a server asked for, in nanoseconds since 1970; 0: none did.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub(super) held_until: Instant,
    /// The breaker that lets probes through; `None`: it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probes: Option<OutageProbes>,
}

/// A provider that fails every call, as one host has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OutageProbes {
    /// The failures in a row.
    /// Example: `5`
    pub(super) failures: u32,
    /// When the next call may start, in nanoseconds since 1970.
    pub(super) probe_at: Instant,
    /// The time that was waited for it, in nanoseconds.
    pub(super) delay: Nanos,
    /// The calls that each host may have in flight; 1: no probe has been answered yet.
    /// Example: `1`
    pub(super) window: u32,
}

impl ProviderOutages {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.cooldowns.is_empty() && self.pools.is_empty()
    }
}
