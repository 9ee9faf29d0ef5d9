//! A model call failed: the same model again, another one, or none.

use std::sync::Arc;

use serde_json::json;

use super::super::failed_call::FailedCall;
use super::super::pending_delay::WaitSubject;
use super::super::reply::{recover, reply_refused};
use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::work_table::WorkPurpose;
use super::ModelTurn;
use crate::engine::because::{ShownValue, because, of_retry};
use crate::engine::directive::{DecisionReason, Note, RetryAction, TurnRetry};
use crate::engine::failure::Failure;
use crate::engine::metric::MetricName;
use crate::engine::retry::{self, AttemptProgress, DelayRule, FailureContext, RetryBlocker, RetryVerdict};
use crate::engine::targets::{AttemptDisposition, NextTarget};
use crate::policy::{Advance, AfterPartial, ClassifiedFailure, ErrorClass, ModelPolicy, Trigger};
use crate::session::{Message, StopReason};
use crate::time::Nanos;

impl ModelTurn {
    /// The call of the model failed: its history is repaired, its conversation reduced, a call in the error recovered; or
    /// it is one attempt more that failed.
    pub(in crate::engine) fn on_failure(
        &mut self,
        failure: &Failure,
        classified: ClassifiedFailure,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let Some(target) = self.series.target(run.targets).cloned() else { return NextMachine::Host };
        let policy = run.policy().model(&target);
        // The server's advice first, since it can change the class that everything below decides by.
        let classified = retry::advised(classified, failure.should_retry, &policy.retry);
        let class = classified.class;
        // A history that is repaired, a conversation that is reduced, a call that is recovered: these cure the cause,
        // so they come before a retry, which would meet it again.
        if let Some(then) = self.history.on_refused(failure, classified, run) {
            return then;
        }
        if let Some(then) = self.window.on_overflow(failure, class, &self.series, run) {
            return then;
        }
        // Ollama answers with status 500 and shows the call it could not read (LocalCowork, ADR-007). Repaired here,
        // it needs no second call.
        if class == ErrorClass::MalformedToolCall
            && let Some(reply) = recover(&failure.message, run.event, &mut run.out)
        {
            if failure.received > 0 {
                // The shown call is the reply. What was streamed before the provider gave up is taken back, or it
                // would stay in front of it.
                retract(&target, self.series.attempt(), failure.received, None, run);
            }
            return NextMachine::Replied(Box::new(reply));
        }
        self.attempt_failed(target, policy, failure, classified, run)
    }

    fn attempt_failed(
        &mut self,
        target: String,
        policy: Arc<ModelPolicy>,
        failure: &Failure,
        classified: ClassifiedFailure,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let (class, now) = (classified.class, run.out.now);
        let attempt = self.series.attempt();
        let progress = AttemptProgress { attempt, ..self.series.begun(now).progress() };
        let case = run.case_of(failure, classified, &policy.retry, RetryBlocker::None);
        // A refused report as an attempt of its turn is corrected by the model, so the backoff for corrections
        // applies.
        let mut case = FailureContext { correction: class == ErrorClass::InvalidOutput, ..case };
        let seed = run.seed("model", &run.name_of_turn());
        let name = format!("model {target}");
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let turn = run.turn;
        // Reducers see each failure before its consequence, because their objection ends the attempts
        // (weakincentives: "halts further tool retries").
        let objection = run.out.reduce(Trigger::ModelFailed, || {
            json!({
                "target": target, "turn": turn, "attempt": progress.attempt, "error_type": class,
                "message": failure.message, "status": failure.status, "limit": failure.limit(),
                "size": failure.size(), "received": failure.received,
            })
        });
        if let Some(error) = objection {
            verdict = RetryVerdict::Stop(StopReason::ReducerError);
            let text = reply_refused(&error, &mut run.out);
            run.append(Message::User { text, guidance: Some(ErrorClass::ReducerError.name().into()) });
        }
        // A part was shown to people: they have to learn that it is void before another answer follows it.
        if failure.received > 0 {
            let rule = &run.policy().turn().after_partial;
            // It is taken back either way. The rule decides only where another attempt would follow.
            let why = matches!(verdict, RetryVerdict::Retry { .. }).then(|| {
                let plural = if failure.received == 1 { "character" } else { "characters" };
                let fact = format!("{} {plural} had come", failure.received);
                because(run.policy(), "turn.after_partial", &rule.map(ShownValue), [fact])
            });
            retract(&target, progress.attempt, failure.received, why, run);
            if rule.value == AfterPartial::Fail {
                verdict = RetryVerdict::Stop(StopReason::AfterPartial);
            }
        }
        // Recorded before the end is decided, so that the history of a series that gives up is complete.
        self.series.begun(now).record(class, &failure.message, now, verdict.delay());
        run.last.error = Some((class, failure.message.clone()));
        let message = failure.message.clone();
        let failed = FailedCall { target, name, policy, progress, case, message, ended_by: None };
        match verdict {
            RetryVerdict::Retry { delay, by } => self.retry(failed, delay, by, run),
            RetryVerdict::Stop(reason) => self.exhausted(failed, reason, run),
        }
    }

    /// There is another attempt in this turn, at whichever model is due.
    fn retry(
        &mut self,
        mut failed: FailedCall,
        delay: Nanos,
        by: DelayRule,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let class = failed.case.class;
        let why = of_retry(run.policy(), &failed.policy.retry, failed.progress, &failed.case, delay, by);
        let before = self.series.place();
        let delay = match self.series.rotate(AttemptDisposition::again(class, delay), &failed, run) {
            NextTarget::Ask { target, delay } => {
                // A model that was left for another one gets a cooldown; one that is asked again at once has not been
                // given up.
                if target != before && run.policy().turn().targets.fallback.value == Advance::Rotate {
                    cool_down(&failed, run);
                }
                delay
            }
            NextTarget::None => return self.exhausted(failed, StopReason::Attempts, run),
            NextTarget::Late => {
                // Nothing is waited for, so the record must not show a wait.
                self.series.set_last_wait(Nanos::ZERO);
                failed.ended_by = self.series.too_long(delay, run);
                // Which values left no time is known only here, with the delay of the model that was due.
                failed.case.obstacle = RetryBlocker::Late(retry::lateness(
                    &failed.policy.retry,
                    failed.progress,
                    failed.case.run_deadline,
                    run.out.now,
                    delay,
                ));
                // The bound on the waits of a turn is no deadline: naming that one would send people to the wrong
                // key.
                let total = failed.ended_by.is_some();
                let reason = if total { StopReason::TotalDelay } else { StopReason::Deadline };
                return self.exhausted(failed, reason, run);
            }
        };
        if let Some(reason) = stop_instead_of(delay, run) {
            return NextMachine::stopped(reason);
        }
        // The budget refuses the attempt, and the final turn has no other one to end with: the wait would be idle.
        if run.ending.is_now() && run.run_budget().out_of_budget().is_some() {
            self.series.set_last_wait(Nanos::ZERO);
            return self.exhausted(failed, StopReason::RunBudget, run);
        }
        // Charged when the retry is certain, not when it is considered: what another rule stops costs nothing.
        run.charge(&failed.name, &failed.policy.retry, class);
        let max_attempts = failed.max_attempts();
        let told = self.series.is_news(class, run.policy()).then(|| self.nudge(class, max_attempts, run));
        // The delay may be shorter than planned, since another model was free earlier; only the real one counts.
        self.series.wait(delay, run);
        run.out.count(MetricName::RetryDelaySeconds, failed.name.clone(), delay.0);
        self.tell_retry(&failed, RetryAction::Retry, delay, told, &why, run);
        self.ask_again(failed, delay, why, run)
    }

    /// The same request would get the same empty reply: one line of guidance makes it another request.
    fn nudge(&mut self, class: ErrorClass, max_attempts: Option<u32>, run: &mut RunParts<'_>) -> String {
        let policy = run.policy();
        let tool = policy.output().map(|output| &output.tool.value);
        let attempt = self.series.attempt().saturating_sub(1);
        let vars = json!({ "tool": tool, "attempt": attempt, "max_attempts": max_attempts });
        let turn = policy.turn();
        let template = match class {
            ErrorClass::ReasoningOnly => &turn.messages.reasoning_only,
            ErrorClass::TextOnly | ErrorClass::TruncatedOutput => &turn.messages.text_only,
            _ => &turn.messages.empty,
        };
        let text = run.out.say(template, vars);
        self.guidance.guide(class, text.clone(), &mut run.out);
        text
    }

    /// Why the model that is due is not asked again after all: the rules have changed since that was decided. Not where
    /// attempts at several models count together: there the rules of the model that failed allowed this attempt.
    pub(super) fn no_longer_retried(
        &self,
        target: &str,
        policy: &Arc<ModelPolicy>,
        run: &RunParts<'_>,
    ) -> Option<(FailedCall, StopReason)> {
        let series = self.series.attempts()?;
        // Where the models share their attempts, the rules of the one that failed granted this attempt.
        if run.targets.len() > 1 && run.policy().turn().targets.fallback.value.counts_together() {
            return None;
        }
        let last = self.series.last()?;
        let attempt = self.series.attempt().saturating_sub(1);
        let progress = AttemptProgress { attempt, ..series.progress() };
        let reason = policy.retry.refuses_after(last.error_type, progress.attempt)?;
        let failed = FailedCall {
            target: target.to_owned(),
            name: format!("model {target}"),
            policy: Arc::clone(policy),
            progress,
            case: run.case(last.error_type, None, RetryBlocker::None),
            message: last.message.clone(),
            ended_by: None,
        };
        Some((failed, reason))
    }

    /// The model that is due is called again, after a wait or at once.
    pub(super) fn ask_again(
        &self,
        failed: FailedCall,
        delay: Nanos,
        why: Vec<DecisionReason>,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        // A timer of zero costs about a millisecond in tokio and an event in the log.
        if delay.is_zero() {
            return NextMachine::Call;
        }
        // The next attempt is made at the model that is due, so the wait shows that one's name and limit.
        let class = failed.case.class;
        let due = self.series.target(run.targets).cloned().unwrap_or(failed.target);
        let attempt = self.series.attempt();
        let subject = WaitSubject {
            max_attempts: run.policy().model(&due).retry.most_attempts(class, attempt),
            name: format!("model {due}"),
            attempt,
            error_type: class,
            message: failed.message,
        };
        run.wait(WorkPurpose::WaitModel, delay, subject, why);
        NextMachine::Host
    }

    pub(super) fn tell_retry(
        &self,
        failed: &FailedCall,
        action: RetryAction,
        backoff: Nanos,
        system_message: Option<String>,
        why: &[DecisionReason],
        run: &mut RunParts<'_>,
    ) {
        let next = match action {
            RetryAction::Retry | RetryAction::SkipProvider => self.series.target(run.targets).cloned(),
            RetryAction::Abort => None,
        };
        let retry = TurnRetry {
            action,
            log_message: String::new(),
            target: failed.target.clone(),
            next_target: next,
            remaining: u32::try_from(self.series.remaining(run.targets)).unwrap_or(u32::MAX),
            error_type: failed.case.class,
            backoff,
            system_message,
            sources: why.iter().map(|because| because.rule.clone()).collect(),
        };
        run.out.note(Note::TurnRetry(retry.logged(&failed.message)), Vec::new());
    }
}

/// Takes back what had come of an answer that failed.
fn retract(target: &str, attempt: u32, received: u64, why: Option<DecisionReason>, run: &mut RunParts<'_>) {
    run.out.note(
        Note::TurnRetracted { target: target.to_owned(), attempt, received },
        why.into_iter().collect(),
    );
}

/// Later turns pass a model over for a while that another one was called instead of, for a failure of its own.
pub(super) fn cool_down(failed: &FailedCall, run: &mut RunParts<'_>) {
    // An error of the request follows it to every model; only a failure of the target itself says anything about the
    // target.
    if failed.case.class.is_of_target() && run.targets.len() > 1 {
        let now = run.out.now;
        run.models.cool_down(&failed.target, &failed.policy, failed.case.hint, now);
    }
}

/// Why there is no such wait: the run was asked to end.
pub(super) fn stop_instead_of(delay: Nanos, run: &RunParts<'_>) -> Option<String> {
    // Attempts without a wait may still run after a request to stop; what is ended is waiting.
    run.ending.stop().filter(|_| !delay.is_zero()).map(str::to_owned)
}
