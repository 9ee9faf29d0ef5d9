//! One attempt of a guarded call: what its closure knows, how long it may take, and how it fails.

use core::time::Duration;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::ClassifyError;
use crate::engine::{EffectState, PlainCall, PlainFailure, RunTool, retry};
use crate::policy::{ErrorClass, Policy, RetryPolicy, TimeBound};
use crate::time::{Instant, Nanos};

/// What a guarded closure may know about its attempt.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallContext<'a> {
    key: Key<'a>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    pub max_attempts: Option<u32>,
    pub(super) timeout: Option<Nanos>,
}

/// What no other call has.
#[derive(Clone, Copy, Debug)]
enum Key<'a> {
    /// Its number in the run of that name.
    Number(&'a str, u64),
    /// What the interpreter gave it.
    Given(&'a str),
}

/// Why an attempt failed.
pub(super) enum Cause<E> {
    Error(E),
    TimedOut(Nanos),
}

/// An attempt in flight.
pub(super) struct Within<'a, F> {
    attempt: Pin<&'a mut F>,
    timeout: Option<Nanos>,
    /// Made when the attempt is found pending; on the heap, because few are.
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// A future apart from the call that it belongs to: a call that does without it pays for neither its room nor its code.
pub(super) struct Apart<F>(Pin<Box<F>>);

impl<'a> CallContext<'a> {
    /// The same for every attempt of this call, and for no other call: hand it to whatever can tell a repetition
    /// from a new request by it.
    pub fn idempotency_key(&self) -> String {
        match self.key {
            Key::Number(run, number) => PlainCall::idempotency_key(run, number),
            Key::Given(key) => key.to_owned(),
        }
    }

    /// The longest this attempt may take; the guard enforces it.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Into::into)
    }

    /// What the closure knows of a run that the interpreter asks for.
    pub(super) fn of(run: &'a RunTool) -> Self {
        let key = Key::Given(&run.idempotency_key);
        Self { key, attempt: run.attempt, max_attempts: run.max_attempts, timeout: run.timeout }
    }

    /// What it knows of the first attempt of a call of that number.
    #[inline]
    pub(super) fn first(
        (run, number): (&'a str, u64),
        retry: &RetryPolicy,
        started: Instant,
        now: impl FnOnce() -> Instant,
    ) -> Self {
        let timeout = timeout(retry, started, now);
        let max_attempts = retry.max_attempts.value.limit();
        Self { key: Key::Number(run, number), attempt: 1, max_attempts, timeout }
    }

    /// What it knows of a further attempt.
    pub(super) fn again(
        (run, number): (&'a str, u64),
        retry: &RetryPolicy,
        call: &PlainCall,
        now: impl FnOnce() -> Instant,
    ) -> Self {
        let progress = call.progress();
        let rules = call.last_class().map_or_else(|| retry.for_others(), |class| retry.for_class(class));
        let max_attempts = rules.max_attempts.value.limit();
        let timeout = timeout(retry, progress.started, now);
        Self { key: Key::Number(run, number), attempt: progress.attempt, max_attempts, timeout }
    }
}

/// When the first attempt starts. Only a deadline needs to know; without one the clock is not read.
#[inline]
pub(super) fn start(retry: &RetryPolicy, now: impl FnOnce() -> Instant) -> Instant {
    match retry.deadline.value {
        TimeBound::Within(_) => now(),
        TimeBound::Unlimited => Instant::default(),
    }
}

#[inline]
fn timeout(retry: &RetryPolicy, started: Instant, now: impl FnOnce() -> Instant) -> Option<Nanos> {
    match (retry.attempt_timeout.value, retry.deadline.value) {
        (TimeBound::Unlimited, TimeBound::Unlimited) => None,
        (TimeBound::Within(length), TimeBound::Unlimited) => Some(length),
        (_, TimeBound::Within(_)) => retry::attempt_timeout(retry, started, None, now()),
    }
}

impl<E: ClassifyError> Cause<E> {
    /// The failure, as the interpreter takes it.
    #[inline]
    pub(super) fn failure(&self, policy: &Policy) -> PlainFailure {
        match self {
            Self::Error(error) => match error.certain() {
                Some((class, message)) => PlainFailure::Certain(class, message),
                None => PlainFailure::Known(error.failure(policy)),
            },
            Self::TimedOut(after) => PlainFailure::Certain(
                ErrorClass::Timeout,
                format!("no answer within {}", after.rounded()).into(),
            ),
        }
    }

    /// How far the attempt got.
    pub(super) fn effect(&self) -> EffectState {
        match self {
            Self::Error(error) => error.effect(),
            Self::TimedOut(_) => EffectState::Unknown,
        }
    }

    /// The error itself.
    pub(super) fn into_error(self) -> Option<E> {
        match self {
            Self::Error(error) => Some(error),
            Self::TimedOut(_) => None,
        }
    }
}

/// Waits for `attempt`, for at most `timeout`. One that is ready at its first poll never gets a timer.
///
/// It is borrowed, not owned: an attempt that was moved would be kept twice in the future of the call.
#[inline]
pub(super) const fn within<F>(timeout: Option<Nanos>, attempt: Pin<&mut F>) -> Within<'_, F> {
    Within { attempt, timeout, timer: None }
}

pub(super) fn apart<F: Future>(future: F) -> Apart<F> {
    Apart(Box::pin(future))
}

impl<F: Future> Future for Apart<F> {
    type Output = F::Output;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<F, T, E> Future for Within<'_, F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, Cause<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Poll::Ready(result) = this.attempt.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(Cause::Error));
        }
        let Some(timeout) = this.timeout else { return Poll::Pending };
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout.to_std())));
        timer.as_mut().poll(cx).map(|()| Err(Cause::TimedOut(timeout)))
    }
}
