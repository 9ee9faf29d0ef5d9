//! The gate of a pool: how many model calls may be in flight while the provider fails every call.
//!
//! A shared outage is discovered once: after failures in a row one call at a time is a probe, and the others wait without
//! using up their attempts. Once a probe is answered, each answer lets one more call be in flight, as in TCP's slow start
//! (RFC 5681, 3.1): the calls that waited do not bring the provider down again.

use serde::{Deserialize, Serialize};

use crate::engine::provider_outages::OutageProbes;
use crate::policy::{ErrorClass, ProbeRule};
use crate::time::{Instant, Nanos};

/// What a pool knows of an outage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutageGate {
    /// The rule of the latest call; `None`: no call of the pool has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<ProbeRule>,
    /// The failures in a row.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    failures: u32,
    /// How often it has closed, by which answers to calls from before are known.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    epoch: u32,
    /// Since it closed; `None`: it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<ClosedGate>,
}

/// A gate that lets probes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClosedGate {
    /// When the next call may start.
    probe_at: Instant,
    /// The time that was waited for it.
    delay: Nanos,
    /// The calls that may be in flight; 1: no probe has been answered yet.
    window: u32,
}

/// How a model call ended, as far as it says whether the provider works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum CallOutcome {
    /// The provider answered, if only that the request is wrong.
    Answered,
    /// It refused the call by a limit.
    Refused,
    /// It did not answer, or failed.
    Outage,
    /// The call was given up.
    Unknown,
}

impl CallOutcome {
    /// What a failure of this class says.
    pub(in crate::engine) const fn of_failure(class: ErrorClass) -> Self {
        match class {
            ErrorClass::RateLimit => Self::Refused,
            _ if class.is_outage() => Self::Outage,
            _ => Self::Answered,
        }
    }
}

impl OutageGate {
    /// Whether there is nothing to remember.
    pub(super) const fn is_unused(&self) -> bool {
        self.rule.is_none() && self.closed.is_none()
    }

    pub(super) const fn follow(&mut self, rule: ProbeRule) {
        self.rule = Some(rule);
    }

    /// What a call that starts now has to bring back with its end.
    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The calls of this epoch that may be in flight, and when the next of them may start; `None`: the gate is open.
    pub(super) fn window(&self) -> Option<(u32, Instant)> {
        self.closed.map(|closed| (closed.window, closed.probe_at))
    }

    /// What other hosts learn of it; `None`: it is open.
    pub(super) fn probes(&self) -> Option<OutageProbes> {
        let ClosedGate { probe_at, delay, window } = self.closed?;
        Some(OutageProbes { failures: self.failures, probe_at, delay, window })
    }

    /// Takes what another host has found. `is_awaited`: calls wait at the gate.
    pub(super) fn told(&mut self, found: Option<OutageProbes>, is_awaited: bool) {
        let Some(OutageProbes { failures, probe_at, delay, window }) = found else {
            // The calls that wait here follow one by one, too.
            return self.answered(self.epoch, is_awaited);
        };
        if window == 1 {
            // Calls in flight say what is known by now.
            self.epoch = self.epoch.saturating_add(1);
        }
        self.failures = failures;
        self.closed = Some(ClosedGate { probe_at, delay, window });
    }

    /// Records the end of a call that began in `epoch`. `is_awaited`: calls wait at the gate.
    pub(super) fn ended(&mut self, outcome: CallOutcome, epoch: u32, is_awaited: bool, now: Instant) {
        match outcome {
            CallOutcome::Unknown => {}
            CallOutcome::Answered | CallOutcome::Refused => self.answered(epoch, is_awaited),
            CallOutcome::Outage => self.failed(epoch, now),
        }
    }

    /// The state of the gate, for people.
    pub(super) fn text(&self) -> Option<String> {
        let ClosedGate { window, .. } = self.closed?;
        Some(match window {
            1 => format!("{} calls failed in a row; one call at a time is a probe", self.failures),
            more => format!("a probe was answered; {more} calls may be in flight"),
        })
    }

    fn answered(&mut self, epoch: u32, is_awaited: bool) {
        let Some(closed) = &mut self.closed else {
            self.failures = 0;
            return;
        };
        // A call from before that is answered late does not say that the outage is over.
        if epoch != self.epoch {
            return;
        }
        self.failures = 0;
        closed.window = closed.window.saturating_add(1);
        if !is_awaited {
            self.closed = None;
        }
    }

    fn failed(&mut self, epoch: u32, now: Instant) {
        // Of many calls in flight all fail, and say the same.
        let Some(rule) = self.rule.filter(|_| epoch == self.epoch) else { return };
        self.failures = self.failures.saturating_add(1);
        let delay = match self.closed {
            Some(ClosedGate { window: 1, delay, .. }) => Nanos(delay.0.saturating_mul(2)).min(rule.cap),
            _ if self.failures >= rule.failures.get() => rule.base,
            _ => return,
        };
        self.epoch = self.epoch.saturating_add(1);
        self.closed = Some(ClosedGate { probe_at: now.saturating_add(delay), delay, window: 1 });
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    const fn secs(secs: u64) -> Instant {
        Instant(Nanos::from_secs(secs).0)
    }

    fn gate() -> OutageGate {
        let rule = ProbeRule {
            failures: NonZeroU32::new(3).unwrap(),
            base: Nanos::from_secs(1),
            cap: Nanos::from_secs(5),
        };
        OutageGate { rule: Some(rule), ..OutageGate::default() }
    }

    fn end(gate: &mut OutageGate, outcome: CallOutcome, at: u64) {
        gate.ended(outcome, gate.epoch(), true, secs(at));
    }

    #[test]
    fn probes_are_further_and_further_apart_up_to_the_cap() {
        let mut gate = gate();
        for _ in 0..2 {
            end(&mut gate, CallOutcome::Outage, 10);
        }
        assert_eq!(gate.window(), None, "an answer in between restarts the count");
        end(&mut gate, CallOutcome::Answered, 10);
        for _ in 0..3 {
            end(&mut gate, CallOutcome::Outage, 10);
        }
        let mut probes = vec![gate.window()];
        for _ in 0..4 {
            end(&mut gate, CallOutcome::Outage, 20);
            probes.push(gate.window());
        }
        assert_eq!(probes, [11, 22, 24, 25, 25].map(|at| Some((1, secs(at)))));
    }

    #[test]
    fn each_answer_lets_one_more_through_until_nobody_waits() {
        let mut gate = gate();
        for _ in 0..3 {
            end(&mut gate, CallOutcome::Outage, 0);
        }
        for window in 2..5 {
            end(&mut gate, CallOutcome::Answered, 1);
            assert_eq!(gate.window(), Some((window, secs(1))));
        }
        // One failure among answers closes nothing.
        end(&mut gate, CallOutcome::Outage, 2);
        assert_eq!(gate.window(), Some((4, secs(1))));
        gate.ended(CallOutcome::Answered, gate.epoch(), false, secs(3));
        assert_eq!(gate.window(), None);
    }

    #[test]
    fn what_another_host_has_found_holds_here_too() {
        let (mut one, mut other) = (gate(), gate());
        let before = other.epoch();
        for _ in 0..3 {
            end(&mut one, CallOutcome::Outage, 10);
        }
        other.told(one.probes(), false);
        assert_eq!((other.window(), other.text()), (one.window(), one.text()));
        other.ended(CallOutcome::Answered, before, false, secs(10));
        assert!(other.window().is_some(), "a call from before says nothing");
        end(&mut one, CallOutcome::Answered, 11);
        one.told(None, true);
        assert_eq!(one.window(), Some((3, secs(11))), "those that wait follow one by one");
        other.told(None, false);
        assert_eq!(other.window(), None);
    }

    #[test]
    fn ends_of_calls_from_before_it_closed_move_nothing() {
        let mut gate = gate();
        for _ in 0..50 {
            gate.ended(CallOutcome::Outage, 0, true, secs(7));
        }
        gate.ended(CallOutcome::Answered, 0, true, secs(8));
        gate.ended(CallOutcome::Unknown, gate.epoch(), true, secs(8));
        assert_eq!(gate.window(), Some((1, secs(8))));
    }
}
