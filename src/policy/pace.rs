//! How often tools and models may be called.

use core::fmt;
use core::num::NonZeroU32;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decode::choice;
use crate::time::Nanos;

/// How much may start within a period: requests or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceLimit {
    /// Any amount.
    Unlimited,
    /// No more than this.
    Rate(PaceRate),
}

/// A rate: so much in a period, and how much of it may start at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaceRate {
    /// Requests or tokens in a period.
    pub limit: NonZeroU32,
    /// The period, in nanoseconds; not zero.
    pub per: Nanos,
    /// Requests or tokens that may start at once after a pause.
    pub burst: NonZeroU32,
}

/// When one call at a time is a probe of a provider that fails every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceBreaker {
    /// Never.
    Never,
    /// After failures in a row.
    After(ProbeRule),
}

/// How a provider that fails every call is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRule {
    /// So many failures in a row, of all calls of the pool.
    pub failures: NonZeroU32,
    /// The time before the first probe, in nanoseconds. It doubles with each probe that fails.
    pub base: Nanos,
    /// The longest time between two probes, in nanoseconds.
    pub cap: Nanos,
}

/// The models that share the pace of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacePool {
    /// The models with the same `provider`.
    Provider,
    /// The models with this name as their pool.
    Named(Arc<str>),
}

choice! {
    /// Whose calls a pace counts.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PaceScope {
        /// Those of this run.
        Run = "run",
        /// Those of all runs of this process.
        Process = "process",
        /// Those of all runs of all hosts that share it.
        Shared = "shared",
    }
}

impl PaceLimit {
    /// The rate, if there is one.
    pub const fn rate(self) -> Option<PaceRate> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => Some(rate),
        }
    }
}

impl PaceBreaker {
    /// The rule, if there is one.
    pub const fn rule(self) -> Option<ProbeRule> {
        match self {
            Self::Never => None,
            Self::After(rule) => Some(rule),
        }
    }
}

impl fmt::Display for PaceRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.limit, self.per)
    }
}

impl fmt::Display for ProbeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failures in a row", self.failures)
    }
}
