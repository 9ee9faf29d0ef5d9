//! When a tool is no longer called: how failures are counted, for how long, and what closes the breaker again.

use core::fmt;
use core::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decode::choice;
use crate::time::Nanos;

/// Which failures count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FailureCounting {
    /// Failures in a row: a success begins anew.
    #[default]
    Consecutive,
    /// All failures: a success takes none back.
    Cumulative,
    /// Failures among the last results.
    Window(CountWindow),
}

/// The results that failures are counted among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountWindow {
    /// The last so many results.
    /// Example: `20`
    pub calls: NonZeroU32,
    /// Those that are not older; `None`: however old they are.
    pub within: Option<Nanos>,
    /// Failures per result that there must be, in parts per million; 0: any.
    /// Example: `500000`
    pub ratio_ppm: u32,
    /// So many results there must be.
    /// Example: `10`
    pub min_calls: u32,
}

choice! {
    /// How long what is known of a tool's failures lasts.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum BreakerScope {
        /// Until the next turn.
        Turn = "turn",
        /// Until the end of the run. A run that is resumed continues with it.
        Run = "run",
        /// As long as the session: the next run continues with it.
        Session = "session",
        /// As long as anybody counts, and with all hosts that share it.
        Shared = "shared",
    }
}

#[expect(clippy::derivable_impls, reason = "`choice!` reads no mark of a default")]
impl Default for BreakerScope {
    fn default() -> Self {
        Self::Run
    }
}

impl CountWindow {
    /// The most results a window may hold.
    pub const MOST: u32 = 1000;

    /// Whether so many failures among so many results open a breaker that waits for `failures`.
    pub fn trips(&self, failures: NonZeroU32, failed: u32, results: u32) -> bool {
        // Products are compared, so no division rounds a ratio.
        let share = u64::from(failed).saturating_mul(1_000_000);
        // A ratio of few results says little, hence the minimum (`minimumNumberOfCalls` of resilience4j). The
        // threshold itself trips: resilience4j once asked for more than it.
        failed >= failures.get()
            && results >= self.min_calls
            && share >= u64::from(self.ratio_ppm).saturating_mul(results.into())
    }
}

impl fmt::Display for FailureCounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consecutive => "consecutive",
            Self::Cumulative => "cumulative",
            Self::Window(_) => "window",
        })
    }
}

impl fmt::Display for BreakerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turn => "turn",
            Self::Run => "run",
            Self::Session => "session",
            Self::Shared => "shared",
        })
    }
}
