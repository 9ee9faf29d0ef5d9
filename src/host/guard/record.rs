//! The record of each call of a model that a guard makes: counted, logged, and told to the host.

use std::sync::atomic::Ordering;

use super::attempts::Cause;
use super::{Classify, Inner};
use crate::engine::RetryAction;
use crate::host::telemetry::Which;
use crate::host::{ModelAttempt, trace};
use crate::policy::{ErrorClass, Policy};
use crate::session::{StopReason, Usage};
use crate::time::{Instant, Nanos};

/// A call of a model under way. Its record is told when this is dropped: of a call that has not ended by then, that it was
/// cancelled.
pub(super) struct UnderWay<'a> {
    inner: &'a Inner,
    rules: &'a Policy,
    which: Which<'a>,
    started: Instant,
    ended: Option<ModelAttempt>,
}

impl<'a> UnderWay<'a> {
    /// The call begins now.
    pub(super) fn begin(inner: &'a Inner, rules: &'a Policy, which: Which<'a>) -> Self {
        Self { inner, rules, which, started: inner.clock.now(), ended: None }
    }

    /// There is a reply.
    pub(super) fn replied(mut self, usage: Option<Usage>) {
        let mut attempt = self.over();
        if let Some(usage) = usage {
            attempt.used(usage);
        }
        self.ended = Some(attempt);
    }

    /// There is none. Returns the class of the failure.
    pub(super) fn failed<E: Classify>(&mut self, cause: &Cause<E>) -> ErrorClass {
        let (mut attempt, class) = (self.over(), cause.classified(self.rules).class);
        attempt.fail(class, cause.status(), cause.message());
        self.ended = Some(attempt);
        class
    }

    /// This is done about the failure: after that wait, at that model.
    pub(super) fn then(
        mut self,
        action: RetryAction,
        delay: Nanos,
        next: Option<&str>,
        reason: Option<StopReason>,
    ) {
        if let Some(attempt) = &mut self.ended {
            attempt.then(action, delay, next.map(str::to_owned));
            attempt.reason = reason;
        }
    }

    fn over(&self) -> ModelAttempt {
        let latency = self.inner.clock.now().since(self.started);
        self.inner.models.record(&self.which, latency, self.rules)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut attempt = self.ended.take().unwrap_or_else(|| {
            let mut attempt = self.over();
            attempt.cancel();
            attempt
        });
        self.inner.models.count(&mut attempt);
        self.inner.in_span(self.rules, || trace::attempt(&attempt));
        if let Some(told) = &self.inner.on_attempt {
            told(&attempt);
        }
    }
}

impl Inner {
    /// The number of a turn, from 1.
    pub(super) fn next_turn(&self) -> u32 {
        self.turns.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Logs with what every line of a guard carries.
    pub(super) fn in_span(&self, rules: &Policy, log: impl FnOnce()) {
        tracing::info_span!("turn", correlation_id = self.run, policy = rules.digest()).in_scope(log);
    }
}
