//! The tool calls of one reply: run in parallel, settled strictly in the order of the model's list.
//!
//! A call that succeeds early waits to be written down, and one that fails early waits with its retry, until the
//! calls before it are settled. So breakers, reducers and messages see the same order whichever tool ends first.

use core::mem;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::because::{of_retry, to_retry};
use super::super::directive::{Because, Note, RunTool, Work};
use super::super::event::{Drive, Proposal, ToolOutcome};
use super::super::failure::{EffectState, Failure, may_run_again};
use super::super::gate::Gate;
use super::super::machine::{Delivered, EndOfCall, Failed, Guidance, Pending, Subject, Then};
use super::super::metric::MetricName;
use super::super::problems::join_problems;
use super::super::reason::told;
use super::super::result::RunFacts;
use super::super::retry::{self, Case, Obstacle, Progress, Verdict};
use super::super::state::{Invalid, Refusal, Series, Slot, SlotPhase};
use super::examine::Finding;
use super::{Split, Step};
use crate::policy::{ErrorClass, Problem, ToolPolicy, Trigger};
use crate::session::{FeedbackSource, Message, ReducerError, StopReason};
use crate::time::{Instant, Nanos};

impl Step<'_> {
    pub(super) fn begin_batch(&mut self, proposals: Vec<Proposal>) -> Then {
        self.state.model_turn.guidance.clear();
        self.state.batch.number = self.state.batch.number.saturating_add(1);
        let now = self.state.now;
        let mut calls = 0_u32;
        for (index, Proposal { call, policy: planner }) in proposals.into_iter().enumerate() {
            let finding = match self.surplus(&call.name, &mut calls) {
                Some(refusal) => Finding::Stays(Value::Null, SlotPhase::Refused(refusal)),
                None => self.examine(&call, planner.as_ref()),
            };
            let (arguments, phase) = match finding {
                Finding::Runs(arguments) => {
                    self.state.batch.gate.wait(&call.name, index);
                    (arguments, SlotPhase::Waiting)
                }
                Finding::Stays(arguments, phase) => (arguments, phase),
            };
            let series = Series::begin(now);
            let (call, tool, ran) = (call.id, call.name, RunFacts::default());
            let arguments = Arc::new(arguments);
            self.state.batch.slots.push(Slot {
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
            });
        }
        self.start_waiting();
        self.settle()
    }

    /// Runs, or runs again, the tool of a slot; if the rules have changed since that was decided, and do not allow it any
    /// more, its attempts have ended.
    pub(super) fn run_tool(&mut self, index: usize, why: Vec<Because>) {
        let now = self.state.now;
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return };
        if slot.to_approve {
            self.set_phase(index, SlotPhase::Unasked);
            self.state.batch.gate.put_question(index);
            return self.ask_next();
        }
        if slot.series.history.is_empty() {
            // A wait for room, or for a person, is no part of the attempts.
            slot.series.started = now;
        }
        let (progress, last) = (slot.series.progress(), slot.series.history.last());
        let (slot, last) = (slot.without_history(), last.map(|failed| failed.error_type));
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let failed = Progress { attempt: progress.attempt.saturating_sub(1), ..progress };
        let may_run = may_run_again(self.effect_of(&slot.tool, &policy), slot.left);
        let may_have_acted = (!may_run).then_some(StopReason::MayHaveActed);
        if let Some(class) = last
            && let Some(reason) = policy.retry.refuses_after(class, failed.attempt).or(may_have_acted)
        {
            let case = self.case(class, None, Obstacle::None);
            return self.tool_exhausted(index, &policy, failed, &case, reason, None);
        }
        let timeout =
            retry::attempt_timeout(&policy.retry, progress.started, self.deadline(), self.state.now);
        let rules = match last {
            Some(class) => policy.retry.for_class(class),
            None => policy.retry.for_others(),
        };
        let run = RunTool {
            work: self.state.work.issue(Pending::Tool(index)),
            attempt: progress.attempt,
            max_attempts: rules.max_attempts.value.limit(),
            timeout,
            idempotency_key: self.idempotency_key(index),
            spill: self.spill(index, &slot.tool, &policy.result),
            call: slot.call,
            tool: slot.tool,
            arguments: Value::clone(&slot.arguments),
        };
        self.ask(Work::RunTool(run), why);
    }

    pub(super) fn tool_finished(&mut self, index: usize, outcome: ToolOutcome, run: RunFacts) -> Then {
        let now = self.state.now;
        if let Some(slot) = self.state.batch.slots.get_mut(index) {
            slot.ran = run;
        }
        self.set_phase(index, SlotPhase::Ended(outcome, now));
        self.settle()
    }

    /// Looks at the calls in order, as far as they have ended; then goes on to the next turn.
    pub(super) fn settle(&mut self) -> Then {
        while !self.state.is_over() {
            let index = self.state.batch.settled;
            let Some(slot) = self.state.batch.slots.get_mut(index) else { break };
            match mem::replace(&mut slot.phase, SlotPhase::UnderWay) {
                SlotPhase::UnderWay => return Then::Host,
                phase @ (SlotPhase::WithPlanner(_)
                | SlotPhase::ReportWithPlanner
                | SlotPhase::Waiting
                | SlotPhase::Unasked
                | SlotPhase::Asked
                | SlotPhase::Doubtful(_)) => {
                    slot.phase = phase;
                    return Then::Host;
                }
                SlotPhase::Settled => {
                    slot.phase = SlotPhase::Settled;
                    self.state.batch.settled = index.saturating_add(1);
                    self.start_waiting();
                }
                SlotPhase::Refused(refusal) => {
                    if refusal.class == ErrorClass::ToolNotFound {
                        let (call, tool) = (slot.call.clone(), slot.tool.clone());
                        self.call_ended((&call, &tool), &EndOfCall::Failed(refusal.class, ""));
                    }
                    self.refuse(index, refusal);
                }
                SlotPhase::Invalid(invalid) => self.correct(index, &invalid),
                SlotPhase::Report(raw) => self.report_called(index, &raw),
                SlotPhase::Ended(outcome, at) => self.ended(index, outcome, at),
            }
        }
        if self.state.is_over() {
            return Then::Host;
        }
        self.batch_settled()
    }

    /// All calls of the batch are settled.
    fn batch_settled(&mut self) -> Then {
        let Split { mut run, report, batch, .. } = self.split();
        let tool = run.policy().output().map(|output| output.tool.value.as_str());
        let reported =
            report.is_accepted() || batch.slots.iter().any(|slot| Some(slot.tool.as_str()) == tool);
        let ok = mem::take(&mut batch.round_ok);
        if !batch.slots.is_empty() && run.context.drive == Drive::Turns {
            batch.afterwords.extend(run.turns.round_ended(ok, run.ending.is_near(), &mut run.out));
        }
        self.clear_batch();
        let Split { mut run, model, report, batch } = self.split();
        for Guidance { class, text } in mem::take(&mut batch.afterwords) {
            match class {
                ErrorClass::ReducerError => {
                    run.append(Message::User { text, guidance: Some(class.name().into()) });
                }
                _ => model.guidance.guide(class, text, &mut run.out),
            }
        }
        match run.context.drive {
            Drive::Turns if run.ending.is_now() && !reported => report.on_other_calls(&mut run),
            Drive::Turns => Then::TurnWhenDue,
            Drive::Calls => Then::AfterReport,
        }
    }

    /// The report came as a tool call. If the policy has no report any more, that is a tool that does not exist.
    fn report_called(&mut self, index: usize, raw: &str) {
        let Some(output) = self.policy.output() else {
            let tool = self.state.batch.slots.get(index).map(|slot| slot.tool.clone()).unwrap_or_default();
            let refusal = self.not_found(&tool);
            return self.set_phase(index, SlotPhase::Refused(refusal));
        };
        let Split { mut run, report, .. } = self.split();
        let delivered = report.on_called(output, raw, &mut run);
        match delivered {
            Delivered::Answered { text, error } => self.answer(index, text, error),
            Delivered::GivenUp { text, reason } => {
                self.answer(index, text, true);
                let Split { mut run, report, .. } = self.split();
                match report.exhausted(output, reason, &mut run) {
                    Ok(true) => {}
                    Ok(false) => self.set_phase(index, SlotPhase::ReportWithPlanner),
                    Err(end) => self.route(end),
                }
            }
        }
    }

    /// Looks at a run that has ended.
    fn ended(&mut self, index: usize, outcome: ToolOutcome, at: Instant) {
        match outcome {
            ToolOutcome::Ok { data } => self.succeeded(index, &data),
            ToolOutcome::Failed { failure, effect } => self.failed(index, &failure, effect, at),
        }
    }

    pub(super) fn set_phase(&mut self, index: usize, phase: SlotPhase) {
        if let Some(slot) = self.state.batch.slots.get_mut(index) {
            slot.phase = phase;
        }
    }

    /// Answers a call and is done with it.
    pub(super) fn answer(&mut self, index: usize, text: String, error: bool) {
        self.leave(index);
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return };
        slot.phase = SlotPhase::Settled;
        self.state.batch.round_ok |= !error;
        let (call, tool, handle) = (slot.call.clone(), slot.tool.clone(), slot.ran.handle.clone());
        let message = Message::Tool { call, tool, text, error, handle };
        if let Some(room) = &mut self.state.batch.room {
            room.take(&message);
        }
        self.append(message);
    }

    /// Gives every call that is still open a result: what it answered, what it was refused for, that it did not run, or
    /// that nobody knows.
    pub(super) fn close_batch(&mut self) {
        for index in 0..self.state.batch.slots.len() {
            let Some(slot) = self.state.batch.slots.get(index) else { continue };
            match &slot.phase {
                SlotPhase::Settled | SlotPhase::WithPlanner(_) | SlotPhase::ReportWithPlanner => {}
                SlotPhase::Refused(refusal) => {
                    let text = refusal.text.clone();
                    self.answer(index, text, true);
                }
                SlotPhase::Waiting
                | SlotPhase::Unasked
                | SlotPhase::Asked
                | SlotPhase::Invalid(_)
                | SlotPhase::Report(_) => self.answer_not_started(index),
                SlotPhase::Ended(ToolOutcome::Ok { data }, _) => {
                    let data = data.clone();
                    self.answer_ended(index, &data);
                }
                SlotPhase::Ended(ToolOutcome::Failed { effect: EffectState::NotStarted, .. }, _) => {
                    self.answer_not_started(index);
                }
                SlotPhase::UnderWay
                | SlotPhase::Doubtful(_)
                | SlotPhase::Ended(ToolOutcome::Failed { .. }, _) => self.answer_interrupted(index),
            }
        }
        // It is no round any more, and which of its calls have ended by now depends on who was quicker.
        self.state.batch.round_ok = false;
        self.clear_batch();
    }

    /// The call gets no further attempt, because the run is to end.
    pub(super) fn interrupt(&mut self, index: usize) -> Then {
        self.answer_interrupted(index);
        self.settle()
    }

    fn answer_interrupted(&mut self, index: usize) {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = self.say(&policy.messages.interrupted, json!({ "tool": slot.tool }));
        self.answer(index, text, true);
    }

    /// A call that has ended, and is no longer settled because the run is over: the model is told what it answered.
    fn answer_ended(&mut self, index: usize, data: &Value) {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = self.show_result(&slot, &policy, data);
        self.answer(index, text, false);
    }

    fn answer_not_started(&mut self, index: usize) {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let text = self.say(&policy.messages.not_started, json!({ "tool": slot.tool }));
        self.answer(index, text, true);
    }

    fn clear_batch(&mut self) {
        self.state.batch.room = None;
        self.state.batch.slots.clear();
        self.state.batch.gate = Gate::default();
        self.state.batch.settled = 0;
    }

    /// Answers a call that does not run. Returns whether a reducer had something against it: then that is what the
    /// model is told.
    fn refuse(&mut self, index: usize, refusal: Refusal) -> bool {
        let Some(slot) = self.state.batch.slots.get(index) else { return false };
        let (call, tool) = (slot.call.clone(), slot.tool.clone());
        let Refusal { class, text, because } = refusal;
        let objection = self.reduce(
            Trigger::ToolRefused,
            || json!({ "tool": tool, "call": call, "error_type": class, "message": text }),
        );
        let text = match &objection {
            Some(error) => self.reducer_text(&tool, error),
            None => text,
        };
        self.note(
            Note::Refused { call, tool, error_type: class, message: text.clone() },
            told(self.policy, because),
        );
        let text = self.show_failure(index, class, &text.clone(), text);
        self.answer(index, text, true);
        objection.is_some()
    }

    /// What the model is told of a reducer that refused the update about a tool call.
    pub(super) fn reducer_text(&mut self, tool: &str, error: &ReducerError) -> String {
        let vars = json!({ "tool": tool, "reducer": error.reducer, "error": error.message });
        self.say(&self.policy.tool(tool).messages.reducer_error.clone(), vars)
    }

    /// Arguments that do not hold: the model is asked to correct them, as often as the policy allows.
    fn correct(&mut self, index: usize, invalid: &Invalid) {
        let Some(slot) = self.state.batch.slots.get(index).cloned() else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let now = self.state.now;
        let mut series = self.state.tools.take_corrections(&slot.tool, now);
        let most = policy.retry.for_class(invalid.class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let (attempt, max_attempts) = (progress.attempt, most.limit());
        let message = join_problems(&invalid.problems);
        self.call_ended((&slot.call, &slot.tool), &EndOfCall::Failed(invalid.class, &message));
        let case = self.case(invalid.class, None, Obstacle::None);
        let mut case = Case { correction: true, ..case };
        let (name, seed) = (format!("tool {}", slot.tool), self.seed("correction", &slot.tool));
        let (mut verdict, mut objection) = match over {
            Some(reason) => (Verdict::Stop(reason), None),
            None => (self.verdict(&name, &policy.retry, progress, &mut case, seed), None),
        };
        if over.is_none() {
            let delay = verdict.delay();
            objection = self.feedback_if_retryable(&policy, &slot, attempt, &case, &message, delay);
        }
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(invalid.class, &message, now, verdict.delay());
        match verdict {
            Verdict::Retry { delay, by } => {
                self.state.tools.keep_corrections(&slot.tool, series);
                let why = to_retry(self.policy, &policy.retry, progress, &case, delay, by);
                self.charge(&name, &policy.retry, invalid.class);
                self.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                let error_type = invalid.class;
                let attempt_next = attempt.saturating_add(1);
                let subject = Subject { name, attempt: attempt_next, max_attempts, error_type, message };
                let vars = json!({
                    "tool": slot.tool, "attempt": attempt, "max_attempts": max_attempts, "problems": invalid.problems,
                });
                let text = self.say(&policy.messages.invalid_args, vars);
                if self.refuse(index, Refusal { class: invalid.class, text, because: why.clone() }) {
                    self.state.tools.refuse_corrections(&slot.tool);
                } else {
                    self.hold(delay, subject, why);
                }
            }
            Verdict::Stop(reason) => {
                series.over = Some(reason);
                self.state.tools.keep_corrections(&slot.tool, series.clone());
                if let Some(slot) = self.state.batch.slots.get_mut(index) {
                    slot.series = series;
                }
                self.tool_exhausted(index, &policy, progress, &case, reason, objection.as_ref());
            }
        }
    }

    pub(super) fn succeeded(&mut self, index: usize, data: &Value) {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let Split { mut run, .. } = self.split();
        run.tools.succeeded(&slot.tool, slot.place, &policy, &mut run.out);
        self.has_acted(index, data);
    }

    /// A call has done what it should, whatever its tool said; `data` is what the model is told.
    pub(super) fn has_acted(&mut self, index: usize, data: &Value) {
        let Some(slot) = self.state.batch.slots.get(index).cloned() else { return };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        self.call_ended((&slot.call, &slot.tool), &EndOfCall::Succeeded(&slot.arguments, data));
        let corrections =
            self.state.tools.end_corrections(&slot.tool).map_or(Vec::new(), |series| series.history);
        let corrected = corrections.len();
        let attempts = slot.series.attempt();
        let after = slot.series.history.last().or(corrections.last()).map(|record| record.error_type);
        self.earn(&format!("tool {}", slot.tool), &policy.retry.budget.value, after);
        // A result may be large: it is copied only for reducers that look at it.
        let objection = self.reduce(Trigger::ToolSucceeded, || {
            json!({
                "tool": slot.tool, "call": slot.call, "attempts": attempts, "arguments": slot.arguments,
                "data": data,
            })
        });
        // The attempts whose arguments were refused are attempts of this call, too.
        let all = u64::from(attempts).saturating_add(u64::try_from(corrected).unwrap_or(u64::MAX));
        self.count(MetricName::RetryAttempts, format!("tool {}", slot.tool), all);
        let ended = Note::ToolEnded {
            call: slot.call.clone(),
            tool: slot.tool.clone(),
            attempts,
            error_type: None,
            message: String::new(),
        };
        self.note(ended, Vec::new());
        match objection {
            None => {
                let text = self.show_result(&slot, &policy, data);
                self.answer(index, text, false);
            }
            Some(error) => {
                let told = self.reducer_text(&slot.tool, &error);
                let text = self.show_failure(index, ErrorClass::ReducerError, &told.clone(), told);
                self.answer(index, text, true);
            }
        }
    }

    pub(super) fn failed(&mut self, index: usize, failure: &Failure, effect: EffectState, at: Instant) {
        if !self.doubts(index, failure, effect, at) {
            self.failed_for_certain(index, failure, effect, at);
        }
    }

    /// A run failed, and there is nothing more to find out about it.
    pub(super) fn failed_for_certain(
        &mut self,
        index: usize,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
    ) {
        let classified = failure.classified(self.policy);
        let class = classified.class;
        if class == ErrorClass::InvalidArgs {
            // The tool itself says so: running it again with the same arguments cannot help.
            self.return_probe(index);
            let problems = vec![Problem { pointer: String::new(), message: failure.message.clone() }];
            return self.correct(index, &Invalid { class, problems });
        }
        let Some(slot) = self.state.batch.slots.get(index) else { return };
        let (progress, slot) = (slot.series.progress(), slot.without_history());
        self.state.tools.end_corrections(&slot.tool);
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let Split { mut run, .. } = self.split();
        run.tools.failed(&slot.tool, slot.place, &policy, &mut run.out);
        let obstacle = if !may_run_again(self.effect_of(&slot.tool, &policy), effect) {
            Obstacle::MayHaveActed
        } else if self.state.tools.is_open(&slot.tool) {
            Obstacle::CircuitOpen
        } else {
            Obstacle::None
        };
        let mut case = self.case_of(failure, classified, &policy.retry, obstacle);
        let (name, seed) = (format!("tool {}", slot.tool), self.seed("tool", &self.idempotency_key(index)));
        let mut verdict = self.verdict(&name, &policy.retry, progress, &mut case, seed);
        let (attempt, delay) = (progress.attempt, verdict.delay());
        let objection = self.feedback_if_retryable(&policy, &slot, attempt, &case, &failure.message, delay);
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        if let Some(slot) = self.state.batch.slots.get_mut(index) {
            slot.left = effect;
            slot.series.record(class, &failure.message, at, verdict.delay());
        }
        self.state.last.error = Some((class, failure.message.clone()));
        match verdict {
            Verdict::Retry { delay, by } => {
                let why = of_retry(self.policy, &policy.retry, progress, &case, delay, by);
                if self.state.ending.stop().is_some() && !delay.is_zero() {
                    return self.answer_interrupted(index);
                }
                self.charge(&name, &policy.retry, class);
                self.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                if delay.is_zero() {
                    return self.run_tool(index, why);
                }
                let subject = Subject {
                    name,
                    attempt: progress.attempt.saturating_add(1),
                    max_attempts: policy.retry.for_class(class).max_attempts.value.limit(),
                    error_type: class,
                    message: failure.message.clone(),
                };
                self.wait(Pending::WaitTool(index), delay, subject, why);
            }
            Verdict::Stop(reason) => {
                self.call_ended((&slot.call, &slot.tool), &EndOfCall::Failed(class, &failure.message));
                self.tool_exhausted(index, &policy, progress, &case, reason, objection.as_ref());
            }
        }
    }

    /// Looks whether calls keep ending alike.
    fn call_ended(&mut self, call: (&str, &str), end: &EndOfCall<'_>) {
        let Split { mut run, batch, .. } = self.split();
        run.loops.ended(call, end, &mut batch.afterwords, &mut run.out);
    }

    /// The same for every attempt of the call, and for no other call.
    pub(super) fn idempotency_key(&self, index: usize) -> String {
        format!("{}-{}-{index}", self.state.run, self.state.batch.number)
    }

    /// Feedback for a failure of a class that is retried: also for the last one, which schedules nothing.
    fn feedback_if_retryable(
        &mut self,
        policy: &ToolPolicy,
        slot: &Slot,
        attempt: u32,
        case: &Case,
        message: &str,
        next_delay: Nanos,
    ) -> Option<ReducerError> {
        let retry = &policy.retry;
        if !retry.retries(case.class) {
            return None;
        }
        let source = FeedbackSource::Tool;
        let tool = Some(slot.tool.as_str());
        self.feedback(retry, &Failed { source, tool, attempt, class: case.class, message, next_delay })
    }
}
