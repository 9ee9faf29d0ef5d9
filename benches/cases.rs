//! The same tool call through our guard and through its peers, for the benches beside this file.
//!
//! The call is an async function that does nothing, so that what is measured is what stands around it.

#![allow(dead_code, reason = "each bench uses some of these")]

use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::Duration;

use backon::{ConstantBuilder, ExponentialBuilder, Retryable};
use failsafe::backoff::Constant;
use tower::{Service, ServiceExt};
use unfazed::engine::retry::{AttemptProgress, FailureContext, RetryBlocker, RetryVerdict, decide};
use unfazed::host::Guard;
use unfazed::host::guard::ToolGuard;
use unfazed::policy::{ErrorClass, Policy, RetryPolicy, Seed};
use unfazed::time::{Instant, Nanos};

/// Three attempts without a delay, a breaker, no feedback: what the peers do, and the breaker they do not have.
pub(crate) const POLICY: &str = "
version: 1
tools:
  call:
    effect: read_only
    breaker: {failures: 1000000, open_for: 1m}
    retry:
      max_attempts: 3
      retry_on: [network_error]
      backoff: {kind: constant, delay: 0s}
      attempt_timeout: unlimited
      deadline: unlimited
      emit_feedback: false
";

/// The policy with the default's attempt timeout and feedback left on.
pub(crate) const DEFAULTS: &str = "
version: 1
tools:
  call:
    effect: read_only
    retry: {max_attempts: 3, retry_on: [network_error], backoff: {kind: constant, delay: 0s}}
";

/// The call itself: fails as often as `left` says, then succeeds.
#[expect(clippy::unused_async, reason = "what stands around an async call is measured")]
pub(crate) async fn work(left: &std::cell::Cell<u32>) -> Result<u64, ErrorClass> {
    let n = black_box(left.get());
    if n == 0 {
        return Ok(black_box(42));
    }
    left.set(n - 1);
    Err(ErrorClass::NetworkError)
}

/// Nothing said: the built-in default alone, with its jittered exponential backoff.
pub(crate) const BUILTIN: &str = "version: 1";

/// The guard of the tool under `policy`.
pub(crate) fn guard(text: &str) -> ToolGuard {
    Guard::new(policy(text)).tool("call")
}

/// How the tool is retried under `policy`.
pub(crate) fn retry(text: &str) -> RetryPolicy {
    policy(text).tool("call").retry.clone()
}

fn policy(text: &str) -> Policy {
    Policy::from_yaml("bench.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

/// One failure, and how far the attempts have come: what is decided about.
pub(crate) fn failed(attempt: u32) -> (AttemptProgress, FailureContext) {
    let progress = AttemptProgress { started: Instant::default(), attempt, slept: Nanos::ZERO };
    let case = FailureContext {
        class: ErrorClass::NetworkError,
        assumed: false,
        hint: None,
        obstacle: RetryBlocker::None,
        run_deadline: None,
        correction: false,
    };
    (progress, case)
}

/// The retry decision alone, with the seed of its jitter at hand.
#[inline(never)]
pub(crate) fn decision(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    seed: Seed,
) -> RetryVerdict {
    decide(policy, progress, case, Instant(1), || seed)
}

/// The retry decision together with the seed of its jitter.
#[inline(never)]
pub(crate) fn decision_seeded(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    run: u64,
) -> RetryVerdict {
    decide(policy, progress, case, Instant(1), || Seed::new(run, "call", "1"))
}

/// Nothing around it; a loop where it may fail.
pub(crate) async fn bare(failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    loop {
        if let Ok(value) = work(&left).await {
            return value;
        }
    }
}

/// Our guard around it.
pub(crate) async fn unfazed(guard: &ToolGuard, failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    guard.call((), |(), _| work(&left)).await.unwrap_or_default()
}

/// backon around it: a constant delay of zero, and a sleeper that does not sleep.
pub(crate) async fn backon_constant(failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    let policy = ConstantBuilder::default().with_delay(Duration::ZERO).with_max_times(2);
    (|| work(&left)).retry(policy).sleep(|_| std::future::ready(())).await.unwrap_or_default()
}

/// backon around it: exponential with seeded jitter, and a sleeper that does not sleep.
pub(crate) async fn backon_exponential(failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    let policy = ExponentialBuilder::default().with_jitter().with_jitter_seed(7).with_max_times(2);
    (|| work(&left)).retry(policy).sleep(|_| std::future::ready(())).await.unwrap_or_default()
}

/// tower's retry layer around it, with the smallest policy that counts attempts.
pub(crate) async fn tower_retry(failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    let service = tower::service_fn(|()| work(&left));
    let mut retry = tower::retry::Retry::new(Attempts(2), service);
    match ServiceExt::<()>::ready(&mut retry).await {
        Ok(ready) => ready.call(()).await.unwrap_or_default(),
        Err(_) => 0,
    }
}

/// tokio-retry around it. Its delays are timers, which take a millisecond at least: only a call that succeeds at once can
/// be compared.
pub(crate) async fn tokio_retry(failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    let strategy = tokio_retry::strategy::FixedInterval::new(Duration::ZERO).take(2);
    tokio_retry::Retry::start(strategy, || work(&left)).await.unwrap_or_default()
}

/// The breaker of failsafe.
pub(crate) type Failsafe =
    failsafe::StateMachine<failsafe::failure_policy::ConsecutiveFailures<Constant>, ()>;

/// The breaker that failsafe has around a call: as many failures in a row as ours stands.
pub(crate) fn failsafe() -> Failsafe {
    let backoff = failsafe::backoff::constant(Duration::from_secs(60));
    let policy = failsafe::failure_policy::consecutive_failures(1_000_000, backoff);
    failsafe::Config::new().failure_policy(policy).build()
}

/// failsafe around it: a breaker alone, for it does not retry.
pub(crate) async fn guarded_by_failsafe(breaker: &Failsafe, failures: u32) -> u64 {
    let left = std::cell::Cell::new(failures);
    failsafe::futures::CircuitBreaker::call(breaker, work(&left)).await.unwrap_or_default()
}

#[derive(Clone)]
struct Attempts(u32);

impl<T> tower::retry::Policy<(), T, ErrorClass> for Attempts {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, (): &mut (), result: &mut Result<T, ErrorClass>) -> Option<Self::Future> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(std::future::ready(()))
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

/// Polls a future that never waits to its end, without a runtime. A function of its own, for callgrind to find.
#[inline(never)]
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}
