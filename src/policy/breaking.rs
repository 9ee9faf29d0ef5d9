//! When a tool is no longer called: how failures are counted, for how long, and what closes the breaker again.

use core::fmt;
use core::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bound, Setting, Template};
use crate::time::Nanos;

/// When a tool is no longer called.
#[derive(Clone, Debug)]
pub struct BreakerPolicy {
    /// Failures that open it, counted as [`count`](Self::count) says; `None`: never.
    pub failures: Setting<Option<NonZeroU32>>,
    /// Which failures count together.
    pub count: Setting<Counting>,
    /// How long what is known of failures lasts.
    pub scope: Setting<BreakerScope>,
    /// How long it stays open before probes are let through.
    pub open_for: Setting<Bound>,
    /// How many probes may run at a time.
    pub probes: Setting<NonZeroU32>,
    /// How many probes have to go well before it closes.
    pub successes: Setting<NonZeroU32>,
    /// Whether models are not shown the tool while it is open.
    pub hide: Setting<bool>,
    /// What the model is told instead of a run. Variables: `tool`, `failures`.
    pub message: Setting<Template>,
}

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

/// How long what is known of a tool's failures lasts.
///
/// Example: `session`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerScope {
    /// Until the next turn.
    Turn,
    /// Until the end of the run.
    #[default]
    Run,
    /// As long as the session: the next run goes on with it.
    Session,
    /// As long as anybody counts: every host that shares it goes on with it.
    Shared,
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
