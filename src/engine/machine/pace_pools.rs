//! The pools of pace: which calls may start now, and which wait for their turn, the oldest first.
//!
//! A waiting call has a wait of its own in the work table; its entry here lasts as long as that wait is open. When the
//! wait is over the call asks again, since a server may have asked for a pause meanwhile.

#[cfg(feature = "serve")]
mod standing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "serve")]
pub(crate) use self::standing::{PaceStanding, RateStanding};
use super::learned_paces::LearnedPaces;
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::pace_clock::PaceClock;
use crate::engine::provider_limit::{LimitUnit, ProviderLimit};
use crate::policy::PaceRate;
use crate::time::{Instant, Nanos};

/// The tokens expected for a reply before any was seen.
// Most replies of agents are tool calls; the mean of the pool's replies replaces this soon.
const FIRST_REPLY: u64 = 500;

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

/// The calls that share a pace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PacePool {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests: Option<PaceClock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<PaceClock>,
    /// What the answers of the provider say of its limits.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    learned: LearnedPaces,
    /// The end of the pause that a server asked for.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    held_until: Instant,
    /// The mean of the tokens of its replies; 0 before the first.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    mean_reply: u64,
    /// The waiting calls, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingCall>,
}

/// A call that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct WaitingCall {
    ticket: u64,
    work: WorkId,
    /// The end of its wait.
    until: Instant,
    tokens: u64,
    bounds: PaceBounds,
}

/// The limits that hold for a call. Others of its pool may have further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PaceBounds {
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    requests: bool,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    tokens: bool,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    learned: bool,
}

/// A model call in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PacedCall {
    pool: String,
    /// The tokens taken for it.
    tokens: u64,
    /// When it began, if the limits in its answer count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    learns_since: Option<Instant>,
    /// Whether its tokens are in what its answer says is left.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    is_counted: bool,
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

/// The limits for a call.
#[derive(Clone, Debug)]
pub(in crate::engine) struct PaceTerms {
    /// The pool.
    pub(in crate::engine) pool: String,
    pub(in crate::engine) requests: Option<PaceRate>,
    pub(in crate::engine) tokens: Option<PaceRate>,
    /// Whether the limits in the answers of the provider count.
    pub(in crate::engine) learns: bool,
    /// The tokens of its request.
    pub(in crate::engine) request: u64,
    /// The longest it may wait.
    pub(in crate::engine) max_wait: Option<Nanos>,
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

/// What holds a call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum PaceRule {
    /// A server asked for a pause.
    Hint,
    Requests,
    Tokens,
    /// The provider said how much it allows.
    Learned,
}

impl PaceTicket {
    /// The ticket of a call that no longer waits.
    pub(in crate::engine) const fn rested(self) -> Self {
        Self { since: None, ..self }
    }
}

impl PaceTerms {
    /// Whether there is any limit.
    const fn are_limited(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some() || self.learns
    }

    const fn bounds(&self) -> PaceBounds {
        let Self { requests, tokens, learns, .. } = self;
        PaceBounds { requests: requests.is_some(), tokens: tokens.is_some(), learned: *learns }
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
        let tokens = terms.request.saturating_add(pool.expected_reply());
        let bounds = terms.bounds();
        let waiting = WaitingCall { ticket: ticket.number, work: WorkId(0), until: now, tokens, bounds };
        let since = *ticket.since.get_or_insert(now);
        let (until, by, ahead) = pool.due(&waiting, now);
        let waiting = WaitingCall { until, ..waiting };
        if until <= now {
            ticket.since = None;
            pool.take(tokens, now);
            if let Some(call) = call.filter(|_| terms.tokens.is_some() || terms.learns) {
                let learns_since = terms.learns.then_some(now);
                let pool = terms.pool.clone();
                self.in_flight.insert(call, PacedCall { pool, tokens, learns_since, is_counted: false });
            }
            self.forget_if_idle(&terms.pool, now);
            return PaceAnswer::Started;
        }
        if terms.max_wait.is_some_and(|most| until > since.saturating_add(most)) {
            ticket.since = None;
            return PaceAnswer::TooLate { until, by };
        }
        PaceAnswer::Later { until, by, ahead, call: waiting }
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

    /// What the provider of a pool says of its limits; `None`: nothing.
    pub(in crate::engine) fn learned(&self, pool: &str) -> Option<String> {
        self.pools.get(pool)?.learned.text()
    }

    /// Records the end of a model call. `used`: its tokens, as far as they are known; `None`: what was taken for it stays
    /// taken.
    pub(in crate::engine) fn ended(
        &mut self,
        call: ProposalId,
        used: Option<u64>,
        reply: Option<u64>,
        now: Instant,
    ) {
        let Some(PacedCall { pool, tokens: taken, is_counted, .. }) = self.in_flight.remove(&call) else {
            return;
        };
        self.freed = true;
        let Some(pool) = self.pools.get_mut(&pool) else { return };
        if let Some(reply) = reply {
            pool.learn_reply(reply);
        }
        let Some(used) = used else { return };
        let learned = pool.learned.tokens.as_mut().filter(|_| !is_counted);
        for clock in pool.tokens.iter_mut().chain(learned) {
            if used >= taken {
                clock.take(used.saturating_sub(taken), now);
            } else {
                clock.give_back(taken.saturating_sub(used));
            }
        }
    }

    /// Holds all calls of a pool until then, as a server asked for one of them.
    pub(in crate::engine) fn hold(&mut self, pool: &str, until: Instant, now: Instant) {
        if until <= now {
            return;
        }
        let pool = self.pools.entry(pool.to_owned()).or_default();
        pool.held_until = pool.held_until.max(until);
        for clock in pool.clocks_mut() {
            clock.hold(until, now);
        }
    }

    /// The wait of the first call that may start now, or earlier than its wait ends, if room was made since the last
    /// question.
    pub(in crate::engine) fn next_due(&mut self, now: Instant) -> Option<WorkId> {
        if !self.freed {
            return None;
        }
        for pool in self.pools.values_mut() {
            // The oldest is looked at alone: whoever is behind it may not start before it, and becomes the oldest when it
            // has started.
            let Some(first) = pool.waiting.first().copied() else { continue };
            let due = pool.due(&first, now).0;
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
                && pool.waiting.is_empty()
                && pool.held_until <= now
                && pool.mean_reply == 0
        };
        if self.pools.get(name).is_some_and(idle) {
            self.pools.remove(name);
        }
    }
}

impl PacePool {
    /// Takes over the rates of a call's rules.
    fn follow(&mut self, terms: &PaceTerms, now: Instant) {
        let held = self.held_until;
        for (clock, rate) in [(&mut self.requests, terms.requests), (&mut self.tokens, terms.tokens)] {
            match (clock.as_mut(), rate) {
                (Some(clock), Some(rate)) => clock.follow(rate, now),
                (None, Some(rate)) => {
                    let mut new = PaceClock::new(rate, now);
                    // A pause that began before the rules were known ends one by one, too.
                    if held > now {
                        new.hold(held, now);
                    }
                    *clock = Some(new);
                }
                // Another call of the pool may have this limit; it does not hold for this one.
                (_, None) => {}
            }
        }
    }

    /// When a call may start, the limit that decides, and the calls before it.
    fn due(&mut self, call: &WaitingCall, now: Instant) -> (Instant, PaceRule, usize) {
        let before = self.waiting.iter().filter(|other| other.ticket < call.ticket);
        let (ahead, tokens) = before.fold((0_usize, 0_u64), |(calls, tokens), other| {
            (calls.saturating_add(1), tokens.saturating_add(other.tokens))
        });
        let mut latest = (self.held_until, PaceRule::Hint);
        let calls = (u64::try_from(ahead).unwrap_or(u64::MAX), 1);
        let tokens = (tokens, call.tokens);
        let PaceBounds { requests: by_calls, tokens: by_tokens, learned } = call.bounds;
        if learned && self.learned.spent_until > latest.0 {
            latest = (self.learned.spent_until, PaceRule::Learned);
        }
        let LearnedPaces { requests, tokens: learned_tokens, .. } = &mut self.learned;
        let limits = [
            (&mut self.requests, by_calls, calls, PaceRule::Requests),
            (&mut self.tokens, by_tokens, tokens, PaceRule::Tokens),
            (requests, learned, calls, PaceRule::Learned),
            (learned_tokens, learned, tokens, PaceRule::Learned),
        ];
        for (clock, holds, (ahead, units), by) in limits {
            if let Some(clock) = clock.as_mut().filter(|_| holds) {
                // At the same time the pause counts: without it the clock would not stand still.
                let due = clock.due(ahead, units, now);
                if due > latest.0 {
                    latest = (due, by);
                }
            }
        }
        (latest.0, latest.1, ahead)
    }

    fn take(&mut self, tokens: u64, now: Instant) {
        for clock in self.requests.iter_mut().chain(&mut self.learned.requests) {
            clock.take(1, now);
        }
        for clock in self.tokens.iter_mut().chain(&mut self.learned.tokens) {
            clock.take(tokens, now);
        }
    }

    fn clocks_mut(&mut self) -> impl Iterator<Item = &mut PaceClock> {
        let LearnedPaces { requests, tokens, .. } = &mut self.learned;
        [&mut self.requests, &mut self.tokens, requests, tokens].into_iter().flatten()
    }

    const fn expected_reply(&self) -> u64 {
        if self.mean_reply == 0 { FIRST_REPLY } else { self.mean_reply }
    }

    /// Moves the mean by an eighth of the difference.
    // As TCP's smoothed round-trip time (RFC 6298): recent replies count more, and one long reply does not rule.
    const fn learn_reply(&mut self, tokens: u64) {
        let mean = self.expected_reply();
        let eighth = mean.abs_diff(tokens).div_ceil(8);
        let next = if tokens > mean { mean.saturating_add(eighth) } else { mean.saturating_sub(eighth) };
        self.mean_reply = if next == 0 { 1 } else { next };
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn rate(limit: u32, secs: u64, burst: u32) -> Option<PaceRate> {
        let per = Nanos::from_secs(secs);
        Some(PaceRate { limit: NonZeroU32::new(limit)?, per, burst: NonZeroU32::new(burst)? })
    }

    fn terms(requests: Option<PaceRate>, tokens: Option<PaceRate>, request: u64) -> PaceTerms {
        PaceTerms { pool: "model main".into(), requests, tokens, learns: false, request, max_wait: None }
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
        calls.pools.ended(call, Some(50), Some(10), secs(2));
        calls.wake(secs(2));
        assert_eq!(calls.starts(), [Some(secs(2))]);
    }

    #[test]
    fn tokens_that_the_provider_does_not_count_hold_nobody_up() {
        // Of each request nearly all comes from a cache, and Anthropic's limit counts only the rest.
        let terms = PaceTerms { learns: true, ..terms(None, None, 900) };
        let mut pools = PacePools::default();
        for n in 1..=20 {
            let (call, now) = (ProposalId(n), secs(n));
            let asked = pools.ask(&terms, &mut PaceTicket::default(), Some(call), now);
            assert_eq!(asked, PaceAnswer::Started, "call {n}");
            let (unit, per) = (LimitUnit::Tokens, Some(Nanos::from_secs(60)));
            let left = ProviderLimit { unit, limit: 10_000, remaining: 9_900, per, reset: None };
            pools.learn(call, &[left], now);
            pools.ended(call, Some(1_000), Some(100), now);
        }
    }

    #[test]
    fn a_hold_without_a_rate_holds_all_and_is_forgotten() {
        let mut calls = Client::default();
        calls.pools.hold("model main", secs(9), secs(0));
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
                    1 => calls.pools.hold("model main", now.saturating_add(Nanos::from_secs(request % 20)), now),
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
            let terms = PaceTerms { learns: true, ..terms(None, None, 0) };
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
                pools.ended(call, None, None, now);
            }
        }
    }
}
