//! What a run has spent of its budgets, for its summary.

use crate::host::RunReport;
use crate::policy::RunLimits;
use serde_json::{Value, json};

/// Budget by budget, what was spent and what there was; `None`: the run has no budget.
pub(crate) fn line(report: &RunReport) -> Option<String> {
    let RunReport { state, limits: RunLimits { time, tokens, cost, model_calls, tool_calls }, .. } = report;
    let spent = state.spending();
    let parts = [
        time.as_ref().map(|most| format!("{} of {}", spent.time(state.now), most.value)),
        tokens.as_ref().map(|most| format!("{} of {} tokens", spent.tokens, most.value)),
        cost.as_ref().map(|most| format!("{} of {} USD", spent.cost(), most.value)),
        model_calls.as_ref().map(|most| format!("{} of {} model calls", spent.model_calls, most.value)),
        tool_calls.as_ref().map(|most| format!("{} of {} tool calls", spent.tool_calls, most.value)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The same for programs, with or without budgets.
pub(crate) fn json(report: &RunReport) -> Value {
    let spent = report.state.spending();
    json!({
        "time_seconds": spent.time(report.state.now).as_secs_f64(),
        "tokens": spent.tokens,
        "cost_usd": spent.cost(),
        "model_calls": spent.model_calls,
        "tool_calls": spent.tool_calls,
    })
}
