//! The waits of a retry policy, and what it costs at worst.

use super::worst::{AttemptKind, AttemptedWork, WorstCase};
use crate::policy::{Backoff, ErrorClass, Jitter, RetryPolicy};
use crate::time::Nanos;

/// The rows of a table of delays.
const ROWS: u32 = 10;

/// The waits of a retry policy, and what it costs at worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetryDelays {
    /// The waits after failures of classes without rules of their own.
    pub waits: DelayTable,
    /// The waits after failures of classes whose own rules make them others.
    pub by_class: Vec<(ErrorClass, DelayTable)>,
    /// The worst case of one call, also with the layers that hold for some calls only.
    pub worst: WorstCase,
}

/// The waits if all failures are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelayTable {
    /// The waits after the first attempts.
    pub rows: Vec<DelayRow>,
    /// Whether there are more waits than rows.
    pub more: bool,
    /// Whether the waits depend on those before them; the middle one is then what comes of middle draws only.
    pub decorrelated: bool,
}

/// The wait after an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelayRow {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The shortest wait.
    pub min: Nanos,
    /// A wait as likely exceeded as not.
    pub median: Nanos,
    /// The longest wait.
    pub max: Nanos,
}

impl RetryDelays {
    /// Of that policy.
    pub(super) fn of(retry: &RetryPolicy, work: AttemptedWork) -> Self {
        let worst = WorstCase::of(retry, work);
        if retry.by_class.is_empty() {
            let waits = DelayTable::of(general(retry, work.kind), &worst);
            return Self { waits, by_class: Vec::new(), worst };
        }
        let has_own = |class| retry.by_class.get(class).is_some();
        let others = WorstCase::of(&only(retry, |class| !has_own(class)), work);
        let waits = DelayTable::of(general(retry, work.kind), &others);
        let own = retry.by_class.iter().map(|(class, _)| class).filter(|class| retry.retries(*class));
        let own = own.map(|class| (class, DelayTable::for_class(retry, work, class)));
        let by_class = own.filter(|(_, table)| *table != waits).collect();
        Self { waits, by_class, worst }
    }

    /// If all failures are of that class.
    pub(super) fn for_class(retry: &RetryPolicy, work: AttemptedWork, class: ErrorClass) -> Self {
        let worst = WorstCase::of(&only(retry, |other| other == class), work);
        Self { waits: DelayTable::for_class(retry, work, class), by_class: Vec::new(), worst }
    }
}

impl DelayTable {
    fn of(backoff: &Backoff, worst: &WorstCase) -> Self {
        let waits = worst.calls.map(|calls| calls.saturating_sub(1));
        let shown = waits.unwrap_or(ROWS).min(ROWS);
        Self {
            rows: (1..=shown).map(|attempt| row(backoff, attempt)).collect(),
            more: waits.is_none_or(|waits| waits > shown),
            decorrelated: backoff.jitter == Jitter::Decorrelated,
        }
    }

    fn for_class(retry: &RetryPolicy, work: AttemptedWork, class: ErrorClass) -> Self {
        // Arguments that do not hold are no runs, and the breaker does not count them.
        let corrected = work.kind == AttemptKind::Run && AttemptKind::Correction.fails_with(class);
        let work = if corrected {
            AttemptedWork { kind: AttemptKind::Correction, ..AttemptedWork::default() }
        } else {
            work
        };
        let worst = WorstCase::of(&only(retry, |other| other == class), work);
        let corrects = work.kind.corrects_after(class);
        let own = if corrects { retry.for_correction(class) } else { retry.for_class(class) };
        Self::of(&own.backoff.value, &worst)
    }
}

/// The backoff after failures of classes without rules of their own.
const fn general(retry: &RetryPolicy, kind: AttemptKind) -> &Backoff {
    if kind.corrects() { &retry.correction_backoff.value } else { &retry.backoff.value }
}

/// The policy if only these classes were retried.
fn only(retry: &RetryPolicy, kept: impl Fn(ErrorClass) -> bool) -> RetryPolicy {
    let mut retry = retry.clone();
    retry.retry_on.value = retry.retry_on.value.iter().filter(|class| kept(*class)).collect();
    retry
}

fn row(backoff: &Backoff, attempt: u32) -> DelayRow {
    let (min, max) = backoff.bounds(attempt);
    DelayRow { attempt, min, median: backoff.median(attempt), max }
}
