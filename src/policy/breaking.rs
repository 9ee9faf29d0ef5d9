//! When a tool is no longer called: how failures are counted, for how long, and what closes the breaker again.

use core::fmt;
use core::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BreakerScope;
use crate::time::Nanos;

/// Which failures count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Counting {
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

impl CountWindow {
    /// The most results a window may hold.
    pub const MOST: u32 = 1000;

    /// Whether so many failures among so many results open a breaker that waits for `failures`.
    pub fn trips(&self, failures: NonZeroU32, failed: u32, results: u32) -> bool {
        let share = u64::from(failed).saturating_mul(1_000_000);
        failed >= failures.get()
            && results >= self.min_calls
            && share >= u64::from(self.ratio_ppm).saturating_mul(results.into())
    }
}

impl fmt::Display for Counting {
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
