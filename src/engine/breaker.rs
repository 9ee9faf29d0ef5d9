//! The circuit breaker of one tool: counts consecutive failures, opens, and lets one probe through later.

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::BreakerPhase;
use crate::policy::{Bound, BreakerPolicy};
use crate::time::{Instant, Nanos};

/// The breaker of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// Where it stands.
    phase: Phase,
    /// The rules by which it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<Rules>,
}

/// What makes one breaker another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rules {
    failures: Option<NonZeroU32>,
    /// `None`: unlimited.
    open_for: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Closed,
    /// `None`: for as long as the breaker lives.
    Open { until: Option<Instant> },
    /// One probe is out; it is a lease and must be settled or returned.
    HalfOpen,
}

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Run,
    /// It may, as the one probe of a half-open breaker.
    Probe,
    /// It may not.
    Refused,
}

impl Breaker {
    /// Asks to run. An open breaker whose time is up becomes half-open and admits one probe.
    pub fn ask(&mut self, now: Instant) -> Admission {
        match self.phase {
            Phase::Closed => Admission::Run,
            Phase::Open { until: Some(until) } if until <= now => {
                self.phase = Phase::HalfOpen;
                Admission::Probe
            }
            Phase::Open { .. } | Phase::HalfOpen => Admission::Refused,
        }
    }

    /// A run went well. Returns whether the breaker closed by it.
    ///
    /// A run that began before the breaker opened moves nothing.
    pub fn succeeded(&mut self) -> bool {
        match self.phase {
            Phase::Open { .. } => return false,
            Phase::Closed | Phase::HalfOpen => {}
        }
        let closed = self.phase == Phase::HalfOpen;
        *self = Self::default();
        closed
    }

    /// A run failed. Returns whether the breaker opened by it.
    pub fn failed(&mut self, policy: &BreakerPolicy, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        if !matches!(self.phase, Phase::Open { .. }) {
            self.rules = Some(Rules::of(policy));
        }
        let Some(threshold) = policy.failures.value else { return false };
        let trips = match self.phase {
            Phase::Closed => self.failures >= threshold.get(),
            Phase::HalfOpen => true,
            // A run that began before it opened moves nothing.
            Phase::Open { .. } => false,
        };
        if trips {
            let until = match policy.open_for.value {
                Bound::Within(length) => Some(now.saturating_add(length)),
                Bound::Unlimited => None,
            };
            self.phase = Phase::Open { until };
        }
        trips
    }

    /// A probe ended without a result: its lease is returned and the next one may try.
    pub fn returned(&mut self, now: Instant) {
        if self.phase == Phase::HalfOpen {
            self.phase = Phase::Open { until: Some(now) };
        }
    }

    /// Whether it counted by these rules.
    pub fn fits(&self, policy: &BreakerPolicy) -> bool {
        self.rules.is_none_or(|rules| rules == Rules::of(policy))
    }

    /// Failures in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Where it stands.
    pub const fn phase(&self) -> BreakerPhase {
        match self.phase {
            Phase::Closed => BreakerPhase::Closed,
            Phase::Open { .. } => BreakerPhase::Open,
            Phase::HalfOpen => BreakerPhase::HalfOpen,
        }
    }

    /// Until when it is open, if that is known.
    pub const fn open_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } => until,
            Phase::Closed | Phase::HalfOpen => None,
        }
    }
}

impl Rules {
    const fn of(policy: &BreakerPolicy) -> Self {
        let open_for = match policy.open_for.value {
            Bound::Within(length) => Some(length),
            Bound::Unlimited => None,
        };
        Self { failures: policy.failures.value, open_for }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Origin, Setting, Template};

    fn policy(failures: u32, open_for: Bound) -> BreakerPolicy {
        BreakerPolicy {
            failures: Setting::new(NonZeroU32::new(failures), Origin::BUILTIN),
            open_for: Setting::new(open_for, Origin::BUILTIN),
            message: Setting::new(Template::parse("open", &[]).unwrap(), Origin::BUILTIN),
        }
    }

    #[test]
    fn it_opens_at_the_threshold_and_stays_open() {
        let policy = policy(2, Bound::Unlimited);
        let mut breaker = Breaker::default();
        assert!(!breaker.failed(&policy, Instant(0)));
        assert_eq!(breaker.ask(Instant(0)), Admission::Run);
        assert!(breaker.failed(&policy, Instant(0)));
        assert_eq!(breaker.ask(Instant(u64::MAX)), Admission::Refused);
    }

    #[test]
    fn a_late_result_moves_nothing() {
        let policy = policy(1, Bound::Within(Nanos(10)));
        let mut breaker = Breaker::default();
        breaker.failed(&policy, Instant(0));
        assert!(!breaker.succeeded(), "a run from before it opened does not close it");
        assert!(!breaker.failed(&policy, Instant(5)), "nor does one open it for longer");
        assert_eq!(breaker.open_until(), Some(Instant(10)));
    }

    #[test]
    fn a_late_result_under_other_rules_leaves_it_what_it_is() {
        let (new, old) = (policy(1, Bound::Unlimited), policy(3, Bound::Unlimited));
        let mut breaker = Breaker::default();
        breaker.failed(&new, Instant(0));
        breaker.failed(&old, Instant(1));
        assert!(breaker.fits(&new));
    }

    #[test]
    fn one_probe_at_a_time_and_a_probe_that_is_given_back_blocks_nobody() {
        let policy = policy(1, Bound::Within(Nanos(10)));
        let mut breaker = Breaker::default();
        breaker.failed(&policy, Instant(0));
        assert_eq!(breaker.ask(Instant(9)), Admission::Refused);
        assert_eq!(breaker.ask(Instant(10)), Admission::Probe);
        assert_eq!(breaker.ask(Instant(10)), Admission::Refused);
        breaker.returned(Instant(11));
        assert_eq!(breaker.ask(Instant(11)), Admission::Probe);
        assert!(breaker.failed(&policy, Instant(12)), "a probe that fails opens it again");
        assert_eq!(breaker.ask(Instant(22)), Admission::Probe);
        assert!(breaker.succeeded(), "one that succeeds closes it");
        assert_eq!(breaker.ask(Instant(22)), Admission::Run);
    }

    #[test]
    fn without_a_threshold_it_never_opens() {
        let mut policy = policy(1, Bound::Unlimited);
        policy.failures = Setting::new(None, Origin::BUILTIN);
        let mut breaker = Breaker::default();
        assert!(!(0..1000).any(|_| breaker.failed(&policy, Instant(0))));
    }
}
