//! The tool calls of one reply: run in parallel, settled strictly in the order of the model's list.
//!
//! A call that succeeds early waits to be written down, and one that fails early waits with its retry, until the
//! calls before it are settled. So breakers, reducers and messages see the same order whichever tool ends first.

mod approval;
mod attempts;
mod doubt;
mod examine;
mod exhausted;
mod queue;
mod results;
mod slot;
mod withdraw;

use core::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call_queue::CallKey;
use super::loop_detector::EndOfCall;
use super::report_series::{Delivered, ReportSeries};
use super::run_parts::RunParts;
use super::then::Then;
use super::turn_guidance::{Guidance, TurnGuidance};
use crate::engine::directive::{Note, Settlement};
use crate::engine::event::{Drive, Proposal, ToolOutcome};
use crate::engine::failure::EffectState;
use crate::engine::reason::told;
use crate::engine::result::RunFacts;
use crate::engine::results_room::RoomForResults;
use crate::engine::state::{Series, Tracked, digest_of_json, digest_of_parts};
use crate::policy::{Approval, ErrorClass, ToolPolicy, Trigger};
use crate::session::Message;
use attempts::reducer_text;
use examine::{Finding, examine, not_found};
use queue::surplus;
use results::ResultRoom;
use slot::SlotPhase;
pub(in crate::engine) use slot::{Refusal, Slot};

/// The batch under way; empty when there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Batch {
    /// Its number in the session, from 1; 0 before the first.
    number: u64,
    /// Its calls, in the order of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<Tracked<Slot>>,
    /// How many calls at its head are settled.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    settled: usize,
    /// How many of its calls have a place.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    taken: u32,
    /// What the model reads after the results of all calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    afterwords: Vec<Guidance>,
    /// Whether a call went well.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    round_ok: bool,
    #[serde(default, skip_serializing_if = "ResultRoom::is_unlimited")]
    room: ResultRoom,
}

impl Batch {
    /// Whether there was none yet.
    pub(in crate::engine) fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no call is under way.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The calls, in order, those included that have their result already.
    pub(in crate::engine) fn slots(&self) -> impl ExactSizeIterator<Item = &Slot> {
        self.slots.iter().map(|slot| &**slot)
    }

    /// The slot of that number.
    pub(in crate::engine) fn slot(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index).map(|slot| &**slot)
    }

    /// The digest of it: of its slots only those are read that have changed.
    pub(in crate::engine) fn digest(&self) -> u128 {
        let Self { number, slots, settled, taken, afterwords, round_ok, room } = self;
        let slots = digest_of_parts((0..).zip(slots.iter().map(Tracked::digest)));
        digest_of_json(&(number, slots, settled, taken, afterwords, round_ok, room))
    }

    /// A reply with calls was taken: their results have this room, and the model reads these texts after them.
    pub(in crate::engine) fn prepare(&mut self, room: Option<RoomForResults>, afterwords: Vec<Guidance>) {
        self.room = ResultRoom(room);
        self.afterwords = afterwords;
    }

    /// Looks at the calls of a reply in order: each runs, waits, or is settled without a run.
    pub(in crate::engine) fn begin(
        &mut self,
        proposals: Vec<Proposal>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        *run.batches = run.batches.saturating_add(1);
        self.number = *run.batches;
        let now = run.out.now;
        let mut calls = run.turns.turn_of(run.terms.of_turn).map_or(0, |turn| turn.calls);
        for (index, Proposal { call, policy: planner }) in proposals.into_iter().enumerate() {
            run.out.about(index);
            let finding = match surplus(&call.name, &mut calls, run) {
                Some(refusal) => Finding::Stays(Value::Null, SlotPhase::Refused(refusal)),
                None => examine(&call, planner.as_ref(), &mut self.afterwords, run),
            };
            let (arguments, phase) = match finding {
                Finding::Runs(arguments) => {
                    run.queue.wait(&call.name, CallKey(run.proposal, index));
                    (arguments, SlotPhase::Waiting)
                }
                Finding::Stays(arguments, phase) => (arguments, phase),
            };
            let series = Series::begin(now);
            let (call, tool, ran) = (call.id, call.name, RunFacts::default());
            let arguments = Arc::new(arguments);
            self.slots.push(Tracked::new(Slot {
                call,
                tool,
                arguments,
                planner,
                series,
                ran,
                place: None,
                left: EffectState::NotStarted,
                to_approve: false,
                phase,
            }));
        }
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.calls = calls;
            turn.batch_begins();
            self.room = ResultRoom(turn.room);
        }
        self.start_waiting(run)
    }

    /// A run of a tool has ended; it is looked at when the calls before it are settled.
    pub(in crate::engine) fn on_finished(
        &mut self,
        index: usize,
        outcome: ToolOutcome,
        ran: RunFacts,
        run: &RunParts<'_>,
    ) {
        let now = run.out.now;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.ran = ran;
        }
        self.set_phase(index, SlotPhase::Ended(outcome, now));
    }

    /// Looks at the calls in order, as far as they have ended; then comes the next turn.
    pub(in crate::engine) fn settle(
        &mut self,
        report: &mut ReportSeries,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> Then {
        loop {
            match self.settle_next(report, run) {
                Ok(true) => {}
                Ok(false) if self.settled < self.slots.len() => return Then::Host,
                Ok(false) => return self.end(report, guidance, run),
                Err(end) => return end,
            }
        }
    }

    /// Looks at the first call that is not settled. Returns whether it was looked at: if not, it is under way, or there is
    /// none. `Err`: the run ends.
    fn settle_next(&mut self, report: &mut ReportSeries, run: &mut RunParts<'_>) -> Result<bool, Then> {
        let index = self.settled;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(false) };
        run.out.about(index);
        match mem::replace(&mut slot.phase, SlotPhase::UnderWay) {
            phase @ (SlotPhase::UnderWay
            | SlotPhase::WithPlanner(_)
            | SlotPhase::ReportWithPlanner
            | SlotPhase::Waiting
            | SlotPhase::Unasked
            | SlotPhase::Asked
            | SlotPhase::Doubtful(_)) => {
                slot.phase = phase;
                return Ok(false);
            }
            SlotPhase::Settled => {
                slot.phase = SlotPhase::Settled;
                self.settled = index.saturating_add(1);
                self.start_waiting(run)?;
            }
            SlotPhase::Refused(refusal) => {
                if refusal.class == ErrorClass::ToolNotFound {
                    let (call, tool) = (slot.call.clone(), slot.tool.clone());
                    self.call_ended((&call, &tool), &EndOfCall::Failed(refusal.class, ""), run);
                }
                self.refuse(index, refusal, run);
            }
            SlotPhase::Invalid(invalid) => self.correct(index, &invalid, run)?,
            SlotPhase::Report(raw) => self.report_called(index, &raw, report, run)?,
            SlotPhase::Ended(ToolOutcome::Ok { data }, _) => self.succeeded(index, Some(&data), run),
            SlotPhase::Ended(ToolOutcome::Done, _) => self.succeeded(index, None, run),
            SlotPhase::Withdrawn(withdrawn) => self.answer_withdrawn(index, withdrawn, run),
            SlotPhase::Ended(ToolOutcome::Failed { failure, effect }, at) => {
                self.failed(index, &failure, effect, at, run)?;
            }
        }
        Ok(true)
    }

    /// All calls are settled.
    fn end(
        &mut self,
        report: &mut ReportSeries,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> Then {
        let tool = run.policy().output().map(|output| output.tool.value.as_str());
        let reported = report.is_accepted() || self.slots.iter().any(|slot| Some(slot.tool.as_str()) == tool);
        let ok = mem::take(&mut self.round_ok);
        run.out.about_all();
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.batch_ended(ok);
            turn.nudged |= self.afterwords.iter().any(|told| told.class == ErrorClass::RepeatedCall);
        } else if !self.slots.is_empty() && run.context.drive == Drive::Turns {
            self.afterwords.extend(run.turns.round_ended(ok, run.ending.is_near(), &mut run.out));
        }
        self.clear();
        for Guidance { class, text } in mem::take(&mut self.afterwords) {
            match class {
                ErrorClass::ReducerError => {
                    run.append(Message::User { text, guidance: Some(class.name().into()) });
                }
                _ => guidance.guide(class, text, &mut run.out),
            }
        }
        match run.context.drive {
            Drive::Turns if run.ending.is_now() && !reported => report.on_other_calls(run),
            Drive::Turns => Then::TurnWhenDue,
            Drive::Calls if run.terms.withdrawn => Then::Settled(Settlement::Withdrawn),
            Drive::Calls => Then::Settled(Settlement::Tools),
        }
    }

    /// The report came as a tool call. If the policy has no report any more, that is a tool that does not exist.
    fn report_called(
        &mut self,
        index: usize,
        raw: &str,
        report: &mut ReportSeries,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let Some(output) = run.policy().output() else {
            let tool = self.slot(index).map(|slot| slot.tool.clone()).unwrap_or_default();
            self.set_phase(index, SlotPhase::Refused(not_found(&tool, run)));
            return Ok(());
        };
        match report.on_called(output, raw, run) {
            Delivered::Answered { text, error } => self.answer(index, text, error, run),
            Delivered::GivenUp { text, reason } => {
                self.answer(index, text, true, run);
                if !report.exhausted(output, reason, run)? {
                    self.set_phase(index, SlotPhase::ReportWithPlanner);
                }
            }
        }
        Ok(())
    }

    /// The planner has decided about the report.
    pub(in crate::engine) fn on_report_decided(&mut self) {
        for slot in &mut self.slots {
            if slot.phase == SlotPhase::ReportWithPlanner {
                slot.phase = SlotPhase::Settled;
            }
        }
    }

    /// There are other rules: a call that has begun may have begun without approval, or with that of other rules. Where the
    /// new ones ask for it, a person is asked before the next attempt.
    pub(in crate::engine) fn on_policy_changed(&mut self, run: &RunParts<'_>) {
        for slot in &mut self.slots {
            let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
            let asks = policy.approval.value == Approval::Always && !run.tools.is_agreed(&slot.tool);
            slot.to_approve = slot.phase.has_begun() && asks;
        }
    }

    pub(super) fn set_phase(&mut self, index: usize, phase: SlotPhase) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.phase = phase;
        }
    }

    /// Answers a call and is done with it.
    pub(super) fn answer(&mut self, index: usize, text: String, error: bool, run: &mut RunParts<'_>) {
        self.leave(index, run);
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.phase = SlotPhase::Settled;
        self.round_ok |= !error;
        let (call, tool, handle) = (slot.call.clone(), slot.tool.clone(), slot.ran.handle.clone());
        let message = Message::Tool { call, tool, text, error, handle };
        self.room.take(&message);
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.take_room(&message);
        }
        run.append(message);
    }

    /// Gives every call that is still open a result: what it answered, what it was refused for, that it did not run, or
    /// that nobody knows.
    pub(in crate::engine) fn close(&mut self, run: &mut RunParts<'_>) {
        for index in 0..self.slots.len() {
            let Some(slot) = self.slot(index) else { continue };
            run.out.about(index);
            match &slot.phase {
                SlotPhase::Settled | SlotPhase::WithPlanner(_) | SlotPhase::ReportWithPlanner => {}
                SlotPhase::Refused(refusal) => {
                    let text = refusal.text.clone();
                    self.answer(index, text, true, run);
                }
                SlotPhase::Waiting
                | SlotPhase::Unasked
                | SlotPhase::Asked
                | SlotPhase::Invalid(_)
                | SlotPhase::Report(_) => self.answer_not_started(index, run),
                SlotPhase::Ended(ToolOutcome::Ok { data }, _) => {
                    let data = data.clone();
                    self.answer_ended(index, Some(&data), run);
                }
                SlotPhase::Ended(ToolOutcome::Done, _) => self.answer_ended(index, None, run),
                SlotPhase::Withdrawn(withdrawn) => {
                    let withdrawn = *withdrawn;
                    self.answer_withdrawn(index, withdrawn, run);
                }
                SlotPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, _) => {
                    self.answer_not_started(index, run);
                }
                SlotPhase::UnderWay
                | SlotPhase::Doubtful(_)
                | SlotPhase::Ended(ToolOutcome::Failed { .. }, _) => self.answer_interrupted(index, run),
            }
        }
        // It is no round any more, and which of its calls have ended by now depends on who was quicker.
        self.round_ok = false;
        self.clear();
    }

    /// A person is not asked about a call for now.
    pub(in crate::engine) fn ask_later(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.set_phase(index, SlotPhase::Unasked);
        run.queue.put_question(CallKey(run.proposal, index));
    }

    /// The call gets no further attempt, because the run is to end.
    pub(in crate::engine) fn interrupt(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.answer_interrupted(index, run);
    }

    fn answer_interrupted(&mut self, index: usize, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = run.out.say(&policy.messages.interrupted, json!({ "tool": slot.tool }));
        self.answer(index, text, true, run);
    }

    /// A call that has ended, and is no longer settled because the run is over: the model is told what it answered.
    fn answer_ended(&mut self, index: usize, data: Option<&Value>, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = self.show(&slot, &policy, data, run);
        self.answer(index, text, false, run);
    }

    /// What the model is shown of a result; one that the host keeps to itself, the host shows.
    fn show(&self, slot: &Slot, policy: &ToolPolicy, data: Option<&Value>, run: &mut RunParts<'_>) -> String {
        data.map_or_else(String::new, |data| self.room.show_result(slot, policy, data, run))
    }

    fn answer_not_started(&mut self, index: usize, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = run.out.say(&policy.messages.not_started, json!({ "tool": slot.tool }));
        self.answer(index, text, true, run);
    }

    fn clear(&mut self) {
        self.room = ResultRoom::default();
        self.slots.clear();
        self.settled = 0;
    }

    /// Answers a call that does not run. Returns whether a reducer had something against it: then that is what the
    /// model is told.
    fn refuse(&mut self, index: usize, refusal: Refusal, run: &mut RunParts<'_>) -> bool {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return false };
        let (call, tool) = (slot.call.clone(), slot.tool.clone());
        let Refusal { class, text, because } = refusal;
        let objection = run.out.reduce(
            Trigger::ToolRefused,
            || json!({ "tool": tool, "call": call, "error_type": class, "message": text }),
        );
        let text = match &objection {
            Some(error) => reducer_text(&tool, error, run),
            None => text,
        };
        run.out.note(
            Note::Refused { call, tool, error_type: class, message: text.clone() },
            told(run.policy(), because),
        );
        let text = self.room.show_failure(&slot, class, &text.clone(), text, run);
        self.answer(index, text, true, run);
        objection.is_some()
    }

    /// The same for every attempt of the call, and for no other call.
    pub(super) fn idempotency_key(&self, index: usize, run: &RunParts<'_>) -> String {
        format!("{}-{}-{index}", run.id, self.number)
    }
}
