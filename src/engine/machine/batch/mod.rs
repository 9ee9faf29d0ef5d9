//! The tool calls of one reply: run in parallel, settled strictly in the order of the model's list.
//!
//! A call that succeeds early waits to be recorded, and a call that fails early waits with its retry, until the calls
//! before it are settled. So breakers, reducers and messages see the same order whichever tool ends first.

mod examine;
mod queue;
mod withdraw;

use core::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_queue::{CallKey, CallPermit};
use super::loop_detector::EndOfCall;
use super::pace_pools::PaceTicket;
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
pub(in crate::engine) use examine::not_found;
use examine::{CallFinding, examine};
use queue::surplus;

/// The batch in flight; empty when there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Batch {
    /// The number of the batch in the session, from 1; 0 before the first.
    number: u64,
    /// The calls, in the order of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<TrackedPart<ToolSeries>>,
    /// The number of settled calls, from the start.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    settled: usize,
    /// The number of calls that hold a permit.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    taken: u32,
    /// Texts the model reads after the results of all calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    afterwords: Vec<ReplyGuidance>,
    /// Whether any call succeeded.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    round_ok: bool,
    #[serde(default, skip_serializing_if = "ResultRoom::is_unlimited")]
    room: ResultRoom,
}

impl Batch {
    /// Whether there was no batch yet.
    pub(in crate::engine) fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no call is in flight.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The calls in order, including those that have a result.
    pub(in crate::engine) fn slots(&self) -> impl ExactSizeIterator<Item = &ToolSeries> {
        self.slots.iter().map(|slot| &**slot)
    }

    /// The call with this index.
    pub(in crate::engine) fn slot(&self, index: usize) -> Option<&ToolSeries> {
        self.slots.get(index).map(|slot| &**slot)
    }

    /// The digest of the batch; only changed calls are hashed again.
    pub(in crate::engine) fn digest(&self) -> u128 {
        let Self { number, slots, settled, taken, afterwords, round_ok, room } = self;
        // A batch may contain a hundred calls with long results; a step that changes one call hashes only that one.
        let slots = digest_of_parts((0..).zip(slots.iter().map(TrackedPart::digest)));
        digest_of_json(&(number, slots, settled, taken, afterwords, round_ok, room))
    }

    /// Prepares the batch of a reply with calls: the tokens for the results, and the texts the model reads after
    /// them.
    pub(in crate::engine) fn prepare(
        &mut self,
        room: Option<RoomForResults>,
        afterwords: Vec<ReplyGuidance>,
    ) {
        self.room = ResultRoom(room);
        self.afterwords = afterwords;
    }

    /// Examines the calls of a reply in order: each runs, waits, or is settled without a run.
    pub(in crate::engine) fn begin(
        &mut self,
        proposals: Vec<ProposedCall>,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        *run.batches = run.batches.saturating_add(1);
        // The number is part of the idempotency keys of the calls, so it never repeats within a session.
        self.number = *run.batches;
        let now = run.out.now;
        // A host with its own loop may propose the calls of one reply one by one: the limit counts all of them.
        let mut calls = run.turns.turn_of(run.terms.of_turn).map_or(0, |turn| turn.calls);
        for (index, ProposedCall { call, policy: planner, opaque }) in proposals.into_iter().enumerate() {
            run.out.about(index);
            // A surplus call is refused, not dropped: providers refuse a conversation in which a call has no result.
            let finding = match surplus(&call.name, &mut calls, run) {
                Some(refusal) => CallFinding::Stays(Value::Null, CallPhase::Refused(refusal)),
                None => examine(&call, planner.as_ref(), opaque, &mut self.afterwords, run),
            };
            let (arguments, phase) = match finding {
                // Calls wait before they run, even if permits are free: one function decides about limits, for the
                // interpreter's calls and for proposals.
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
                ticket: PaceTicket::default(),
                phase,
            }));
        }
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.calls = calls;
            turn.batch_begins();
            // The tokens for results were computed when the turn was sent; later proposals share the rest.
            self.room = ResultRoom(turn.room);
        }
        self.start_waiting(run)
    }

    /// Takes over a call that the host started itself and whose attempt has ended.
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

    /// Takes over a call whose last failure is recorded and whose next attempt a reducer refused.
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
        let (number, arguments, series) = call.into_series();
        (self.number, self.taken) = (number, 1);
        // The host has already used the number; the next batch must not use it again.
        *run.batches = number.max(*run.batches);
        self.slots.push(TrackedPart::new(ToolSeries {
            call: format!("call_{number}"),
            tool: tool.to_owned(),
            arguments,
            planner: None,
            series,
            ran: RunFacts::default(),
            place: Some(CallPermit::Run),
            left: EffectState::NotStarted,
            to_approve: false,
            ticket: PaceTicket::default(),
            phase,
        }));
    }

    /// Records that a tool run has ended; it is processed when the calls before it are settled. A failure has its
    /// class.
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
        // The end is only recorded here. Calls are settled in the order of the reply, so that breakers and messages
        // do not depend on which tool was faster.
        self.set_phase(index, CallPhase::Ended(outcome, now, Memo(classified)));
    }

    /// Settles the calls in order, as far as they have ended; the next turn follows.
    pub(in crate::engine) fn settle(
        &mut self,
        report: &mut ReportSeries,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        loop {
            match self.settle_next(report, run) {
                Ok(true) => {}
                // An earlier call is still in flight, so the ended ones wait and keep their permits.
                Ok(false) if self.settled < self.slots.len() => return NextMachine::Host,
                Ok(false) => return self.end(report, guidance, run),
                Err(end) => return end,
            }
        }
    }

    /// Processes the first unsettled call. Returns `false` if it is in flight or there is none. `Err`: the run ends.
    fn settle_next(
        &mut self,
        report: &mut ReportSeries,
        run: &mut RunParts<'_>,
    ) -> Result<bool, NextMachine> {
        let index = self.settled;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(false) };
        run.out.about(index);
        // The phase is taken out so that the arms own its content; it is put back unless the call is settled.
        match mem::replace(&mut slot.phase, CallPhase::UnderWay) {
            phase @ (CallPhase::UnderWay
            | CallPhase::Paced
            | CallPhase::WithPlanner(_)
            | CallPhase::ReportWithPlanner
            | CallPhase::Waiting
            | CallPhase::Unasked
            | CallPhase::Asked
            | CallPhase::Doubtful(_)) => {
                slot.phase = phase;
                // Later calls are not settled first: a result that overtakes an earlier one would depend on timing,
                // and a replay would diverge.
                return Ok(false);
            }
            CallPhase::Settled => {
                slot.phase = CallPhase::Settled;
                self.settled = index.saturating_add(1);
                self.start_waiting(run)?;
            }
            CallPhase::Refused(refusal) => self.look(index, run, |call, cx, run| {
                // An unknown name has no tool run to compare, but models repeat such calls, too: one was called 754
                // times (openclaw#67399).
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

    /// Ends the batch after all calls are settled.
    fn end(
        &mut self,
        report: &mut ReportSeries,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let tool = run.policy().output().map(|output| output.tool.value.as_str());
        // A report among the calls fulfils the demand of the final turn.
        let reported = report.is_accepted() || self.slots.iter().any(|slot| Some(slot.tool.as_str()) == tool);
        let ok = mem::take(&mut self.round_ok);
        run.out.about_all();
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.batch_ended(ok);
            turn.nudged |= self.afterwords.iter().any(|told| told.class == ErrorClass::RepeatedCall);
        // With a host's own loop rounds are counted per turn; otherwise the batch is the round.
        } else if !self.slots.is_empty() && run.context.drive == DriveMode::Turns {
            self.afterwords.extend(run.turns.round_ended(ok, run.ending.is_near(), &mut run.out));
        }
        self.clear();
        for ReplyGuidance { class, text } in mem::take(&mut self.afterwords) {
            match class {
                // A reducer's objection stays in the conversation, as it concerns the session's state. Other guidance
                // applies to the next attempts only.
                ErrorClass::ReducerError => {
                    run.append(Message::User { text, guidance: Some(class.name().into()) });
                }
                _ => guidance.guide(class, text, &mut run.out),
            }
        }
        match run.context.drive {
            // The final turn required the report and contains other calls: this counts as an attempt at the report.
            DriveMode::Turns if run.ending.is_now() && !reported => report.on_other_calls(run),
            DriveMode::Turns => NextMachine::TurnWhenDue,
            // Withdrawing a proposal is an answer, too: each piece of work is answered by one event.
            DriveMode::Calls if run.terms.withdrawn => NextMachine::Settled(ProposalResult::Withdrawn),
            DriveMode::Calls => NextMachine::Settled(ProposalResult::Tools),
        }
    }

    /// Handles a report that came as a tool call. If the policy has no report any more, the tool does not exist.
    fn report_called(
        &mut self,
        index: usize,
        raw: &str,
        report: &mut ReportSeries,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        let Some(output) = run.policy().output() else {
            // The policy was replaced while the turn was in flight, and the new one has no report.
            let tool = self.slot(index).map(|slot| slot.tool.clone()).unwrap_or_default();
            self.set_phase(index, CallPhase::Refused(not_found(&tool, &mut run.out)));
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

    /// Settles the calls whose report the planner has decided about.
    pub(in crate::engine) fn on_report_decided(&mut self) {
        for slot in &mut self.slots {
            if slot.phase == CallPhase::ReportWithPlanner {
                slot.phase = CallPhase::Settled;
            }
        }
    }

    /// Applies a new policy: calls in progress may have started without approval or under other rules. If the new
    /// policy requires approval, a person is asked before the next attempt.
    pub(in crate::engine) fn on_policy_changed(&mut self, run: &RunParts<'_>) {
        for slot in &mut self.slots {
            let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
            // The approval was given under other rules. An approval that the new policy requires must not be skipped
            // for calls that started early.
            let asks = policy.approval.value == Approval::Always && !run.tools.is_agreed(&slot.tool);
            // A call that waits for its turn was let through under the old ones, too.
            let has_passed = slot.phase.has_begun() || slot.phase == CallPhase::Paced;
            slot.to_approve = has_passed && asks;
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

    /// Adds the result of a call and settles it.
    pub(super) fn answer(&mut self, index: usize, text: String, error: bool, run: &mut RunParts<'_>) {
        // The permit is returned before anything else, so that no exit path can keep it.
        self.leave(index, run);
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.phase = CallPhase::Settled;
        // One successful call makes the round a success: LocalCowork, too, counts rounds in which all calls failed.
        self.round_ok |= !error;
        let (call, tool, handle) = (slot.call.clone(), slot.tool.clone(), slot.ran.handle.clone());
        let message = Message::Tool { call, tool, text, error, handle };
        self.room.take(&message);
        if let Some(turn) = run.turns.turn_of(run.terms.of_turn) {
            turn.take_room(&message);
        }
        run.append(message);
    }

    /// Gives every open call a result: its own answer, its refusal, that it did not run, or that this is unknown.
    pub(in crate::engine) fn close(&mut self, run: &mut RunParts<'_>) {
        for index in 0..self.slots.len() {
            // The run is over for these calls: no further step is taken, each only gets a result.
            let _ = self.look(index, run, |call, cx, run| match &call.phase {
                CallPhase::Settled | CallPhase::WithPlanner(_) | CallPhase::ReportWithPlanner => {
                    // The planner may take long, but the model already has the result: the call is closed as it is.
                    CallStep::Open
                }
                CallPhase::Refused(refusal) => {
                    let (text, error, then) = (refusal.text.clone(), true, AfterAnswer::Nothing);
                    CallStep::Answered { text, error, then }
                }
                // None of these has started, or the tool reported that it did not. The model may call them again
                // without a second side effect.
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
                // In flight or unclear: reporting "was never executed", as SwarmSDK does, can be false, and a repeat
                // would have the side effect twice.
                CallPhase::UnderWay
                | CallPhase::Paced
                | CallPhase::Doubtful(_)
                | CallPhase::Ended(ToolOutcome::Failed { .. }, ..) => call.stopped(run),
            });
        }
        // The end interrupts the round. Which calls had ended depends on timing, so it must not influence a decision.
        self.round_ok = false;
        self.clear();
    }

    /// Processes a call, and carries out the result. `Err`: the run ends.
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
                        // The result is written first: the planner may never answer, and a history with an open call
                        // cannot be resumed.
                        self.set_phase(index, CallPhase::WithPlanner(Box::new(exhausted.clone())));
                        run.consult(WorkPurpose::ConsultTool(index), exhausted);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Starts an attempt of a call.
    pub(in crate::engine) fn run_tool(
        &mut self,
        index: usize,
        why: Vec<DecisionReason>,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.run_tool(why, cx, run))
    }

    /// Handles the result of an effect verification.
    pub(in crate::engine) fn on_verified(
        &mut self,
        index: usize,
        outcome: ToolOutcome,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.on_verified(outcome, cx, run))
    }

    /// Handles a person's answer whether the tool of a call may run again.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        index: usize,
        answer: ApprovalAnswer,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, cx, run| call.on_approved_again(answer, cx, run))
    }

    /// Handles the planner's decision about a tool call that already has its result.
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

    /// The next call to settle, if it waits for a person's decision about another run.
    pub(in crate::engine) fn waits_for_a_person(&self, run: &RunParts<'_>) -> Option<usize> {
        let index = self.settled;
        let doubtful = matches!(self.slot(index)?.phase, CallPhase::Doubtful(_));
        let verifies =
            // An effect verification ends by itself and asks no person, so only an unknown effect without
            // verification waits for a person.
            run.work.any(|of, pending| of == run.proposal && matches!(pending, WorkPurpose::Verify(_)));
        // Only the next call to settle can delay the others.
        (doubtful && !verifies).then_some(index)
    }

    /// Postpones the question about a call.
    pub(in crate::engine) fn ask_later(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.set_phase(index, CallPhase::Unasked);
        run.queue.put_question(CallKey(run.proposal, index));
    }

    /// Ends the attempts of the call, because the run is about to end.
    pub(in crate::engine) fn interrupt(
        &mut self,
        index: usize,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        self.look(index, run, |call, _, run| call.stopped(run))
    }

    fn clear(&mut self) {
        self.room = ResultRoom::default();
        // The batch number is kept: keys must not repeat.
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
