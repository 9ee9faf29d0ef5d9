//! The attempts of one tool call: its arguments are corrected, its tool runs, fails and runs again.

use serde_json::{Value, json};

use super::super::loop_detector::EndOfCall;
use super::super::pending_delay::Subject;
use super::super::run_parts::RunParts;
use super::super::session::Failed;
use super::super::work_table::Pending;
use super::exhausted::AttemptsEnd;
use super::{CallContext, CallPhase, CallStep, Invalid, Refusal, ToolSeries};
use crate::engine::because::{of_retry, to_retry};
use crate::engine::directive::{Because, Note, RunTool, Work, WorkId};
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::metric::MetricName;
use crate::engine::problems::join_problems;
use crate::engine::retry::{self, Case, Obstacle, Progress, Verdict};
use crate::policy::{ErrorClass, Problem, ToolPolicy, Trigger};
use crate::session::{FeedbackSource, ReducerError, StopReason};
use crate::time::{Instant, Nanos};

impl ToolSeries {
    /// Runs, or runs again, the tool; if the rules have changed since that was decided, and do not allow it any more, its
    /// attempts have ended.
    pub(in crate::engine) fn run_tool(
        &mut self,
        why: Vec<Because>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        if self.to_approve {
            self.phase = CallPhase::Unasked;
            return CallStep::Question;
        }
        if self.series.history.is_empty() {
            // A wait for room, or for a person, is no part of the attempts.
            self.series.started = run.out.now;
        }
        let (progress, last) = (self.series.progress(), self.series.history.last());
        let last = last.map(|failed| failed.error_type);
        let policy = self.policy(run);
        let failed = Progress { attempt: progress.attempt.saturating_sub(1), ..progress };
        let may_run = may_run_again(run.effect_of(&self.tool, &policy), self.left);
        let may_have_acted = (!may_run).then_some(StopReason::MayHaveActed);
        if let Some(class) = last
            && let Some(reason) = policy.retry.refuses_after(class, failed.attempt).or(may_have_acted)
        {
            let case = run.case(class, None, Obstacle::None);
            let end = AttemptsEnd { progress: failed, case: &case, reason };
            return self.exhausted(&policy, &end, None, cx, run);
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
            idempotency_key: cx.idempotency_key(run),
            spill: cx.room.spill((cx.batch, cx.index), &self.tool, &policy.result, run),
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Value::clone(&self.arguments),
        };
        run.ask(Pending::Tool(cx.index), |work| Work::RunTool(RunTool { work, ..tool }), why);
        CallStep::Open
    }

    /// Arguments that do not hold: the model is asked to correct them, as often as the policy allows.
    pub(in crate::engine) fn correct(
        &mut self,
        invalid: &Invalid,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        let now = run.out.now;
        let mut series = run.tools.take_corrections(&self.tool, now);
        let most = policy.retry.for_class(invalid.class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let (attempt, max_attempts) = (progress.attempt, most.limit());
        let message = join_problems(&invalid.problems);
        self.call_ended(&EndOfCall::Failed(invalid.class, &message), cx, run);
        let case = run.case(invalid.class, None, Obstacle::None);
        let mut case = Case { correction: true, ..case };
        let (name, seed) = (self.name(), run.seed("correction", &self.tool));
        let (mut verdict, mut objection) = match over {
            Some(reason) => (Verdict::Stop(reason), None),
            None => (run.verdict(&name, &policy.retry, progress, &mut case, seed), None),
        };
        if over.is_none() {
            let delay = verdict.delay();
            objection = self.feedback_if_retryable(&policy, attempt, &case, &message, delay, run);
        }
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(invalid.class, &message, now, verdict.delay());
        match verdict {
            Verdict::Retry { delay, by } => {
                run.tools.keep_corrections(&self.tool, series);
                let why = to_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                run.charge(&name, &policy.retry, invalid.class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                let error_type = invalid.class;
                let attempt_next = attempt.saturating_add(1);
                let subject = Subject { name, attempt: attempt_next, max_attempts, error_type, message };
                let vars = json!({
                    "tool": self.tool, "attempt": attempt, "max_attempts": max_attempts, "problems": invalid.problems,
                });
                let text = run.out.say(&policy.messages.invalid_args, vars);
                let refusal = Refusal { class: invalid.class, text, because: why.clone() };
                let (step, refused) = self.refuse(refusal, cx, run);
                if refused {
                    run.tools.refuse_corrections(&self.tool);
                } else {
                    run.terms.delay.wait(delay, subject, why, now);
                }
                step
            }
            Verdict::Stop(reason) => {
                series.over = Some(reason);
                run.tools.keep_corrections(&self.tool, series.clone());
                self.series = series;
                let end = AttemptsEnd { progress, case: &case, reason };
                self.exhausted(&policy, &end, objection.as_ref(), cx, run)
            }
        }
    }

    /// Its tool did what it should.
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

    /// A call has done what it should, whatever its tool said; `data` is what the model is told; `None`: the host keeps it to
    /// itself.
    pub(super) fn has_acted(
        &mut self,
        data: Option<&Value>,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        self.call_ended(&EndOfCall::Succeeded(&self.arguments, data), cx, run);
        let corrections = run.tools.end_corrections(&self.tool).map_or(Vec::new(), |series| series.history);
        let corrected = corrections.len();
        let attempts = self.series.attempt();
        let after = self.series.history.last().or(corrections.last()).map(|record| record.error_type);
        run.earn(&self.name(), &policy.retry.budget.value, after);
        // A result may be large: it is copied only for reducers that look at it.
        let objection = run.out.reduce(Trigger::ToolSucceeded, || {
            json!({
                "tool": self.tool, "call": self.call, "attempts": attempts, "arguments": self.arguments,
                "data": data,
            })
        });
        // The attempts whose arguments were refused are attempts of this call, too.
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

    /// A run of its tool failed at that time.
    pub(in crate::engine) fn failed(
        &mut self,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        match self.doubts(failure, effect, at, cx, run) {
            Some(step) => step,
            None => self.failed_for_certain(failure, effect, at, cx, run),
        }
    }

    /// A run failed, and there is nothing more to find out about it.
    pub(super) fn failed_for_certain(
        &mut self,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let classified = failure.classified(run.policy());
        let class = classified.class;
        if class == ErrorClass::InvalidArgs {
            // The tool itself says so: running it again with the same arguments cannot help.
            self.return_probe(run);
            let problems = vec![Problem { pointer: String::new(), message: failure.message.clone() }];
            return self.correct(&Invalid { class, problems }, cx, run);
        }
        let progress = self.series.progress();
        run.tools.end_corrections(&self.tool);
        let policy = self.policy(run);
        run.tools.failed(&self.tool, self.place, &policy, &mut run.out);
        let obstacle = if !may_run_again(run.effect_of(&self.tool, &policy), effect) {
            Obstacle::MayHaveActed
        } else if run.tools.is_open(&self.tool) {
            Obstacle::CircuitOpen
        } else {
            Obstacle::None
        };
        let mut case = run.case_of(failure, classified, &policy.retry, obstacle);
        let (name, seed) = (self.name(), run.seed("tool", &cx.idempotency_key(run)));
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let (attempt, delay) = (progress.attempt, verdict.delay());
        let objection = self.feedback_if_retryable(&policy, attempt, &case, &failure.message, delay, run);
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        self.left = effect;
        self.series.record(class, &failure.message, at, verdict.delay());
        run.last.error = Some((class, failure.message.clone()));
        match verdict {
            Verdict::Retry { delay, by } => {
                let why = of_retry(run.policy(), &policy.retry, progress, &case, delay, by);
                if run.ending.stop().is_some() && !delay.is_zero() {
                    return self.interrupted(run);
                }
                run.charge(&name, &policy.retry, class);
                run.out.count(MetricName::RetryDelaySeconds, name.clone(), delay.0);
                if delay.is_zero() {
                    return self.run_tool(why, cx, run);
                }
                let subject = Subject {
                    name,
                    attempt: progress.attempt.saturating_add(1),
                    max_attempts: policy.retry.for_class(class).max_attempts.value.limit(),
                    error_type: class,
                    message: failure.message.clone(),
                };
                run.wait(Pending::WaitTool(cx.index), delay, subject, why);
                CallStep::Open
            }
            Verdict::Stop(reason) => {
                self.call_ended(&EndOfCall::Failed(class, &failure.message), cx, run);
                let end = AttemptsEnd { progress, case: &case, reason };
                self.exhausted(&policy, &end, objection.as_ref(), cx, run)
            }
        }
    }

    /// Looks whether calls keep ending alike.
    pub(in crate::engine) fn call_ended(
        &self,
        end: &EndOfCall<'_>,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) {
        let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
        run.loops.ended((&self.call, &self.tool), end, warned, cx.afterwords, &mut run.out);
    }

    /// Feedback for a failure of a class that is retried: also for the last one, which schedules nothing.
    fn feedback_if_retryable(
        &self,
        policy: &ToolPolicy,
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
        let tool = Some(self.tool.as_str());
        run.out.feedback(retry, &Failed { source, tool, attempt, class: case.class, message, next_delay })
    }

    /// What is tried, for people.
    pub(super) fn name(&self) -> String {
        format!("tool {}", self.tool)
    }
}

/// What the model is told of a reducer that refused the update about a tool call.
pub(super) fn reducer_text(tool: &str, error: &ReducerError, run: &mut RunParts<'_>) -> String {
    let vars = json!({ "tool": tool, "reducer": error.reducer, "error": error.message });
    run.out.say(&run.policy().tool(tool).messages.reducer_error.clone(), vars)
}
