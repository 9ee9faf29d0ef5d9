//! The delay before the next turn, after a correction or a server delay.

use serde::{Deserialize, Serialize};

use super::super::directive::DecisionReason;
use super::super::reason::{StoredReason, told};
use super::out::StepOutput;
use crate::policy::ErrorClass;
use crate::time::{Instant, Nanos};

/// The delay before the next turn, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct PendingDelay(Option<HeldDelay>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct HeldDelay {
    until: Instant,
    subject: WaitSubject,
    because: Vec<StoredReason>,
}

/// The subject of a delay, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct WaitSubject {
    pub(in crate::engine) name: String,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) max_attempts: Option<u32>,
    pub(in crate::engine) error_type: ErrorClass,
    pub(in crate::engine) message: String,
    /// The pool whose pace is waited for; `None`: a delay after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) pool: Option<String>,
}

impl PendingDelay {
    /// Whether there is no delay.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Delays the next turn by at least `delay`. The longest of several delays counts.
    pub(in crate::engine) fn wait(
        &mut self,
        delay: Nanos,
        subject: WaitSubject,
        because: Vec<StoredReason>,
        now: Instant,
    ) {
        let until = now.saturating_add(delay);
        // The delays of one batch run in parallel: the turn starts after the longest, not after their sum.
        if self.0.as_ref().is_none_or(|due| due.until < until) {
            self.0 = Some(HeldDelay { until, subject, because });
        }
    }

    /// Takes the rest of the delay, if it is not over.
    pub(in crate::engine) fn take(
        &mut self,
        out: &StepOutput<'_>,
    ) -> Option<(Nanos, WaitSubject, Vec<DecisionReason>)> {
        let HeldDelay { until, subject, because } = self.0.take()?;
        let delay = until.since(out.now);
        // A batch may have taken longer than the delay. A timer of zero would cost about a millisecond.
        (!delay.is_zero()).then(|| (delay, subject, told(out.rules.policy, because)))
    }

    /// Removes the delay.
    pub(in crate::engine) fn forget(&mut self) {
        self.0 = None;
    }
}
