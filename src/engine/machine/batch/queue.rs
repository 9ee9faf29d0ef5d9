//! Calls whose arguments hold: each of them starts, waits or is refused, and all that is decided here.
//!
//! A call gets a place in the order of the calls, if there is room: among all calls of the reply, among those of its
//! tool, and among those whose failures the breaker still bears. It keeps the place until it is settled, not only
//! until it has ended. So which calls run, and what is known when they start, does not depend on which of those
//! before them ends first; and the call that is settled next never waits for one behind it.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::tool_health::Entry;
use super::Batch;
use super::examine::only_the_end;
use super::slot::{Refusal, Slot, SlotPhase};
use crate::engine::directive::Because;
use crate::engine::machine::call_queue::Place;
use crate::engine::reason::Reason;
use crate::policy::{Approval, Attempts, ErrorClass};
use crate::session::FinalReason;

impl Batch {
    /// Gives places to those who wait, as far as there are some; what is refused is settled in its turn.
    pub(in crate::engine) fn start_waiting(&mut self, run: &mut RunParts<'_>) -> Result<(), Then> {
        let mut without_room = BTreeSet::new();
        while let Some(index) = run.queue.first(run.proposal, &without_room) {
            let Some(slot) = self.slot(index).map(Slot::without_history) else { return Ok(()) };
            run.out.about(index);
            match self.entry(index, &slot, run) {
                Entry::Full => break,
                Entry::Later => {
                    without_room.insert(slot.tool);
                }
                Entry::Refused(refusal) => {
                    run.queue.release(&slot.tool, CallKey(run.proposal, index));
                    self.set_phase(index, SlotPhase::Refused(refusal));
                }
                Entry::Free(place) => {
                    run.queue.release(&slot.tool, CallKey(run.proposal, index));
                    run.queue.enter(&slot.tool);
                    self.taken = self.taken.saturating_add(1);
                    self.begin_call(index, &slot, place, run)?;
                }
            }
        }
        self.ask_next(run)
    }

    /// Whether the call of a slot gets a place now.
    fn entry(&mut self, index: usize, slot: &Slot, run: &mut RunParts<'_>) -> Entry {
        if let Some(refusal) = too_late(slot, run) {
            return Entry::Refused(refusal);
        }
        if let Some(refusal) = no_calls_left(slot, run) {
            return Entry::Refused(refusal);
        }
        let room = |limit: Attempts, taken: u32| limit.limit().is_none_or(|limit| taken < limit);
        // Whoever is settled next waits for no other call of the batch: the rules may have become narrower since those began.
        let next = index == self.settled;
        // Nor do the others take its place while it waits for one of its tool.
        let kept = self.slot(self.settled).is_some_and(|slot| slot.phase == SlotPhase::Waiting);
        let taken = self.taken.saturating_add(kept.into());
        if !next && !room(run.policy().turn().calls.parallel.value, taken) {
            return Entry::Full;
        }
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let same = run.queue.of_tool(&slot.tool);
        if !room(policy.concurrency.value, same) {
            return Entry::Later;
        }
        run.tools.admit(&slot.tool, &policy, same, &mut run.out)
    }

    /// A call that has got its place begins: it runs, or a person is asked first.
    fn begin_call(
        &mut self,
        index: usize,
        slot: &Slot,
        place: Place,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.spending.count_tool_call();
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let asks = policy.approval.value == Approval::Always;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.place = Some(place);
            slot.phase = if asks { SlotPhase::Unasked } else { SlotPhase::UnderWay };
        }
        if asks {
            run.queue.put_question(CallKey(run.proposal, index));
            return Ok(());
        }
        self.run_tool(index, Vec::new(), run)
    }

    /// A call that had to be agreed to runs now, unless something has come up against it meanwhile.
    pub(super) fn begin_agreed(
        &mut self,
        index: usize,
        why: Vec<Because>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return Ok(()) };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        if let Some(refusal) = too_late(&slot, run) {
            self.refuse_agreed(index, refusal, run);
            return Ok(());
        }
        let place = match run.tools.admit_again(&slot.tool, slot.place, &policy, &mut run.out) {
            Ok(place) => place,
            Err(refusal) => {
                self.refuse_agreed(index, refusal, run);
                return Ok(());
            }
        };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.place = place;
            slot.to_approve = false;
            slot.phase = SlotPhase::UnderWay;
        }
        self.run_tool(index, why, run)
    }

    /// A call that has a place does not run after all.
    pub(super) fn refuse_agreed(&mut self, index: usize, refusal: Refusal, run: &mut RunParts<'_>) {
        run.spending.uncount_tool_call();
        self.return_probe(index, run);
        self.set_phase(index, SlotPhase::Refused(refusal));
    }

    /// The call of a slot needs its place no more.
    pub(super) fn leave(&mut self, index: usize, run: &mut RunParts<'_>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.place.take().is_some() {
            run.queue.leave(&slot.tool);
            self.taken = self.taken.saturating_sub(1);
        }
    }

    /// Gives back the probe that a call has, if it has one: it shows nothing about the tool's health.
    pub(super) fn return_probe(&mut self, index: usize, run: &mut RunParts<'_>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.place != Some(Place::Probe) {
            return;
        }
        slot.place = Some(Place::Run);
        let tool = slot.tool.clone();
        run.tools.return_probe(&tool, &mut run.out);
    }
}

/// Refuses a call beyond the most of one reply. The report is no call of a tool.
pub(super) fn surplus(tool: &str, calls: &mut u32, run: &mut RunParts<'_>) -> Option<Refusal> {
    if run.policy().output().is_some_and(|output| output.tool.value == tool) {
        return None;
    }
    *calls = calls.saturating_add(1);
    let rules = &run.policy().turn().calls;
    let most = rules.most.value.limit()?;
    if *calls <= most {
        return None;
    }
    let text = run.out.say(&rules.too_many_message, json!({ "tool": tool, "most": most }));
    let limit = rules.most.map(|_| most);
    let why = Reason::new(run.policy(), "turn.calls.most", &limit, [format!("call {calls} of the reply")]);
    Some(Refusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
}

/// Why a call that waited does not begin any more, whatever room there is.
pub(super) fn too_late(slot: &Slot, run: &mut RunParts<'_>) -> Option<Refusal> {
    let refusal = only_the_end(&slot.tool, run);
    if refusal.is_some() || run.deadline().is_none_or(|deadline| deadline > run.out.now) {
        return refusal;
    }
    let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
    let text = run.out.say(&policy.messages.not_started, json!({ "tool": slot.tool }));
    Some(Refusal { class: ErrorClass::Timeout, text, because: Vec::new() })
}

/// Why a call does not run: all calls of tools there may be have run. Then the next turn is the final one.
pub(super) fn no_calls_left(slot: &Slot, run: &mut RunParts<'_>) -> Option<Refusal> {
    let most = run.run_budget().limits()?.tool_calls.as_ref()?;
    let made = run.spending.tool_calls;
    if made < most.value {
        return None;
    }
    let fact = format!("{made} calls of tools have run");
    let why = Reason::new(run.policy(), "limits.run.tool_calls", most, [fact]);
    let text = &run.policy().turn().calls.no_calls_left_message;
    let text = run.out.say(text, json!({ "tool": slot.tool, "most": most.value }));
    run.force_last_turn(FinalReason::Budget, vec![why.clone().told(run.policy())]);
    Some(Refusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
}
