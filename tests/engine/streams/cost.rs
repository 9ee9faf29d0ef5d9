//! What a run has cost, and whether that is within the bounds of its policy.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unfazed::analysis::CostBounds;
use unfazed::policy::TimeBound;
use unfazed::time::Nanos;

/// What a run has cost.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) turns: u64,
    pub(crate) model_calls: u64,
    /// Calls of each model in a turn, at most.
    pub(crate) calls_in_turn: BTreeMap<String, u64>,
    /// Calls of all models in a turn, at most.
    pub(crate) all_in_turn: u64,
    /// Runs of one call of each tool, at most.
    pub(crate) runs: BTreeMap<String, u64>,
    /// Time waiting between the runs of one call of each tool, at most.
    pub(crate) tool_waits: BTreeMap<String, Nanos>,
    /// Runs of each tool.
    pub(crate) all_runs: BTreeMap<String, u64>,
    /// Runs that find out whether a run of a call of each tool has acted, of one call, at most.
    pub(crate) checks: BTreeMap<String, u64>,
    /// Time waiting between calls of models and before turns.
    pub(crate) waiting: Nanos,
    /// The part of it before turns that correct arguments.
    pub(crate) correcting: Nanos,
    /// Whether somebody asked to wait.
    pub(crate) asked: bool,
}

fn within(cost: Nanos, bound: TimeBound) -> bool {
    match bound {
        TimeBound::Within(most) => cost <= most,
        TimeBound::Unlimited => true,
    }
}

fn at_most(count: u64, most: Option<u64>) -> bool {
    most.is_none_or(|most| count <= most)
}

/// Holds what a run has cost against the bounds of its policy.
pub(crate) fn holds(bounds: &CostBounds, cost: &Cost) -> Result<(), TestCaseError> {
    let of = |alone: TimeBound, asked: TimeBound| if cost.asked { asked } else { alone };
    let run = bounds.run;
    prop_assert!(at_most(cost.turns, run.replies), "{} turns of {:?}", cost.turns, run.replies);
    prop_assert!(at_most(cost.model_calls, run.calls), "{} calls of {:?}", cost.model_calls, run.calls);
    prop_assert!(
        within(cost.waiting, of(run.waiting, run.waiting_if_asked)),
        "waiting {} of {run:?}",
        cost.waiting
    );
    prop_assert!(within(cost.correcting, run.correcting), "correcting {} of {run:?}", cost.correcting);
    for model in &bounds.models {
        let calls = cost.calls_in_turn.get(&model.name).copied().unwrap_or_default();
        prop_assert!(at_most(calls, model.turn.calls.map(u64::from)), "{calls} calls of {model:?}");
    }
    for tool in &bounds.tools {
        let runs = cost.runs.get(&tool.name).copied().unwrap_or_default();
        prop_assert!(at_most(runs, tool.call.calls.map(u64::from)), "{runs} runs of {tool:?}");
        let all = cost.all_runs.get(&tool.name).copied().unwrap_or_default();
        prop_assert!(at_most(all, tool.runs), "{all} runs in all of {tool:?}");
        let slept = cost.tool_waits.get(&tool.name).copied().unwrap_or_default();
        prop_assert!(
            within(slept, of(tool.call.waiting, tool.call.waiting_if_asked)),
            "waiting {slept} of {tool:?}"
        );
        prop_assert!(
            at_most(cost.all_in_turn, tool.in_turn),
            "{} calls in a turn of {tool:?}",
            cost.all_in_turn
        );
        prop_assert!(at_most(cost.all_in_turn * runs, tool.product), "{cost:?} of {tool:?}");
        let checks = cost.checks.get(&tool.name).copied().unwrap_or_default();
        let most = tool.checks.as_ref().map_or(Some(0), |checks| checks.runs.map(u64::from));
        prop_assert!(at_most(checks, most), "{checks} checks of {tool:?}");
    }
    Ok(())
}
