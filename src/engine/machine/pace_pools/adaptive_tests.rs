//! Laws of paces that are found from refusals: `learn: adaptive`.

use core::num::NonZeroU32;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::pace_pool::{LearnedBound, PaceTerms};
use super::*;
use crate::policy::PaceRate;
use crate::time::Nanos;

const fn secs(secs: u64) -> Instant {
    Instant(Nanos::from_secs(secs).0)
}

fn terms(requests: Option<PaceRate>) -> PaceTerms {
    let (pool, learns) = ("model main".into(), LearnedBound::Refusals);
    let (tokens, concurrency, breaker) = (None, None, None);
    PaceTerms {
        pool,
        requests,
        tokens,
        learns,
        concurrency,
        breaker,
        shared: None,
        request: 0,
        max_wait: None,
    }
}

/// A provider that states nothing: so many calls a minute, all of them at once after a pause.
struct SilentServer {
    limit: u64,
    full_at: u128,
}

impl SilentServer {
    fn takes(&mut self, now: Instant) -> bool {
        let (each, now) = (u128::from(secs(60).0), u128::from(now.0) * u128::from(self.limit));
        let full_at = self.full_at.max(now) + each;
        let takes = full_at <= now + each * u128::from(self.limit);
        self.full_at = if takes { full_at } else { self.full_at };
        takes
    }
}

/// Agents that call one after the other, and repeat what is refused.
struct ClosedLoop {
    terms: PaceTerms,
    pools: PacePools,
    server: SilentServer,
    tickets: Vec<PaceTicket>,
    waiting: BTreeMap<WorkId, u64>,
    /// What comes next: the time, a number, the agent, and what it is: its next call, the end of a wait, the end of a call.
    next: BTreeSet<(Instant, u64, u64, AgentStep)>,
    number: u64,
    starts: Vec<Instant>,
    accepted: Vec<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AgentStep {
    Call,
    Waited(u64),
    Ended { taken: bool },
}

impl ClosedLoop {
    fn new(agents: u64, limit: u64, requests: Option<PaceRate>) -> Self {
        let mut all = Self {
            terms: terms(requests),
            pools: PacePools::default(),
            server: SilentServer { limit, full_at: 0 },
            tickets: vec![PaceTicket::default(); usize::try_from(agents).unwrap()],
            waiting: BTreeMap::new(),
            next: BTreeSet::new(),
            number: 0,
            starts: Vec::new(),
            accepted: Vec::new(),
        };
        for agent in 0..agents {
            all.add(secs(agent), agent, AgentStep::Call);
        }
        all
    }

    fn add(&mut self, at: Instant, agent: u64, step: AgentStep) {
        self.number += 1;
        self.next.insert((at, self.number, agent, step));
    }

    fn run_until(&mut self, end: Instant) {
        while let Some((now, _, agent, step)) = self.next.first().copied().filter(|next| next.0 < end) {
            self.next.pop_first();
            match step {
                AgentStep::Call => self.ask(agent, now),
                AgentStep::Waited(work) => {
                    if self.waiting.remove(&WorkId(work)).is_some() {
                        self.pools.forget(WorkId(work));
                        self.ask(agent, now);
                    }
                }
                AgentStep::Ended { taken } => self.ended(agent, taken, now),
            }
            while let Some(work) = self.pools.next_due(now) {
                let agent = self.waiting.remove(&work).unwrap();
                self.pools.forget(work);
                self.ask(agent, now);
            }
        }
    }

    fn ask(&mut self, agent: u64, now: Instant) {
        let ticket = &mut self.tickets[usize::try_from(agent).unwrap()];
        match self.pools.ask(&self.terms, ticket, Some(ProposalId(agent)), now) {
            PaceAnswer::Started => {
                self.starts.push(now);
                let taken = self.server.takes(now);
                let lasts = if taken { Nanos::from_secs(3) } else { Nanos::from_millis(200) };
                self.add(now.saturating_add(lasts), agent, AgentStep::Ended { taken });
            }
            PaceAnswer::Later { until, call, .. } => {
                self.number += 1;
                let work = self.number;
                self.pools.wait(&self.terms.pool, call, WorkId(work));
                self.waiting.insert(WorkId(work), agent);
                self.add(until, agent, AgentStep::Waited(work));
            }
            PaceAnswer::TooLate { .. } => panic!("no wait is too long"),
        }
    }

    fn ended(&mut self, agent: u64, taken: bool, now: Instant) {
        let end = if taken {
            (CallOutcome::Answered, None, Some(100))
        } else {
            (CallOutcome::Refused, Some(0), None)
        };
        self.pools.ended(ProposalId(agent), end, now);
        let pause = if taken {
            self.accepted.push(now);
            self.tickets[usize::try_from(agent).unwrap()] = PaceTicket::default();
            Nanos::from_millis(400)
        } else {
            Nanos::from_secs(2)
        };
        self.add(now.saturating_add(pause), agent, AgentStep::Call);
    }
}

#[test]
fn little_is_refused_and_nearly_all_of_a_hidden_limit_is_used() {
    // Half of what the agents need, a sixth, and a quarter for a hundred agents.
    for (agents, limit) in [(10, 80), (20, 60), (100, 450)] {
        let mut all = ClosedLoop::new(agents, limit, None);
        all.run_until(secs(40 * 60));
        let (starts, taken) = (all.starts.len(), all.accepted.len());
        assert!(starts * 10 <= taken * 12, "{starts} calls for {taken} that were needed, of {agents} agents");
        let late = all.accepted.iter().filter(|at| **at >= secs(300)).count() as u64;
        assert!(late * 10 >= limit * 35 * 9, "{late} of {}", limit * 35);
    }
}

#[test]
fn a_provider_that_refuses_nothing_holds_nobody_up() {
    let mut all = ClosedLoop::new(10, 10_000, None);
    all.run_until(secs(600));
    assert!(all.starts.len() - all.accepted.len() <= 10, "those in flight");
    assert_eq!(all.pools.hold_text("model main", PaceRule::Refusals), None);
    // Each of ten agents begins a call every 3.4 seconds.
    assert!(all.accepted.len() > 10 * 600 * 10 / 35, "{}", all.accepted.len());
}

#[test]
fn a_rate_is_forgotten_when_it_decides_nothing() {
    let mut all = ClosedLoop::new(10, 20, None);
    all.run_until(secs(600));
    let text = |pools: &PacePools| pools.hold_text("model main", PaceRule::Refusals);
    assert!(text(&all.pools).is_some());
    let asked = all.pools.ask(&all.terms, &mut PaceTicket::default(), None, secs(2_000));
    assert_eq!((asked, text(&all.pools)), (PaceAnswer::Started, None));
}

proptest! {
    /// Whatever the limit is: the rate of the policy is never exceeded, nobody starves, and the state that is written down in the
    /// middle continues alike.
    #[test]
    fn the_rate_of_the_policy_holds_and_every_call_starts(
        agents in 1u64..12, hidden in 1u64..60, limit in 1u32..40, burst in 1u32..6, split in 1u64..900,
    ) {
        let rate = PaceRate {
            limit: NonZeroU32::new(limit).unwrap(),
            per: Nanos::from_secs(30),
            burst: NonZeroU32::new(burst).unwrap(),
        };
        let mut all = ClosedLoop::new(agents, hidden, Some(rate));
        all.run_until(secs(split));
        let written = serde_json::to_string(&all.pools).unwrap();
        let read: PacePools = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &all.pools);
        all.pools = read;
        all.run_until(secs(1800));
        for (from, begin) in all.starts.iter().enumerate() {
            for (more, end) in all.starts[from..].iter().enumerate().step_by(7) {
                let time = u128::from(end.since(*begin).0) * u128::from(limit);
                let allowed = time / u128::from(Nanos::from_secs(30).0) + u128::from(burst);
                prop_assert!((more as u128) < allowed, "{} calls from {begin:?} to {end:?}", more + 1);
            }
        }
        // Even at one call a minute each agent has its turn, the oldest first.
        prop_assert!(all.accepted.len() as u64 >= 20, "{} were taken", all.accepted.len());
        let waits = all.pools.pools.values().flat_map(|pool| &pool.waiting);
        for call in waits {
            prop_assert!(call.until.since(secs(1800)) <= Nanos::from_secs(60 * agents), "{call:?}");
        }
    }

    /// No number makes it panic.
    #[test]
    fn no_order_of_ends_and_times_panics(acts in proptest::collection::vec((any::<u64>(), 0u8..4, 0u64..5), 1..60)) {
        let mut pools = PacePools::default();
        for (now, act, call) in acts {
            let (now, call) = (Instant(now), ProposalId(call));
            match act {
                0 => drop(pools.ended(call, (CallOutcome::Refused, Some(0), None), now)),
                1 => drop(pools.ended(call, (CallOutcome::Answered, Some(9), Some(9)), now)),
                _ => {
                    let asked = pools.ask(&terms(None), &mut PaceTicket::default(), Some(call), now);
                    let is_past = matches!(asked, PaceAnswer::Later { until, .. } if until <= now);
                    prop_assert!(!is_past);
                }
            }
        }
    }
}
