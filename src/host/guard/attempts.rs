//! The attempts of one guarded call: counted, timed, and decided about by the interpreter's own rule.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use super::{Classify, Inner};
use crate::engine::retry::{Case, Obstacle, Progress, Verdict, attempt_timeout, decide};
use crate::policy::{Bound, ErrorClass, RetryPolicy, Seed};
use crate::session::{AttemptRecord, RetryExhausted, StopReason};
use crate::time::{Instant, Nanos};

/// What a guarded closure may know about its attempt.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    pub(super) inner: &'a Inner,
    pub(super) call: u64,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    pub max_attempts: Option<u32>,
    /// The longest this attempt may take; the guard enforces it.
    pub timeout: Option<Nanos>,
}

/// The attempts of one call.
pub(super) struct Attempts<'a, E> {
    retry: &'a RetryPolicy,
    inner: &'a Inner,
    call: u64,
    started: Instant,
    attempt: u32,
    slept: Nanos,
    failed: Vec<Failed<E>>,
}

struct Failed<E> {
    cause: Cause<E>,
    class: ErrorClass,
    at: Instant,
    delay: Nanos,
}

/// Why an attempt failed.
pub(super) enum Cause<E> {
    Error(E),
    TimedOut(Nanos),
}

impl CallContext<'_> {
    /// The same for every attempt of this call, and for no other call: hand it to whatever can tell a repetition
    /// from a new request by it.
    pub fn idempotency_key(&self) -> String {
        format!("{}-{}", self.inner.run, self.call)
    }
}

/// When the first attempt starts. Only a deadline needs to know; without one the clock is not read.
#[inline]
pub(super) fn start(retry: &RetryPolicy, inner: &Inner) -> Instant {
    match retry.deadline.value {
        Bound::Within(_) => inner.clock.now(),
        Bound::Unlimited => Instant::default(),
    }
}

/// What the closure is told about an attempt.
#[inline]
pub(super) fn context<'a>(
    retry: &RetryPolicy,
    inner: &'a Inner,
    call: u64,
    started: Instant,
    attempt: u32,
) -> CallContext<'a> {
    let timeout = match (retry.attempt_timeout.value, retry.deadline.value) {
        (Bound::Unlimited, Bound::Unlimited) => None,
        (Bound::Within(length), Bound::Unlimited) => Some(length),
        (_, Bound::Within(_)) => attempt_timeout(retry, started, None, inner.clock.now()),
    };
    CallContext { inner, call, attempt, max_attempts: retry.max_attempts.value.limit(), timeout }
}

impl<'a, E: Classify> Attempts<'a, E> {
    pub(super) fn new(retry: &'a RetryPolicy, inner: &'a Inner, call: u64, started: Instant) -> Self {
        Self { retry, inner, call, started, attempt: 1, slept: Nanos::ZERO, failed: Vec::new() }
    }

    pub(super) fn context(&self) -> CallContext<'a> {
        context(self.retry, self.inner, self.call, self.started, self.attempt)
    }

    pub(super) const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Decides about the failure of the attempt under way and writes it down.
    pub(super) fn failed(
        &mut self,
        cause: Cause<E>,
        class: ErrorClass,
        hint: Option<Nanos>,
        obstacle: Obstacle,
        scope: &str,
        now: Instant,
    ) -> Verdict {
        let progress = Progress { started: self.started, attempt: self.attempt, slept: self.slept };
        let facts = Case { class, hint, obstacle, overdrawn: None, run_deadline: None };
        let seed = || Seed::new(self.inner.seed, scope, &self.call.to_string());
        let verdict = decide(self.retry, progress, facts, now, seed);
        let delay = verdict.delay();
        self.slept = self.slept.saturating_add(delay);
        self.attempt = self.attempt.saturating_add(1);
        self.failed.push(Failed { cause, class, at: now, delay });
        verdict
    }

    /// What the last attempt that failed had to say.
    pub(super) fn last_message(&self) -> String {
        self.failed.last().map(|failed| failed.cause.message()).unwrap_or_default()
    }

    /// Ends the attempts: their history, and the last error itself.
    pub(super) fn exhausted(self, action: String, reason: StopReason) -> (RetryExhausted, Option<E>) {
        let retry_after = self.failed.last().and_then(|failed| failed.cause.retry_after());
        let records = (1..).zip(&self.failed).map(|(attempt, failed)| AttemptRecord {
            attempt,
            error_type: failed.class,
            message: failed.cause.message(),
            at: failed.at,
            delay: failed.delay,
        });
        let exhausted = RetryExhausted { action, reason, attempts: records.collect(), retry_after };
        let last = self.failed.into_iter().next_back().and_then(|failed| match failed.cause {
            Cause::Error(error) => Some(error),
            Cause::TimedOut(_) => None,
        });
        (exhausted, last)
    }
}

impl<E: Classify> Cause<E> {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Error(error) => error.message(),
            Self::TimedOut(after) => format!("no answer within {after}"),
        }
    }

    pub(super) fn retry_after(&self) -> Option<Nanos> {
        match self {
            Self::Error(error) => error.retry_after(),
            Self::TimedOut(_) => None,
        }
    }
}

/// Runs `future` for at most `timeout`. A future that is ready at its first poll never gets a timer.
#[inline]
#[expect(clippy::manual_async_fn, reason = "an async fn keeps every argument twice")]
pub(super) fn within<F, T, E>(timeout: Option<Nanos>, future: F) -> impl Future<Output = Result<T, Cause<E>>>
where
    F: Future<Output = Result<T, E>>,
{
    async move {
        let Some(timeout) = timeout else { return future.await.map_err(Cause::Error) };
        let mut future = pin!(future);
        // On the heap, so that a call that is ready at once does not carry the room for it around.
        let mut timer: Option<Pin<Box<tokio::time::Sleep>>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(result) = future.as_mut().poll(cx) {
                return Poll::Ready(result.map_err(Cause::Error));
            }
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout.to_std())));
            timer.as_mut().poll(cx).map(|()| Err(Cause::TimedOut(timeout)))
        })
        .await
    }
}
