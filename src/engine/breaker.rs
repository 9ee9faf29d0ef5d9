//! The circuit breaker of one tool: counts failures, opens, and lets probes through later.

use core::num::NonZeroU32;
use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::untold::remember;
use crate::policy::{BreakerPolicy, BreakerScope, CountWindow, FailureCounting, TimeBound};
use crate::time::{Instant, Nanos};

/// The breaker of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CircuitBreaker {
    /// Failures that count now.
    /// Example: `2`
    failures: u32,
    /// Where it stands.
    phase: PhaseState,
    /// The rules by which it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<BreakerRules>,
    /// The last results, the oldest first, if they are what is counted: when (in nanoseconds since 1970), and
    /// whether it failed.
    /// Example: `[[1763768419250000000, true]]`
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    results: VecDeque<(Instant, bool)>,
    /// What has happened to it, if hosts share it, and the others are not told yet.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[schemars(skip)]
    untold: VecDeque<BreakerAct>,
}

/// What happens to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BreakerAct {
    /// A probe is let through.
    Probed(Instant),
    /// A run went well.
    Succeeded { at: Instant, probe: bool },
    /// A run failed.
    Failed { at: Instant, probe: bool },
}

/// What makes one breaker another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BreakerRules")]
struct BreakerRules {
    /// Failures that open it; `None`: never.
    /// Example: `3`
    failures: Option<NonZeroU32>,
    /// How long it stays open; `None`: unlimited.
    open_for: Option<Nanos>,
    /// Which failures count together.
    count: FailureCounting,
    /// How long what is known lasts.
    scope: BreakerScope,
    /// How many probes may run at a time.
    /// Example: `1`
    probes: NonZeroU32,
    /// How many probes have to go well before it closes.
    /// Example: `1`
    successes: NonZeroU32,
}

/// Where a breaker stands.
///
/// Example: `closed`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BreakerStanding")]
enum PhaseState {
    /// Calls run.
    #[default]
    Closed,
    /// Calls are answered without a run.
    Open {
        /// Until when; `None`: for as long as the breaker lives.
        until: Option<Instant>,
    },
    /// Probes are out; each is a lease and must be settled or returned.
    HalfOpen {
        /// How many are out.
        /// Example: `1`
        out: u32,
        /// How many went well.
        /// Example: `0`
        well: u32,
    },
}

/// The phase of a circuit breaker.
///
/// Example: `open`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerPhase {
    /// Calls run.
    Closed,
    /// Calls are answered without a run.
    Open,
    /// Probes run.
    HalfOpen,
}

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerAdmission {
    /// It may.
    Run,
    /// It may, as a probe of a half-open breaker.
    Probe,
    /// It may not.
    Refused,
}

impl CircuitBreaker {
    /// Asks for permission to run. An open breaker whose time is over becomes half-open and admits up to `probes`
    /// calls.
    pub(crate) fn ask(&mut self, now: Instant) -> BreakerAdmission {
        let (out, well) = match self.phase {
            PhaseState::Closed => return BreakerAdmission::Run,
            // The interpreter has no timers, so an open breaker becomes half-open only when a call asks.
            PhaseState::Open { until: Some(until) } if until <= now => (0, 0),
            PhaseState::Open { .. } => return BreakerAdmission::Refused,
            PhaseState::HalfOpen { out, well } => (out, well),
        };
        // Half-open admits a few calls only. failsafe-rs and recloser admit all calls, which restores the full load
        // on a service that has just failed.
        if out >= self.rules.map_or(1, |rules| rules.probes.get()) {
            return BreakerAdmission::Refused;
        }
        self.phase = PhaseState::HalfOpen { out: out.saturating_add(1), well };
        self.tells(BreakerAct::Probed(now));
        BreakerAdmission::Probe
    }

    /// Whether the breaker opened after a run began, so that the run's result is ignored: a half-open breaker counts
    /// probes only.
    pub const fn is_late(&self, is_probe: bool) -> bool {
        // Only probes show the present state of the service; runs from before the breaker opened report the failures
        // that opened it (Polly ignores them, too).
        matches!(self.phase, PhaseState::HalfOpen { .. }) && !is_probe
    }

    /// Whether the breaker would open if all `under_way` runs failed, so that one more run may exceed the threshold.
    pub fn is_full(&self, policy: &BreakerPolicy, under_way: u32) -> bool {
        // Calls of one batch ask before any of them ends. In supyagent all of them are admitted, and the threshold is
        // exceeded by the size of the batch.
        let Some(threshold) = policy.failures.value.filter(|_| under_way > 0) else { return false };
        let failures = self.failures.saturating_add(under_way);
        match (self.phase, policy.count.value) {
            (PhaseState::Open { .. } | PhaseState::HalfOpen { .. }, _) => false,
            (PhaseState::Closed, FailureCounting::Consecutive | FailureCounting::Cumulative) => {
                failures >= threshold.get()
            }
            (PhaseState::Closed, FailureCounting::Window(window)) => {
                let results = self.held().saturating_add(under_way).min(window.calls.get());
                window.trips(threshold, failures, results)
            }
        }
    }

    /// Records a success. Returns whether the breaker closed.
    ///
    /// The success of a run that began before the breaker opened has no effect.
    pub fn succeeded(&mut self, policy: &BreakerPolicy, now: Instant) -> bool {
        let act = BreakerAct::Succeeded { at: now, probe: matches!(self.phase, PhaseState::HalfOpen { .. }) };
        match (self.phase, policy.count.value) {
            // Cumulative follows LocalCowork: after three failures in a message the tool is disabled, whatever
            // succeeded in between.
            (PhaseState::Open { .. }, _) | (PhaseState::Closed, FailureCounting::Cumulative) => false,
            (PhaseState::Closed, FailureCounting::Consecutive) => {
                // A success that resets nothing is not reported: hosts that share the breaker would otherwise write
                // for every healthy call.
                if self.failures > 0 {
                    self.tells(act);
                }
                self.begin_anew();
                false
            }
            (PhaseState::Closed, FailureCounting::Window(window)) => {
                self.rules = Some(BreakerRules::of(policy));
                self.tells(act);
                self.record(window, now, false);
                false
            }
            (PhaseState::HalfOpen { out, well }, _) => {
                self.tells(act);
                // One successful probe can be chance: users of Polly ask for several (App-vNext/Polly#2381).
                let well = well.saturating_add(1);
                let closes = well >= policy.successes.value.get();
                if closes {
                    self.begin_anew();
                } else {
                    self.phase = PhaseState::HalfOpen { out: out.saturating_sub(1), well };
                }
                closes
            }
        }
    }

    /// Records a failure. Returns whether the breaker opened.
    pub fn failed(&mut self, policy: &BreakerPolicy, now: Instant) -> bool {
        // A run from before the breaker opened does not show the present state of the service. A failed probe does,
        // so it opens the breaker again.
        let probe = matches!(self.phase, PhaseState::HalfOpen { .. });
        let PhaseState::Closed = self.phase else {
            self.tells(BreakerAct::Failed { at: now, probe });
            self.failures = self.failures.saturating_add(1);
            if probe {
                self.open(policy, now);
            }
            return probe;
        };
        self.count(policy, now);
        let trips = policy.failures.value.is_some_and(|threshold| match policy.count.value {
            FailureCounting::Consecutive | FailureCounting::Cumulative => self.failures >= threshold.get(),
            FailureCounting::Window(window) => window.trips(threshold, self.failures, self.held()),
        });
        if trips {
            self.open(policy, now);
        }
        trips
    }

    /// Counts a failure only if the breaker is closed and stays closed. Returns whether it was counted. Not for
    /// breakers that count the last results.
    #[inline]
    pub(super) fn bears(&mut self, policy: &BreakerPolicy, now: Instant) -> bool {
        let bears = |most: NonZeroU32| self.failures.saturating_add(1) < most.get();
        let may = self.phase == PhaseState::Closed && policy.failures.value.is_none_or(bears);
        if may {
            self.count(policy, now);
        }
        may
    }

    /// Counts a failure of a closed breaker.
    #[inline]
    fn count(&mut self, policy: &BreakerPolicy, now: Instant) {
        // The rules are kept with the count: under other rules the same number of failures has another meaning.
        self.rules = Some(BreakerRules::of(policy));
        self.tells(BreakerAct::Failed { at: now, probe: false });
        match policy.count.value {
            FailureCounting::Consecutive | FailureCounting::Cumulative => {
                self.failures = self.failures.saturating_add(1);
            }
            FailureCounting::Window(window) => self.record(window, now, true),
        }
    }

    /// Returns the permit of a probe that ended without a result, so that another probe may run. Other hosts are not
    /// informed: the permit belongs to this host, and their own probes may be in flight.
    pub fn returned(&mut self, now: Instant) {
        self.phase = match self.phase {
            // A probe that was cancelled and kept its permit would leave the breaker half-open for ever, as in
            // resilience4j (#903, #935, #1389). A cancelled probe is no success either, so nothing else changes.
            PhaseState::HalfOpen { out: 0 | 1, well: 0 } => PhaseState::Open { until: Some(now) },
            PhaseState::HalfOpen { out, well } => PhaseState::HalfOpen { out: out.saturating_sub(1), well },
            phase => phase,
        };
    }

    /// The same breaker without probes in flight.
    #[must_use]
    pub fn without_probes(&self) -> Self {
        let phase = match self.phase {
            PhaseState::HalfOpen { well, .. } => PhaseState::HalfOpen { out: 0, well },
            phase => phase,
        };
        Self { phase, ..self.clone() }
    }

    /// The state known to other hosts, with the local changes since the last exchange applied. The probes in flight
    /// are those of this host.
    pub(super) fn told_to(&self, others: Option<&Self>, policy: &BreakerPolicy) -> Self {
        // Counts under other rules cannot be compared with these.
        let others = others.filter(|others| others.fits(policy));
        let mut all = Self { untold: VecDeque::new(), ..others.cloned().unwrap_or_default() };
        // The local changes are replayed, not added up: the sum of two counts cannot show whether the breaker opened
        // in between.
        for act in &self.untold {
            match *act {
                BreakerAct::Probed(at) => drop(all.ask(at)),
                BreakerAct::Succeeded { probe, .. } | BreakerAct::Failed { probe, .. }
                    if all.is_late(probe) => {}
                BreakerAct::Succeeded { at, .. } => drop(all.succeeded(policy, at)),
                BreakerAct::Failed { at, .. } => drop(all.failed(policy, at)),
            }
        }
        all.untold.clear();
        if let (PhaseState::HalfOpen { well, .. }, PhaseState::HalfOpen { out, .. }) = (all.phase, self.phase)
        // Other hosts return their own probes; of this host only the probes in flight count.
        {
            all.phase = PhaseState::HalfOpen { out, well };
        } else {
            all = all.without_probes();
        }
        all
    }

    /// Whether there are changes that other hosts have not received.
    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Whether hosts share a breaker with these rules.
    pub(super) const fn is_shared_by(policy: &BreakerPolicy) -> bool {
        BreakerRules::of(policy).is_shared()
    }

    /// A digest of the rules that a breaker of `policy` counts by.
    pub(super) fn rules_of(policy: &BreakerPolicy) -> String {
        let rules = serde_json::to_vec(&BreakerRules::of(policy)).unwrap_or_default();
        // Hosts with other rules must not share this count. The digest in the name separates them without a lookup.
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&rules))
    }

    /// Whether the breaker equals a new one.
    pub(super) fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the breaker is closed and has counted nothing.
    pub fn is_quiet(&self) -> bool {
        self.phase == PhaseState::Closed && self.failures == 0 && self.results.is_empty()
    }

    /// Whether the breaker counted by the rules of `policy`.
    pub fn fits(&self, policy: &BreakerPolicy) -> bool {
        self.rules.is_none_or(|rules| rules == BreakerRules::of(policy))
    }

    /// The failures that count now: consecutive, cumulative, or among the last results.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// How long the counts of the breaker are kept.
    pub(crate) fn scope(&self) -> BreakerScope {
        self.rules.map_or_else(BreakerScope::default, |rules| rules.scope)
    }

    /// The phase of the breaker.
    pub const fn phase(&self) -> BreakerPhase {
        match self.phase {
            PhaseState::Closed => BreakerPhase::Closed,
            PhaseState::Open { .. } => BreakerPhase::Open,
            PhaseState::HalfOpen { .. } => BreakerPhase::HalfOpen,
        }
    }

    /// When an open breaker becomes half-open; `None`: it is not open, or stays open.
    pub const fn open_until(&self) -> Option<Instant> {
        match self.phase {
            PhaseState::Open { until } => until,
            PhaseState::Closed | PhaseState::HalfOpen { .. } => None,
        }
    }

    /// Whether the breaker would certainly refuse a call at `now`.
    pub fn is_open(&self, now: Instant) -> bool {
        matches!(self.phase, PhaseState::Open { until } if until.is_none_or(|until| now < until))
    }

    /// Resets everything except the changes that other hosts have not received.
    fn begin_anew(&mut self) {
        // Unreported changes are kept: without the success among them, other hosts would still count the failures
        // before it.
        if self.is_shared() {
            let (rules, untold) = (self.rules, std::mem::take(&mut self.untold));
            *self = Self { rules, untold, ..Self::default() };
        } else {
            *self = Self::default();
        }
    }

    fn is_shared(&self) -> bool {
        self.rules.is_some_and(BreakerRules::is_shared)
    }

    /// Keeps a change for the other hosts.
    fn tells(&mut self, act: BreakerAct) {
        if self.is_shared() {
            remember(&mut self.untold, act);
        }
    }

    #[cold]
    fn open(&mut self, policy: &BreakerPolicy, now: Instant) {
        let until = match policy.open_for.value {
            TimeBound::Within(length) => Some(now.saturating_add(length)),
            TimeBound::Unlimited => None,
        };
        // Opening ends the count; failures from before the pause must not open the breaker again.
        self.results.clear();
        self.phase = PhaseState::Open { until };
    }

    /// Records a result, and removes results that no longer count.
    #[inline(never)]
    fn record(&mut self, window: CountWindow, now: Instant, failed: bool) {
        self.results.push_back((now, failed));
        self.failures = self.failures.saturating_add(u32::from(failed));
        // Old failures say little about the present, so the window may be limited by age as well as by number.
        let old = |at: Instant| window.within.is_some_and(|within| now.since(at) >= within);
        while let Some((at, failed)) = self.results.front().copied() {
            if self.held() <= window.calls.get() && !old(at) {
                break;
            }
            self.results.pop_front();
            self.failures = self.failures.saturating_sub(u32::from(failed));
        }
    }

    /// The number of results kept.
    fn held(&self) -> u32 {
        u32::try_from(self.results.len()).unwrap_or(u32::MAX)
    }
}

impl BreakerRules {
    const fn of(policy: &BreakerPolicy) -> Self {
        let open_for = match policy.open_for.value {
            TimeBound::Within(length) => Some(length),
            TimeBound::Unlimited => None,
        };
        Self {
            failures: policy.failures.value,
            open_for,
            count: policy.count.value,
            scope: policy.scope.value,
            probes: policy.probes.value,
            successes: policy.successes.value,
        }
    }

    /// Whether hosts share the breaker and it can open.
    const fn is_shared(self) -> bool {
        matches!(self.scope, BreakerScope::Shared) && self.failures.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Origin, Setting};
    use crate::text::Template;

    fn policy(failures: u32, open_for: TimeBound) -> BreakerPolicy {
        BreakerPolicy {
            failures: Setting::new(NonZeroU32::new(failures), Origin::BUILTIN),
            count: Setting::new(FailureCounting::Consecutive, Origin::BUILTIN),
            scope: Setting::new(BreakerScope::Run, Origin::BUILTIN),
            probes: Setting::new(NonZeroU32::MIN, Origin::BUILTIN),
            successes: Setting::new(NonZeroU32::MIN, Origin::BUILTIN),
            hide: Setting::new(false, Origin::BUILTIN),
            open_for: Setting::new(open_for, Origin::BUILTIN),
            message: Setting::new(Template::parse("open", &[]).unwrap(), Origin::BUILTIN),
        }
    }

    fn shared(failures: u32, open_for: TimeBound) -> BreakerPolicy {
        let mut policy = policy(failures, open_for);
        policy.scope.value = BreakerScope::Shared;
        policy
    }

    /// Sends the host's changes to the shared state, and takes the result.
    fn tell(host: &mut CircuitBreaker, all: &mut CircuitBreaker, policy: &BreakerPolicy) {
        *host = host.told_to(Some(all), policy);
        *all = host.without_probes();
    }

    #[test]
    fn it_opens_at_the_threshold_and_stays_open() {
        let policy = policy(2, TimeBound::Unlimited);
        let mut breaker = CircuitBreaker::default();
        assert!(!breaker.failed(&policy, Instant(0)));
        assert_eq!(breaker.ask(Instant(0)), BreakerAdmission::Run);
        assert!(breaker.failed(&policy, Instant(0)));
        assert_eq!(breaker.ask(Instant(u64::MAX)), BreakerAdmission::Refused);
    }

    #[test]
    fn a_late_result_moves_nothing() {
        let policy = policy(1, TimeBound::Within(Nanos(10)));
        let mut breaker = CircuitBreaker::default();
        breaker.failed(&policy, Instant(0));
        assert!(!breaker.succeeded(&policy, Instant(1)), "a run from before it opened does not close it");
        assert!(!breaker.failed(&policy, Instant(5)), "nor does one open it for longer");
        assert_eq!(breaker.open_until(), Some(Instant(10)));
    }

    #[test]
    fn a_late_result_under_other_rules_leaves_it_what_it_is() {
        let (new, old) = (policy(1, TimeBound::Unlimited), policy(3, TimeBound::Unlimited));
        let mut breaker = CircuitBreaker::default();
        breaker.failed(&new, Instant(0));
        breaker.failed(&old, Instant(1));
        assert!(breaker.fits(&new));
    }

    #[test]
    fn one_probe_at_a_time_and_a_probe_that_is_given_back_blocks_nobody() {
        let policy = policy(1, TimeBound::Within(Nanos(10)));
        let mut breaker = CircuitBreaker::default();
        breaker.failed(&policy, Instant(0));
        assert_eq!(breaker.ask(Instant(9)), BreakerAdmission::Refused);
        assert_eq!(breaker.ask(Instant(10)), BreakerAdmission::Probe);
        assert_eq!(breaker.ask(Instant(10)), BreakerAdmission::Refused);
        breaker.returned(Instant(11));
        assert_eq!(breaker.ask(Instant(11)), BreakerAdmission::Probe);
        assert!(breaker.failed(&policy, Instant(12)), "a probe that fails opens it again");
        assert_eq!(breaker.ask(Instant(22)), BreakerAdmission::Probe);
        assert!(breaker.succeeded(&policy, Instant(22)), "one that succeeds closes it");
        assert_eq!(breaker.ask(Instant(22)), BreakerAdmission::Run);
    }

    #[test]
    fn a_probe_that_one_host_gives_back_takes_none_from_another() {
        let policy = shared(1, TimeBound::Within(Nanos(100)));
        let (mut one, mut other, mut all) = <(CircuitBreaker, CircuitBreaker, CircuitBreaker)>::default();
        one.failed(&policy, Instant(0));
        tell(&mut one, &mut all, &policy);
        tell(&mut other, &mut all, &policy);
        for host in [&mut one, &mut other] {
            assert_eq!(host.ask(Instant(100)), BreakerAdmission::Probe);
            tell(host, &mut all, &policy);
        }
        one.returned(Instant(101));
        tell(&mut one, &mut all, &policy);
        tell(&mut other, &mut all, &policy);
        assert_eq!(one.ask(Instant(101)), BreakerAdmission::Probe, "the next one may try");
        assert!(other.failed(&policy, Instant(102)));
        tell(&mut other, &mut all, &policy);
        assert!(all.is_open(Instant(201)));
    }

    #[test]
    fn a_probe_that_a_host_gives_back_leaves_it_its_others() {
        let mut policy = shared(1, TimeBound::Within(Nanos(100)));
        policy.probes.value = NonZeroU32::new(2).unwrap();
        let (mut host, mut all) = <(CircuitBreaker, CircuitBreaker)>::default();
        host.failed(&policy, Instant(0));
        (0..2).for_each(|_| assert_eq!(host.ask(Instant(100)), BreakerAdmission::Probe));
        tell(&mut host, &mut all, &policy);
        host.returned(Instant(101));
        tell(&mut host, &mut all, &policy);
        assert!(host.succeeded(&policy, Instant(102)));
    }

    #[test]
    fn without_a_threshold_it_never_opens() {
        let mut policy = policy(1, TimeBound::Unlimited);
        policy.failures = Setting::new(None, Origin::BUILTIN);
        let mut breaker = CircuitBreaker::default();
        assert!(!(0..1000).any(|_| breaker.failed(&policy, Instant(0))));
    }

    #[test]
    fn of_one_that_never_opens_there_is_nothing_to_tell() {
        let mut policy = shared(1, TimeBound::Unlimited);
        policy.failures.value = None;
        let mut breaker = CircuitBreaker::default();
        breaker.failed(&policy, Instant(0));
        assert!(!breaker.has_news());
    }

    #[test]
    fn failures_in_all_are_not_taken_back_by_a_success() {
        let mut policy = policy(2, TimeBound::Unlimited);
        policy.count.value = FailureCounting::Cumulative;
        let mut breaker = CircuitBreaker::default();
        assert!(!breaker.failed(&policy, Instant(0)));
        breaker.succeeded(&policy, Instant(1));
        assert!(breaker.failed(&policy, Instant(2)));
    }

    #[test]
    fn as_many_probes_run_as_are_allowed_and_as_many_have_to_go_well() {
        let mut policy = policy(1, TimeBound::Within(Nanos(10)));
        (policy.probes.value, policy.successes.value) =
            (NonZeroU32::new(2).unwrap(), NonZeroU32::new(3).unwrap());
        let mut breaker = CircuitBreaker::default();
        breaker.failed(&policy, Instant(0));
        let asked: Vec<_> = (0..3).map(|_| breaker.ask(Instant(10))).collect();
        assert_eq!(asked, [BreakerAdmission::Probe, BreakerAdmission::Probe, BreakerAdmission::Refused]);
        breaker.returned(Instant(10));
        assert_eq!(
            breaker.ask(Instant(10)),
            BreakerAdmission::Probe,
            "one that was given back is free again"
        );
        assert!(!breaker.succeeded(&policy, Instant(11)));
        assert!(!breaker.succeeded(&policy, Instant(11)));
        assert_eq!(breaker.ask(Instant(12)), BreakerAdmission::Probe);
        assert!(breaker.succeeded(&policy, Instant(12)));
        assert_eq!(breaker, CircuitBreaker::default());
    }

    /// Whether the results so far open a breaker, computed directly from the definition.
    fn told_naively(threshold: NonZeroU32, window: CountWindow, results: &[(u64, bool)]) -> bool {
        let now = results.last().unwrap().0;
        let last = results.iter().rev().take(window.calls.get() as usize);
        let counted: Vec<bool> = last
            .take_while(|(at, _)| window.within.is_none_or(|within| now - at < within.0))
            .map(|(_, failed)| *failed)
            .collect();
        let failed = counted.iter().filter(|failed| **failed).count() as u64;
        failed >= u64::from(threshold.get())
            && counted.len() >= window.min_calls as usize
            && failed * 1_000_000 >= u64::from(window.ratio_ppm) * counted.len() as u64
    }

    proptest::proptest! {
        #[test]
        fn a_window_opens_when_its_definition_says_so(
            failures in 1_u32..5, calls in 1_u32..9, min_calls in 0_u32..9, ratio_ppm in 0_u32..=1_000_000,
            within in proptest::option::of(1_u64..20),
            steps in proptest::collection::vec((0_u64..5, proptest::bool::ANY), 1..60),
        ) {
            let calls = NonZeroU32::new(calls).unwrap();
            let window = CountWindow { calls, within: within.map(Nanos), ratio_ppm, min_calls };
            let mut policy = policy(failures, TimeBound::Unlimited);
            policy.count.value = FailureCounting::Window(window);
            let (mut breaker, mut now, mut results) = (CircuitBreaker::default(), 0, Vec::new());
            for (pause, failed) in steps {
                now += pause;
                results.push((now, failed));
                let opened = if failed { breaker.failed(&policy, Instant(now)) } else { breaker.succeeded(&policy, Instant(now)) };
                let expected = failed && told_naively(policy.failures.value.unwrap(), window, &results);
                proptest::prop_assert_eq!(opened, expected);
                proptest::prop_assert!(breaker.results.len() <= calls.get() as usize);
                if opened {
                    break;
                }
            }
        }

        #[test]
        fn runs_that_are_held_back_when_it_is_full_never_overshoot(
            failures in 1_u32..5, asked in 1_u32..20, before in 0_u32..5,
        ) {
            let policy = policy(failures, TimeBound::Unlimited);
            let mut breaker = CircuitBreaker::default();
            for _ in 0..before.min(failures - 1) {
                breaker.failed(&policy, Instant(0));
            }
            let mut under_way = 0;
            while under_way < asked && !breaker.is_full(&policy, under_way) {
                under_way += 1;
            }
            let opened: Vec<bool> = (0..under_way).map(|_| breaker.failed(&policy, Instant(1))).collect();
            let at = opened.iter().position(|opened| *opened);
            proptest::prop_assert!(under_way > 0 && at.is_none_or(|at| at + 1 == opened.len()));
        }
    }
}
