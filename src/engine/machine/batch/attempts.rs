//! The attempts of one tool call: its arguments are corrected, its tool runs, fails and runs again.

use serde_json::{Value, json};

use super::super::call_queue::CallKey;
use super::super::loop_detector::EndOfCall;
use super::super::pending_delay::Subject;
use super::super::run_parts::RunParts;
use super::super::session::Failed;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::exhausted::AttemptsEnd;
use super::slot::{Invalid, Slot, SlotPhase};
use super::{Batch, Refusal};
use crate::engine::because::{of_retry, to_retry};
use crate::engine::directive::{Because, Note, RunTool, Work, WorkId};
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::metric::MetricName;
use crate::engine::problems::join_problems;
use crate::engine::retry::{self, Case, Obstacle, Progress, Verdict};
use crate::policy::{ErrorClass, Problem, ToolPolicy, Trigger};
use crate::session::{FeedbackSource, ReducerError, StopReason};
use crate::time::{Instant, Nanos};

impl Batch {
    /// Runs, or runs again, the tool of a slot; if the rules have changed since that was decided, and do not allow it any
    /// more, its attempts have ended.
    pub(in crate::engine) fn run_tool(
        &mut self,
        index: usize,
        why: Vec<Because>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let now = run.out.now;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        if slot.to_approve {
            self.set_phase(index, SlotPhase::Unasked);
            run.queue.put_question(CallKey(run.proposal, index));
            return self.ask_next(run);
        }
        if slot.series.history.is_empty() {
            // A wait for room, or for a person, is no part of the attempts.
            slot.series.started = now;
        }
        let (progress, last) = (slot.series.progress(), slot.series.history.last());
        let (slot, last) = (slot.without_history(), last.map(|failed| failed.error_type));
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let failed = Progress { attempt: progress.attempt.saturating_sub(1), ..progress };
        let may_run = may_run_again(run.effect_of(&slot.tool, &policy), slot.left);
        let may_have_acted = (!may_run).then_some(StopReason::MayHaveActed);
        if let Some(class) = last
            && let Some(reason) = policy.retry.refuses_after(class, failed.attempt).or(may_have_acted)
        {
            let case = run.case(class, None, Obstacle::None);
            let end = AttemptsEnd { progress: failed, case: &case, reason };
            return self.exhausted(index, &policy, &end, None, run);
        }
        let timeout = retry::attempt_timeout(&policy.retry, progress.started, run.deadline(), run.out.now);
        let rules = match last {
            Some(class) => policy.retry.for_class(class),
            None => policy.retry.for_others(),
        };
        let tool = RunTool {
            work: WorkId(0),
            attempt: progress.attempt,
            max_attempts: rules.max_attempts.value.limit(),
            timeout,
            idempotency_key: self.idempotency_key(index, run),
            spill: self.room.spill((self.number, index), &slot.tool, &policy.result, run),
            call: slot.call,
            tool: slot.tool,
            arguments: Value::clone(&slot.arguments),
        };
        run.ask(Pending::Tool(index), |work| Work::RunTool(RunTool { work, ..tool }), why);
        Ok(())
    }

    /// Arguments that do not hold: the model is asked to correct them, as often as the policy allows.
    pub(super) fn correct(
        &mut self,
        index: usize,
        invalid: &Invalid,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let Some(slot) = self.slot(index).cloned() else { return Ok(()) };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let now = run.out.now;
        let mut series = run.tools.take_corrections(&slot.tool, now);
        let most = policy.retry.for_class(invalid.class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let (attempt, max_attempts) = (progress.attempt, most.limit());
        let message = join_problems(&invalid.problems);
        self.call_ended((&slot.call, &slot.tool), &EndOfCall::Failed(invalid.class, &message), run);
        let case = run.case(invalid.class, None, Obstacle::None);
        let mut case = Case { correction: true, ..case };
        let (name, seed) = (format!("tool {}", slot.tool), run.seed("correction", &slot.tool));
        let (mut verdict, mut objection) = match over {
            Some(reason) => (Verdict::Stop(reason), None),
            None => (run.verdict(&name, &policy.retry, progress, &mut case, seed), None),
        };
        if over.is_none() {
            let delay = verdict.delay();
            objection = feedback_if_retryable(&policy, &slot, attempt, &case, &message, delay, run);
        }
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(invalid.class, &message, now, verdict.delay());
        match verdict {
            Verdict::Retry { delay, by } => {
                run.tools.keep_corrections(&slot.tool, series);
                let why = to_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                run.charge(&name, &policy.retry, invalid.class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                let error_type = invalid.class;
                let attempt_next = attempt.saturating_add(1);
                let subject = Subject { name, attempt: attempt_next, max_attempts, error_type, message };
                let vars = json!({
                    "tool": slot.tool, "attempt": attempt, "max_attempts": max_attempts, "problems": invalid.problems,
                });
                let text = run.out.say(&policy.messages.invalid_args, vars);
                if self.refuse(index, Refusal { class: invalid.class, text, because: why.clone() }, run) {
                    run.tools.refuse_corrections(&slot.tool);
                } else {
                    run.terms.delay.wait(delay, subject, why, now);
                }
            }
            Verdict::Stop(reason) => {
                series.over = Some(reason);
                run.tools.keep_corrections(&slot.tool, series.clone());
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.series = series;
                }
                let end = AttemptsEnd { progress, case: &case, reason };
                self.exhausted(index, &policy, &end, objection.as_ref(), run)?;
            }
        }
        Ok(())
    }

    pub(super) fn succeeded(&mut self, index: usize, data: Option<&Value>, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index).map(Slot::without_history) else { return };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        run.tools.succeeded(&slot.tool, slot.place, &policy, &mut run.out);
        self.has_acted(index, data, run);
    }

    /// A call has done what it should, whatever its tool said; `data` is what the model is told; `None`: the host keeps it to
    /// itself.
    pub(super) fn has_acted(&mut self, index: usize, data: Option<&Value>, run: &mut RunParts<'_>) {
        let Some(slot) = self.slot(index).cloned() else { return };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        self.call_ended((&slot.call, &slot.tool), &EndOfCall::Succeeded(&slot.arguments, data), run);
        let corrections = run.tools.end_corrections(&slot.tool).map_or(Vec::new(), |series| series.history);
        let corrected = corrections.len();
        let attempts = slot.series.attempt();
        let after = slot.series.history.last().or(corrections.last()).map(|record| record.error_type);
        run.earn(&format!("tool {}", slot.tool), &policy.retry.budget.value, after);
        // A result may be large: it is copied only for reducers that look at it.
        let objection = run.out.reduce(Trigger::ToolSucceeded, || {
            json!({
                "tool": slot.tool, "call": slot.call, "attempts": attempts, "arguments": slot.arguments,
                "data": data,
            })
        });
        // The attempts whose arguments were refused are attempts of this call, too.
        let all = u64::from(attempts).saturating_add(u64::try_from(corrected).unwrap_or(u64::MAX));
        run.out.count(MetricName::RetryAttempts, format!("tool {}", slot.tool), all);
        let ended = Note::ToolEnded {
            call: slot.call.clone(),
            tool: slot.tool.clone(),
            attempts,
            error_type: None,
            message: String::new(),
        };
        run.out.note(ended, Vec::new());
        match objection {
            None => {
                let text = self.show(&slot, &policy, data, run);
                self.answer(index, text, false, run);
            }
            Some(error) => {
                let told = reducer_text(&slot.tool, &error, run);
                let text = self.room.show_failure(&slot, ErrorClass::ReducerError, &told.clone(), told, run);
                self.answer(index, text, true, run);
            }
        }
    }

    pub(super) fn failed(
        &mut self,
        index: usize,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        if self.doubts(index, failure, effect, at, run)? {
            return Ok(());
        }
        self.failed_for_certain(index, failure, effect, at, run)
    }

    /// A run failed, and there is nothing more to find out about it.
    pub(super) fn failed_for_certain(
        &mut self,
        index: usize,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let classified = failure.classified(run.policy());
        let class = classified.class;
        if class == ErrorClass::InvalidArgs {
            // The tool itself says so: running it again with the same arguments cannot help.
            self.return_probe(index, run);
            let problems = vec![Problem { pointer: String::new(), message: failure.message.clone() }];
            return self.correct(index, &Invalid { class, problems }, run);
        }
        let Some(slot) = self.slot(index) else { return Ok(()) };
        let (progress, slot) = (slot.series.progress(), slot.without_history());
        run.tools.end_corrections(&slot.tool);
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        run.tools.failed(&slot.tool, slot.place, &policy, &mut run.out);
        let obstacle = if !may_run_again(run.effect_of(&slot.tool, &policy), effect) {
            Obstacle::MayHaveActed
        } else if run.tools.is_open(&slot.tool) {
            Obstacle::CircuitOpen
        } else {
            Obstacle::None
        };
        let mut case = run.case_of(failure, classified, &policy.retry, obstacle);
        let (name, seed) =
            (format!("tool {}", slot.tool), run.seed("tool", &self.idempotency_key(index, run)));
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let (attempt, delay) = (progress.attempt, verdict.delay());
        let objection = feedback_if_retryable(&policy, &slot, attempt, &case, &failure.message, delay, run);
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        if let Some(slot) = self.slots.get_mut(index) {
            slot.left = effect;
            slot.series.record(class, &failure.message, at, verdict.delay());
        }
        run.last.error = Some((class, failure.message.clone()));
        match verdict {
            Verdict::Retry { delay, by } => {
                let why = of_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                if run.ending.stop().is_some() && !delay.is_zero() {
                    self.answer_interrupted(index, run);
                    return Ok(());
                }
                run.charge(&name, &policy.retry, class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                if delay.is_zero() {
                    return self.run_tool(index, why, run);
                }
                let subject = Subject {
                    name,
                    attempt: progress.attempt.saturating_add(1),
                    max_attempts: policy.retry.for_class(class).max_attempts.value.limit(),
                    error_type: class,
                    message: failure.message.clone(),
                };
                run.wait(Pending::WaitTool(index), delay, subject, why);
            }
            Verdict::Stop(reason) => {
                self.call_ended((&slot.call, &slot.tool), &EndOfCall::Failed(class, &failure.message), run);
                let end = AttemptsEnd { progress, case: &case, reason };
                self.exhausted(index, &policy, &end, objection.as_ref(), run)?;
            }
        }
        Ok(())
    }

    /// Looks whether calls keep ending alike.
    pub(super) fn call_ended(&mut self, call: (&str, &str), end: &EndOfCall<'_>, run: &mut RunParts<'_>) {
        let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
        run.loops.ended(call, end, warned, &mut self.afterwords, &mut run.out);
    }
}

/// What the model is told of a reducer that refused the update about a tool call.
pub(super) fn reducer_text(tool: &str, error: &ReducerError, run: &mut RunParts<'_>) -> String {
    let vars = json!({ "tool": tool, "reducer": error.reducer, "error": error.message });
    run.out.say(&run.policy().tool(tool).messages.reducer_error.clone(), vars)
}

/// Feedback for a failure of a class that is retried: also for the last one, which schedules nothing.
pub(super) fn feedback_if_retryable(
    policy: &ToolPolicy,
    slot: &Slot,
    attempt: u32,
    case: &Case,
    message: &str,
    next_delay: Nanos,
    run: &mut RunParts<'_>,
) -> Option<ReducerError> {
    let retry = &policy.retry;
    if !retry.retries(case.class) {
        return None;
    }
    let source = FeedbackSource::Tool;
    let tool = Some(slot.tool.as_str());
    run.out.feedback(retry, &Failed { source, tool, attempt, class: case.class, message, next_delay })
}
