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

use super::call_queue::{CallKey, CallPermit};
use super::loop_detector::EndOfCall;
use super::report_series::{DeliveredReport, ReportSeries};
use super::run_parts::RunParts;
use super::then::NextMachine;
use super::tool_series::{AfterAnswer, CallContext, CallPhase, CallStep, ResultRoom, ToolSeries};
use super::turn_guidance::{ReplyGuidance, TurnGuidance};
use super::work_table::WorkPurpose;
use crate::engine::ask::ApprovalAnswer;
use crate::engine::ask::PlannerDecision;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::directive::{DecisionReason, ProposalResult};
use crate::engine::event::RunFacts;
use crate::engine::event::{DriveMode, ProposedCall, ToolOutcome};
use crate::engine::failure::EffectState;
use crate::engine::memo::Memo;
use crate::engine::plain_call::PlainCall;
use crate::engine::results_room::RoomForResults;
use crate::engine::retry::FailureContext;
use crate::engine::tracked::{TrackedPart, digest_of_json, digest_of_parts};
use crate::policy::{Approval, ClassifiedFailure, ErrorClass};
use crate::session::{FinalReason, Message, ReducerError, RetryExhausted};
use examine::{CallFinding, examine, not_found};
use queue::surplus;

/// The batch in flight; empty when there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Batch {
    /// Its number in the session, from 1; 0 before the first.
    number: u64,
    /// Its calls, in the order of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<TrackedPart<ToolSeries>>,
    /// How many calls at its head are settled.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    settled: usize,
    /// How many of its calls have a place.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    taken: u32,
    /// What the model reads after the results of all calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    afterwords: Vec<ReplyGuidance>,
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

    /// Whether no call is in flight.
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
        // A batch may hold a hundred calls with long results; a step that changed one of them pays for that one.
        let slots = digest_of_parts((0..).zip(slots.iter().map(TrackedPart::digest)));
        digest_of_json(&(number, slots, settled, taken, afterwords, round_ok, room))
    }

    /// A reply with calls was taken: their results have this room, and the model reads these texts after them.
    pub(in crate::engine) fn prepare(
        &mut self,
        room: Option<RoomForResults>,
        afterwords: Vec<ReplyGuidance>,
    ) {
        self.room = ResultRoom(room);
        self.afterwords = afterwords;
    }

    /// Looks at the calls of a reply in order: each runs, waits, or is settled without a run.
    pub(in crate::engine) fn begin(
        &mut self,
        proposals: Vec<ProposedCall>,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        *run.batches = run.batches.saturating_add(1);
        // The number goes into the idempotency keys of the calls, so it never repeats within a session.
        self.number = *run.batches;
        let now = run.out.now;
        // A host with a loop of its own may propose the calls of one reply one by one: the limit counts over all of
        // them.
        let mut calls = run.turns.turn_of(run.terms.of_turn).map_or(0, |turn| turn.calls);
        for (index, ProposedCall { call, policy: planner, opaque }) in proposals.into_iter().enumerate() {
            run.out.about(index);
            // A surplus call is refused, not dropped: providers refuse a conversation in which a call has no result.
            let finding = match surplus(&call.name, &mut calls, run) {
                Some(refusal) => CallFinding::Stays(Value::Null, CallPhase::Refused(refusal)),
                None => examine(&call, planner.as_ref(), opaque, &mut self.afterwords, run),
            };
            let (arguments, phase) = match finding {
                // Calls wait before they run, even where permits are free: one function decides about limits, whoever
                // proposed the calls.
                CallFinding::Runs(arguments) => {
                    run.queue.wait(&call.name, CallKey(run.proposal, index));
                    (arguments, CallPhase::Waiting)
                }
                CallFinding::Stays(arguments, phase) => (arguments, phase),
            };
            let series = AttemptSeries::begin(now);
            let (call, tool, ran) = (call.id, call.name, RunFacts::default());
            let arguments = Arc::new(arguments);
            self.slots.push(TrackedPart::new(ToolSeries {
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
            // The tokens for results were computed when the turn was sent; proposals that come later share what is
            // left of them.
            self.room = ResultRoom(turn.room);
        }
        self.start_waiting(run)
    }

    /// Takes a call that the host has begun by itself, whose attempt has ended so.
    pub(in crate::engine) fn adopt(
        &mut self,
        tool: &str,
        call: PlainCall,
        outcome: ToolOutcome,
        run: &mut RunParts<'_>,
    ) {
        let phase = CallPhase::Ended(outcome, run.out.now, Memo::default());
        self.push_adopted(tool, call, phase, run);
    }

    /// Takes such a call whose last failure is written down; a reducer objects to another attempt.
    pub(in crate::engine) fn adopt_objected(
        &mut self,
        tool: &str,
        call: PlainCall,
        (case, objection): (&FailureContext, &ReducerError),
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.push_adopted(tool, call, CallPhase::UnderWay, run);
        self.look(0, run, |call, cx, run| call.objected(case, objection, cx, run))
    }

    fn push_adopted(&mut self, tool: &str, call: PlainCall, phase: CallPhase, run: &mut RunParts<'_>) {
        let (number, series) = call.into_series();
        (self.number, self.taken) = (number, 1);
        // The host has given the number away already; the next batch must not give it again.
        *run.batches = number.max(*run.batches);
        self.slots.push(TrackedPart::new(ToolSeries {
            call: format!("call_{number}"),
            tool: tool.to_owned(),
            arguments: Arc::default(),
            planner: None,
            series,
            ran: RunFacts::default(),
            place: Some(CallPermit::Run),
            left: EffectState::NotStarted,
            to_approve: false,
            phase,
        }));
    }

    /// A run of a tool has ended; it is looked at when the calls before it are settled. A failure comes with its class.
    pub(in crate::engine) fn on_finished(
        &mut self,
        index: usize,
        (outcome, classified): (ToolOutcome, Option<ClassifiedFailure>),
        ran: RunFacts,
        run: &RunParts<'_>,
    ) {
        let now = run.out.now;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.ran = ran;
        }
        // An end is written down and no more. Settling in the order of the reply makes breakers and messages the
        // same, whichever tool was quicker.
        self.set_phase(index, CallPhase::Ended(outcome, now, Memo(classified)));
    }

    /// Looks at the calls in order, as far as they have ended; then comes the next turn.
    pub(in crate::engine) fn settle(
        &mut self,
        report: &mut ReportSeries,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        loop {
            match self.settle_next(report, run) {
                Ok(true) => {}
                // A call before the others is still in flight, so those that ended wait and keep their permits.
                Ok(false) if self.settled < self.slots.len() => return NextMachine::Host,
                Ok(false) => return self.end(report, guidance, run),
                Err(end) => return end,
            }
        }
    }

    /// Looks at the first call that is not settled. Returns whether it was looked at: if not, it is in flight, or there is
    /// none. `Err`: the run ends.
    fn settle_next(
        &mut self,
        report: &mut ReportSeries,
        run: &mut RunParts<'_>,
    ) -> Result<bool, NextMachine> {
        let index = self.settled;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(false) };
        run.out.about(index);
        // Taken out so that the arms can own what it holds; it goes back unless the call is done with.
        match mem::replace(&mut slot.phase, CallPhase::UnderWay) {
            phase @ (CallPhase::UnderWay
            | CallPhase::WithPlanner(_)
            | CallPhase::ReportWithPlanner
            | CallPhase::Waiting
            | CallPhase::Unasked
            | CallPhase::Asked
            | CallPhase::Doubtful(_)) => {
                slot.phase = phase;
                // Nothing is settled past it: a result that overtakes an earlier one would depend on timing, and a
                // replay would differ.
                return Ok(false);
            }
            CallPhase::Settled => {
                slot.phase = CallPhase::Settled;
                self.settled = index.saturating_add(1);
                self.start_waiting(run)?;
            }
            CallPhase::Refused(refusal) => self.look(index, run, |call, cx, run| {
                // An unknown name has no tool whose end could be looked at, but a model repeats it all the same: one
                // was called 754 times (openclaw#67399).
                if refusal.class == ErrorClass::ToolNotFound {
                    call.call_ended(&EndOfCall::Failed(refusal.class, ""), cx, run);
                }
                call.refuse(refusal, cx, run).0
            })?,
            CallPhase::Invalid(invalid) => {
                self.look(index, run, |call, cx, run| call.correct(&invalid, cx, run))?;
            }
            CallPhase::Report(raw) => self.report_called(index, &raw, report, run)?,
            CallPhase::Ended(ToolOutcome::Ok { data }, ..) => {
                self.look(index, run, |call, cx, run| call.succeeded(Some(&data), cx, run))?;
            }
            CallPhase::Ended(ToolOutcome::Done, ..) => {
                self.look(index, run, |call, cx, run| call.succeeded(None, cx, run))?;
            }
            CallPhase::Withdrawn(how) => {
                self.look(index, run, |call, _, run| withdraw::answered(call, how, run))?;
            }
            CallPhase::Ended(ToolOutcome::Failed { failure, effect }, at, Memo(known)) => {
                let classified = known.unwrap_or_else(|| failure.classified(run.policy()));
                self.look(index, run, |call, cx, run| {
                    call.failed((&failure, classified), effect, at, cx, run)
                })?;
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
    ) -> NextMachine {
        let tool = run.policy().output().map(|output| output.tool.value.as_str());
        // A report that came among the calls leaves nothing to demand of the final turn.
        let reported = report.is_accepted() || self.slots.iter().any(|slot| Some(slot.tool.as_str()) == tool);
        let ok = mem::take(&mut self.round_ok);
        run.out.about_all();
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.batch_ended(ok);
            turn.nudged |= self.afterwords.iter().any(|told| told.class == ErrorClass::RepeatedCall);
        // A host with its own loop counts rounds by turn; without one, the batch is the round.
        } else if !self.slots.is_empty() && run.context.drive == DriveMode::Turns {
            self.afterwords.extend(run.turns.round_ended(ok, run.ending.is_near(), &mut run.out));
        }
        self.clear();
        for ReplyGuidance { class, text } in mem::take(&mut self.afterwords) {
            match class {
                // A reducer's objection stays in the conversation, as it is about the session's state. Other guidance
                // is for the next attempts alone.
                ErrorClass::ReducerError => {
                    run.append(Message::User { text, guidance: Some(class.name().into()) });
                }
                _ => guidance.guide(class, text, &mut run.out),
            }
        }
        match run.context.drive {
            // The final turn had to bring the report and brought other calls: that is an attempt at the report.
            DriveMode::Turns if run.ending.is_now() && !reported => report.on_other_calls(run),
            DriveMode::Turns => NextMachine::TurnWhenDue,
            // Withdrawing a proposal is an answer, too: each piece of work is answered by one event.
            DriveMode::Calls if run.terms.withdrawn => NextMachine::Settled(ProposalResult::Withdrawn),
            DriveMode::Calls => NextMachine::Settled(ProposalResult::Tools),
        }
    }

    /// The report came as a tool call. If the policy has no report any more, that is a tool that does not exist.
    fn report_called(
        &mut self,
        index: usize,
        raw: &str,
        report: &mut ReportSeries,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        let Some(output) = run.policy().output() else {
            // The policy was replaced while the turn was in flight, and its report went with the old one.
            let tool = self.slot(index).map(|slot| slot.tool.clone()).unwrap_or_default();
            self.set_phase(index, CallPhase::Refused(not_found(&tool, run)));
            return Ok(());
        };
        match report.on_called(output, raw, run) {
            DeliveredReport::Answered { text, error } => self.answer(index, text, error, run),
            DeliveredReport::GivenUp { text, reason } => {
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
            // The approval was given under other rules. One that a new policy demands must not be skipped because the
            // call was early.
            let asks = policy.approval.value == Approval::Always && !run.tools.is_agreed(&slot.tool);
            slot.to_approve = slot.phase.has_begun() && asks;
            match &mut slot.phase {
                CallPhase::Ended(_, _, classified) => *classified = Memo::default(),
                CallPhase::Doubtful(doubt) => doubt.classified = Memo::default(),
                _ => {}
            }
        }
    }

    pub(super) fn set_phase(&mut self, index: usize, phase: CallPhase) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.phase = phase;
        }
    }

    /// Answers a call and is done with it.
    pub(super) fn answer(&mut self, index: usize, text: String, error: bool, run: &mut RunParts<'_>) {
        // The permit goes back before anything else happens, so that no end can keep it.
        self.leave(index, run);
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.phase = CallPhase::Settled;
        // One call that goes well makes the round one that helped, as in LocalCowork's count of rounds in which all
        // calls failed.
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
    /// that is unknown.
    pub(in crate::engine) fn close(&mut self, run: &mut RunParts<'_>) {
        for index in 0..self.slots.len() {
            // The run is over for them: whatever a step would do next is not done, they only get a result each.
            let _ = self.look(index, run, |call, cx, run| match &call.phase {
                CallPhase::Settled | CallPhase::WithPlanner(_) | CallPhase::ReportWithPlanner => {
                    // The planner may take long, but the model has the result already: the call is closed as it is.
                    CallStep::Open
                }
                CallPhase::Refused(refusal) => {
                    let (text, error, then) = (refusal.text.clone(), true, AfterAnswer::Nothing);
                    CallStep::Answered { text, error, then }
                }
                // None of these has started, or its tool says so. The model may call them again without fear of a
                // second effect.
                CallPhase::Waiting
                | CallPhase::Unasked
                | CallPhase::Asked
                | CallPhase::Invalid(_)
                | CallPhase::Report(_)
                | CallPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, ..) => {
                    call.not_started(run)
                }
                CallPhase::Ended(ToolOutcome::Ok { data }, ..) => call.ended(Some(data), cx, run),
                CallPhase::Ended(ToolOutcome::Done, ..) => call.ended(None, cx, run),
                CallPhase::Withdrawn(how) => withdraw::answered(call, *how, run),
                // In flight or unclear: telling the model that it "was never executed", as SwarmSDK does, can be
                // untrue, and the repeat acts twice.
                CallPhase::UnderWay
                | CallPhase::Doubtful(_)
                | CallPhase::Ended(ToolOutcome::Failed { .. }, ..) => call.interrupted(run),
            });
        }
        // The end cuts the round off. Which of its calls had ended is a matter of timing, so it must not decide
        // anything.
        self.round_ok = false;
        self.clear();
    }

    /// Looks at a call, and carries out what comes of it. `Err`: the run ends.
    pub(super) fn look(
        &mut self,
        index: usize,
        run: &mut RunParts<'_>,
        at: impl FnOnce(&mut ToolSeries, &mut CallContext<'_>, &mut RunParts<'_>) -> CallStep,
    ) -> Result<(), NextMachine> {
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
                        // The answer is written first: the planner may never answer, and a history with an open call
                        // cannot be resumed.
                        self.set_phase(index, CallPhase::WithPlanner(Box::new(exhausted.clone())));
                        run.consult(WorkPurpose::ConsultTool(index), exhausted);
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
        why: Vec<DecisionReason>,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.run_tool(why, cx, run))
    }

    /// The other tool has answered whether the run of a call had side effects.
    pub(in crate::engine) fn on_verified(
        &mut self,
        index: usize,
        outcome: ToolOutcome,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.on_verified(outcome, cx, run))
    }

    /// A person has answered whether the tool of a call may run again.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        index: usize,
        answer: ApprovalAnswer,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.on_approved_again(answer, cx, run))
    }

    /// The planner has decided what is done about a tool call; it has its answer already.
    pub(in crate::engine) fn on_decided(
        &mut self,
        index: usize,
        decision: PlannerDecision,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
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
            // A verification has its own end and asks nobody, so only an unknown effect without one waits for a
            // person.
            run.work.any(|of, pending| of == run.proposal && matches!(pending, WorkPurpose::Verify(_)));
        // Only the call that is settled next can hold the others up; the rest waits anyway.
        (doubtful && !verifies).then_some(index)
    }

    /// A person is not asked about a call for now.
    pub(in crate::engine) fn ask_later(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.set_phase(index, CallPhase::Unasked);
        run.queue.put_question(CallKey(run.proposal, index));
    }

    /// The call gets no further attempt, because the run is to end.
    pub(in crate::engine) fn interrupt(
        &mut self,
        index: usize,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, _, run| call.interrupted(run))
    }

    fn clear(&mut self) {
        self.room = ResultRoom::default();
        // The number stays: it counts batches, and keys must not repeat.
        self.slots.clear();
        self.settled = 0;
    }
}

fn give_up(
    decision: PlannerDecision,
    exhausted: RetryExhausted,
    run: &mut RunParts<'_>,
) -> Result<(), NextMachine> {
    match decision {
        PlannerDecision::TellModel => {}
        PlannerDecision::FinalTurn => {
            run.force_final_turn(FinalReason::RetryExhaustion, Vec::new());
        }
        PlannerDecision::Fail => return Err(NextMachine::fail(exhausted, Vec::new())),
    }
    Ok(())
}
