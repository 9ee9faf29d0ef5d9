//! Many agents in one virtual time: each is driven by the interpreter, and all of them call the same services.
//!
//! What is due next is taken from one queue, in the order of time and then of the agents; nothing sleeps. Only where no
//! service has a capacity the agents are played one after the other.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::agent::{Agent, Answered};
use super::chance::Chance;
use super::document::ArrivalRule;
use super::figures::{Figures, Tally};
use super::scenario::Scenario;
use super::service::Service;
use crate::cases::START;
use crate::engine::{Event, Interpreter};
use crate::policy::Policy;
use crate::time::{Instant, Nanos};

/// After so many events it is told how much of the time is over.
const TOLD_EVERY: u32 = 1 << 10;

/// A scenario under way.
pub(super) struct World<'a> {
    pub(super) shared: Shared<'a>,
    agents: Vec<Agent>,
    queue: BinaryHeap<Reverse<Due>>,
    /// How much was put into the queue.
    queued: u64,
    /// How much was taken out of it.
    taken: u32,
}

/// What all agents share.
pub(super) struct Shared<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) interpreter: Interpreter,
    /// The tool the policy takes the report by.
    pub(super) report: Option<String>,
    pub(super) models: Vec<Service<'a>>,
    pub(super) tools: Vec<Service<'a>>,
    pub(super) tally: Tally,
    pub(super) now: Instant,
}

/// Something that happens to an agent.
struct Due {
    at: Instant,
    agent: usize,
    number: u64,
    what: What,
}

enum What {
    Begin,
    /// The answer to work of the run of that number.
    Event(u32, Box<Event>),
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, policy: &Policy) -> Self {
        let shared = Shared {
            scenario,
            interpreter: Interpreter::new(policy.clone(), scenario.catalogue.clone()),
            report: policy.output().map(|output| output.tool.value.clone()),
            models: scenario.models.iter().map(|model| Service::model(&model.service)).collect(),
            tools: scenario.tools.iter().map(|tool| Service::tool(&tool.service)).collect(),
            tally: Tally::new(scenario.duration),
            now: START,
        };
        let agents = (0..scenario.agents).map(|number| Agent::new(scenario, number)).collect();
        Self { shared, agents, queue: BinaryHeap::new(), queued: 0, taken: 0 }
    }

    /// Plays it to the end, and tells how much of it is over, in a thousand parts.
    pub(super) fn play(mut self, mut tell: impl FnMut(u16)) -> Figures {
        let compete = self.shared.models.iter().chain(&self.shared.tools).any(Service::is_limited);
        let agents = self.agents.len();
        for agent in 0..agents {
            let begins = START.saturating_add(arrival(self.shared.scenario, agent));
            self.put(begins, agent, What::Begin);
            // Agents that compete for nothing do not notice each other. One after the other they are several times as
            // fast: what one works with stays in the processor's cache.
            if !compete {
                self.drain(|parts| tell(of_all(agent, parts, agents)));
            }
        }
        self.drain(tell);
        let load = |services: Vec<Service<'_>>| services.into_iter().map(|service| service.load).collect();
        self.shared.tally.close(load(self.shared.models), load(self.shared.tools))
    }

    /// Plays what is in the queue and what comes of it, and tells how much of the time is over.
    fn drain(&mut self, mut tell: impl FnMut(u16)) {
        let mut answers = Vec::new();
        while let Some(Reverse(Due { at, agent: number, what, .. })) = self.queue.pop() {
            let Some(agent) = self.agents.get_mut(number) else { continue };
            self.shared.now = at;
            self.taken = self.taken.wrapping_add(1);
            if self.taken.is_multiple_of(TOLD_EVERY) {
                tell(self.shared.over());
            }
            let rest = match what {
                What::Begin => agent.begin(&mut self.shared, &mut answers),
                What::Event(run, event) => agent.take(&mut self.shared, run, *event, &mut answers),
            };
            let run = agent.run();
            for Answered { takes, event } in answers.drain(..) {
                self.put(at.saturating_add(takes), number, What::Event(run, Box::new(event)));
            }
            if let Some(rest) = rest {
                self.put(at.saturating_add(rest), number, What::Begin);
            }
        }
    }

    fn put(&mut self, at: Instant, agent: usize, what: What) {
        self.queued = self.queued.saturating_add(1);
        self.queue.push(Reverse(Due { at, agent, number: self.queued, what }));
    }
}

impl Shared<'_> {
    /// The time from the start.
    pub(super) const fn since(&self) -> Nanos {
        self.now.since(START)
    }

    /// How much of the time in which agents begin runs is over, in a thousand parts.
    fn over(&self) -> u16 {
        let parts = u128::from(self.since().0) * 1_000;
        let parts = parts.checked_div(self.scenario.duration.0.into()).unwrap_or(1_000);
        u16::try_from(parts.min(1_000)).unwrap_or(1_000)
    }
}

/// How much is over when so many of all agents are done, and of the next one so much.
fn of_all(done: usize, parts: u16, all: usize) -> u16 {
    let parts = done.saturating_mul(1_000).saturating_add(parts.into()).checked_div(all);
    u16::try_from(parts.unwrap_or(1_000)).unwrap_or(1_000)
}

/// When an agent begins, from the start.
fn arrival(scenario: &Scenario, agent: usize) -> Nanos {
    let number = u64::try_from(agent).unwrap_or(u64::MAX);
    let share = |over: Nanos, some: u128, all: u128| {
        let part = (u128::from(over.0) * some).checked_div(all).unwrap_or(0);
        Nanos(u64::try_from(part).unwrap_or(u64::MAX))
    };
    match scenario.arrival {
        ArrivalRule::Together {} => Nanos::ZERO,
        ArrivalRule::Spread { over } => {
            share(over, number.into(), u128::from(scenario.agents.saturating_sub(1)))
        }
        ArrivalRule::Random { over } => {
            let mut chance = Chance::new(scenario.seed, "arrival", u32::try_from(agent).unwrap_or(u32::MAX));
            share(over, (chance.next().time() >> 32).into(), 1 << 32)
        }
    }
}

impl Due {
    const fn rank(&self) -> (Instant, usize, u64) {
        (self.at, self.agent, self.number)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
