//! Calls that the host needs no more: they are answered in their turn, and those beside them go on.

use core::mem;

use serde_json::json;

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::tool_series::{CallPhase, CallStep, ToolSeries, Withdrawn};
use super::super::work_table::Pending;
use super::Batch;

use crate::engine::directive::Note;
use crate::engine::event::ToolOutcome;
use crate::engine::failure::EffectState;
use crate::policy::{ErrorClass, Trigger};
use crate::session::StopReason;

impl Batch {
    /// Whether there is such a call, and it has no result yet.
    pub(in crate::engine) fn is_open(&self, call: usize) -> bool {
        self.slot(call).is_some_and(|slot| slot.phase != CallPhase::Settled)
    }

    /// The host needs a call no more, or none of them: what has not begun does not begin, and what has failed is not tried
    /// again. What has ended well is settled as if nothing had happened.
    pub(in crate::engine) fn withdraw(
        &mut self,
        call: Option<usize>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
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
            phase @ (CallPhase::Settled
            | CallPhase::Refused(_)
            | CallPhase::Withdrawn(_)
            | CallPhase::Ended(ToolOutcome::Ok { .. } | ToolOutcome::Done, _)) => phase,
            CallPhase::Waiting => {
                run.queue.release(&tool, key);
                CallPhase::Withdrawn(Withdrawn::NotStarted)
            }
            CallPhase::Unasked | CallPhase::Asked if slot.series.history.is_empty() => {
                run.spending.uncount_tool_call();
                CallPhase::Withdrawn(Withdrawn::NotStarted)
            }
            CallPhase::Invalid(_)
            | CallPhase::Report(_)
            | CallPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, _) => {
                CallPhase::Withdrawn(Withdrawn::NotStarted)
            }
            CallPhase::Unasked
            | CallPhase::Asked
            | CallPhase::UnderWay
            | CallPhase::Doubtful(_)
            | CallPhase::Ended(ToolOutcome::Failed { .. }, _) => CallPhase::Withdrawn(Withdrawn::Interrupted),
            // They have their results; nobody decides about them any more.
            CallPhase::WithPlanner(_) | CallPhase::ReportWithPlanner => CallPhase::Settled,
        };
        slot.phase = phase;
        run.queue.drop_question(key);
        slot.return_probe(run);
        let open: Vec<_> = run.work.open(run.proposal).collect();
        for (work, pending) in open {
            if slot_of(pending) == Some(index) {
                run.drop_work(work);
            }
        }
    }
}

/// A call that the host needs no more gets its result.
pub(super) fn answered(series: &ToolSeries, how: Withdrawn, run: &mut RunParts<'_>) -> CallStep {
    let attempts = match how {
        Withdrawn::NotStarted => return series.not_started(run),
        Withdrawn::Interrupted => series.series.attempt(),
    };
    let (call, tool) = (series.call.clone(), series.tool.clone());
    let (error_type, message) = (ErrorClass::Cancelled, "the call was withdrawn".to_owned());
    // An objection has nobody to answer it.
    run.out.reduce(Trigger::ToolFailed, || {
        json!({
            "tool": tool, "call": call, "attempts": attempts, "arguments": series.arguments,
            "error_type": error_type, "message": message, "reason": StopReason::Cancelled,
        })
    });
    run.out.note(Note::ToolEnded { call, tool, attempts, error_type: Some(error_type), message }, Vec::new());
    series.interrupted(run)
}

/// The slot that a piece of work is for.
const fn slot_of(pending: Pending) -> Option<usize> {
    match pending {
        Pending::Tool(slot)
        | Pending::WaitTool(slot)
        | Pending::ConsultTool(slot)
        | Pending::Approve(slot)
        | Pending::ApproveAgain(slot)
        | Pending::Verify(slot) => Some(slot),
        Pending::Prepare
        | Pending::Repair(_)
        | Pending::Reduce(_)
        | Pending::Summary(_)
        | Pending::Model
        | Pending::WaitModel
        | Pending::WaitTurn
        | Pending::ConsultModel
        | Pending::ConsultOutput => None,
    }
}
