//! The attempts of one guarded call: counted, timed, and decided about by the interpreter's own rule.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::budget::Account;
use super::{Classify, Inner};
use crate::engine::retry::{self, Case, Obstacle, Progress, Verdict, attempt_timeout, in_earnest};
use crate::engine::{EffectState, Waits};
use crate::policy::{Bound, Classified, ErrorClass, Policy, RetryPolicy, Seed};
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

impl core::fmt::Debug for CallContext<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CallContext")
            .field("attempt", &self.attempt)
            .field("max_attempts", &self.max_attempts)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The attempts of one call.
pub(super) struct Attempts<'a, E> {
    retry: &'a RetryPolicy,
    inner: &'a Inner,
    call: u64,
    started: Instant,
    attempt: u32,
    /// How many of them do not count for the target that is due.
    beside: u32,
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

/// An attempt under way.
pub(super) struct Within<'a, F> {
    attempt: Pin<&'a mut F>,
    timeout: Option<Nanos>,
    /// Made when the attempt is found pending; on the heap, because few are.
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
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
        Self { retry, inner, call, started, attempt: 1, beside: 0, slept: Nanos::ZERO, failed: Vec::new() }
    }

    #[inline]
    pub(super) fn context(&self) -> CallContext<'a> {
        let context = context(self.retry, self.inner, self.call, self.started, self.attempt());
        match self.last_class() {
            Some(class) if !self.retry.by_class.is_empty() => {
                let max_attempts = self.retry.for_class(class).max_attempts.value.limit();
                CallContext { max_attempts, ..context }
            }
            _ => context,
        }
    }

    pub(super) const fn attempt(&self) -> u32 {
        self.attempt.saturating_sub(self.beside)
    }

    /// The source of jitter. Out of line: without jitter nobody asks for it.
    #[inline(never)]
    fn seed(&self, scope: &str) -> Seed {
        Seed::new(self.inner.seed, scope, &self.call.to_string())
    }

    /// Decides about the failure of the attempt under way and writes it down.
    #[inline]
    pub(super) fn failed(
        &mut self,
        cause: Cause<E>,
        facts: Case,
        account: Account<'_>,
        now: Instant,
    ) -> Verdict {
        let (progress, class) = (self.progress(), facts.class);
        let verdict = account.decide(progress, facts, now, || self.seed(account.name));
        if verdict == Verdict::Stop(StopReason::Shadow) {
            self.told_in_shadow(facts, account.name, now);
        }
        let delay = verdict.delay();
        self.slept = self.slept.saturating_add(delay);
        self.attempt = self.attempt.saturating_add(1);
        self.failed.push(Failed { cause, class, at: now, delay });
        verdict
    }

    /// Logs what would be done if the policy were not in shadow.
    #[cold]
    fn told_in_shadow(&self, facts: Case, scope: &str, now: Instant) {
        let progress = self.progress();
        let meant = in_earnest(self.retry, progress, facts, now, || self.seed(scope));
        tracing::warn!(
            correlation_id = self.inner.run,
            action = scope,
            attempt = progress.attempt,
            error_type = facts.class.name(),
            delay_ms = meant.delay().0 / 1_000_000,
            "another attempt, in shadow only"
        );
    }

    /// The same attempts, going on under the rules of another model, for which so many of them do not count.
    pub(super) fn under(self, retry: &'a RetryPolicy, beside: u32) -> Self {
        Self { retry, beside, ..self }
    }

    /// The wait after the last attempt is this one.
    pub(super) fn waits(&mut self, delay: Nanos) {
        if let Some(last) = self.failed.last_mut() {
            self.slept = self.slept.saturating_sub(last.delay).saturating_add(delay);
            last.delay = delay;
        }
    }

    /// The wait that the last attempt's failure asked for.
    pub(super) fn last_hint(&self) -> Option<Nanos> {
        self.failed.last().and_then(|failed| failed.cause.retry_after())
    }

    /// How far they have come.
    pub(super) const fn progress(&self) -> Progress {
        Progress { started: self.started, attempt: self.attempt(), slept: self.slept }
    }

    /// How far they have come, without the wait after the last one.
    pub(super) fn before_wait(&self) -> Progress {
        let last = self.failed.last().map_or(Nanos::ZERO, |failed| failed.delay);
        Progress { slept: self.slept.saturating_sub(last), ..self.progress() }
    }

    /// The class of the last failure, if there was one.
    pub(super) fn last_class(&self) -> Option<ErrorClass> {
        self.failed.last().map(|failed| failed.class)
    }

    /// What the last attempt that failed had to say.
    pub(super) fn last_message(&self) -> String {
        self.failed.last().map(|failed| failed.cause.message()).unwrap_or_default()
    }

    /// Ends the attempts: their history, and the last error itself.
    /// `own` says of each, by its number from 0, whether it was at the target that is given up.
    pub(super) fn exhausted(
        self,
        action: String,
        reason: StopReason,
        own: impl Fn(usize) -> bool,
    ) -> (RetryExhausted, Option<E>) {
        let retry_after = self.failed.last().and_then(|failed| failed.cause.retry_after());
        let failed = self.failed.iter().enumerate().filter(|(number, _)| own(*number));
        let records = (1..).zip(failed).map(|(attempt, (_, failed))| AttemptRecord {
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
    pub(super) fn classified(&self, policy: &Policy) -> Classified {
        match self {
            Self::Error(error) => error.classified(policy),
            Self::TimedOut(_) => Classified::certain(ErrorClass::Timeout),
        }
    }

    pub(super) fn effect(&self) -> EffectState {
        match self {
            Self::Error(error) => error.effect(),
            Self::TimedOut(_) => EffectState::Unknown,
        }
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Error(error) => error.status(),
            Self::TimedOut(_) => None,
        }
    }

    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Error(error) => error.received(),
            Self::TimedOut(_) => 0,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Error(error) => error.message(),
            Self::TimedOut(after) => format!("no answer within {after}"),
        }
    }

    /// The window of which the other side told.
    pub(super) fn window(&self) -> Option<u64> {
        match self {
            Self::Error(error) => error.window(),
            Self::TimedOut(_) => None,
        }
    }

    /// The failure as the other side sees it, as far as the policy listens.
    pub(super) fn advised(&self, classified: Classified, retry: &RetryPolicy) -> Classified {
        match self {
            Self::Error(error) => retry::advised(classified, error.should_retry(), retry),
            Self::TimedOut(_) => classified,
        }
    }

    /// The case of the failure: with what the other side says about retries, as far as the policy listens.
    pub(super) fn case(&self, classified: Classified, retry: &RetryPolicy, obstacle: Obstacle) -> Case {
        let (waits, should_retry) = match self {
            Self::Error(error) => (error.waits(), error.should_retry()),
            Self::TimedOut(_) => (Waits::default(), None),
        };
        let rule = &retry.for_class(classified.class).server_delay.value;
        let advice = retry::advice(should_retry, rule);
        Case {
            class: classified.class,
            hint: retry::hint(&waits, classified, rule),
            assumed: retry::assumed(&waits, classified, rule),
            obstacle: obstacle.or_fault_of(classified).or_advice(advice),
            run_deadline: None,
            correction: false,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Nanos> {
        match self {
            Self::Error(error) => error.retry_after(),
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
