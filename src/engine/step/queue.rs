//! Calls whose arguments hold: each of them starts, waits or is refused, and all that is decided here.
//!
//! A call gets a place in the order of the calls, if there is room: among all calls of the reply, among those of its
//! tool, and among those whose failures the breaker still bears. It keeps the place until it is settled, not only
//! until it has ended. So which calls run, and what is known when they start, does not depend on which of those
//! before them ends first; and the call that is settled next never waits for one behind it.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::directive::Because;
use super::super::gate::Place;
use super::super::machine::Entry;
use super::super::reason::Reason;
use super::super::state::{Refusal, Slot, SlotPhase};
use super::{Split, Step};
use crate::policy::{Approval, Attempts, ErrorClass};
use crate::session::FinalReason;

impl Step<'_> {
    /// Refuses a call beyond the most of one reply. The report is no call of a tool.
    pub(super) fn surplus(&mut self, tool: &str, calls: &mut u32) -> Option<Refusal> {
        if self.policy.output().is_some_and(|output| output.tool.value == tool) {
            return None;
        }
        *calls = calls.saturating_add(1);
        let rules = &self.policy.turn().calls;
        let most = rules.most.value.limit()?;
        if *calls <= most {
            return None;
        }
        let text = self.say(&rules.too_many_message, json!({ "tool": tool, "most": most }));
        let limit = rules.most.map(|_| most);
        let why = Reason::new(self.policy, "turn.calls.most", &limit, [format!("call {calls} of the reply")]);
        Some(Refusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
    }

    /// Gives places to those who wait, as far as there are some; what is refused is settled in its turn.
    pub(super) fn start_waiting(&mut self) {
        let mut without_room = BTreeSet::new();
        while let Some(index) = self.state.batch.gate.first(&without_room) {
            let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
            match self.entry(index, &slot) {
                Entry::Full => break,
                Entry::Later => {
                    without_room.insert(slot.tool);
                }
                Entry::Refused(refusal) => {
                    self.state.batch.gate.release(&slot.tool);
                    self.set_phase(index, SlotPhase::Refused(refusal));
                }
                Entry::Free(place) => {
                    self.state.batch.gate.release(&slot.tool);
                    self.state.batch.gate.enter(&slot.tool);
                    self.set_place(index, Some(place));
                    self.begin(index, &slot);
                }
            }
        }
        self.ask_next();
    }

    /// Whether the call of a slot gets a place now.
    fn entry(&mut self, index: usize, slot: &Slot) -> Entry {
        if let Some(refusal) = self.too_late(slot) {
            return Entry::Refused(refusal);
        }
        if let Some(refusal) = self.no_calls_left(slot) {
            return Entry::Refused(refusal);
        }
        let room = |limit: Attempts, taken: u32| limit.limit().is_none_or(|limit| taken < limit);
        // Whoever is settled next waits for nobody: the rules may have become narrower since the others began.
        let next = index == self.state.batch.settled;
        if !next && !room(self.policy.turn().calls.parallel.value, self.state.batch.gate.taken()) {
            return Entry::Full;
        }
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let same = self.state.batch.gate.of_tool(&slot.tool);
        if !next && !room(policy.concurrency.value, same) {
            return Entry::Later;
        }
        let Split { mut run, .. } = self.split();
        run.tools.admit(&slot.tool, &policy, same, &mut run.out)
    }

    /// Why a call that waited does not begin any more, whatever room there is.
    pub(super) fn too_late(&mut self, slot: &Slot) -> Option<Refusal> {
        let refusal = self.only_the_end(&slot.tool);
        if refusal.is_some() || self.deadline().is_none_or(|deadline| deadline > self.state.now) {
            return refusal;
        }
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = self.say(&policy.messages.not_started, json!({ "tool": slot.tool }));
        Some(Refusal { class: ErrorClass::Timeout, text, because: Vec::new() })
    }

    /// Why a call does not run: all calls of tools there may be have run. Then the next turn is the final one.
    fn no_calls_left(&mut self, slot: &Slot) -> Option<Refusal> {
        let Split { mut run, .. } = self.split();
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

    /// A call that has got its place begins: it runs, or a person is asked first.
    fn begin(&mut self, index: usize, slot: &Slot) {
        self.state.spending.count_tool_call();
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        if policy.approval.value == Approval::Always {
            self.set_phase(index, SlotPhase::Unasked);
            self.state.batch.gate.put_question(index);
        } else {
            self.set_phase(index, SlotPhase::UnderWay);
            self.run_tool(index, Vec::new());
        }
    }

    /// A call that had to be agreed to runs now, unless something has come up against it meanwhile.
    pub(super) fn begin_agreed(&mut self, index: usize, why: Vec<Because>) {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        if let Some(refusal) = self.too_late(&slot) {
            return self.refuse_agreed(index, refusal);
        }
        let Split { mut run, .. } = self.split();
        let place = match run.tools.admit_again(&slot.tool, slot.place, &policy, &mut run.out) {
            Ok(place) => place,
            Err(refusal) => return self.refuse_agreed(index, refusal),
        };
        if let Some(slot) = self.state.batch.slots.get_mut(index) {
            slot.place = place;
            slot.to_approve = false;
            slot.phase = SlotPhase::UnderWay;
        }
        self.run_tool(index, why);
    }

    /// A call that has a place does not run after all.
    pub(super) fn refuse_agreed(&mut self, index: usize, refusal: Refusal) {
        self.state.spending.uncount_tool_call();
        self.return_probe(index);
        self.set_phase(index, SlotPhase::Refused(refusal));
    }

    /// The call of a slot needs its place no more.
    pub(super) fn leave(&mut self, index: usize) {
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return };
        if slot.place.take().is_some() {
            self.state.batch.gate.leave(&slot.tool);
        }
    }

    /// Gives back the probe that a call has, if it has one: it shows nothing about the tool's health.
    pub(super) fn return_probe(&mut self, index: usize) {
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return };
        if slot.place != Some(Place::Probe) {
            return;
        }
        slot.place = Some(Place::Run);
        let tool = slot.tool.clone();
        let Split { mut run, .. } = self.split();
        run.tools.return_probe(&tool, &mut run.out);
    }

    fn set_place(&mut self, index: usize, place: Option<Place>) {
        if let Some(slot) = self.state.batch.slots.get_mut(index) {
            slot.place = place;
        }
    }
}
