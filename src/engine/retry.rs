//! The retry decision: one function, one order of checks, no allocation.

use crate::policy::{
    AboveMax, Attempts, Bound, ClassRules, Classified, ErrorClass, Origin, RetryPolicy, Seed, ServerDelay,
    ServerDelayMode, WaitSource,
};
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

use super::failure::Waits;

/// How far one series of attempts has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When the first attempt started.
    pub started: Instant,
    /// The attempt that just failed, from 1.
    pub attempt: u32,
    /// Time spent waiting between attempts so far.
    pub slept: Nanos,
}

/// What speaks for and against another attempt, besides the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The class of the failure.
    pub class: ErrorClass,
    /// The wait the other side asked for.
    pub hint: Option<Nanos>,
    /// Whether nobody asked for it, and the row of the error table says how long it is then (`errors.wait`).
    pub assumed: bool,
    /// What forbids another attempt whatever the numbers say.
    pub obstacle: Obstacle,
    /// The deadline of the whole run.
    pub run_deadline: Option<Instant>,
    /// Whether the next attempt is a correction by the model, which has a backoff of its own.
    pub correction: bool,
}

/// What forbids another attempt whatever the numbers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing.
    #[default]
    None,
    /// The tool may have acted and must not act twice.
    MayHaveActed,
    /// The row of the error table says that the request itself is at fault.
    RequestAtFault(Origin),
    /// The server says that a retry cannot help.
    ShouldNotRetry,
    /// A reducer failed on this action.
    ReducerError,
    /// The circuit breaker is open.
    CircuitOpen,
    /// The retry budget has nothing left.
    Overdrawn,
}

/// Whether there is another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, after this delay.
    Retry {
        /// The wait; zero means at once, without a timer.
        delay: Nanos,
        /// Which rule made the delay.
        by: DelayRule,
    },
    /// No.
    Stop(StopReason),
}

impl Verdict {
    /// The wait before the next attempt; zero if there is none.
    pub const fn delay(self) -> Nanos {
        match self {
            Self::Retry { delay, .. } => delay,
            Self::Stop(_) => Nanos::ZERO,
        }
    }
}

/// Which rule made a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayRule {
    /// `backoff`.
    Backoff,
    /// `server_delay`: the other side asked for it.
    Server,
}

/// Decides about another attempt.
///
/// The order of the checks is part of the contract, and the first that applies is the reason that is reported:
/// `never_retry`, not retryable, may have acted, request at fault, `x-should-retry: false`, reducer error, attempts,
/// deadline, breaker, budget, server delay, total delay, shadow. (Cancellation comes before all of them and never gets here.) An attempt that could only start at or
/// after a deadline is not waited for: `now + delay >= deadline` stops now.
///
/// `seed` is asked for only where the backoff has jitter.
#[inline]
pub fn decide(
    policy: &RetryPolicy,
    progress: Progress,
    case: Case,
    now: Instant,
    seed: impl FnOnce() -> Seed,
) -> Verdict {
    judge(policy, progress, case, now, policy.shadow.value, seed)
}

/// What [`decide`] would say if the policy were not in shadow.
#[inline]
pub fn in_earnest(
    policy: &RetryPolicy,
    progress: Progress,
    case: Case,
    now: Instant,
    seed: impl FnOnce() -> Seed,
) -> Verdict {
    judge(policy, progress, case, now, false, seed)
}

#[inline]
fn judge(
    policy: &RetryPolicy,
    progress: Progress,
    case: Case,
    now: Instant,
    shadow: bool,
    seed: impl FnOnce() -> Seed,
) -> Verdict {
    if !policy.retryable(case.class) {
        let never = policy.never_retry.value.contains(case.class);
        return Verdict::Stop(if never { StopReason::NeverRetry } else { StopReason::NotRetryable });
    }
    match case.obstacle {
        Obstacle::MayHaveActed => return Verdict::Stop(StopReason::MayHaveActed),
        Obstacle::RequestAtFault(_) => return Verdict::Stop(StopReason::RequestAtFault),
        Obstacle::ShouldNotRetry => return Verdict::Stop(StopReason::ShouldNotRetry),
        Obstacle::ReducerError => return Verdict::Stop(StopReason::ReducerError),
        Obstacle::None | Obstacle::CircuitOpen | Obstacle::Overdrawn => {}
    }
    if shadow || !policy.by_class.is_empty() || !case.is_plain() || policy.is_limited() {
        return weigh(policy, progress, case, now, shadow, seed);
    }
    if !policy.max_attempts.value.allow_after(progress.attempt) {
        return Verdict::Stop(StopReason::Attempts);
    }
    Verdict::Retry { delay: policy.backoff.value.delay_with(progress.attempt, seed), by: DelayRule::Backoff }
}

/// The rest of the decision, where a class has rules of its own or there is something to hold the delay against.
#[inline(never)]
fn weigh(
    policy: &RetryPolicy,
    progress: Progress,
    case: Case,
    now: Instant,
    shadow: bool,
    seed: impl FnOnce() -> Seed,
) -> Verdict {
    let rules = case.rules(policy);
    if !rules.max_attempts.value.allow_after(progress.attempt) {
        return Verdict::Stop(StopReason::Attempts);
    }
    let (delay, by, refused) = wait(rules, progress.attempt, case.hint, seed);
    if is_late(policy, progress, case.run_deadline, now, delay) {
        return Verdict::Stop(StopReason::Deadline);
    }
    if case.obstacle == Obstacle::CircuitOpen {
        return Verdict::Stop(StopReason::CircuitOpen);
    }
    if case.obstacle == Obstacle::Overdrawn {
        return Verdict::Stop(StopReason::Budget);
    }
    if refused {
        return Verdict::Stop(StopReason::ServerDelay);
    }
    if is_too_much(policy, progress, delay) {
        return Verdict::Stop(StopReason::TotalDelay);
    }
    if shadow {
        return Verdict::Stop(StopReason::Shadow);
    }
    Verdict::Retry { delay, by }
}

/// Which limit an attempt would miss that starts after this delay: a deadline, or `total_delay`.
pub fn missed(
    policy: &RetryPolicy,
    progress: Progress,
    run_deadline: Option<Instant>,
    now: Instant,
    delay: Nanos,
) -> Option<StopReason> {
    if is_late(policy, progress, run_deadline, now, delay) {
        return Some(StopReason::Deadline);
    }
    is_too_much(policy, progress, delay).then_some(StopReason::TotalDelay)
}

/// Whether what is left until a deadline after the delay is nothing, or not enough for an attempt.
fn is_late(
    policy: &RetryPolicy,
    progress: Progress,
    run_deadline: Option<Instant>,
    now: Instant,
    delay: Nanos,
) -> bool {
    let policy_deadline = match policy.deadline.value {
        Bound::Within(length) => Some(progress.started.saturating_add(length)),
        Bound::Unlimited => None,
    };
    let starts = now.saturating_add(delay);
    let past =
        |deadline: Instant| starts >= deadline || deadline.since(starts) < policy.min_attempt_time.value;
    policy_deadline.is_some_and(past) || run_deadline.is_some_and(past)
}

/// Whether the waits together would exceed `total_delay`.
fn is_too_much(policy: &RetryPolicy, progress: Progress, delay: Nanos) -> bool {
    match policy.total_delay.value {
        Bound::Within(most) => progress.slept.saturating_add(delay) > most,
        Bound::Unlimited => false,
    }
}

/// The longest one attempt may take when it starts now: the attempt's own limit, or what is left until a
/// deadline if that is less. `None`: no limit.
pub fn attempt_timeout(
    policy: &RetryPolicy,
    started: Instant,
    run_deadline: Option<Instant>,
    now: Instant,
) -> Option<Nanos> {
    let own = match policy.attempt_timeout.value {
        Bound::Within(length) => Some(length),
        Bound::Unlimited => None,
    };
    let left = match policy.deadline.value {
        Bound::Within(length) => Some(started.saturating_add(length).since(now)),
        Bound::Unlimited => None,
    };
    let run = run_deadline.map(|deadline| deadline.since(now));
    [own, left, run].into_iter().flatten().min()
}

/// The delay before the next attempt, and whether the other side's wish is more than the policy grants.
fn wait(
    rules: ClassRules<'_>,
    attempt: u32,
    hint: Option<Nanos>,
    seed: impl FnOnce() -> Seed,
) -> (Nanos, DelayRule, bool) {
    let backoff = &rules.backoff.value;
    match hint {
        Some(hint) if rules.server_delay.value.mode != ServerDelayMode::Ignore => {
            let seed = seed();
            let computed = backoff.delay(attempt, seed);
            hinted(rules.server_delay.value, computed, hint, attempt, seed)
        }
        _ => (backoff.delay_with(attempt, seed), DelayRule::Backoff, false),
    }
}

/// As [`wait`], where the other side asked for `hint`.
fn hinted(
    rule: ServerDelay,
    computed: Nanos,
    hint: Nanos,
    attempt: u32,
    seed: Seed,
) -> (Nanos, DelayRule, bool) {
    let mut asked = hint.max(rule.min);
    if let Bound::Within(most) = rule.max
        && asked > most
    {
        match rule.above_max {
            AboveMax::GiveUp | AboveMax::NextTarget => return (computed, DelayRule::Server, true),
            AboveMax::Clamp => asked = most,
        }
    }
    let asked = spread(rule, asked, attempt, seed);
    match rule.mode {
        ServerDelayMode::Floor if computed > asked => (computed, DelayRule::Backoff, false),
        ServerDelayMode::Clamp if computed >= asked => (computed, DelayRule::Backoff, false),
        ServerDelayMode::Clamp => (asked.min(computed.saturating_add(rule.margin)), DelayRule::Server, false),
        ServerDelayMode::Ignore => (computed, DelayRule::Backoff, false),
        ServerDelayMode::Floor | ServerDelayMode::Replace => (asked, DelayRule::Server, false),
    }
}

/// What is asked for, lengthened at random: never earlier than asked.
fn spread(rule: ServerDelay, asked: Nanos, attempt: u32, seed: Seed) -> Nanos {
    if rule.spread_ppm == 0 {
        return asked;
    }
    let most = asked.share(rule.spread_ppm);
    // Another number than that of the backoff of the same attempt.
    let drawn = u128::from(seed.draw(attempt.wrapping_add(1 << 31)));
    let more = u128::from(most.0).saturating_mul(drawn) >> 64;
    asked.saturating_add(Nanos(u64::try_from(more).unwrap_or(u64::MAX)))
}

impl Obstacle {
    /// The obstacle that the error table knows of.
    pub fn of(classified: Classified) -> Self {
        match classified.origin {
            Some(row) if classified.request_at_fault => Self::RequestAtFault(row),
            _ => Self::None,
        }
    }

    /// This one, or that of the error table if it goes before this one.
    #[must_use]
    pub fn or_fault_of(self, classified: Classified) -> Self {
        match (self, Self::of(classified)) {
            (Self::MayHaveActed, _) | (_, Self::None) => self,
            (_, fault) => fault,
        }
    }

    /// This one, or what the server advises if nothing goes before it.
    #[must_use]
    pub fn or_advice(self, should_retry: Option<bool>) -> Self {
        match self {
            Self::MayHaveActed | Self::RequestAtFault(_) => self,
            _ if should_retry == Some(false) => Self::ShouldNotRetry,
            _ => self,
        }
    }
}

/// Whether it is the row of the error table alone that says how long to wait.
pub fn assumed(waits: &Waits, classified: Classified, rule: &ServerDelay) -> bool {
    let without_row = Classified { wait: None, ..classified };
    hint(waits, classified, rule).is_some() && hint(waits, without_row, rule).is_none()
}

/// The wait that counts: of the sources of the rule the first that says something. The row of the error table does not
/// know the server, so what it says is never longer than what the policy grants.
pub fn hint(waits: &Waits, classified: Classified, rule: &ServerDelay) -> Option<Nanos> {
    rule.sources.iter().find_map(|source| match source {
        WaitSource::Row => {
            let most = rule.max.length().unwrap_or(Nanos::MAX);
            classified.wait.map(|wait| wait.min(most))
        }
        WaitSource::Header | WaitSource::Body | WaitSource::Reset => waits.at(source),
        WaitSource::ShouldRetry => None,
    })
}

/// The failure as the server sees it, if the policy listens to that: where a retry helps, the request is not invalid.
pub fn advised(classified: Classified, should_retry: Option<bool>, retry: &RetryPolicy) -> Classified {
    let rule = &retry.for_class(classified.class).server_delay.value;
    let invalid = classified.class == ErrorClass::InvalidRequest && !classified.request_at_fault;
    if invalid && advice(should_retry, rule) == Some(true) {
        return Classified { class: ErrorClass::ModelError, ..classified };
    }
    classified
}

/// What the server says about retries, if the rule listens to that.
pub fn advice(should_retry: Option<bool>, rule: &ServerDelay) -> Option<bool> {
    should_retry.filter(|_| rule.sources.contains(WaitSource::ShouldRetry))
}

impl Case {
    /// Whether nothing but the policy's own numbers bears on the delay.
    #[inline]
    const fn is_plain(&self) -> bool {
        matches!(self.obstacle, Obstacle::None)
            && self.hint.is_none()
            && self.run_deadline.is_none()
            && !self.correction
    }

    /// The rules that decide about it.
    pub(crate) fn rules(self, policy: &RetryPolicy) -> ClassRules<'_> {
        if self.correction { policy.for_correction(self.class) } else { policy.for_class(self.class) }
    }
}

impl RetryPolicy {
    /// The most attempts after `attempt` failed with that class; those that were made are counted, though other classes
    /// may have granted them. `None`: unlimited.
    pub fn most_attempts(&self, class: ErrorClass, attempt: u32) -> Option<u32> {
        self.for_class(class).max_attempts.value.limit().map(|most| most.max(attempt))
    }

    /// Whether another target is asked when attempts at one end for this reason, after a failure of that class, if
    /// there is still time for an attempt.
    pub fn goes_on_elsewhere(&self, reason: StopReason, class: ErrorClass) -> bool {
        match reason {
            // Neither what was shown already, nor the objection of a reducer is a matter of the target.
            StopReason::Cancelled
            | StopReason::AfterPartial
            | StopReason::ReducerError
            | StopReason::RunBudget => false,
            StopReason::ServerDelay => self.for_class(class).server_delay.value.above_max != AboveMax::GiveUp,
            StopReason::NeverRetry
            | StopReason::NotRetryable
            | StopReason::MayHaveActed
            | StopReason::RequestAtFault
            | StopReason::ShouldNotRetry
            | StopReason::Attempts
            | StopReason::CircuitOpen
            | StopReason::Budget
            // Another target does not have to be waited for.
            | StopReason::Deadline
            | StopReason::TotalDelay
            | StopReason::Shadow => true,
        }
    }

    /// Why the attempt after `failed` ones, the last of that class, is not made; `None`: it is. The rules may have changed
    /// since it was decided upon.
    pub(crate) fn refuses_after(&self, class: ErrorClass, failed: u32) -> Option<StopReason> {
        if self.never_retry.value.contains(class) {
            return Some(StopReason::NeverRetry);
        }
        if !self.retryable(class) {
            return Some(StopReason::NotRetryable);
        }
        if !self.for_class(class).max_attempts.value.allow_after(failed) {
            return Some(StopReason::Attempts);
        }
        self.shadow.value.then_some(StopReason::Shadow)
    }

    /// Whether failures of this class are retried at all.
    pub const fn retries(&self, class: ErrorClass) -> bool {
        self.retryable(class) && !self.shadow.value
    }

    /// Whether a delay has to be held against a length of time.
    #[inline]
    fn is_limited(&self) -> bool {
        self.deadline.value != Bound::Unlimited || self.total_delay.value != Bound::Unlimited
    }

    /// As [`retries`](Self::retries), as if the policy were not in shadow.
    const fn retryable(&self, class: ErrorClass) -> bool {
        self.enabled.value && self.retry_on.value.contains(class) && !self.never_retry.value.contains(class)
    }
}

impl Attempts {
    /// Whether another attempt may follow the `attempt`th.
    pub const fn allow_after(self, attempt: u32) -> bool {
        match self {
            Self::Limited(most) => attempt < most.get(),
            Self::Unlimited => true,
        }
    }

    /// As a number; `None`: unlimited.
    pub const fn limit(self) -> Option<u32> {
        match self {
            Self::Limited(most) => Some(most.get()),
            Self::Unlimited => None,
        }
    }
}

#[cfg(test)]
mod tests;
