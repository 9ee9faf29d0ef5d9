//! The pools of pace: which calls may start now, and which wait for their turn, the oldest first.
//!
//! A waiting call has a wait of its own in the work table; its entry here lasts as long as that wait is open. When the
//! wait is over the call asks again, since a server may have asked for a pause meanwhile.

mod outages;
mod sharing;
mod standing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::standing::{PaceStanding, RateStanding};
use super::adaptive_pace::AdaptivePace;
use super::learned_paces::LearnedPaces;
use super::outage_gate::CallOutcome;
use super::pace_pool::{LearnedBound, PaceDue, PacePool, PaceRule, PaceTerms, PacedCall, WaitingCall};
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::provider_limit::{LimitUnit, ProviderLimit};
use crate::engine::shared_pace::SharingScope;
use crate::time::{Instant, Nanos};

/// All pools with a limit, a pause or a waiting call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct PacePools {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pools: BTreeMap<String, PacePool>,
    /// The tokens taken for model calls in flight, by their proposals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    in_flight: BTreeMap<ProposalId, PacedCall>,
    /// The number of the last ticket.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    tickets: u64,
    /// Whether room was made in this step.
    #[serde(skip)]
    freed: bool,
}

/// The ticket of a call: its age, by which waiting calls start. Further attempts keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct PaceTicket {
    /// Its number; 0: not drawn yet.
    number: u64,
    /// When it began to wait; `None`: it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Instant>,
}

/// Whether a call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum PaceAnswer {
    /// It has started.
    Started,
    /// It has to wait.
    Later {
        /// The time at which it may start, as far as it is known now.
        until: Instant,
        /// The limit that holds it back the longest.
        by: PaceRule,
        /// Whether it may start as soon as another call ends; then `until` is only when it asks again.
        is_open: bool,
        /// The calls before it.
        ahead: usize,
        /// The call, to be recorded with its wait.
        call: WaitingCall,
    },
    /// It would have to wait for longer than it may.
    TooLate {
        /// The time at which it could start, as far as it is known now.
        until: Instant,
        by: PaceRule,
    },
}

impl PaceTicket {
    /// The ticket of a call that no longer waits.
    pub(in crate::engine) const fn rested(self) -> Self {
        Self { since: None, ..self }
    }
}

impl PacePools {
    /// Whether nothing is known.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The pools for the next run of the session: what was taken stays taken, and nobody waits.
    pub(in crate::engine) fn next_run(&self) -> Self {
        let mut next = self.clone();
        next.clear();
        next
    }

    /// Removes all calls at the end of the run.
    pub(in crate::engine) fn clear(&mut self) {
        self.in_flight.clear();
        // Nobody waits, and the state is what is written of it.
        self.freed = false;
        for pool in self.pools.values_mut() {
            pool.waiting.clear();
        }
    }

    /// Starts a call if the limits of its pool allow it now. `call`: the proposal of a model call.
    pub(in crate::engine) fn ask(
        &mut self,
        terms: &PaceTerms,
        ticket: &mut PaceTicket,
        call: Option<ProposalId>,
        now: Instant,
    ) -> PaceAnswer {
        // Most pools have no limit: nothing is kept of them.
        if !terms.are_limited() && !self.pools.contains_key(&terms.pool) {
            return PaceAnswer::Started;
        }
        if ticket.number == 0 {
            self.tickets = self.tickets.saturating_add(1);
            ticket.number = self.tickets;
        }
        let pool = self.pools.entry(terms.pool.clone()).or_default();
        pool.follow(terms, now);
        pool.adaptive.forget_if_old(now);
        let tokens = terms.request.saturating_add(pool.expected_reply());
        let bounds = terms.bounds();
        let waiting = WaitingCall { ticket: ticket.number, work: WorkId(0), until: now, tokens, bounds };
        let since = *ticket.since.get_or_insert(now);
        let flight = pool.flight_for(&waiting, &terms.pool, &self.in_flight);
        let PaceDue { at: mut until, by, ahead, is_open } = pool.due(&waiting, flight, now);
        if until <= now {
            ticket.since = None;
            pool.take(tokens, now);
            let adapts = terms.learns == LearnedBound::Refusals;
            if adapts {
                pool.adaptive.sent(now);
            }
            let epoch = pool.gate.epoch();
            if let Some(call) = call.filter(|_| terms.is_flight_kept()) {
                let learns_since = (terms.learns != LearnedBound::None).then_some(now);
                let (pool, waited) = (terms.pool.clone(), since < now);
                let started =
                    PacedCall { pool, tokens, learns_since, is_counted: false, adapts, waited, epoch };
                self.in_flight.insert(call, started);
            }
            self.forget_if_idle(&terms.pool, now);
            return PaceAnswer::Started;
        }
        if by == PaceRule::Refusals {
            pool.adaptive.held(now);
        }
        let last = terms.max_wait.map(|most| since.saturating_add(most));
        if is_open && let Some(last) = last.filter(|last| *last > now) {
            until = until.min(last);
        }
        if last.is_some_and(|last| until > last) {
            ticket.since = None;
            return PaceAnswer::TooLate { until, by };
        }
        PaceAnswer::Later { until, by, is_open, ahead, call: waiting.until(until) }
    }

    /// Records the wait of a call that has to wait.
    pub(in crate::engine) fn wait(&mut self, pool: &str, call: WaitingCall, work: WorkId) {
        let Some(pool) = self.pools.get_mut(pool) else { return };
        let place = pool.waiting.partition_point(|other| other.ticket < call.ticket);
        pool.waiting.insert(place, WaitingCall { work, ..call });
    }

    /// Removes a call whose wait is over, or is no longer needed.
    pub(in crate::engine) fn forget(&mut self, work: WorkId) {
        for pool in self.pools.values_mut() {
            if let Some(place) = pool.waiting.iter().position(|waiting| waiting.work == work) {
                pool.waiting.remove(place);
                // Those behind it may start earlier.
                self.freed = true;
                return;
            }
        }
    }

    /// Records what the answer to a model call says of the provider's limits. Called before its end is recorded.
    pub(in crate::engine) fn learn(&mut self, call: ProposalId, limits: &[ProviderLimit], now: Instant) {
        let Some(PacedCall { pool, learns_since: Some(since), .. }) = self.in_flight.get(&call) else {
            return;
        };
        // The provider counted the calls that began before this one.
        let is_later = |other: &&PacedCall| {
            other.pool == *pool && other.learns_since.is_some_and(|begun| begun > *since)
        };
        let later = self.in_flight.values().filter(is_later);
        let later = later.fold((0_u64, 0_u64), |(calls, tokens), other| {
            (calls.saturating_add(1), tokens.saturating_add(other.tokens))
        });
        if limits.is_empty() {
            return;
        }
        let (pool, since) = (self.pools.entry(pool.clone()).or_default(), *since);
        for limit in limits {
            pool.learned.observe(limit, since, later, now);
        }
        if let Some(call) = self.in_flight.get_mut(&call) {
            call.is_counted = limits.iter().any(|limit| limit.unit == LimitUnit::Tokens);
        }
    }

    /// What is known of what holds the calls of a pool, for people; `None`: no more than the rule says.
    pub(in crate::engine) fn hold_text(&self, name: &str, by: PaceRule) -> Option<String> {
        let pool = self.pools.get(name)?;
        match by {
            PaceRule::Concurrency => match pool.flight(name, &self.in_flight).all {
                1 => Some(format!("1 call of {name} is in flight")),
                more => Some(format!("{more} calls of {name} are in flight")),
            },
            PaceRule::Breaker => pool.gate.text(),
            PaceRule::Learned => pool.learned.text(),
            PaceRule::Refusals => pool.adaptive.text(),
            PaceRule::Hint | PaceRule::Requests | PaceRule::Tokens => None,
        }
    }

    /// Whether one call of a pool at a time is a probe.
    pub(in crate::engine) fn is_probed(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.gate.window().is_some())
    }

    /// How long a server wants no call of a pool.
    pub(in crate::engine) fn pause(&self, pool: &str, now: Instant) -> Nanos {
        self.pools.get(pool).map_or(Nanos::ZERO, |pool| pool.held_until.since(now))
    }

    /// Records the end of a model call. `used`: its tokens, as far as they are known; `None`: what was taken for it stays
    /// taken. Returns the pool whose rate is decreased.
    pub(in crate::engine) fn ended(
        &mut self,
        call: ProposalId,
        (outcome, used, reply): (CallOutcome, Option<u64>, Option<u64>),
        now: Instant,
    ) -> Option<String> {
        let ended = self.in_flight.remove(&call)?;
        self.freed = true;
        let PacedCall { pool: name, tokens: taken, is_counted, epoch, .. } = &ended;
        let (pool, taken) = (self.pools.get_mut(name)?, *taken);
        pool.gate.ended(outcome, *epoch, !pool.waiting.is_empty(), now);
        if let Some(reply) = reply {
            pool.learn_reply(reply);
        }
        let is_slower = pool.adapt(&ended, outcome, reply.is_some(), now);
        let learned = pool.learned.tokens.as_mut().filter(|_| !is_counted);
        for (clock, used) in pool.tokens.iter_mut().chain(learned).zip(core::iter::repeat(used)) {
            match used {
                Some(used) if used >= taken => clock.take(used.saturating_sub(taken), now),
                Some(used) => clock.give_back(taken.saturating_sub(used)),
                None => {}
            }
        }
        if let Some(used) = used {
            pool.note_use((0, used.saturating_sub(taken)), taken.saturating_sub(used));
        }
        is_slower.then_some(ended.pool)
    }

    /// Holds all calls of a pool until then, as a server asked for one of them.
    pub(in crate::engine) fn hold(
        &mut self,
        pool: &str,
        shared: Option<SharingScope>,
        until: Instant,
        now: Instant,
    ) {
        if until <= now {
            return;
        }
        let pool = self.pools.entry(pool.to_owned()).or_default();
        pool.share(shared);
        pool.note_pause(until);
        pool.hold(until, now);
    }

    /// The wait of the first call that may start now, or earlier than its wait ends, if room was made since the last
    /// question.
    pub(in crate::engine) fn next_due(&mut self, now: Instant) -> Option<WorkId> {
        if !self.freed {
            return None;
        }
        for (name, pool) in &mut self.pools {
            // The oldest is looked at alone: whoever is behind it may not start before it, and becomes the oldest when it
            // has started.
            let Some(first) = pool.waiting.first().copied() else { continue };
            let flight = pool.flight_for(&first, name, &self.in_flight);
            let due = pool.due(&first, flight, now).at;
            if due <= now || due < first.until {
                return Some(first.work);
            }
        }
        self.freed = false;
        None
    }

    /// Drops a pool of which nothing needs to be remembered.
    fn forget_if_idle(&mut self, name: &str, now: Instant) {
        let idle = |pool: &PacePool| {
            pool.requests.is_none()
                && pool.tokens.is_none()
                && pool.learned == LearnedPaces::default()
                && pool.adaptive == AdaptivePace::default()
                && pool.waiting.is_empty()
                && pool.held_until <= now
                && pool.mean_reply == 0
                && pool.gate.is_unused()
                && !pool.has_news()
        };
        if self.pools.get(name).is_some_and(idle) {
            self.pools.remove(name);
        }
    }
}

#[cfg(test)]
mod adaptive_tests;

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::{PaceRate, ProbeRule};

    fn rate(limit: u32, secs: u64, burst: u32) -> Option<PaceRate> {
        let per = Nanos::from_secs(secs);
        Some(PaceRate { limit: NonZeroU32::new(limit)?, per, burst: NonZeroU32::new(burst)? })
    }

    fn terms(requests: Option<PaceRate>, tokens: Option<PaceRate>, request: u64) -> PaceTerms {
        let pool = "model main".into();
        let (concurrency, breaker) = (None, None);
        PaceTerms {
            pool,
            requests,
            tokens,
            learns: LearnedBound::None,
            concurrency,
            breaker,
            shared: None,
            request,
            max_wait: None,
        }
    }

    const fn secs(secs: u64) -> Instant {
        Instant(Nanos::from_secs(secs).0)
    }

    /// Calls at one pool, with the timers that a host would have.
    #[derive(Default)]
    struct Client {
        pools: PacePools,
        timers: BTreeMap<WorkId, (Instant, usize)>,
        calls: Vec<(PaceTerms, PaceTicket, Option<Instant>)>,
        work: u64,
    }

    impl Client {
        fn arrive(&mut self, terms: PaceTerms, now: Instant) {
            self.calls.push((terms, PaceTicket::default(), None));
            self.ask(self.calls.len() - 1, now);
        }

        fn ask(&mut self, call: usize, now: Instant) {
            let (terms, ticket, started) = &mut self.calls[call];
            match self.pools.ask(terms, ticket, None, now) {
                PaceAnswer::Started => *started = Some(now),
                PaceAnswer::Later { until, call: waiting, .. } => {
                    assert!(until > now);
                    self.work += 1;
                    self.pools.wait(&terms.pool, waiting, WorkId(self.work));
                    self.timers.insert(WorkId(self.work), (until, call));
                }
                PaceAnswer::TooLate { .. } => unreachable!("no wait is too long"),
            }
        }

        fn withdraw(&mut self, call: usize, now: Instant) {
            let found = self.timers.iter().find(|(_, (_, waiting))| *waiting == call).map(|(work, _)| *work);
            let Some(work) = found else { return };
            self.timers.remove(&work);
            self.pools.forget(work);
            self.wake(now);
        }

        fn wake(&mut self, now: Instant) {
            while let Some(work) = self.pools.next_due(now) {
                let (_, call) = self.timers.remove(&work).unwrap();
                self.pools.forget(work);
                self.ask(call, now);
            }
        }

        /// Fires the timers up to then, the earliest first. Returns the time of the last one.
        fn run_until(&mut self, end: Instant) -> Instant {
            let mut last = Instant(0);
            for _ in 0..100_000 {
                let next = self.timers.iter().map(|(work, (at, _))| (*at, *work)).min();
                let Some((at, work)) = next.filter(|(at, _)| *at <= end) else { return last };
                last = at;
                let (_, call) = self.timers.remove(&work).unwrap();
                self.pools.forget(work);
                self.ask(call, at);
                self.wake(at);
            }
            panic!("calls wait for ever");
        }

        fn starts(&self) -> Vec<Option<Instant>> {
            self.calls.iter().map(|(_, _, started)| *started).collect()
        }
    }

    #[test]
    fn a_withdrawn_call_gives_its_place_to_those_behind_it() {
        let mut calls = Client::default();
        for _ in 0..4 {
            calls.arrive(terms(rate(1, 10, 1), None, 0), secs(0));
        }
        calls.withdraw(1, secs(3));
        calls.run_until(secs(100));
        assert_eq!(calls.starts(), [Some(secs(0)), None, Some(secs(10)), Some(secs(20))]);
    }

    #[test]
    fn a_reply_that_used_less_lets_a_waiting_call_start_at_once() {
        let mut calls = Client::default();
        let mut first = PaceTicket::default();
        let model = terms(None, rate(1000, 60, 1000), 400);
        let call = ProposalId(7);
        assert_eq!(calls.pools.ask(&model, &mut first, Some(call), secs(0)), PaceAnswer::Started);
        calls.arrive(model, secs(1));
        assert_eq!(calls.starts(), [None]);
        calls.pools.ended(call, (CallOutcome::Answered, Some(50), Some(10)), secs(2));
        calls.wake(secs(2));
        assert_eq!(calls.starts(), [Some(secs(2))]);
    }

    #[test]
    fn tokens_that_the_provider_does_not_count_hold_nobody_up() {
        // Of each request nearly all comes from a cache, and Anthropic's limit counts only the rest.
        let terms = PaceTerms { learns: LearnedBound::Headers, ..terms(None, None, 900) };
        let mut pools = PacePools::default();
        for n in 1..=20 {
            let (call, now) = (ProposalId(n), secs(n));
            let asked = pools.ask(&terms, &mut PaceTicket::default(), Some(call), now);
            assert_eq!(asked, PaceAnswer::Started, "call {n}");
            let (unit, per) = (LimitUnit::Tokens, Some(Nanos::from_secs(60)));
            let left = ProviderLimit { unit, limit: 10_000, remaining: 9_900, per, reset: None };
            pools.learn(call, &[left], now);
            pools.ended(call, (CallOutcome::Answered, Some(1_000), Some(100)), now);
        }
    }

    /// Model calls that last as long as each of them says, at a provider that is down until `up`.
    fn calls_at(
        pools: &mut PacePools,
        terms: &PaceTerms,
        count: u64,
        lasts: u64,
        up: u64,
    ) -> Vec<(u64, usize)> {
        let mut tickets: BTreeMap<u64, PaceTicket> = BTreeMap::new();
        let mut waiting: BTreeMap<WorkId, (Instant, u64)> = BTreeMap::new();
        let mut flying: Vec<(Instant, u64)> = Vec::new();
        let mut ready: Vec<u64> = (1..=count).collect();
        let (mut starts, mut work) = (Vec::new(), 0);
        let (mut now, mut failed) = (secs(0), Vec::new());
        loop {
            // All that fail at one time do so before the first of them is tried again.
            if !flying.iter().any(|(end, _)| *end == now) {
                ready.append(&mut failed);
            }
            for call in core::mem::take(&mut ready) {
                let ticket = tickets.entry(call).or_default();
                match pools.ask(terms, ticket, Some(ProposalId(call)), now) {
                    PaceAnswer::Started => {
                        flying.push((now.saturating_add(Nanos::from_secs(lasts)), call));
                        starts.push((now.0 / secs(1).0, flying.len()));
                    }
                    PaceAnswer::Later { until, call: entry, .. } => {
                        work += 1;
                        pools.wait(&terms.pool, entry, WorkId(work));
                        waiting.insert(WorkId(work), (until, call));
                    }
                    PaceAnswer::TooLate { .. } => panic!("no wait is too long"),
                }
            }
            if let Some(work) = pools.next_due(now) {
                pools.forget(work);
                ready.push(waiting.remove(&work).unwrap().1);
                continue;
            }
            let timers = waiting.iter().map(|(work, (at, _))| (*at, Some(*work)));
            let ends = flying.iter().map(|(at, _)| (*at, None));
            let Some((at, what)) = timers.chain(ends).min() else { return starts };
            now = at;
            if let Some(work) = what {
                pools.forget(work);
                ready.push(waiting.remove(&work).unwrap().1);
                continue;
            }
            let ended = flying.iter().position(|(end, _)| *end == at).unwrap();
            let (_, call) = flying.remove(ended);
            let fails = now < secs(up);
            let outcome = if fails { CallOutcome::Outage } else { CallOutcome::Answered };
            pools.ended(ProposalId(call), (outcome, None, None), now);
            if fails {
                // As a turn does: the next probe is another call's.
                *tickets.entry(call).or_default() = PaceTicket::default();
                failed.push(call);
            }
        }
    }

    #[test]
    fn no_more_calls_are_in_flight_than_may_be() {
        let terms = PaceTerms { concurrency: Some(3), ..terms(None, None, 0) };
        let mut pools = PacePools::default();
        let starts = calls_at(&mut pools, &terms, 8, 2, 0);
        let expected = [(0, 1), (0, 2), (0, 3), (2, 3), (2, 3), (2, 3), (4, 2), (4, 3)];
        assert_eq!(starts.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected.map(|(at, _)| at));
        assert!(starts.iter().all(|(_, flying)| *flying <= 3), "{starts:?}");
        assert_eq!(pools, PacePools { tickets: pools.tickets, ..PacePools::default() }, "nothing is kept");
    }

    #[test]
    fn a_provider_that_is_down_is_probed_by_one_call_at_a_time() {
        let (base, cap) = (Nanos::from_secs(1), Nanos::from_secs(8));
        let breaker = Some(ProbeRule { failures: NonZeroU32::new(5).unwrap(), base, cap });
        let terms = PaceTerms { breaker, ..terms(None, None, 0) };
        let starts = calls_at(&mut PacePools::default(), &terms, 20, 1, 30);
        // All twenty fail at once; then one probe, further and further apart, until one is answered at 30 or later.
        assert!(starts[..20].iter().all(|(at, _)| *at == 0));
        let times = starts[20..].iter().map(|(at, _)| *at);
        let mut after = times.collect::<Vec<_>>();
        assert_eq!(after.drain(..5).collect::<Vec<_>>(), [2, 5, 10, 19, 28].map(|at: u64| at));
        assert!(starts[20..25].iter().all(|(_, flying)| *flying == 1), "{starts:?}");
        // Then twice as many with each second.
        let counts = |at: u64| after.iter().filter(|start| **start == at).count();
        assert_eq!([37, 38, 39, 40].map(counts), [1, 2, 4, 8], "{after:?}");
    }

    #[test]
    fn a_hold_without_a_rate_holds_all_and_is_forgotten() {
        let mut calls = Client::default();
        calls.pools.hold("model main", None, secs(9), secs(0));
        for at in [1, 2] {
            calls.arrive(terms(None, None, 10), secs(at));
        }
        calls.run_until(secs(100));
        assert_eq!(calls.starts(), [Some(secs(9)), Some(secs(9))]);
        assert!(calls.pools.pools.is_empty());
    }

    /// A server that allows so many calls in a period, evenly spread, and states what is left.
    struct Server {
        limit: u64,
        per: u64,
        /// When it allows all of them again, in nanoseconds times `limit`.
        full_at: u128,
    }

    impl Server {
        /// Whether it takes a call, and what its answer states.
        fn asked(&mut self, now: Instant) -> (bool, ProviderLimit) {
            let (limit, per) = (u128::from(self.limit), u128::from(self.per));
            let now = u128::from(now.0) * limit;
            let full_at = self.full_at.max(now) + per;
            let takes = full_at <= now + per * limit;
            if takes {
                self.full_at = full_at;
            }
            let used = self.full_at.saturating_sub(now).div_ceil(per);
            let remaining = u64::try_from(limit - used.min(limit)).unwrap();
            let per = Some(Nanos(self.per));
            let stated =
                ProviderLimit { unit: LimitUnit::Requests, limit: self.limit, remaining, per, reset: None };
            (takes, stated)
        }
    }

    proptest! {
        /// Calls start in the order in which they came, none waits for ever, and the rates hold, whatever is withdrawn or
        /// held meanwhile.
        #[test]
        fn the_oldest_starts_first_and_nobody_starves(
            limits in (1u32..6, 1u64..9, 1u32..5, 200u32..2000),
            acts in proptest::collection::vec((0u64..4, 0u8..8, 0u64..900, 0usize..30), 1..50),
        ) {
            let (limit, per, burst, tokens) = limits;
            let (requests, tokens) = (rate(limit, per, burst), rate(tokens, 30, tokens));
            let (mut calls, mut now) = (Client::default(), secs(0));
            for (pause, act, request, which) in acts {
                now = now.saturating_add(Nanos::from_secs(pause));
                calls.run_until(now);
                match act {
                    0 => calls.withdraw(which, now),
                    1 => {
                        let until = now.saturating_add(Nanos::from_secs(request % 20));
                        calls.pools.hold("model main", None, until, now);
                    }
                    _ => calls.arrive(terms(requests, tokens, request), now),
                }
            }
            calls.run_until(Instant(u64::MAX));
            prop_assert!(calls.timers.is_empty());
            let starts: Vec<Instant> = calls.starts().into_iter().flatten().collect();
            prop_assert!(starts.is_sorted(), "{starts:?}");
            for (from, begin) in starts.iter().enumerate() {
                for (more, end) in starts[from..].iter().enumerate() {
                    let time = u128::from(end.since(*begin).0) * u128::from(limit);
                    let allowed = time / u128::from(Nanos::from_secs(per).0) + u128::from(burst);
                    prop_assert!((more as u128) < allowed, "{} calls from {begin:?} to {end:?}", more + 1);
                }
            }
        }

        /// A server that states its limit refuses no call, however calls come, and whatever others have used of it before.
        #[test]
        fn a_server_that_states_its_limit_refuses_nothing(
            limit in 1u64..20, per in 1u64..120, used in 0u64..20,
            pauses in proptest::collection::vec(0u64..5_000_000_000, 1..60),
        ) {
            let per = Nanos::from_secs(per).0;
            let mut server = Server { limit, per, full_at: 0 };
            // One is left for the call by which the limit is learned.
            for _ in 0..used.min(limit - 1) {
                prop_assert!(server.asked(Instant(0)).0);
            }
            let terms = PaceTerms { learns: LearnedBound::Headers, ..terms(None, None, 0) };
            let (mut pools, mut now) = (PacePools::default(), Instant(0));
            for (n, pause) in (1..).zip(pauses) {
                now = now.saturating_add(Nanos(pause));
                let (mut ticket, call) = (PaceTicket::default(), ProposalId(n));
                while let PaceAnswer::Later { until, call: waiting, by, .. } =
                    pools.ask(&terms, &mut ticket, Some(call), now)
                {
                    prop_assert_eq!(by, PaceRule::Learned);
                    pools.wait(&terms.pool, waiting, WorkId(n));
                    now = until;
                    pools.forget(WorkId(n));
                }
                let (takes, stated) = server.asked(now);
                prop_assert!(takes, "call {} at {:?}", n, now);
                pools.learn(call, &[stated], now);
                pools.ended(call, (CallOutcome::Unknown, None, None), now);
            }
        }
    }
}
