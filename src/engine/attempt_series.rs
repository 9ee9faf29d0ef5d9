//! The attempts of one call or report.

use serde::{Deserialize, Serialize};

use crate::engine::retry::AttemptProgress;
use crate::policy::{AttemptLimit, ErrorClass};
use crate::session::{AttemptRecord, StopReason};
use crate::time::{Instant, Nanos};

/// A series of attempts of the same call or report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptSeries {
    pub(crate) started: Instant,
    pub(crate) slept: Nanos,
    pub(crate) history: Vec<AttemptRecord>,
    /// Why no further attempt is made. Every later failure of the series is refused with this reason.
    #[serde(default)]
    pub(crate) over: Option<StopReason>,
}

impl AttemptSeries {
    #[inline]
    pub(crate) fn begin(now: Instant) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The number of the attempt in flight, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(crate) fn progress(&self) -> AttemptProgress {
        AttemptProgress { started: self.started, attempt: self.attempt(), slept: self.slept }
    }

    /// Begins the next attempt under a limit of `most`. Returns the reason if the attempt is refused.
    pub(crate) fn resume(&mut self, most: AttemptLimit) -> Option<StopReason> {
        match self.over {
            // A failure that is never retried ended its own call only, so it does not count against the next call.
            Some(StopReason::NeverRetry | StopReason::NotRetryable) => {
                self.history.pop();
                self.over = None;
            }
            // The limit may belong to a call with tighter rules; the next call has its own limit.
            Some(StopReason::Attempts) => self.over = None,
            _ => {}
        }
        let used = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        let over = self.over.or_else(|| (!most.allow_after(used)).then_some(StopReason::Attempts));
        if over.is_some() {
            // An attempt after the last one replaces it in the history, so that "attempt 4 of 3" never appears.
            self.history.pop();
        }
        over
    }

    /// Sets the delay after the last attempt.
    pub(crate) fn waits(&mut self, delay: Nanos) {
        if let Some(last) = self.history.last_mut() {
            // A planned delay may be replaced: only the last plan counts for `total_delay`.
            self.slept = self.slept.saturating_sub(last.delay).saturating_add(delay);
            last.delay = delay;
        }
    }

    /// Records that the attempt in flight failed, with the delay before the next attempt.
    #[inline]
    pub(crate) fn record(
        &mut self,
        error_type: ErrorClass,
        message: impl Into<String>,
        at: Instant,
        delay: Nanos,
    ) {
        // The delay counts when it is planned, not when it has passed, so that the next decision includes it.
        self.slept = self.slept.saturating_add(delay);
        let attempt = self.attempt();
        self.history.push(AttemptRecord { attempt, error_type, message: message.into(), at, delay });
    }
}
