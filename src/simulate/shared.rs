//! The state that all agents share, and the virtual time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::figures::FigureTally;
use super::scenario::Scenario;
use super::service::SimulatedService;
use crate::cases::START;
use crate::engine::{Interpreter, SharedKnown, SharedSubject, State};
use crate::time::{Instant, Nanos};

/// The state that all agents share.
pub(super) struct SharedServices<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) interpreter: Interpreter,
    /// The tool for the report in the policy.
    pub(super) report: Option<String>,
    pub(super) models: Vec<SimulatedService<'a>>,
    pub(super) tools: Vec<SimulatedService<'a>>,
    pub(super) tally: FigureTally,
    pub(super) now: Instant,
    /// What all agents know of breakers, budgets and paces that they share, by name; `None`: they share none.
    pub(super) known: Option<BTreeMap<String, Value>>,
}

impl SharedServices<'_> {
    /// The time from the start.
    pub(super) const fn since(&self) -> Nanos {
        self.now.since(START)
    }

    /// The place of a model.
    pub(super) fn place(&self, target: &str) -> usize {
        // Only models of the scenario are called.
        self.scenario.models.iter().position(|model| model.service.name == target).unwrap_or(0)
    }

    /// What all agents know of these after an agent with that state has reported, as far as it does not know it.
    pub(super) fn tell(&mut self, state: &State, subjects: &[SharedSubject]) -> SharedKnown {
        let (mut told, interpreter) = (SharedKnown::default(), &self.interpreter);
        for subject in subjects {
            let Some(known) = &mut self.known else { break };
            // It was written by this interpreter, so it can be read.
            let Ok(part) = interpreter.merge_shared(state, subject, known.get(&subject.key)) else {
                continue;
            };
            if part.has_news() {
                known.insert(subject.key.clone(), part.value());
            }
            if part.has_news() || part.differs() {
                told.add(part);
            }
        }
        told
    }

    /// The elapsed share of the time in which agents begin runs, in thousandths.
    pub(super) fn over(&self) -> u16 {
        let parts = u128::from(self.since().0) * 1_000;
        let parts = parts.checked_div(self.scenario.duration().0.into()).unwrap_or(1_000);
        u16::try_from(parts.min(1_000)).unwrap_or(1_000)
    }
}
