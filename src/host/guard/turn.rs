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
use crate::policy::{Policy, RetryPolicy, Trigger};
use crate::session::StopReason;
use crate::time::Nanos;

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
        let mut targets = self.inner.targets.iter().map(String::as_str);
        let mut target = targets.next().unwrap_or("default");
        let rules = self.inner.live.current();
        self.inner.session.complete(&rules);
        loop {
            let policy = rules.model(target);
            let started = start(&policy.retry, &self.inner);
            let mut attempts = Attempts::new(&policy.retry, &self.inner, call, started);
            let reason = loop {
                let timeout = attempts.context().timeout;
                let run = run(target.to_owned(), self.request.clone());
                let cause = match within(timeout, pin!(run)).await {
                    Ok(value) => {
                        self.inner.earn(&format!("model {target}"), &policy.retry, attempts.last_class());
                        return Ok(value);
                    }
                    Err(cause) => cause,
                };
                match self.failed(&rules, &policy.retry, &mut attempts, cause, target) {
                    Verdict::Retry { delay: Nanos::ZERO, .. } => {}
                    Verdict::Retry { delay, .. } => tokio::time::sleep(delay.to_std()).await,
                    Verdict::Stop(reason) => break reason,
                }
            };
            let class = attempts.last_class();
            let elsewhere = class.is_some_and(|class| policy.retry.goes_on_elsewhere(reason, class));
            match targets.next() {
                Some(next) if elsewhere => target = next,
                _ => return Err(given_up(attempts, target, reason)),
            }
        }
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
        let attempt = attempts.attempt();
        let now = self.inner.clock.now();
        let facts = Case { class, hint, obstacle: Obstacle::of(classified), run_deadline: None };
        let mut verdict = attempts.failed(cause, facts, account, now);
        if listens(rules, Trigger::ModelFailed) {
            let message = attempts.last_message();
            let event =
                json!({ "target": target, "attempt": attempt, "error_type": class, "message": message });
            if self.inner.reduce(rules, Trigger::ModelFailed, &event).is_some() {
                account.take_back(verdict, class, now);
                verdict = Verdict::Stop(StopReason::ReducerError);
            }
        }
        if let Verdict::Retry { delay, .. } = verdict {
            self.inner.count(MetricName::RetryDelaySeconds, account.action(), delay.0);
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

fn given_up<E: Classify>(attempts: Attempts<'_, E>, target: &str, reason: StopReason) -> CallError<E> {
    let (exhausted, last) = attempts.exhausted(format!("model {target}"), reason);
    CallError::Exhausted(Box::new(GivenUp { message: exhausted.to_string(), exhausted, last }))
}
