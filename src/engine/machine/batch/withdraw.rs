//! Calls that the host no longer needs: they are answered in order, and the others continue.

use core::mem;

use serde_json::json;

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::tool_series::{CallPhase, CallStep, ToolSeries, WithdrawnCall};
use super::super::work_table::WorkPurpose;
use super::Batch;

use crate::engine::directive::Note;
use crate::engine::event::ToolOutcome;
use crate::engine::failure::EffectState;
use crate::policy::{ErrorClass, Trigger};
use crate::session::StopReason;

impl Batch {
    /// Whether the call exists and has no result yet.
    pub(in crate::engine) fn is_open(&self, call: usize) -> bool {
        self.slot(call).is_some_and(|slot| slot.phase != CallPhase::Settled)
    }

    /// Withdraws one call or all calls: calls that have not started do not start, and failed calls are not retried.
    /// Calls that succeeded are settled as usual.
    pub(in crate::engine) fn withdraw(
        &mut self,
        call: Option<usize>,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        let calls = call.map_or(0..self.slots.len(), |call| call..call.saturating_add(1));
        for index in calls {
            run.out.about(index);
            self.withdraw_call(index, run);
        }
        self.start_waiting(run)
    }

    fn withdraw_call(&mut self, index: usize, run: &mut RunParts<'_>) {
        let key = CallKey(run.proposal, index);
        let Some(slot) = self.slots.get_mut(index) else { return };
        let tool = slot.tool.clone();
        let phase = match mem::replace(&mut slot.phase, CallPhase::Settled) {
            // Calls with a result, or that succeeded, keep it: the side effect has happened, and the model should see
            // it.
            phase @ (CallPhase::Settled
            | CallPhase::Refused(_)
            | CallPhase::Withdrawn(_)
            | CallPhase::Ended(ToolOutcome::Ok { .. } | ToolOutcome::Done, ..)) => phase,
            CallPhase::Waiting => {
                run.queue.release(&tool, key);
                CallPhase::Withdrawn(WithdrawnCall::NotStarted)
            }
            // The call only waited for approval and never ran, so its charge to the budget of calls is returned.
            CallPhase::Unasked | CallPhase::Asked | CallPhase::Paced if slot.series.history.is_empty() => {
                run.spending.uncount_tool_call();
                CallPhase::Withdrawn(WithdrawnCall::NotStarted)
            }
            // None of these has started, or the tool reported that it did not: calling them again is safe.
            CallPhase::Invalid(_)
            | CallPhase::Report(_)
            | CallPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, ..) => {
                CallPhase::Withdrawn(WithdrawnCall::NotStarted)
            }
            // These may have had side effects. "Not started" would invite the model to repeat them.
            CallPhase::Unasked
            | CallPhase::Asked
            | CallPhase::Paced
            | CallPhase::UnderWay
            | CallPhase::Doubtful(_)
            | CallPhase::Ended(ToolOutcome::Failed { .. }, ..) => {
                CallPhase::Withdrawn(WithdrawnCall::Interrupted)
            }
            // The model has their results; only the planner's decision is missing, and it is no longer needed.
            CallPhase::WithPlanner(_) | CallPhase::ReportWithPlanner => CallPhase::Settled,
        };
        slot.phase = phase;
        run.queue.drop_question(key);
        // A probe that is not returned would keep the breaker half-open, and the tool refused, for ever.
        slot.return_probe(run);
        let open: Vec<_> = run.work.open(run.proposal).collect();
        // Timers and questions of this call are dropped with it; otherwise their answers would reach a settled call.
        for (work, pending) in open {
            if slot_of(pending) == Some(index) {
                run.drop_work(work);
            }
        }
    }
}

/// Adds the result of a withdrawn call.
pub(super) fn answered(series: &ToolSeries, how: WithdrawnCall, run: &mut RunParts<'_>) -> CallStep {
    let attempts = match how {
        WithdrawnCall::NotStarted => return series.not_started(run),
        WithdrawnCall::Interrupted => series.series.attempt(),
    };
    let (call, tool) = (series.call.clone(), series.tool.clone());
    let (error_type, message) = (ErrorClass::Cancelled, "the call was withdrawn".to_owned());
    // The host withdrew the call, so a reducer's objection has no effect on it.
    run.out.reduce(Trigger::ToolFailed, || {
        json!({
            "tool": tool, "call": call, "attempts": attempts, "arguments": series.arguments,
            "error_type": error_type, "message": message, "reason": StopReason::Cancelled,
        })
    });
    run.out.note(Note::ToolEnded { call, tool, attempts, error_type: Some(error_type), message }, Vec::new());
    series.interrupted(run)
}

/// The slot that a piece of work belongs to.
const fn slot_of(pending: WorkPurpose) -> Option<usize> {
    match pending {
        WorkPurpose::Tool(slot)
        | WorkPurpose::WaitTool(slot)
        | WorkPurpose::ConsultTool(slot)
        | WorkPurpose::Approve(slot)
        | WorkPurpose::ApproveAgain(slot)
        | WorkPurpose::Verify(slot) => Some(slot),
        WorkPurpose::Prepare
        | WorkPurpose::Repair(_)
        | WorkPurpose::Reduce(_)
        | WorkPurpose::Summary(_)
        | WorkPurpose::Model
        | WorkPurpose::WaitModel
        | WorkPurpose::WaitTurn
        | WorkPurpose::ConsultModel
        | WorkPurpose::ConsultOutput => None,
    }
}
