//! Handles a failed model call: retry, fallback to another model, or the end.

use std::sync::Arc;

use serde_json::json;

use super::super::failed_call::FailedCall;
use super::super::pace::PaceRules;
use super::super::pace_pools::PaceTicket;
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
    /// Handles a failed call: the history is repaired, the conversation reduced, or a call in the error recovered;
    /// otherwise the attempt counts as failed.
    pub(in crate::engine) fn on_failure(
        &mut self,
        failure: &Failure,
        classified: ClassifiedFailure,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let Some(target) = self.series.target(run.targets).cloned() else { return NextMachine::Host };
        let policy = run.policy().model(&target);
        // The server's advice comes first, since it can change the class used below.
        let classified = retry::advised(classified, failure.should_retry, &policy.retry);
        let class = classified.class;
        // Repairing the history, reducing the conversation and recovering a call remove the cause, so they come
        // before a retry, which would fail again.
        if let Some(then) = self.history.on_refused(failure, classified, run) {
            return then;
        }
        if let Some(then) = self.window.on_overflow(failure, class, &self.series, run) {
            return then;
        }
        // Ollama answers with status 500 and quotes the call it could not parse (LocalCowork, ADR-007). If it can be
        // repaired here, no second call is needed.
        if class == ErrorClass::MalformedToolCall
            && let Some(reply) = recover(&failure.message, run.event, &mut run.out)
        {
            if failure.received > 0 {
                // The quoted call is the reply. The part streamed before is retracted, so that it does not precede
                // the reply.
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
        let mut case = FailureContext { correction: class.is_of_reply(), ..case };
        let rules = PaceRules::Model(&target, &policy);
        run.hold_pace(rules, class, case.hint, &policy.retry);
        // The next probe is another call's, so that none uses up all its attempts while the provider is down.
        if class.is_outage() && run.is_probed(rules) {
            *self.series.ticket() = PaceTicket::default();
        }
        let seed = run.seed("model", &run.name_of_turn());
        let name = format!("model {target}");
        let mut verdict = run.verdict(&name, &policy.retry, progress, &mut case, seed);
        let turn = run.turn;
        // Reducers see each failure before its consequence, because an objection ends the attempts (weakincentives:
        // "halts further tool retries").
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
        // A part was shown to people: it must be retracted before another reply follows.
        if failure.received > 0 {
            let rule = &run.policy().turn().after_partial;
            // The part is retracted in any case. The rule only decides whether another attempt follows.
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
        // Recorded before the end is decided, so that the history of an exhausted series is complete.
        self.series.begun(now).record(class, &failure.message, now, verdict.delay());
        run.last.error = Some((class, failure.message.clone()));
        let message = failure.message.clone();
        let failed = FailedCall { target, name, policy, progress, case, message, ended_by: None };
        match verdict {
            RetryVerdict::Retry { delay, by } => self.retry(failed, delay, by, run),
            RetryVerdict::Stop(reason) => self.exhausted(failed, reason, run),
        }
    }

    /// Prepares another attempt in this turn, at the current model.
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
                // A model gets a cooldown when another one replaces it; a model that is retried at once does not.
                if target != before && run.policy().turn().targets.fallback.value == Advance::Rotate {
                    cool_down(&failed, run);
                }
                delay
            }
            NextTarget::None => return self.exhausted(failed, StopReason::Attempts, run),
            NextTarget::Late => {
                // There is no wait, so the record must not contain a delay.
                self.series.set_last_wait(Nanos::ZERO);
                failed.ended_by = self.series.too_long(delay, run);
                // The values that left no time are known only here, with the delay of the current model.
                failed.case.obstacle = RetryBlocker::Late(retry::lateness(
                    &failed.policy.retry,
                    failed.progress,
                    failed.case.run_deadline,
                    run.out.now,
                    delay,
                ));
                // The limit on the delays of a turn is not a deadline: naming the deadline would lead people to the
                // wrong key.
                let total = failed.ended_by.is_some();
                let reason = if total { StopReason::TotalDelay } else { StopReason::Deadline };
                return self.exhausted(failed, reason, run);
            }
        };
        if let Some(reason) = stop_instead_of(delay, run) {
            return NextMachine::stopped(reason);
        }
        // The budget refuses the attempt, and this already is the final turn: a wait would be useless.
        if run.ending.is_now() && run.run_budget().out_of_budget().is_some() {
            self.series.set_last_wait(Nanos::ZERO);
            return self.exhausted(failed, StopReason::RunBudget, run);
        }
        // Charged only when the retry is certain: a retry that another rule prevents costs nothing.
        run.charge(&failed.name, &failed.policy.retry, class);
        let max_attempts = failed.max_attempts();
        let told = self.series.is_news(class, run.policy()).then(|| self.nudge(class, max_attempts, run));
        // The delay may be shorter than planned, since another model was available earlier; only the real delay
        // counts.
        self.series.wait(delay, run);
        run.out.count(MetricName::RetryDelaySeconds, failed.name.clone(), delay.0);
        self.tell_retry(&failed, RetryAction::Retry, delay, told, &why, run);
        self.ask_again(failed, delay, why, run)
    }

    /// Adds guidance after an empty reply, because the same request would get the same reply.
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

    /// Why the retry of the current model is cancelled: the rules have changed since the decision. Not checked if
    /// attempts at several models count together: then the rules of the failed model allowed the attempt.
    pub(super) fn no_longer_retried(
        &self,
        target: &str,
        policy: &Arc<ModelPolicy>,
        run: &RunParts<'_>,
    ) -> Option<(FailedCall, StopReason)> {
        let series = self.series.attempts()?;
        // If the models share their attempts, the rules of the failed model granted this one.
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

    /// Calls the current model again, after a delay or at once.
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
        // The next attempt goes to the current model, so the wait shows its name and limit.
        let class = failed.case.class;
        let due = self.series.target(run.targets).cloned().unwrap_or(failed.target);
        let attempt = self.series.attempt();
        let subject = WaitSubject {
            max_attempts: run.policy().model(&due).retry.most_attempts(class, attempt),
            name: format!("model {due}"),
            attempt,
            error_type: class,
            message: failed.message,
            pool: None,
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
        // The reasons stand at the wait that follows, or at the end of the attempts; where neither follows, here.
        let is_at_once = action == RetryAction::Retry && backoff.is_zero();
        // How long the same model would have been left alone decides nothing where another one is asked.
        let is_other = retry.next_target.as_ref().is_some_and(|next| *next != retry.target);
        let decides =
            |reason: &&DecisionReason| is_at_once && !(is_other && reason.rule.ends_with("backoff"));
        let why = why.iter().filter(decides).cloned().collect();
        run.out.note(Note::TurnRetry(retry.logged(&failed.message)), why);
    }
}

/// Retracts the streamed part of a failed reply.
fn retract(target: &str, attempt: u32, received: u64, why: Option<DecisionReason>, run: &mut RunParts<'_>) {
    run.out.note(
        Note::TurnRetracted { target: target.to_owned(), attempt, received },
        why.into_iter().collect(),
    );
}

/// Starts the cooldown of a model that another one replaced after a failure of its own.
pub(super) fn cool_down(failed: &FailedCall, run: &mut RunParts<'_>) {
    // An error of the request would occur at every model; only a failure of the target itself justifies a cooldown.
    if failed.case.class.is_of_target() && run.targets.len() > 1 {
        let now = run.out.now;
        run.models.cool_down(&failed.target, &failed.policy, failed.case.hint, now);
    }
}

/// Why a wait does not begin: the run was asked to stop.
pub(super) fn stop_instead_of(delay: Nanos, run: &RunParts<'_>) -> Option<String> {
    // Attempts without a delay may still run after a request to stop; only waiting ends.
    run.ending.stop().filter(|_| !delay.is_zero()).map(str::to_owned)
}
