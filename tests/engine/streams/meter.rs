//! Counts what a run costs, to be held against what `explain --bounds` says; and what a state says of a wait.

use std::collections::BTreeMap;

use unfazed::engine::{CallModel, RunTool, WaitWork};
use unfazed::time::Nanos;

use super::cost::Cost;

#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) cost: Cost,
    /// Calls of models in this turn.
    in_turn: BTreeMap<String, u64>,
    calls: BTreeMap<String, Call>,
}

#[derive(Default)]
struct Call {
    tool: String,
    runs: u64,
    checks: u64,
    slept: Nanos,
}

impl Meter {
    pub(crate) fn turn(&mut self) {
        self.in_turn.clear();
    }

    pub(crate) fn summary(&mut self) {
        self.cost.model_calls += 1;
    }

    pub(crate) fn model(&mut self, call: &CallModel) {
        let cost = &mut self.cost;
        cost.model_calls += 1;
        // A turn that no model is called in has no reply.
        cost.turns += u64::from(self.in_turn.is_empty());
        *self.in_turn.entry(call.target.clone()).or_default() += 1;
        cost.all_in_turn = cost.all_in_turn.max(self.in_turn.values().sum());
        let most = cost.calls_in_turn.entry(call.target.clone()).or_default();
        *most = (*most).max(self.in_turn[&call.target]);
    }

    pub(crate) fn run(&mut self, run: &RunTool) {
        if is_check(run) {
            return self.check(run);
        }
        let call = self.calls.entry(run.call.clone()).or_default();
        call.tool.clone_from(&run.tool);
        call.runs += 1;
        *self.cost.all_runs.entry(run.tool.clone()).or_default() += 1;
        let most = self.cost.runs.entry(run.tool.clone()).or_default();
        *most = (*most).max(call.runs);
    }

    /// A run that finds out whether a run of a call has acted.
    fn check(&mut self, run: &RunTool) {
        let call = self.calls.get_mut(&run.call).expect("law 6: a call is looked into that never ran");
        call.checks += 1;
        let most = self.cost.checks.entry(call.tool.clone()).or_default();
        *most = (*most).max(call.checks);
    }

    /// A wait between the runs of a call. Says how long was slept for it.
    pub(crate) fn wait_of_call(&mut self, call: &str, wait: &WaitWork) -> Nanos {
        let call = self.calls.get_mut(call).expect("law 5: a wait between runs of a call that never ran");
        call.slept = call.slept.saturating_add(wait.delay);
        let most = self.cost.tool_waits.entry(call.tool.clone()).or_default();
        *most = (*most).max(call.slept);
        call.slept
    }

    /// A wait for a model or before a turn.
    pub(crate) fn wait(&mut self, wait: &WaitWork) {
        self.cost.waiting = self.cost.waiting.saturating_add(wait.delay);
        if wait.subject.starts_with("tool ") {
            self.cost.correcting = self.cost.correcting.saturating_add(wait.delay);
        }
    }
}

/// Whether it is run to find out whether another tool has acted.
pub(crate) fn is_check(run: &RunTool) -> bool {
    run.idempotency_key.ends_with("-check")
}
