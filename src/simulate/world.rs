//! Many agents in one virtual time: each is driven by the interpreter, and all of them call the same services.
//!
//! One queue orders the agents by time and then by number; no real time passes. If no service has a capacity, and the
//! policy shares nothing, the agents are played one after the other.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::agent::SimulatedAgent;
use super::chance::ServiceChance;
use super::document::ArrivalRule;
use super::figures::{FigureTally, SimulationFigures};
use super::scenario::Scenario;
use super::service::SimulatedService;
use super::shared::SharedServices;
use crate::cases::START;
use crate::engine::{Interpreter, NameClash};
use crate::policy::Policy;
use crate::time::{Instant, Nanos};

/// The number of queue steps between two progress reports.
const TOLD_EVERY: u32 = 1 << 10;

/// A scenario in progress.
pub(super) struct SimulatedWorld<'a> {
    shared: SharedServices<'a>,
    agents: Vec<SimulatedAgent>,
    /// The next time of each agent.
    queue: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The number of queue steps so far.
    taken: u32,
}

impl Scenario {
    /// Plays the scenario with agents under a policy. The same scenario and policy always have the same result.
    ///
    /// # Errors
    /// A tool has the name that the policy reserves for the final report.
    pub fn play(&self, policy: &Policy) -> Result<SimulationFigures, NameClash> {
        self.play_telling(policy, |_| ())
    }

    /// The same, with progress reports: the elapsed share of the time in which agents begin runs, in thousandths.
    ///
    /// # Errors
    /// As [`play`](Self::play).
    pub fn play_telling(
        &self,
        policy: &Policy,
        tell: impl FnMut(u16),
    ) -> Result<SimulationFigures, NameClash> {
        self.catalogue.fits(policy)?;
        Ok(SimulatedWorld::new(self, policy).play(tell))
    }
}

impl<'a> SimulatedWorld<'a> {
    pub(super) fn new(scenario: &'a Scenario, policy: &Policy) -> Self {
        let interpreter = Interpreter::new(policy.clone(), scenario.catalogue.clone());
        let targets: Vec<String> = scenario.models.iter().map(|model| model.service.name.clone()).collect();
        let shared = SharedServices {
            scenario,
            known: interpreter.shares(&targets).then(BTreeMap::new),
            interpreter,
            report: policy.output().map(|output| output.tool.value.clone()),
            models: scenario.models.iter().map(|model| SimulatedService::model(&model.service)).collect(),
            tools: scenario.tools.iter().map(|tool| SimulatedService::tool(&tool.service)).collect(),
            tally: FigureTally::new(scenario.duration()),
            now: START,
        };
        let agent = |number| {
            let begins = START.saturating_add(arrival(scenario, number));
            SimulatedAgent::new(scenario, number, begins)
        };
        let agents = (0..scenario.agents()).map(agent).collect();
        Self { shared, agents, queue: BinaryHeap::new(), taken: 0 }
    }

    /// Plays the scenario to the end, with progress reports in thousandths.
    pub(super) fn play(mut self, mut tell: impl FnMut(u16)) -> SimulationFigures {
        let compete = self.shared.known.is_some()
            || self.shared.models.iter().chain(&self.shared.tools).any(SimulatedService::is_limited);
        let agents = self.agents.len();
        for agent in 0..agents {
            self.put(agent);
            // Agents that do not compete are independent. Played one after the other they are several times as fast,
            // because their data stays in the processor's cache.
            if !compete {
                self.drain(|parts| tell(of_all(agent, parts, agents)));
            }
        }
        self.drain(tell);
        let load =
            |services: Vec<SimulatedService<'_>>| services.into_iter().map(|service| service.load).collect();
        self.shared.tally.close(load(self.shared.models), load(self.shared.tools))
    }

    /// Plays the agents in the queue, with progress reports.
    fn drain(&mut self, mut tell: impl FnMut(u16)) {
        while let Some(Reverse((at, number))) = self.queue.pop() {
            let Some(agent) = self.agents.get_mut(number) else { continue };
            self.shared.now = at;
            self.taken = self.taken.wrapping_add(1);
            if self.taken.is_multiple_of(TOLD_EVERY) {
                tell(self.shared.over());
            }
            agent.play(&mut self.shared);
            self.put(number);
        }
    }

    fn put(&mut self, agent: usize) {
        let due = self.agents.get(agent).and_then(SimulatedAgent::due);
        self.queue.extend(due.map(|at| Reverse((at, agent))));
    }
}

/// The progress when `done` of `all` agents are finished, and the next one has reached `parts`.
fn of_all(done: usize, parts: u16, all: usize) -> u16 {
    let parts = done.saturating_mul(1_000).saturating_add(parts.into()).checked_div(all);
    u16::try_from(parts.unwrap_or(1_000)).unwrap_or(1_000)
}

/// The start of an agent, from the start of the simulation.
fn arrival(scenario: &Scenario, agent: u32) -> Nanos {
    let share = |over: Nanos, some: u128, all: u128| {
        let part = (u128::from(over.0) * some).checked_div(all).unwrap_or(0);
        Nanos(u64::try_from(part).unwrap_or(u64::MAX))
    };
    match scenario.file.arrival {
        ArrivalRule::Together {} => Nanos::ZERO,
        ArrivalRule::Spread { over } => {
            share(over, agent.into(), u128::from(scenario.agents().saturating_sub(1)))
        }
        ArrivalRule::Random { over } => {
            let mut chance = ServiceChance::new(scenario.seed(), "arrival", agent);
            share(over, (chance.next().time() >> 32).into(), 1 << 32)
        }
    }
}
