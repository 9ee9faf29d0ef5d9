//! The attempts of one tool call: corrections of its arguments, runs, and retries.

use serde_json::{Value, json};

use super::super::loop_detector::EndOfCall;
use super::super::pace::PaceRules;
use super::super::pending_delay::WaitSubject;
use super::super::run_parts::RunParts;
use super::super::session::FailedAttempt;
use super::super::work_table::WorkPurpose;
use super::exhausted::AttemptsEnd;
use super::{CallContext, CallPhase, CallStep, InvalidArguments, ToolSeries, reducer_text};
use crate::engine::because::{of_retry, to_allow, to_retry};
use crate::engine::directive::{DecisionReason, Note, RunTool, Work};
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::ids::WorkId;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::metric::MetricName;
use crate::engine::problems::join_problems;
use crate::engine::retry::{self, AttemptProgress, FailureContext, RetryBlocker, RetryVerdict};
use crate::policy::{ClassifiedFailure, ErrorClass, ToolPolicy, Trigger};
use crate::session::{FeedbackSource, ReducerError, StopReason};
use crate::text::SchemaProblem;
use crate::time::{Instant, Nanos};

impl ToolSeries {
    /// Starts an attempt. If the rules have changed and no longer allow it, the attempts end.
    pub(in crate::engine) fn run_tool(
        &mut self,
        why: Vec<DecisionReason>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        // The rules have changed since the call began, and the new ones require approval.
        if self.to_approve {
            self.phase = CallPhase::Unasked;
            return CallStep::Question;
        }
        if self.series.history.is_empty() {
            // `deadline` applies to the attempts. Time in the queue, or waiting for an approval, must not count.
            self.series.started = run.out.now;
        }
        let (progress, last) = (self.series.progress(), self.series.history.last());
        let last = last.map(|failed| failed.error_type);
        let policy = self.policy(run);
        // The series counts the next attempt; the rules are about the failed one.
        let failed = AttemptProgress { attempt: progress.attempt.saturating_sub(1), ..progress };
        // The declared effect may have changed with the policy: the check from before the wait is repeated.
        let may_run = may_run_again(run.effect_of(&self.tool, &policy), self.left);
        let may_have_acted = (!may_run).then_some(StopReason::MayHaveActed);
        if let Some(class) = last
            && let Some(reason) = policy.retry.refuses_after(class, failed.attempt).or(may_have_acted)
        {
            let case = run.case(class, None, RetryBlocker::None);
            let end = AttemptsEnd { progress: failed, case: &case, reason, ended_by: None };
            return self.exhausted(&policy, &end, None, cx, run);
        }
        let rules = match last {
            Some(class) => policy.retry.for_class(class),
            None => policy.retry.for_others(),
        };
        let most = rules.max_attempts.value.limit();
        if let Some(step) = self.wait_for_turn(&policy, (progress, most), cx, run) {
            return step;
        }
        self.phase = CallPhase::UnderWay;
        let timeout = retry::attempt_timeout(&policy.retry, progress.started, run.deadline(), run.out.now);
        let tool = RunTool {
            work: WorkId(0),
            attempt: progress.attempt,
            max_attempts: most,
            timeout,
            // One key for all attempts, so that a service that supports keys has the side effect once, as Stripe's
            // services do.
            idempotency_key: cx.idempotency_key(run),
            // The host stores a result beyond its limit as it arrives; later it would already be in the log.
            spill: cx.room.spill((cx.batch, cx.index), &self.tool, &policy.result, run),
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Value::clone(&self.arguments),
        };
        run.ask(WorkPurpose::Tool(cx.index), |work| Work::RunTool(RunTool { work, ..tool }), why);
        CallStep::Open
    }

    /// Handles invalid arguments: the model is asked to correct them, as often as the policy allows.
    pub(in crate::engine) fn correct(
        &mut self,
        invalid: &InvalidArguments,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        let now = run.out.now;
        // Counted by tool, not by call: each correction is a new call, and a count per call would never end
        // (pydantic-ai counts by tool, too).
        let mut series = run.tools.take_corrections(&self.tool, now);
        let most = policy.retry.for_class(invalid.class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let (attempt, max_attempts) = (progress.attempt, most.limit());
        let message = join_problems(&invalid.problems);
        self.call_ended(&EndOfCall::Failed(invalid.class, &message), cx, run);
        let case = run.case(invalid.class, None, RetryBlocker::None);
        let mut case = FailureContext { correction: true, ..case };
        // The seed uses the tool, since every correction is another call.
        let (name, seed) = (self.name(), run.seed("correction", &self.tool));
        let (mut verdict, mut objection) = match over {
            Some(reason) => (RetryVerdict::Stop(reason), None),
            None => (run.verdict(&name, &policy.retry, progress, &mut case, seed), None),
        };
        if over.is_none() {
            // Feedback contains the planned delay; for the last attempt it is zero, as nothing is scheduled.
            let delay = verdict.delay();
            objection = self.feedback_if_retryable(&policy, attempt, &case, &message, delay, run);
        }
        if objection.is_some() {
            verdict = RetryVerdict::Stop(StopReason::ReducerError);
        }
        // Recorded in every case: the error for exhausted attempts contains the whole history (weakincentives,
        // `RetryExhaustedError`).
        series.record(invalid.class, &message, now, verdict.delay());
        match verdict {
            RetryVerdict::Retry { delay, by } => {
                run.tools.keep_corrections(&self.tool, series);
                let why = to_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                run.charge(&name, &policy.retry, invalid.class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                let error_type = invalid.class;
                let attempt_next = attempt.saturating_add(1);
                let subject = WaitSubject {
                    name,
                    attempt: attempt_next,
                    max_attempts,
                    error_type,
                    message,
                    pool: None,
                };
                let vars = json!({
                    "tool": self.tool, "attempt": attempt, "max_attempts": max_attempts, "problems": invalid.problems,
                });
                let text = run.out.say(&policy.messages.invalid_args, vars);
                // The directive to wait names the rule for the delay.
                let because = to_allow(run.policy(), &policy.retry, progress, &case);
                let refusal = CallRefusal { class: invalid.class, text, because };
                let (step, refused) = self.refuse(refusal, cx, run);
                // The reducer objected to the refusal, so no correction and no delay follow.
                if refused {
                    run.tools.refuse_corrections(&self.tool);
                } else {
                    // The model has to send another turn, so the delay comes before that turn; the other calls of the
                    // reply continue.
                    run.terms.delay.wait(delay, subject, why, now);
                }
                step
            }
            RetryVerdict::Stop(reason) => {
                series.over = Some(reason);
                // Kept with its end: wrong arguments in a later turn must not renew the attempts.
                run.tools.keep_corrections(&self.tool, series.clone());
                self.series = series;
                let end = AttemptsEnd { progress, case: &case, reason, ended_by: None };
                self.exhausted(&policy, &end, objection.as_ref(), cx, run)
            }
        }
    }

    /// Handles a successful run.
    pub(in crate::engine) fn succeeded(
        &mut self,
        data: Option<&Value>,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        run.tools.succeeded(&self.tool, self.place, &policy, &mut run.out);
        self.has_acted(data, cx, run)
    }

    /// Handles a call whose side effect has happened, whatever the tool reported; `data` is the message to the model;
    /// `None`: the host withholds it.
    pub(super) fn has_acted(
        &mut self,
        data: Option<&Value>,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        self.call_ended(&EndOfCall::Succeeded(&self.arguments, data), cx, run);
        // The model found valid arguments, so the count starts again (`consecutive`, as in pydantic-ai).
        let corrections = run.tools.end_corrections(&self.tool).map_or(Vec::new(), |series| series.history);
        let corrected = corrections.len();
        let attempts = self.series.attempt();
        // The class of the last failure determines the credit to the budget; a correction counts if no run failed.
        let after = self.series.history.last().or(corrections.last()).map(|record| record.error_type);
        run.earn(&self.name(), &policy.retry.budget.value, after);
        // Results can be megabytes: the closure copies them only if a reducer needs them.
        let objection = run.out.reduce(Trigger::ToolSucceeded, || {
            json!({
                "tool": self.tool, "call": self.call, "attempts": attempts, "arguments": self.arguments,
                "data": data,
            })
        });
        // The reported attempts include those with refused arguments.
        let all = u64::from(attempts).saturating_add(u64::try_from(corrected).unwrap_or(u64::MAX));
        run.out.count(MetricName::RetryAttempts, self.name(), all);
        let ended = Note::ToolEnded {
            call: self.call.clone(),
            tool: self.tool.clone(),
            attempts,
            error_type: None,
            message: String::new(),
        };
        run.out.note(ended, Vec::new());
        match objection {
            None => CallStep::answered(self.show(&policy, data, cx, run), false),
            Some(error) => {
                let told = reducer_text(&self.tool, &error, run);
                let text = cx.room.show_failure(self, ErrorClass::ReducerError, &told.clone(), told, run);
                CallStep::answered(text, true)
            }
        }
    }

    /// Handles a failed run that ended at `at`.
    pub(in crate::engine) fn failed(
        &mut self,
        failed: (&Failure, ClassifiedFailure),
        effect: EffectState,
        at: Instant,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        // Side effects are clarified first: a retry without this knowledge could have the side effect twice.
        match self.resolve_effect(failed, effect, at, cx, run) {
            Some(step) => step,
            None => self.failed_for_certain(failed, effect, at, cx, run),
        }
    }

    /// Handles a failed run whose effect is clarified as far as possible.
    pub(super) fn failed_for_certain(
        &mut self,
        (failure, classified): (&Failure, ClassifiedFailure),
        effect: EffectState,
        at: Instant,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let class = classified.class;
        if class == ErrorClass::InvalidArgs {
            // The tool validated and refused its arguments. It had no side effects and works, so neither a retry nor
            // the breaker applies; the model corrects them.
            self.return_probe(run);
            let problems = vec![SchemaProblem { pointer: String::new(), message: failure.message.clone() }];
            return self.correct(&InvalidArguments { class, problems }, cx, run);
        }
        let progress = self.series.progress();
        run.tools.end_corrections(&self.tool);
        let policy = self.policy(run);
        run.tools.failed(&self.tool, self.place, &policy, &mut run.out);
        // Possible side effects come before the breaker: when it closes again, a second run is still wrong.
        let obstacle = if !may_run_again(run.effect_of(&self.tool, &policy), effect) {
            RetryBlocker::MayHaveActed
        } else if run.tools.is_open(&self.tool) {
            RetryBlocker::CircuitOpen
        } else {
            RetryBlocker::None
        };
        let mut case = run.case_of(failure, classified, &policy.retry, obstacle);
        run.hold_pace(PaceRules::Tool(&self.tool, &policy), class, case.hint, &policy.retry);
        let (name, seed) = (self.name(), run.seed("tool", &cx.idempotency_key(run)));
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let (attempt, delay) = (progress.attempt, verdict.delay());
        let objection = self.feedback_if_retryable(&policy, attempt, &case, &failure.message, delay, run);
        if objection.is_some() {
            verdict = RetryVerdict::Stop(StopReason::ReducerError);
        }
        // Kept because the rules may change during the wait; the later check uses this effect.
        self.left = effect;
        self.series.record(class, &failure.message, at, verdict.delay());
        run.last.error = Some((class, failure.message.clone()));
        match verdict {
            RetryVerdict::Retry { delay, by } => {
                let why = of_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                // The run is asked to stop, and ends without waiting; an immediate attempt may still be made.
                if run.ending.stop().is_some() && !delay.is_zero() {
                    return self.interrupted(run);
                }
                // Charged only now, when no other rule can prevent the attempt.
                run.charge(&name, &policy.retry, class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                // A timer of zero would cost a millisecond and an event.
                if delay.is_zero() {
                    return self.run_tool(why, cx, run);
                }
                let subject = WaitSubject {
                    name,
                    attempt: progress.attempt.saturating_add(1),
                    max_attempts: policy.retry.for_class(class).max_attempts.value.limit(),
                    error_type: class,
                    message: failure.message.clone(),
                    pool: None,
                };
                run.wait(WorkPurpose::WaitTool(cx.index), delay, subject, why);
                CallStep::Open
            }
            RetryVerdict::Stop(reason) => {
                self.call_ended(&EndOfCall::Failed(class, &failure.message), cx, run);
                let end = AttemptsEnd { progress, case: &case, reason, ended_by: None };
                self.exhausted(&policy, &end, objection.as_ref(), cx, run)
            }
        }
    }

    /// Handles a reducer's objection to another attempt after the last recorded failure.
    pub(in crate::engine) fn objected(
        &mut self,
        case: &FailureContext,
        objection: &ReducerError,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        let message = self.series.history.last().map_or_else(String::new, |last| last.message.clone());
        self.call_ended(&EndOfCall::Failed(case.class, &message), cx, run);
        let progress = self.series.progress();
        let progress = AttemptProgress { attempt: progress.attempt.saturating_sub(1), ..progress };
        let end = AttemptsEnd { progress, case, reason: StopReason::ReducerError, ended_by: None };
        self.exhausted(&policy, &end, Some(objection), cx, run)
    }

    /// Checks whether calls repeatedly end the same way.
    pub(in crate::engine) fn call_ended(
        &self,
        end: &EndOfCall<'_>,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) {
        let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
        run.loops.ended((&self.call, &self.tool), end, warned, cx.afterwords, &mut run.out);
    }

    /// Feedback for a failure of a retried class, including the last one, after which nothing is scheduled.
    fn feedback_if_retryable(
        &self,
        policy: &ToolPolicy,
        attempt: u32,
        case: &FailureContext,
        message: &str,
        next_delay: Nanos,
        run: &mut RunParts<'_>,
    ) -> Option<ReducerError> {
        let retry = &policy.retry;
        // Feedback is for failures that are retried; other failures are complete with their result.
        if !retry.retries(case.class) {
            return None;
        }
        let source = FeedbackSource::Tool;
        let tool = Some(self.tool.as_str());
        run.out
            .feedback(retry, &FailedAttempt { source, tool, attempt, class: case.class, message, next_delay })
    }

    /// The name of the action, for people.
    pub(super) fn name(&self) -> String {
        format!("tool {}", self.tool)
    }
}
