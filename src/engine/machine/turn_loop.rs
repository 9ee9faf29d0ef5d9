//! What comes between a turn and the next: a wait, and the count of rounds in which no call went well.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::because::because;
use super::super::directive::{Because, Note};
use super::super::reason::{Reason, told};
use super::out::Out;
use super::turn_guidance::Guidance;
use crate::policy::ErrorClass;
use crate::time::{Instant, Nanos};

/// What comes between a turn and the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TurnLoop {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<Hold>,
    /// Rounds in a row in which no call went well.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    failed_rounds: u32,
}

/// The wait before the next turn: what was corrected may not be tried again earlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Hold {
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

impl TurnLoop {
    /// Whether nothing is remembered.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The next turn does not start before `delay` is over. Of several holds the longest counts.
    pub(in crate::engine) fn hold(
        &mut self,
        delay: Nanos,
        subject: Subject,
        because: Vec<Reason>,
        now: Instant,
    ) {
        let until = now.saturating_add(delay);
        if self.hold.as_ref().is_none_or(|hold| hold.until < until) {
            self.hold = Some(Hold { until, subject, because });
        }
    }

    /// The wait that is due before the next turn, if it is not over; it is due no more.
    pub(in crate::engine) fn take_hold(&mut self, out: &Out<'_>) -> Option<(Nanos, Subject, Vec<Because>)> {
        let Hold { until, subject, because } = self.hold.take()?;
        let delay = until.since(out.now);
        (!delay.is_zero()).then(|| (delay, subject, told(out.rules.policy, because)))
    }

    /// Nothing is waited for any more.
    pub(in crate::engine) fn forget_hold(&mut self) {
        self.hold = None;
    }

    /// All calls of a reply are settled; `ok`: one of them went well. Returns what the model reads after several rounds in
    /// which none did. `is_near`: the last turn comes anyway.
    pub(in crate::engine) fn round_ended(
        &mut self,
        ok: bool,
        is_near: bool,
        out: &mut Out<'_>,
    ) -> Option<Guidance> {
        if ok {
            self.failed_rounds = 0;
            return None;
        }
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        let rounds = self.failed_rounds;
        let policy = out.rules.policy;
        let rules = &policy.turn().calls;
        let limit = rules.failed_rounds.value?;
        if rounds < limit.get() || is_near {
            return None;
        }
        self.failed_rounds = 0;
        let text = out.say(&rules.all_failed_message, json!({ "rounds": rounds }));
        let fact = format!("{rounds} rounds without a call that went well");
        let why = because(policy, "turn.calls.failed_rounds", &rules.failed_rounds.map(|_| limit), [fact]);
        out.note(Note::RoundsFailed { rounds, message: text.clone() }, vec![why]);
        Some(Guidance { class: ErrorClass::ExecutionError, text })
    }
}
