//! What all agents share, and what time it is.

use super::figures::FigureTally;
use super::scenario::Scenario;
use super::service::SimulatedService;
use crate::cases::START;
use crate::engine::Interpreter;
use crate::time::{Instant, Nanos};

/// What all agents share.
pub(super) struct SharedServices<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) interpreter: Interpreter,
    /// The tool the policy takes the report by.
    pub(super) report: Option<String>,
    pub(super) models: Vec<SimulatedService<'a>>,
    pub(super) tools: Vec<SimulatedService<'a>>,
    pub(super) tally: FigureTally,
    pub(super) now: Instant,
}

impl SharedServices<'_> {
    /// The time from the start.
    pub(super) const fn since(&self) -> Nanos {
        self.now.since(START)
    }

    /// How much of the time in which agents begin runs is over, in a thousand parts.
    pub(super) fn over(&self) -> u16 {
        let parts = u128::from(self.since().0) * 1_000;
        let parts = parts.checked_div(self.scenario.duration().0.into()).unwrap_or(1_000);
        u16::try_from(parts.min(1_000)).unwrap_or(1_000)
    }
}
