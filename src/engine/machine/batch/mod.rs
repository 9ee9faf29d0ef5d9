//! The tool calls of one reply: run in parallel, settled strictly in the order of the model's list.
//!
//! A call that succeeds early waits to be written down, and one that fails early waits with its retry, until the
//! calls before it are settled. So breakers, reducers and messages see the same order whichever tool ends first.

mod examine;
mod queue;
mod withdraw;

use core::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_queue::CallKey;
use super::loop_detector::EndOfCall;
use super::report_series::{Delivered, ReportSeries};
use super::run_parts::RunParts;
use super::then::Then;
use super::tool_series::{AfterAnswer, CallContext, CallPhase, CallStep, ResultRoom, ToolSeries};
use super::turn_guidance::{Guidance, TurnGuidance};
use super::work_table::Pending;
use crate::engine::ask::Answer;
use crate::engine::directive::{Because, Decision, Settlement};
use crate::engine::event::{Drive, Proposal, ToolOutcome};
use crate::engine::failure::EffectState;
use crate::engine::result::RunFacts;
use crate::engine::results_room::RoomForResults;
use crate::engine::state::{Series, Tracked, digest_of_json, digest_of_parts};
use crate::policy::{Approval, ErrorClass};
use crate::session::{FinalReason, Message, RetryExhausted};
use examine::{Finding, examine, not_found};
use queue::surplus;

/// The batch under way; empty when there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Batch {
    /// Its number in the session, from 1; 0 before the first.
    number: u64,
    /// Its calls, in the order of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<Tracked<ToolSeries>>,
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
    pub(in crate::engine) fn slots(&self) -> impl ExactSizeIterator<Item = &ToolSeries> {
        self.slots.iter().map(|slot| &**slot)
    }

    /// The slot of that number.
    pub(in crate::engine) fn slot(&self, index: usize) -> Option<&ToolSeries> {
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
                Some(refusal) => Finding::Stays(Value::Null, CallPhase::Refused(refusal)),
                None => examine(&call, planner.as_ref(), &mut self.afterwords, run),
            };
            let (arguments, phase) = match finding {
                Finding::Runs(arguments) => {
                    run.queue.wait(&call.name, CallKey(run.proposal, index));
                    (arguments, CallPhase::Waiting)
                }
                Finding::Stays(arguments, phase) => (arguments, phase),
            };
            let series = Series::begin(now);
            let (call, tool, ran) = (call.id, call.name, RunFacts::default());
            let arguments = Arc::new(arguments);
            self.slots.push(Tracked::new(ToolSeries {
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
        self.set_phase(index, CallPhase::Ended(outcome, now));
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
        match mem::replace(&mut slot.phase, CallPhase::UnderWay) {
            phase @ (CallPhase::UnderWay
            | CallPhase::WithPlanner(_)
            | CallPhase::ReportWithPlanner
            | CallPhase::Waiting
            | CallPhase::Unasked
            | CallPhase::Asked
            | CallPhase::Doubtful(_)) => {
                slot.phase = phase;
                return Ok(false);
            }
            CallPhase::Settled => {
                slot.phase = CallPhase::Settled;
                self.settled = index.saturating_add(1);
                self.start_waiting(run)?;
            }
            CallPhase::Refused(refusal) => self.look(index, run, |call, cx, run| {
                if refusal.class == ErrorClass::ToolNotFound {
                    call.call_ended(&EndOfCall::Failed(refusal.class, ""), cx, run);
                }
                call.refuse(refusal, cx, run).0
            })?,
            CallPhase::Invalid(invalid) => {
                self.look(index, run, |call, cx, run| call.correct(&invalid, cx, run))?;
            }
            CallPhase::Report(raw) => self.report_called(index, &raw, report, run)?,
            CallPhase::Ended(ToolOutcome::Ok { data }, _) => {
                self.look(index, run, |call, cx, run| call.succeeded(Some(&data), cx, run))?;
            }
            CallPhase::Ended(ToolOutcome::Done, _) => {
                self.look(index, run, |call, cx, run| call.succeeded(None, cx, run))?;
            }
            CallPhase::Withdrawn(how) => {
                self.look(index, run, |call, _, run| withdraw::answered(call, how, run))?;
            }
            CallPhase::Ended(ToolOutcome::Failed { failure, effect }, at) => {
                self.look(index, run, |call, cx, run| call.failed(&failure, effect, at, cx, run))?;
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
            self.set_phase(index, CallPhase::Refused(not_found(&tool, run)));
            return Ok(());
        };
        match report.on_called(output, raw, run) {
            Delivered::Answered { text, error } => self.answer(index, text, error, run),
            Delivered::GivenUp { text, reason } => {
                self.answer(index, text, true, run);
                if !report.exhausted(output, reason, run)? {
                    self.set_phase(index, CallPhase::ReportWithPlanner);
                }
            }
        }
        Ok(())
    }

    /// The planner has decided about the report.
    pub(in crate::engine) fn on_report_decided(&mut self) {
        for slot in &mut self.slots {
            if slot.phase == CallPhase::ReportWithPlanner {
                slot.phase = CallPhase::Settled;
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

    pub(super) fn set_phase(&mut self, index: usize, phase: CallPhase) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.phase = phase;
        }
    }

    /// Answers a call and is done with it.
    pub(super) fn answer(&mut self, index: usize, text: String, error: bool, run: &mut RunParts<'_>) {
        self.leave(index, run);
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.phase = CallPhase::Settled;
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
            // Nothing is decided about them any more: they only get their results.
            let _ = self.look(index, run, |call, cx, run| match &call.phase {
                CallPhase::Settled | CallPhase::WithPlanner(_) | CallPhase::ReportWithPlanner => {
                    CallStep::Open
                }
                CallPhase::Refused(refusal) => {
                    let (text, error, then) = (refusal.text.clone(), true, AfterAnswer::Nothing);
                    CallStep::Answered { text, error, then }
                }
                CallPhase::Waiting
                | CallPhase::Unasked
                | CallPhase::Asked
                | CallPhase::Invalid(_)
                | CallPhase::Report(_)
                | CallPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, _) => {
                    call.not_started(run)
                }
                CallPhase::Ended(ToolOutcome::Ok { data }, _) => call.ended(Some(data), cx, run),
                CallPhase::Ended(ToolOutcome::Done, _) => call.ended(None, cx, run),
                CallPhase::Withdrawn(how) => withdraw::answered(call, *how, run),
                CallPhase::UnderWay
                | CallPhase::Doubtful(_)
                | CallPhase::Ended(ToolOutcome::Failed { .. }, _) => call.interrupted(run),
            });
        }
        // It is no round any more, and which of its calls have ended by now depends on who was quicker.
        self.round_ok = false;
        self.clear();
    }

    /// Looks at a call, and carries out what comes of it. `Err`: the run ends.
    pub(super) fn look(
        &mut self,
        index: usize,
        run: &mut RunParts<'_>,
        at: impl FnOnce(&mut ToolSeries, &mut CallContext<'_>, &mut RunParts<'_>) -> CallStep,
    ) -> Result<(), Then> {
        let Some(call) = self.slots.get_mut(index) else { return Ok(()) };
        run.out.about(index);
        let mut cx =
            CallContext { batch: self.number, index, room: self.room, afterwords: &mut self.afterwords };
        match at(call, &mut cx, run) {
            CallStep::Open => Ok(()),
            CallStep::Question => {
                run.queue.put_question(CallKey(run.proposal, index));
                self.ask_next(run)
            }
            CallStep::Answered { text, error, then } => {
                self.answer(index, text, error, run);
                match then {
                    AfterAnswer::Nothing => Ok(()),
                    AfterAnswer::GiveUp(decision, exhausted) => give_up(decision, exhausted, run),
                    AfterAnswer::Consult(exhausted) => {
                        self.set_phase(index, CallPhase::WithPlanner(Box::new(exhausted.clone())));
                        run.consult(Pending::ConsultTool(index), exhausted);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Runs, or runs again, the tool of a call.
    pub(in crate::engine) fn run_tool(
        &mut self,
        index: usize,
        why: Vec<Because>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        self.look(index, run, |call, cx, run| call.run_tool(why, cx, run))
    }

    /// The other tool has answered whether the run of a call has acted.
    pub(in crate::engine) fn on_verified(
        &mut self,
        index: usize,
        outcome: ToolOutcome,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        self.look(index, run, |call, cx, run| call.on_verified(outcome, cx, run))
    }

    /// A person has answered whether the tool of a call may run again.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        index: usize,
        answer: Answer,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        self.look(index, run, |call, cx, run| call.on_approved_again(answer, cx, run))
    }

    /// The planner has decided what is done about a tool call; it has its answer already.
    pub(in crate::engine) fn on_decided(
        &mut self,
        index: usize,
        decision: Decision,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let Some(call) = self.slots.get_mut(index) else { return Ok(()) };
        match mem::replace(&mut call.phase, CallPhase::Settled) {
            CallPhase::WithPlanner(exhausted) => give_up(decision, *exhausted, run),
            _ => Ok(()),
        }
    }

    /// Whether the call that is settled next waits for a person to say whether it may run again.
    pub(in crate::engine) fn waits_for_a_person(&self, run: &RunParts<'_>) -> Option<usize> {
        let index = self.settled;
        let doubtful = matches!(self.slot(index)?.phase, CallPhase::Doubtful(_));
        let verifies =
            run.work.any(|of, pending| of == run.proposal && matches!(pending, Pending::Verify(_)));
        (doubtful && !verifies).then_some(index)
    }

    /// A person is not asked about a call for now.
    pub(in crate::engine) fn ask_later(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.set_phase(index, CallPhase::Unasked);
        run.queue.put_question(CallKey(run.proposal, index));
    }

    /// The call gets no further attempt, because the run is to end.
    pub(in crate::engine) fn interrupt(&mut self, index: usize, run: &mut RunParts<'_>) -> Result<(), Then> {
        self.look(index, run, |call, _, run| call.interrupted(run))
    }

    fn clear(&mut self) {
        self.room = ResultRoom::default();
        self.slots.clear();
        self.settled = 0;
    }
}

fn give_up(decision: Decision, exhausted: RetryExhausted, run: &mut RunParts<'_>) -> Result<(), Then> {
    match decision {
        Decision::TellModel => {}
        Decision::FinalTurn => {
            run.force_last_turn(FinalReason::RetryExhaustion, Vec::new());
        }
        Decision::Fail => return Err(Then::fail(exhausted, Vec::new())),
    }
    Ok(())
}
