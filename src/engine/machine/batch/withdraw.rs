//! Calls that the host needs no more: they are answered in their turn, and those beside them go on.

use core::mem;

use serde_json::json;

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::Batch;
use super::slot::{SlotPhase, Withdrawn};
use crate::engine::directive::Note;
use crate::engine::event::ToolOutcome;
use crate::engine::failure::EffectState;
use crate::policy::{ErrorClass, Trigger};
use crate::session::StopReason;

impl Batch {
    /// Whether there is such a call, and it has no result yet.
    pub(in crate::engine) fn is_open(&self, call: usize) -> bool {
        self.slot(call).is_some_and(|slot| slot.phase != SlotPhase::Settled)
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
        let phase = match mem::replace(&mut slot.phase, SlotPhase::Settled) {
            phase @ (SlotPhase::Settled
            | SlotPhase::Refused(_)
            | SlotPhase::Withdrawn(_)
            | SlotPhase::Ended(ToolOutcome::Ok { .. } | ToolOutcome::Done, _)) => phase,
            SlotPhase::Waiting => {
                run.queue.release(&tool, key);
                SlotPhase::Withdrawn(Withdrawn::NotStarted)
            }
            SlotPhase::Unasked | SlotPhase::Asked if slot.series.history.is_empty() => {
                run.spending.uncount_tool_call();
                SlotPhase::Withdrawn(Withdrawn::NotStarted)
            }
            SlotPhase::Invalid(_)
            | SlotPhase::Report(_)
            | SlotPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, _) => {
                SlotPhase::Withdrawn(Withdrawn::NotStarted)
            }
            SlotPhase::Unasked
            | SlotPhase::Asked
            | SlotPhase::UnderWay
            | SlotPhase::Doubtful(_)
            | SlotPhase::Ended(ToolOutcome::Failed { .. }, _) => SlotPhase::Withdrawn(Withdrawn::Interrupted),
            // They have their results; nobody decides about them any more.
            SlotPhase::WithPlanner(_) | SlotPhase::ReportWithPlanner => SlotPhase::Settled,
        };
        slot.phase = phase;
        run.queue.drop_question(key);
        self.return_probe(index, run);
        let open: Vec<_> = run.work.open(run.proposal).collect();
        for (work, pending) in open {
            if slot_of(pending) == Some(index) {
                run.drop_work(work);
            }
        }
    }

    /// A call that the host needs no more gets its result.
    pub(super) fn answer_withdrawn(&mut self, index: usize, withdrawn: Withdrawn, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index) else { return };
        let attempts = match withdrawn {
            Withdrawn::NotStarted => return self.answer_not_started(index, run),
            Withdrawn::Interrupted => slot.series.attempt(),
        };
        let (call, tool, arguments) = (slot.call.clone(), slot.tool.clone(), slot.arguments.clone());
        let (error_type, message) = (ErrorClass::Cancelled, "the call was withdrawn".to_owned());
        // An objection has nobody to answer it.
        run.out.reduce(Trigger::ToolFailed, || {
            json!({
                "tool": tool, "call": call, "attempts": attempts, "arguments": arguments,
                "error_type": error_type, "message": message, "reason": StopReason::Cancelled,
            })
        });
        run.out.note(
            Note::ToolEnded { call, tool, attempts, error_type: Some(error_type), message },
            Vec::new(),
        );
        self.answer_interrupted(index, run);
    }
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
