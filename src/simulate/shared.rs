//! The state that all agents share, and the virtual time.

use super::figures::FigureTally;
use super::scenario::Scenario;
use super::service::SimulatedService;
use crate::cases::START;
use crate::engine::Interpreter;
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
}

impl SharedServices<'_> {
    /// The time from the start.
    pub(super) const fn since(&self) -> Nanos {
        self.now.since(START)
    }

    /// The elapsed share of the time in which agents begin runs, in thousandths.
    pub(super) fn over(&self) -> u16 {
        let parts = u128::from(self.since().0) * 1_000;
        let parts = parts.checked_div(self.scenario.duration().0.into()).unwrap_or(1_000);
        u16::try_from(parts.min(1_000)).unwrap_or(1_000)
    }
}
