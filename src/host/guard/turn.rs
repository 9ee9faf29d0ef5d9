//! The guard of one call to a model: attempts on each target, one target after the other.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;

use super::attempts::{Attempts, Cause, start, within};
use super::budget::Account;
use super::session::listens;
use super::{CallError, Classify, GivenUp, Inner};
use crate::engine::MetricName;
use crate::engine::retry::{Case, Obstacle, Verdict};
use crate::engine::targets::{Fate, Next, Rotation, goes_on};
use crate::policy::{Advance, AfterPartial, ErrorClass, ModelPolicy, Policy, RetryPolicy, Trigger};
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

/// The guard of one call to a model.
pub struct TurnGuard<R> {
    inner: Arc<Inner>,
    request: R,
}

impl<R: Clone> TurnGuard<R> {
    pub(super) const fn new(inner: Arc<Inner>, request: R) -> Self {
        Self { inner, request }
    }

    /// Offers the request to the targets in order, each as often as its policy allows.
    ///
    /// # Errors
    /// [`CallError::Exhausted`] with the attempts at the last target, if no target answered.
    pub async fn call<T, E, F, Fut>(&self, mut run: F) -> Result<T, CallError<E>>
    where
        E: Classify,
        F: FnMut(String, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let call = self.inner.next_call();
        let rules = self.inner.live.current();
        self.inner.session.complete(&rules);
        let targets = self.inner.targets();
        let policies: Vec<Arc<ModelPolicy>> = targets.iter().map(|target| rules.model(target)).collect();
        let mut order = self.inner.begin_targets(&policies);
        let mut spent: Option<Attempts<'_, E>> = None;
        loop {
            let place = order.current();
            let (Some(target), Some(policy)) = (targets.get(place), policies.get(place)) else {
                unreachable!("a rotation stays within its models")
            };
            let retry = &policy.retry;
            let mut attempts = match spent.take() {
                Some(attempts) => attempts.under(retry),
                None => Attempts::new(retry, &self.inner, call, start(retry, &self.inner)),
            };
            let timeout = attempts.context().timeout;
            let run = run(target.clone(), self.request.clone());
            let cause = match within(timeout, pin!(run)).await {
                Ok(value) => {
                    self.ended(target, attempts.attempt());
                    self.inner.earn(&format!("model {target}"), retry, attempts.last_class());
                    self.inner.session.resting(|resting| resting.wake(target, policy));
                    return Ok(value);
                }
                Err(cause) => cause,
            };
            let verdict = self.failed(&rules, retry, &mut attempts, cause, target);
            let turn = Turn { guard: &self.inner, rules: &rules, policies: &policies };
            match turn.next(&mut order, policy, target, &mut attempts, verdict) {
                Ok((delay, goes_on)) => {
                    if !goes_on {
                        self.ended(target, attempts.attempt().saturating_sub(1));
                    }
                    spent = goes_on.then_some(attempts);
                    if !delay.is_zero() {
                        tokio::time::sleep(delay.to_std()).await;
                    }
                }
                Err(reason) => {
                    // The attempt that was under way has been counted as failed.
                    self.ended(target, attempts.attempt().saturating_sub(1));
                    return Err(given_up(attempts, target, reason));
                }
            }
        }
    }

    /// So many attempts at a target, and there is no other.
    fn ended(&self, target: &str, attempts: u32) {
        self.inner.count(MetricName::RetryAttempts, format!("model {target}"), attempts.into());
    }

    fn failed<E: Classify>(
        &self,
        rules: &Policy,
        retry: &RetryPolicy,
        attempts: &mut Attempts<'_, E>,
        cause: Cause<E>,
        target: &str,
    ) -> Verdict {
        let classified = cause.classified(rules);
        let class = classified.class;
        let account = Account { inner: &self.inner, retry, kind: "model", name: target };
        let hint = cause.retry_after();
        let (attempt, received) = (attempts.attempt(), cause.received());
        let now = self.inner.clock.now();
        let facts = Case { class, hint, obstacle: Obstacle::of(classified), run_deadline: None };
        let mut verdict = attempts.failed(cause, facts, account, now);
        if received > 0 && rules.turn().after_partial.value == AfterPartial::Fail {
            account.take_back(verdict, class, now);
            verdict = Verdict::Stop(StopReason::AfterPartial);
        }
        if listens(rules, Trigger::ModelFailed) {
            let message = attempts.last_message();
            let event = json!({
                "target": target, "attempt": attempt, "error_type": class, "message": message,
                "received": received,
            });
            if self.inner.reduce(rules, Trigger::ModelFailed, &event).is_some() {
                account.take_back(verdict, class, now);
                verdict = Verdict::Stop(StopReason::ReducerError);
            }
        }
        tracing::warn!(
            correlation_id = self.inner.run,
            policy = rules.digest(),
            target_model = target,
            error_type = class.name(),
            attempt,
            delay_ms = verdict.delay().0 / 1_000_000,
            "model call failed"
        );
        verdict
    }
}

/// Where one call stands among its models.
struct Turn<'a> {
    guard: &'a Inner,
    rules: &'a Policy,
    policies: &'a [Arc<ModelPolicy>],
}

impl Turn<'_> {
    /// Goes on to the model that is due. Returns the wait before it, and whether its attempts count together with
    /// those so far.
    fn next<E: Classify>(
        &self,
        order: &mut Rotation,
        policy: &ModelPolicy,
        target: &str,
        attempts: &mut Attempts<'_, E>,
        verdict: Verdict,
    ) -> Result<(Nanos, bool), StopReason> {
        let rules = &self.rules.turn().targets;
        let together = rules.advance.value == Advance::Attempt;
        let (class, hint, now) = (attempts.last_class(), attempts.last_hint(), self.guard.clock.now());
        let fate = match verdict {
            Verdict::Retry { delay, .. } => {
                Fate::Again { delay, limited: class.is_some_and(ErrorClass::is_a_limit) }
            }
            Verdict::Stop(reason) => {
                if class.is_some_and(ErrorClass::is_of_target) && self.policies.len() > 1 {
                    self.guard.session.resting(|resting| resting.add(target, policy, hint, now));
                }
                if !class.is_some_and(|class| goes_on(rules, policy, reason, class)) {
                    return Err(reason);
                }
                Fate::Leave
            }
        };
        let rests = |place: usize| self.guard.rests(self.policies, place, now);
        match order.failed(rules, self.policies.len(), fate, rests, now) {
            Next::Ask { delay, .. } => {
                let again = fate != Fate::Leave;
                if again {
                    attempts.waits(delay);
                    self.guard.count(MetricName::RetryDelaySeconds, format!("model {target}"), delay.0);
                }
                Ok((delay, again || together))
            }
            Next::Nobody => Err(match verdict {
                Verdict::Stop(reason) => reason,
                Verdict::Retry { .. } => StopReason::Attempts,
            }),
        }
    }
}

impl Inner {
    /// The models a turn is offered to.
    fn targets(&self) -> Vec<String> {
        if self.targets.is_empty() { vec!["default".to_owned()] } else { self.targets.clone() }
    }

    fn begin_targets(&self, policies: &[Arc<ModelPolicy>]) -> Rotation {
        let now = self.clock.now();
        Rotation::begin(policies.len(), |place| self.rests(policies, place, now), |_| true)
    }

    fn rests(&self, policies: &[Arc<ModelPolicy>], place: usize, now: Instant) -> bool {
        let (Some(target), Some(policy)) = (self.targets.get(place), policies.get(place)) else {
            return false;
        };
        self.session.resting(|resting| resting.holds(target, policy, now))
    }
}

fn given_up<E: Classify>(attempts: Attempts<'_, E>, target: &str, reason: StopReason) -> CallError<E> {
    let (exhausted, last) = attempts.exhausted(format!("model {target}"), reason);
    CallError::Exhausted(Box::new(GivenUp { message: exhausted.to_string(), exhausted, last }))
}
