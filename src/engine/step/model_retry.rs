//! A model call failed: the same model again, another one, or nobody.

use std::sync::Arc;

use super::super::because::{because, of_retry};
use super::super::directive::{Because, Decision, Note, RetryAction, TurnRetry};
use super::super::metric::MetricName;
use super::super::reason::Reason;
use super::super::retry::{Case, DelayRule, Obstacle, Progress, missed};
use super::super::state::{Pending, Series, Subject};
use super::super::targets::{Fate, Next, goes_on};
use super::Step;
use crate::policy::{AboveMax, Advance, ErrorClass, ModelPolicy, OnExhausted, ServerDelayMode};
use crate::session::{AttemptRecord, RetryExhausted, StopReason};
use crate::time::Nanos;

/// A model call that failed, and the rules it was held against.
pub(super) struct FailedCall {
    pub(super) target: String,
    /// `model main`.
    pub(super) name: String,
    pub(super) policy: Arc<ModelPolicy>,
    pub(super) progress: Progress,
    pub(super) case: Case,
    pub(super) message: String,
    /// What ends the attempts, where it is no rule of the model.
    pub(super) ended_by: Option<Because>,
}

impl FailedCall {
    fn max_attempts(&self) -> Option<u32> {
        self.policy.retry.for_class(self.case.class).max_attempts.value.limit()
    }
}

impl Step<'_> {
    /// There is another attempt in this turn, at whichever model is due.
    pub(super) fn retry_model(&mut self, mut failed: FailedCall, delay: Nanos, by: DelayRule) {
        let class = failed.case.class;
        let why = of_retry(self.policy, &failed.policy.retry, failed.progress, &failed.case, delay, by);
        let before = self.state.model_turn.rotation.current();
        let next = self.rotate(Fate::again(class, delay), &failed);
        let delay = match next {
            Next::Ask { target, delay } => {
                if target != before && self.policy.turn().targets.advance.value == Advance::Rotate {
                    self.rests(&failed);
                }
                delay
            }
            Next::Nobody => return self.model_exhausted(failed, StopReason::Attempts),
            Next::Late => {
                // Nobody waits.
                if let Some(last) = self.state.model_turn.series.as_mut() {
                    last.waits(Nanos::ZERO);
                }
                failed.ended_by = self.too_long(delay);
                let total = failed.ended_by.is_some();
                let reason = if total { StopReason::TotalDelay } else { StopReason::Deadline };
                return self.model_exhausted(failed, reason);
            }
        };
        if let Some(reason) = self.stop_instead_of(delay) {
            return self.stopped(reason);
        }
        // Nobody waits for an attempt that is not made.
        if self.state.ending.is_now() && self.run_budget().out_of_budget().is_some() {
            if let Some(last) = self.state.model_turn.series.as_mut() {
                last.waits(Nanos::ZERO);
            }
            return self.model_exhausted(failed, StopReason::RunBudget);
        }
        self.charge(&failed.name, &failed.policy.retry, class);
        let max_attempts = failed.max_attempts();
        let told = self.is_news(class).then(|| self.nudge(class, max_attempts));
        // What another model does not have to wait for has not been waited for.
        self.waits_for_model(delay);
        self.count(MetricName::RetryDelaySeconds, failed.name.clone(), delay.0);
        self.tell_retry(&failed, RetryAction::Retry, delay, told, &why);
        self.ask_model(failed, delay, why);
    }

    /// Why the model that is due is not asked again after all: the rules have changed since that was decided. Not where
    /// attempts at several models count together: there the rules of the model that failed allowed this attempt.
    pub(super) fn no_longer_retried(
        &self,
        target: &str,
        policy: &Arc<ModelPolicy>,
    ) -> Option<(FailedCall, StopReason)> {
        let series = self.state.model_turn.series.as_ref()?;
        if self.state.context.targets.len() > 1 && self.policy.turn().targets.advance.value.counts_together()
        {
            return None;
        }
        let last = self.last_at_model()?;
        let attempt = self.attempt_at_model().saturating_sub(1);
        let progress = Progress { attempt, ..series.progress() };
        let reason = policy.retry.refuses_after(last.error_type, progress.attempt)?;
        let failed = FailedCall {
            target: target.to_owned(),
            name: format!("model {target}"),
            policy: Arc::clone(policy),
            progress,
            case: self.case(last.error_type, None, Obstacle::None),
            message: last.message.clone(),
            ended_by: None,
        };
        Some((failed, reason))
    }

    /// There is no further attempt at this model: another one is asked, or the turn has no answer.
    pub(super) fn model_exhausted(&mut self, failed: FailedCall, reason: StopReason) {
        let FailedCall { name, policy, progress, case, .. } = &failed;
        let mut why = match &failed.ended_by {
            Some(ended_by) => vec![ended_by.clone()],
            None => self.why_stopped(name, &policy.retry, *progress, case, reason),
        };
        let attempts = self.attempts_at_model();
        let exhausted = RetryExhausted { action: name.clone(), reason, attempts, retry_after: case.hint };
        self.count(MetricName::RetryAttempts, name.clone(), progress.attempt.into());
        self.count_overdrawn(name, reason);
        self.rests(&failed);
        let aborts = policy.abort_on.value.contains(case.class);
        if aborts {
            why.push(because(self.policy, "abort_on", &policy.abort_on, []));
        }
        let by_budget = self.ended_by_budget(&policy.retry, *progress, case, reason);
        let late = missed(&policy.retry, *progress, case.run_deadline, self.state.now, Nanos::ZERO);
        let truncated = by_budget.is_some() && case.class == ErrorClass::TruncatedOutput;
        if !truncated
            && goes_on(
                &self.policy.turn().targets,
                policy,
                reason,
                case.class,
                progress.attempt,
                late.is_some(),
            )
            && let Next::Ask { delay, .. } = self.rotate(Fate::Leave, &failed)
        {
            if let Some(reason) = self.stop_instead_of(delay) {
                return self.stopped(reason);
            }
            self.waits_for_model(delay);
            self.tell_retry(&failed, RetryAction::SkipProvider, delay, None, &why);
            self.note(Note::Exhausted { exhausted, decision: None }, why);
            if !self.policy.turn().targets.advance.value.is_one_series() {
                self.state.model_turn.series = None;
            }
            return self.ask_model(failed, delay, Vec::new());
        }
        self.tell_retry(&failed, RetryAction::Abort, Nanos::ZERO, None, &why);
        if let Some(by_budget) = by_budget {
            let decision = Some(Decision::FinalTurn);
            let wait = self.wait_before_the_end(&failed);
            if let Some((delay, _)) = &wait {
                self.waits_for_model(*delay);
            }
            self.note(Note::Exhausted { exhausted, decision }, why);
            if let Some((delay, why)) = wait {
                let subject = Subject {
                    name: failed.name,
                    attempt: 1,
                    max_attempts: None,
                    error_type: failed.case.class,
                    message: failed.message,
                };
                // The time of the wait is the final turn's own: it has no more at its end for it.
                self.state.spending.ending = Some(self.state.now);
                self.hold(delay, subject, vec![why]);
            }
            return self.final_turn_now(by_budget);
        }
        let on_exhausted = &failed.policy.on_exhausted;
        // Whatever ends the turn at once would end a last turn, too.
        let decision = if aborts && on_exhausted.value == OnExhausted::FinalTurn {
            Some(Decision::Fail)
        } else {
            self.decide(on_exhausted, &mut why)
        };
        self.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        match decision {
            Some(decision) => self.give_up_model(decision, exhausted),
            None => self.consult(Pending::ConsultModel, exhausted),
        }
    }

    /// Later turns pass a model over for a while that another one was called instead of, for a failure of its own.
    fn rests(&mut self, failed: &FailedCall) {
        if failed.case.class.is_of_target() && self.state.context.targets.len() > 1 {
            let now = self.state.now;
            self.state.models.cool_down(&failed.target, &failed.policy, failed.case.hint, now);
        }
    }

    /// The attempt at the model under way that comes next, from 1: without those of other models, where each has its own.
    pub(super) fn attempt_at_model(&self) -> u32 {
        let attempt = self.state.model_turn.series.as_ref().map_or(1, Series::attempt);
        attempt.saturating_sub(self.state.model_turn.rotation.beside()).max(1)
    }

    /// The last attempt at the model under way that failed.
    pub(super) fn last_at_model(&self) -> Option<&AttemptRecord> {
        let history = &self.state.model_turn.series.as_ref()?.history;
        let own = |number: &usize| self.state.model_turn.rotation.is_own(*number);
        (0..history.len()).rev().find(own).and_then(|number| history.get(number))
    }

    /// The attempts at the model under way that failed.
    fn attempts_at_model(&self) -> Vec<AttemptRecord> {
        let history = self.state.model_turn.series.iter().flat_map(|series| &series.history).enumerate();
        let own = history.filter(|(number, _)| self.state.model_turn.rotation.is_own(*number));
        (1..).zip(own).map(|(attempt, (_, record))| AttemptRecord { attempt, ..record.clone() }).collect()
    }

    /// How long a provider asked to wait, if the final turn would call the same model before that is over and the time of
    /// the run has room for the wait.
    fn wait_before_the_end(&self, failed: &FailedCall) -> Option<(Nanos, Reason)> {
        let (now, case) = (self.state.now, &failed.case);
        let rule = failed.policy.retry.for_class(case.class).server_delay;
        let asked = case.hint.filter(|_| rule.value.mode != ServerDelayMode::Ignore)?.max(rule.value.min);
        let delay = match rule.value.max.length() {
            Some(most) if asked > most && rule.value.above_max != AboveMax::Clamp => return None,
            most => most.map_or(asked, |most| asked.min(most)),
        };
        let starts = now.saturating_add(delay).saturating_add(failed.policy.retry.min_attempt_time.value);
        let models = &self.state.models;
        let is_free = |target: &String| {
            *target != failed.target && !models.rests(target, &self.policy.model(target), now)
        };
        let fits = self.run_budget().end_of_all_time().is_none_or(|end| starts < end);
        if delay.is_zero()
            || !fits
            || self.too_long(delay).is_some()
            || self.state.context.targets.iter().any(is_free)
        {
            return None;
        }
        let fact = format!("the server asks for {asked}");
        Some((delay, Reason::new(self.policy, "retry.server_delay", rule, [fact])))
    }

    /// The wait after the attempt that failed last is this one.
    fn waits_for_model(&mut self, delay: Nanos) {
        if let Some(last) = self.state.model_turn.series.as_mut() {
            last.waits(delay);
        }
        self.state.model_turn.rotation.waits(delay);
        self.state.spending.waited = self.state.spending.waited.saturating_add(delay);
    }

    /// Why a model is not waited for so long: with the waits before it that is more than a turn, or a run, may have.
    fn too_long(&self, delay: Nanos) -> Option<Because> {
        let turn = self.policy.turn();
        let bounds = [
            ("turn.total_delay", &turn.total_delay, self.state.model_turn.rotation.waited()),
            ("turn.run_delay", &turn.run_delay, self.state.spending.waited),
        ];
        bounds.into_iter().find_map(|(rule, most, waited)| {
            let over = most.value.length().is_some_and(|most| waited.saturating_add(delay) > most);
            let fact = || format!("waited {} so far", waited.rounded());
            over.then(|| because(self.policy, rule, most, [fact()]))
        })
    }

    /// Why there is no such wait: the run was asked to end.
    fn stop_instead_of(&self, delay: Nanos) -> Option<String> {
        self.state.ending.stop().filter(|_| !delay.is_zero()).map(str::to_owned)
    }

    /// Whether the model is to be told of what is wrong with its reply, and was not told in this turn.
    fn is_news(&self, class: ErrorClass) -> bool {
        let of_reply = match class {
            ErrorClass::EmptyResponse | ErrorClass::ReasoningOnly | ErrorClass::TextOnly => true,
            ErrorClass::TruncatedOutput => self.policy.output().is_some(),
            _ => false,
        };
        let history = self.state.model_turn.series.iter().flat_map(|series| &series.history);
        of_reply && history.filter(|attempt| attempt.error_type == class).count() <= 1
    }

    fn rotate(&mut self, fate: Fate, failed: &FailedCall) -> Next {
        let (turn, policy) = (self.policy.turn(), self.policy);
        let state = &mut *self.state;
        let (now, models) = (state.now, &state.models);
        let waited = [
            (&turn.total_delay, state.model_turn.rotation.waited()),
            (&turn.run_delay, state.spending.waited),
        ];
        let patient = |delay| {
            let within = |most: Nanos, waited: Nanos| waited.saturating_add(delay) <= most;
            waited.iter().all(|(most, waited)| most.value.length().is_none_or(|most| within(most, *waited)))
        };
        let targets = &state.context.targets;
        let rests = |place: usize| {
            targets.get(place).is_some_and(|target| models.rests(target, &policy.model(target), now))
        };
        let in_time = |place: usize, delay| {
            let model = targets.get(place).map(|target| policy.model(target));
            patient(delay)
                && model.is_some_and(|model| {
                    missed(&model.retry, failed.progress, failed.case.run_deadline, now, delay).is_none()
                })
        };
        state.model_turn.rotation.failed(&turn.targets, targets.len(), fate, rests, in_time, now)
    }

    fn ask_model(&mut self, failed: FailedCall, delay: Nanos, why: Vec<Because>) {
        if delay.is_zero() {
            return self.call_model();
        }
        // The attempt that comes next is one at the model that is due, which need not be the one that failed.
        let class = failed.case.class;
        let due = self.state.target().cloned().unwrap_or(failed.target);
        let attempt = self.attempt_at_model();
        let subject = Subject {
            max_attempts: self.policy.model(&due).retry.most_attempts(class, attempt),
            name: format!("model {due}"),
            attempt,
            error_type: class,
            message: failed.message,
        };
        self.wait(Pending::WaitModel, delay, subject, why);
    }

    fn tell_retry(
        &mut self,
        failed: &FailedCall,
        action: RetryAction,
        backoff: Nanos,
        system_message: Option<String>,
        why: &[Because],
    ) {
        let next = match action {
            RetryAction::Retry | RetryAction::SkipProvider => self.state.target().cloned(),
            RetryAction::Abort => None,
        };
        let class = failed.case.class;
        let then = match (action, &next) {
            (RetryAction::Abort, _) | (_, None) => "no further attempt".to_owned(),
            (RetryAction::SkipProvider, Some(next)) => format!("{next} is asked instead"),
            (RetryAction::Retry, Some(next)) if backoff.is_zero() => format!("{next} is asked at once"),
            (RetryAction::Retry, Some(next)) => format!("{next} is asked after {backoff}"),
        };
        let remaining = self.state.model_turn.rotation.remaining(self.state.context.targets.len());
        let retry = TurnRetry {
            action,
            log_message: format!("{}: {class}: {}; {then}", failed.target, failed.message),
            target: failed.target.clone(),
            next_target: next,
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            error_type: class,
            backoff,
            system_message,
            sources: why.iter().map(|because| because.rule.clone()).collect(),
        };
        self.note(Note::TurnRetry(retry), Vec::new());
    }
}
