//! The wait before the next turn: what is corrected, or what a provider asked for, may not be tried again earlier.

use serde::{Deserialize, Serialize};

use super::super::directive::Because;
use super::super::reason::{Reason, told};
use super::out::Out;
use crate::policy::ErrorClass;
use crate::time::{Instant, Nanos};

/// The wait before the next turn, if one is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct PendingDelay(Option<Delay>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Delay {
    until: Instant,
    subject: Subject,
    because: Vec<Reason>,
}

/// What a wait is about, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Subject {
    pub(in crate::engine) name: String,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) max_attempts: Option<u32>,
    pub(in crate::engine) error_type: ErrorClass,
    pub(in crate::engine) message: String,
}

impl PendingDelay {
    /// Whether no wait is due.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The next turn does not start before `delay` is over. Of several waits the longest counts.
    pub(in crate::engine) fn wait(
        &mut self,
        delay: Nanos,
        subject: Subject,
        because: Vec<Reason>,
        now: Instant,
    ) {
        let until = now.saturating_add(delay);
        if self.0.as_ref().is_none_or(|due| due.until < until) {
            self.0 = Some(Delay { until, subject, because });
        }
    }

    /// The wait that is due, if it is not over; it is due no more.
    pub(in crate::engine) fn take(&mut self, out: &Out<'_>) -> Option<(Nanos, Subject, Vec<Because>)> {
        let Delay { until, subject, because } = self.0.take()?;
        let delay = until.since(out.now);
        (!delay.is_zero()).then(|| (delay, subject, told(out.rules.policy, because)))
    }

    /// Nothing is waited for any more.
    pub(in crate::engine) fn forget(&mut self) {
        self.0 = None;
    }
}
