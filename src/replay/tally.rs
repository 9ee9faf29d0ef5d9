//! The cost of decisions: calls, runs, attempts, seconds waiting.

use serde::Serialize;

use crate::engine::{DirectiveKind, Directives, Work};
use crate::time::Nanos;

/// The amount of work in decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkTally {
    /// Model calls.
    pub model_calls: u64,
    /// Tool runs.
    pub tool_runs: u64,
    /// Model calls and tool runs after the first attempt.
    pub retries: u64,
    /// Waits.
    pub waits: u64,
    /// The total time waiting.
    pub waiting: Nanos,
    /// Questions to a person or the planner.
    pub questions: u64,
}

impl WorkTally {
    /// Counts the work in a list of directives.
    pub fn add(&mut self, list: &Directives) {
        for directive in &list.0 {
            if let DirectiveKind::Work(work) = &directive.order {
                self.work(work);
            }
        }
    }

    /// Adds another tally.
    pub const fn join(&mut self, other: &Self) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_runs = self.tool_runs.saturating_add(other.tool_runs);
        self.retries = self.retries.saturating_add(other.retries);
        self.waits = self.waits.saturating_add(other.waits);
        self.waiting = Nanos(self.waiting.0.saturating_add(other.waiting.0));
        self.questions = self.questions.saturating_add(other.questions);
    }

    fn work(&mut self, work: &Work) {
        let (count, attempt) = match work {
            Work::CallModel(call) => (&mut self.model_calls, call.attempt),
            Work::Summarize(_) => (&mut self.model_calls, 1),
            Work::RunTool(run) => (&mut self.tool_runs, run.attempt),
            Work::Wait(wait) => {
                self.waiting = Nanos(self.waiting.0.saturating_add(wait.delay.0));
                (&mut self.waits, 1)
            }
            Work::Consult(_) | Work::Ask(_) => (&mut self.questions, 1),
            Work::PrepareTurn(_) | Work::RepairHistory(_) | Work::ReduceContext(_) => return,
        };
        *count = count.saturating_add(1);
        if attempt > 1 {
            self.retries = self.retries.saturating_add(1);
        }
    }
}
