//! Admission of calls with valid arguments: each of them starts, waits or is refused.
//!
//! Calls get permits in order, within three limits: the calls of the reply, the calls of the tool, and the failures
//! the breaker still accepts. A call keeps its permit until it is settled, not only until it has ended. So the set of
//! running calls, and the facts known at their start, do not depend on which earlier call ends first; and the next
//! call to settle never waits for a later one.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::tool_health::CallAdmission;
use super::super::tool_series::{CallPhase, ToolSeries};
use super::super::work_table::WorkPurpose;
use super::Batch;
use crate::engine::ask::ApprovalAnswer;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::reason::StoredReason;
use crate::policy::{AttemptLimit, ErrorClass};
use crate::session::FinalReason;

impl Batch {
    /// Gives free permits to waiting calls; refused calls are settled in order.
    pub(in crate::engine) fn start_waiting(&mut self, run: &mut RunParts<'_>) -> Result<(), NextMachine> {
        // A tool without a free permit is skipped in this pass, so that its first call does not delay calls of other
        // tools.
        let mut without_room = BTreeSet::new();
        while let Some(index) = run.queue.first(run.proposal, &without_room) {
            let Some(call) = self.slot(index) else { return Ok(()) };
            run.out.about(index);
            let (tool, key) = (call.tool.clone(), CallKey(run.proposal, index));
            match self.entry(index, call, run) {
                // The batch as a whole is full, so no other call of it can start.
                CallAdmission::Full => break,
                CallAdmission::Later => {
                    without_room.insert(tool);
                }
                CallAdmission::Refused(refusal) => {
                    run.queue.release(&tool, key);
                    self.set_phase(index, CallPhase::Refused(refusal));
                }
                CallAdmission::Free(place) => {
                    run.queue.release(&tool, key);
                    run.queue.enter(&tool);
                    self.taken = self.taken.saturating_add(1);
                    // The call counts when it starts, not when it ends: otherwise the calls in flight would exceed
                    // the limit.
                    run.spending.count_tool_call();
                    self.look(index, run, |call, cx, run| call.begin(place, cx, run))?;
                    // Questions come last, so that calls without approval do not wait for a person's answer.
                    if self.slot(index).is_some_and(|call| call.phase == CallPhase::Unasked) {
                        run.queue.put_question(key);
                    }
                }
            }
        }
        self.ask_next(run)
    }

    /// Whether the call of a slot gets a permit now.
    fn entry(&self, index: usize, slot: &ToolSeries, run: &mut RunParts<'_>) -> CallAdmission {
        // The deadline is checked when the permit is available, as the call may have waited past it.
        if let Some(refusal) = slot.too_late(run) {
            return CallAdmission::Refused(refusal);
        }
        if let Some(refusal) = no_calls_left(slot, run) {
            return CallAdmission::Refused(refusal);
        }
        let room = |limit: AttemptLimit, taken: u32| limit.limit().is_none_or(|limit| taken < limit);
        // The next call to settle never waits for others of its batch. Its limit may have become tighter since the
        // others started, and they wait for it to be settled: this would be a deadlock.
        let next = index == self.settled;
        // While it waits for a permit of its tool, one permit of the batch is reserved for it.
        let kept = self.slot(self.settled).is_some_and(|slot| slot.phase == CallPhase::Waiting);
        let taken = self.taken.saturating_add(kept.into());
        if !next && !room(run.policy().turn().calls.parallel.value, taken) {
            return CallAdmission::Full;
        }
        let policy = slot.policy(run);
        let same = run.queue.of_tool(&slot.tool);
        // The limit of the tool applies to all batches, since it protects the service behind the tool.
        if !room(policy.concurrency.value, same) {
            return CallAdmission::Later;
        }
        // The breaker is asked last: it may grant a probe, which would be wasted on a call that another limit blocks.
        run.tools.admit(&slot.tool, &policy, same, &mut run.out)
    }

    /// Returns the permit of a call.
    pub(super) fn leave(&mut self, index: usize, run: &mut RunParts<'_>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.place.take().is_some() {
            run.queue.leave(&slot.tool);
            self.taken = self.taken.saturating_sub(1);
        }
    }

    /// Asks about the first call that needs approval, unless another question is open.
    pub(in crate::engine) fn ask_next(&mut self, run: &mut RunParts<'_>) -> Result<(), NextMachine> {
        // One question at a time, over all batches: a person with several open dialogs may answer the wrong one.
        let asked = |_, pending: &WorkPurpose| {
            matches!(pending, WorkPurpose::Approve(_) | WorkPurpose::ApproveAgain(_))
        };
        // A question may settle its call at once, without a person; then the next one is asked.
        while !run.work.any(asked) {
            let Some(index) = run.queue.next_question(run.proposal) else { return Ok(()) };
            self.look(index, run, |call, cx, run| call.ask(cx, run))?;
        }
        Ok(())
    }

    /// Handles a person's answer, or the lack of one, whether a call may run.
    pub(in crate::engine) fn on_approved(
        &mut self,
        index: usize,
        answer: ApprovalAnswer,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.on_approved(answer, cx, run))?;
        self.ask_next(run)
    }
}

/// Refuses a call beyond the maximum number of calls per reply. The report does not count.
pub(super) fn surplus(tool: &str, calls: &mut u32, run: &mut RunParts<'_>) -> Option<CallRefusal> {
    // If the report counted, it could not be delivered after too many other calls, and nothing else ends the run.
    if run.policy().output().is_some_and(|output| output.tool.value == tool) {
        return None;
    }
    *calls = calls.saturating_add(1);
    let rules = &run.policy().turn().calls;
    let most = rules.max.value.limit()?;
    if *calls <= most {
        return None;
    }
    let text = run.out.say(&rules.messages.too_many, json!({ "tool": tool, "most": most }));
    let limit = rules.max.map(|_| most);
    let why =
        StoredReason::new(run.policy(), "turn.calls.max", &limit, [format!("call {calls} of the reply")]);
    Some(CallRefusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
}

/// Why a call does not run: the budget of tool calls is used up. The next turn is then the final one.
// The call itself is not at fault: the model may still answer from the results, so it gets a final turn.
fn no_calls_left(slot: &ToolSeries, run: &mut RunParts<'_>) -> Option<CallRefusal> {
    let most = run.run_budget().limits()?.tool_calls.as_ref()?;
    let made = run.spending.tool_calls;
    if made < most.value {
        return None;
    }
    let fact = format!("{made} calls of tools have run");
    let why = StoredReason::new(run.policy(), "limits.run.tool_calls", most, [fact]);
    let text = &run.policy().turn().calls.messages.no_calls_left;
    let text = run.out.say(text, json!({ "tool": slot.tool, "most": most.value }));
    // Announced with the first refused call; otherwise the model would plan calls that cannot run.
    run.force_final_turn(FinalReason::Budget, vec![why.clone().told(run.policy())]);
    Some(CallRefusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
}
