//! The attempts at one thing.

use serde::{Deserialize, Serialize};

use crate::engine::retry::AttemptProgress;
use crate::policy::{AttemptLimit, ErrorClass};
use crate::session::{AttemptRecord, StopReason};
use crate::time::{Instant, Nanos};

/// A series of attempts at one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptSeries {
    pub(crate) started: Instant,
    pub(crate) slept: Nanos,
    pub(crate) history: Vec<AttemptRecord>,
    /// Why no further attempt is made; what is wrong from now on is refused at once.
    #[serde(default)]
    pub(crate) over: Option<StopReason>,
}

impl AttemptSeries {
    #[inline]
    pub(crate) fn begin(now: Instant) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The attempt in flight, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(crate) fn progress(&self) -> AttemptProgress {
        AttemptProgress { started: self.started, attempt: self.attempt(), slept: self.slept }
    }

    /// Begins the next try, of which `most` allows so many. Returns why it is refused at once, if it is.
    pub(crate) fn resume(&mut self, most: AttemptLimit) -> Option<StopReason> {
        match self.over {
            // Such a failure ended its own call, and was no attempt to be repeated: it does not count for the next
            // one.
            Some(StopReason::NeverRetry | StopReason::NotRetryable) => {
                self.history.pop();
                self.over = None;
            }
            // The limit may have been that of a call with tighter rules; the next call is held against its own.
            Some(StopReason::Attempts) => self.over = None,
            _ => {}
        }
        let used = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        let over = self.over.or_else(|| (!most.allow_after(used)).then_some(StopReason::Attempts));
        if over.is_some() {
            // A try after the last attempt replaces it in the history, so that "attempt 4 of 3" never appears.
            self.history.pop();
        }
        over
    }

    /// The wait after the last attempt is this one.
    pub(crate) fn waits(&mut self, delay: Nanos) {
        if let Some(last) = self.history.last_mut() {
            // A planned wait may be replaced: only the last plan counts for `total_delay`.
            self.slept = self.slept.saturating_sub(last.delay).saturating_add(delay);
            last.delay = delay;
        }
    }

    /// Writes down that the attempt in flight failed, and what is waited for the next.
    #[inline]
    pub(crate) fn record(
        &mut self,
        error_type: ErrorClass,
        message: impl Into<String>,
        at: Instant,
        delay: Nanos,
    ) {
        // Counted when it is planned, not when it is over, so that the next decision already knows of it.
        self.slept = self.slept.saturating_add(delay);
        let attempt = self.attempt();
        self.history.push(AttemptRecord { attempt, error_type, message: message.into(), at, delay });
    }
}
