//! The waits of a retry policy, and what it costs at worst.

use super::worst::{Work, Worst};
use crate::policy::{Backoff, ClassSet, ErrorClass, RetryPolicy};
use crate::time::Nanos;

/// The rows of a table of delays.
const ROWS: u32 = 10;

/// The waits of a retry policy, and what it costs at worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The waits after the first attempts.
    pub rows: Vec<DelayRow>,
    /// Whether there are more waits than rows.
    pub more: bool,
    /// The worst case of one call, also with the layers that hold for some calls only.
    pub worst: Worst,
}

/// The wait after an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The shortest wait.
    pub min: Nanos,
    /// A wait as likely exceeded as not.
    pub median: Nanos,
    /// The longest wait.
    pub max: Nanos,
}

impl Delays {
    /// Of that policy.
    pub(super) fn of(retry: &RetryPolicy, work: Work) -> Self {
        let worst = Worst::of(retry, work);
        let waits = worst.calls.map(|calls| calls.saturating_sub(1));
        let shown = waits.unwrap_or(ROWS).min(ROWS);
        let row = |attempt| row(&retry.backoff.value, attempt);
        Self { rows: (1..=shown).map(row).collect(), more: waits.is_none_or(|waits| waits > shown), worst }
    }
    /// If all failures are of that class.
    pub(super) fn for_class(retry: &RetryPolicy, work: Work, class: ErrorClass) -> Self {
        let only = |classes: ClassSet| {
            if classes.contains(class) { ClassSet::EMPTY.with(class) } else { ClassSet::EMPTY }
        };
        let mut retry = retry.clone();
        retry.retry_on.value = only(retry.retry_on.value);
        let backoff = retry.for_class(class).backoff.value.clone();
        let mut delays = Self::of(&retry, work);
        delays.rows.iter_mut().for_each(|held| *held = row(&backoff, held.attempt));
        delays
    }
}

fn row(backoff: &Backoff, attempt: u32) -> DelayRow {
    let (min, max) = backoff.bounds(attempt);
    DelayRow { attempt, min, median: backoff.median(attempt), max }
}
