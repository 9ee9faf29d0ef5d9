//! The attempts at one thing.

use serde::{Deserialize, Serialize};

use crate::engine::retry::Progress;
use crate::policy::{Attempts, ErrorClass};
use crate::session::{AttemptRecord, StopReason};
use crate::time::{Instant, Nanos};

/// A series of attempts at one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) started: Instant,
    pub(crate) slept: Nanos,
    pub(crate) history: Vec<AttemptRecord>,
    /// Why no further attempt is made; what is wrong from now on is refused at once.
    #[serde(default)]
    pub(crate) over: Option<StopReason>,
}

impl Series {
    pub(crate) fn begin(now: Instant) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The attempt under way, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { started: self.started, attempt: self.attempt(), slept: self.slept }
    }

    /// Begins the next try, of which `most` allows so many. Returns why it is refused at once, if it is.
    pub(crate) fn resume(&mut self, most: Attempts) -> Option<StopReason> {
        match self.over {
            // A failure that was not to be repeated ended nothing but itself.
            Some(StopReason::NeverRetry | StopReason::NotRetryable) => {
                self.history.pop();
                self.over = None;
            }
            // The rules of another call may have been tighter.
            Some(StopReason::Attempts) => self.over = None,
            _ => {}
        }
        let used = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        let over = self.over.or_else(|| (!most.allow_after(used)).then_some(StopReason::Attempts));
        if over.is_some() {
            // What comes after the last attempt takes its place: it is not one attempt more.
            self.history.pop();
        }
        over
    }

    /// The wait after the last attempt is this one.
    pub(crate) fn waits(&mut self, delay: Nanos) {
        if let Some(last) = self.history.last_mut() {
            self.slept = self.slept.saturating_sub(last.delay).saturating_add(delay);
            last.delay = delay;
        }
    }

    /// Writes down that the attempt under way failed, and what is waited for the next.
    pub(crate) fn record(&mut self, error_type: ErrorClass, message: &str, at: Instant, delay: Nanos) {
        self.slept = self.slept.saturating_add(delay);
        self.history.push(AttemptRecord {
            attempt: self.attempt(),
            error_type,
            message: message.to_owned(),
            at,
            delay,
        });
    }
}
