//! A model call failed: the same model again, another one, or none.

use std::sync::Arc;

use serde_json::json;

use super::super::pending_delay::Subject;
use super::super::reply::{recover, reply_refused};
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::ModelTurn;
use crate::engine::because::{Shown, because, of_retry};
use crate::engine::directive::{Because, Note, RetryAction, TurnRetry};
use crate::engine::failure::Failure;
use crate::engine::metric::MetricName;
use crate::engine::retry::{self, Case, DelayRule, Obstacle, Progress, Verdict};
use crate::engine::targets::{Fate, Next};
use crate::policy::{Advance, AfterPartial, Classified, ErrorClass, ModelPolicy, Trigger};
use crate::session::{Message, StopReason};
use crate::time::Nanos;

/// A model call that failed, and the rules it was held against.
pub(in crate::engine) struct FailedCall {
    pub(super) target: String,
    /// `model main`.
    pub(super) name: String,
    pub(super) policy: Arc<ModelPolicy>,
    pub(in crate::engine) progress: Progress,
    pub(in crate::engine) case: Case,
    pub(super) message: String,
    /// What ends the attempts, where it is no rule of the model.
    pub(super) ended_by: Option<Because>,
}

impl FailedCall {
    fn max_attempts(&self) -> Option<u32> {
        self.policy.retry.for_class(self.case.class).max_attempts.value.limit()
    }
}

impl ModelTurn {
    /// The call of the model failed: its history is repaired, its conversation reduced, a call in the error recovered; or
    /// it is one attempt more that failed.
    pub(in crate::engine) fn on_failure(&mut self, failure: &Failure, run: &mut RunParts<'_>) -> Then {
        let Some(target) = self.series.target(run.targets).cloned() else { return Then::Host };
        let policy = run.policy().model(&target);
        let classified = failure.classified(run.policy());
        let classified = retry::advised(classified, failure.should_retry, &policy.retry);
        let class = classified.class;
        if let Some(then) = self.history.on_refused(failure, classified, run) {
            return then;
        }
        if let Some(then) = self.window.on_overflow(failure, class, &self.series, run) {
            return then;
        }
        if class == ErrorClass::MalformedToolCall
            && let Some(reply) = recover(&failure.message, run.event, &mut run.out)
        {
            if failure.received > 0 {
                // The call is what the provider could not read; what it had sent before is not part of the reply.
                retract(&target, self.series.attempt(), failure.received, run);
            }
            return Then::Replied(Box::new(reply));
        }
        self.attempt_failed(target, policy, failure, classified, run)
    }

    fn attempt_failed(
        &mut self,
        target: String,
        policy: Arc<ModelPolicy>,
        failure: &Failure,
        classified: Classified,
        run: &mut RunParts<'_>,
    ) -> Then {
        let (class, now) = (classified.class, run.out.now);
        let attempt = self.series.attempt();
        let progress = Progress { attempt, ..self.series.begun(now).progress() };
        let case = run.case_of(failure, classified, &policy.retry, Obstacle::None);
        // A report that is an attempt of its turn: the next one corrects it.
        let mut case = Case { correction: class == ErrorClass::InvalidOutput, ..case };
        let seed = run.seed("model", &run.name_of_turn());
        let name = format!("model {target}");
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let turn = run.turn;
        let objection = run.out.reduce(Trigger::ModelFailed, || {
            json!({
                "target": target, "turn": turn, "attempt": progress.attempt, "error_type": class,
                "message": failure.message, "status": failure.status, "limit": failure.limit(),
                "size": failure.size(), "received": failure.received,
            })
        });
        if let Some(error) = objection {
            verdict = Verdict::Stop(StopReason::ReducerError);
            let text = reply_refused(&error, &mut run.out);
            run.append(Message::User { text, guidance: Some(ErrorClass::ReducerError.name().into()) });
        }
        if failure.received > 0 && retract(&target, progress.attempt, failure.received, run) {
            verdict = Verdict::Stop(StopReason::AfterPartial);
        }
        self.series.begun(now).record(class, &failure.message, now, verdict.delay());
        run.last.error = Some((class, failure.message.clone()));
        let message = failure.message.clone();
        let failed = FailedCall { target, name, policy, progress, case, message, ended_by: None };
        match verdict {
            Verdict::Retry { delay, by } => self.retry(failed, delay, by, run),
            Verdict::Stop(reason) => self.exhausted(failed, reason, run),
        }
    }

    /// There is another attempt in this turn, at whichever model is due.
    fn retry(&mut self, mut failed: FailedCall, delay: Nanos, by: DelayRule, run: &mut RunParts<'_>) -> Then {
        let class = failed.case.class;
        let why = of_retry(run.policy(), &failed.policy.retry, failed.progress, &failed.case, delay, by);
        let before = self.series.place();
        let delay = match self.series.rotate(Fate::again(class, delay), &failed, run) {
            Next::Ask { target, delay } => {
                if target != before && run.policy().turn().targets.advance.value == Advance::Rotate {
                    cool_down(&failed, run);
                }
                delay
            }
            Next::Nobody => return self.exhausted(failed, StopReason::Attempts, run),
            Next::Late => {
                // Nobody waits.
                self.series.set_last_wait(Nanos::ZERO);
                failed.ended_by = self.series.too_long(delay, run);
                let total = failed.ended_by.is_some();
                let reason = if total { StopReason::TotalDelay } else { StopReason::Deadline };
                return self.exhausted(failed, reason, run);
            }
        };
        if let Some(reason) = stop_instead_of(delay, run) {
            return Then::stopped(reason);
        }
        // Nobody waits for an attempt that is not made.
        if run.ending.is_now() && run.run_budget().out_of_budget().is_some() {
            self.series.set_last_wait(Nanos::ZERO);
            return self.exhausted(failed, StopReason::RunBudget, run);
        }
        run.charge(&failed.name, &failed.policy.retry, class);
        let max_attempts = failed.max_attempts();
        let told = self.series.is_news(class, run.policy()).then(|| self.nudge(class, max_attempts, run));
        // What another model does not have to wait for has not been waited for.
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
        if run.targets.len() > 1 && run.policy().turn().targets.advance.value.counts_together() {
            return None;
        }
        let last = self.series.last()?;
        let attempt = self.series.attempt().saturating_sub(1);
        let progress = Progress { attempt, ..series.progress() };
        let reason = policy.retry.refuses_after(last.error_type, progress.attempt)?;
        let failed = FailedCall {
            target: target.to_owned(),
            name: format!("model {target}"),
            policy: Arc::clone(policy),
            progress,
            case: run.case(last.error_type, None, Obstacle::None),
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
        why: Vec<Because>,
        run: &mut RunParts<'_>,
    ) -> Then {
        if delay.is_zero() {
            return Then::Call;
        }
        // The attempt that comes next is one at the model that is due, which need not be the one that failed.
        let class = failed.case.class;
        let due = self.series.target(run.targets).cloned().unwrap_or(failed.target);
        let attempt = self.series.attempt();
        let subject = Subject {
            max_attempts: run.policy().model(&due).retry.most_attempts(class, attempt),
            name: format!("model {due}"),
            attempt,
            error_type: class,
            message: failed.message,
        };
        run.wait(Pending::WaitModel, delay, subject, why);
        Then::Host
    }

    pub(super) fn tell_retry(
        &self,
        failed: &FailedCall,
        action: RetryAction,
        backoff: Nanos,
        system_message: Option<String>,
        why: &[Because],
        run: &mut RunParts<'_>,
    ) {
        let next = match action {
            RetryAction::Retry | RetryAction::SkipProvider => self.series.target(run.targets).cloned(),
            RetryAction::Abort => None,
        };
        let class = failed.case.class;
        let then = match (action, &next) {
            (RetryAction::Abort, _) | (_, None) => "no further attempt".to_owned(),
            (RetryAction::SkipProvider, Some(next)) => format!("{next} is asked instead"),
            (RetryAction::Retry, Some(next)) if backoff.is_zero() => format!("{next} is asked at once"),
            (RetryAction::Retry, Some(next)) => format!("{next} is asked after {backoff}"),
        };
        let retry = TurnRetry {
            action,
            log_message: format!("{}: {class}: {}; {then}", failed.target, failed.message),
            target: failed.target.clone(),
            next_target: next,
            remaining: u32::try_from(self.series.remaining(run.targets)).unwrap_or(u32::MAX),
            error_type: class,
            backoff,
            system_message,
            sources: why.iter().map(|because| because.rule.clone()).collect(),
        };
        run.out.note(Note::TurnRetry(retry), Vec::new());
    }
}

/// Takes back what had come of an answer that failed. `true`: the policy lets no other answer follow it.
fn retract(target: &str, attempt: u32, received: u64, run: &mut RunParts<'_>) -> bool {
    let rule = &run.policy().turn().after_partial;
    let plural = if received == 1 { "character" } else { "characters" };
    let fact = format!("{received} {plural} had come");
    let why = because(run.policy(), "turn.after_partial", &rule.map(Shown), [fact]);
    let target = target.to_owned();
    run.out.note(Note::TurnRetracted { target, attempt, received }, vec![why]);
    rule.value == AfterPartial::Fail
}

/// Later turns pass a model over for a while that another one was called instead of, for a failure of its own.
pub(super) fn cool_down(failed: &FailedCall, run: &mut RunParts<'_>) {
    if failed.case.class.is_of_target() && run.targets.len() > 1 {
        let now = run.out.now;
        run.models.cool_down(&failed.target, &failed.policy, failed.case.hint, now);
    }
}

/// Why there is no such wait: the run was asked to end.
pub(super) fn stop_instead_of(delay: Nanos, run: &RunParts<'_>) -> Option<String> {
    run.ending.stop().filter(|_| !delay.is_zero()).map(str::to_owned)
}
