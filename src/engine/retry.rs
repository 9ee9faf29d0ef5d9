//! The retry decision: one function, one order of checks, no allocation.

use crate::policy::{
    AboveMax, AttemptLimit, ClassRules, ClassifiedFailure, ErrorClass, Origin, RetryPolicy, Seed,
    ServerDelay, ServerDelayMode, TimeBound, WaitSource,
};
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

use super::failure::WaitHints;

/// How far one series of attempts has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// When the first attempt started.
    pub started: Instant,
    /// The attempt that just failed, from 1.
    pub attempt: u32,
    /// Time spent waiting between attempts so far.
    pub slept: Nanos,
}

/// What speaks for and against another attempt, in addition to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureContext {
    /// The class of the failure.
    pub class: ErrorClass,
    /// The wait the server asked for.
    pub hint: Option<Nanos>,
    /// Whether the hint is not the server's, but that of the row of the error table (`errors.wait`).
    pub assumed: bool,
    /// What forbids another attempt whatever the numbers say.
    pub obstacle: RetryBlocker,
    /// The deadline of the whole run.
    pub run_deadline: Option<Instant>,
    /// Whether the next attempt is a correction by the model, which has a backoff of its own.
    pub correction: bool,
}

/// What forbids another attempt whatever the numbers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryBlocker {
    /// Nothing.
    #[default]
    None,
    /// The tool may have had side effects and must not act twice.
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
    /// There is no time left for another attempt: it was decided by these rules.
    Late(Lateness),
}

/// Which values of a retry policy leave no time for another attempt: those without which there would be time. Neither does
/// where it is the deadline of the run alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// `deadline`.
    pub deadline: bool,
    /// `min_attempt_time`: some time is left, and not enough.
    pub min_attempt_time: bool,
}

/// Whether there is another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
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

impl RetryVerdict {
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
    /// `server_delay`: the server asked for it.
    Server,
}

/// Decides about another attempt.
///
/// The order of the checks is part of the contract, and the first that applies is the reason that is reported:
/// `never_retry`, not retryable, may have had side effects, request at fault, `x-should-retry: false`, reducer error, attempts,
/// deadline, breaker, budget, server delay, total delay, shadow. (Cancellation comes before all of them and never gets here.) An attempt that could only start at or
/// after a deadline is not waited for: `now + delay >= deadline` stops now.
///
/// `seed` is asked for only where the backoff has jitter.
#[inline]
pub fn decide(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    now: Instant,
    seed: impl FnOnce() -> Seed,
) -> RetryVerdict {
    decide_by(policy, progress, &case, now, policy.shadow.value, seed)
}

/// What [`decide`] would say if the policy were not in shadow.
#[inline]
pub(crate) fn decide_unshadowed(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    now: Instant,
    seed: impl FnOnce() -> Seed,
) -> RetryVerdict {
    decide_by(policy, progress, &case, now, false, seed)
}

/// Decides about another attempt, in shadow or not.
#[inline]
pub(crate) fn decide_by(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: &FailureContext,
    now: Instant,
    shadow: bool,
    seed: impl FnOnce() -> Seed,
) -> RetryVerdict {
    if !policy.retryable(case.class) {
        // A deny list wins over any allow list, so it is also the reason where both would end the attempts.
        let never = policy.never_retry.value.contains(case.class);
        return RetryVerdict::Stop(if never { StopReason::NeverRetry } else { StopReason::NotRetryable });
    }
    // These say that another attempt would be wrong, not that it comes too late: no number of the policy can make it
    // right. Istio retried every HTTP route by default, whatever its method, and payouts were made twice
    // (istio/istio#50506).
    match case.obstacle {
        RetryBlocker::MayHaveActed => return RetryVerdict::Stop(StopReason::MayHaveActed),
        RetryBlocker::RequestAtFault(_) => return RetryVerdict::Stop(StopReason::RequestAtFault),
        RetryBlocker::ShouldNotRetry => return RetryVerdict::Stop(StopReason::ShouldNotRetry),
        RetryBlocker::ReducerError => return RetryVerdict::Stop(StopReason::ReducerError),
        RetryBlocker::None | RetryBlocker::CircuitOpen | RetryBlocker::Overdrawn | RetryBlocker::Late(_) => {}
    }
    // Most failures have nothing to hold a delay against. They take this short path, so that a decision costs some
    // dozen instructions; `decide_in_full` would come to the same.
    if shadow || !policy.by_class.is_empty() || !case.is_plain() || policy.is_limited() {
        return decide_in_full(policy, progress, *case, now, shadow, seed);
    }
    if !policy.max_attempts.value.allow_after(progress.attempt) {
        return RetryVerdict::Stop(StopReason::Attempts);
    }
    RetryVerdict::Retry {
        delay: policy.backoff.value.delay_with(progress.attempt, seed),
        by: DelayRule::Backoff,
    }
}

/// The rest of the decision, where a class has rules of its own or there is something to hold the delay against.
#[inline(never)]
fn decide_in_full(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    now: Instant,
    shadow: bool,
    seed: impl FnOnce() -> Seed,
) -> RetryVerdict {
    let rules = case.rules(policy);
    // Attempts before deadline, deadline before breaker, breaker before budget: the first reason is the one people
    // read, so the order is as fixed as the outcome. The AWS SDKs check attempts and quota in this order, too.
    if !rules.max_attempts.value.allow_after(progress.attempt) {
        return RetryVerdict::Stop(StopReason::Attempts);
    }
    let (delay, by, refused) = wait(rules, progress.attempt, case.hint, seed);
    // Stop now instead of sleeping into the deadline, as Temporal and gax do: the caller gets its time and the real
    // error back. grpc-go sleeps on and ends with the deadline's error.
    if is_late(policy, progress, case.run_deadline, now, delay) {
        return RetryVerdict::Stop(StopReason::Deadline);
    }
    // A refusal by the breaker is no failure of the service: waiting and asking it again would burn the attempts
    // without a call. Polly's `BrokenCircuitException` carries a `RetryAfter` for the same reason.
    if case.obstacle == RetryBlocker::CircuitOpen {
        return RetryVerdict::Stop(StopReason::CircuitOpen);
    }
    // The budget is asked before the wait: gax and failsafe-go ask after it, and find that they waited for nothing.
    if case.obstacle == RetryBlocker::Overdrawn {
        return RetryVerdict::Stop(StopReason::Budget);
    }
    // Only now, so that the server's delay is never blamed where an attempt could not have been made anyway.
    if refused {
        return RetryVerdict::Stop(StopReason::ServerDelay);
    }
    // A series of short waits can outlast the caller, too: the throttle policy of weakincentives ends at 30 s in all.
    if is_too_much(policy, progress, delay) {
        return RetryVerdict::Stop(StopReason::TotalDelay);
    }
    // Shadow comes last, so it reports exactly the retries that the policy would have made.
    if shadow {
        return RetryVerdict::Stop(StopReason::Shadow);
    }
    RetryVerdict::Retry { delay, by }
}

/// Which limit an attempt would miss that starts after this delay: a deadline, or `total_delay`.
pub(crate) fn missed(
    policy: &RetryPolicy,
    progress: AttemptProgress,
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
    progress: AttemptProgress,
    run_deadline: Option<Instant>,
    now: Instant,
    delay: Nanos,
) -> bool {
    let starts = now.saturating_add(delay);
    let past = |deadline| is_over(deadline, starts) || is_short(policy, deadline, starts);
    own_deadline(policy, progress).is_some_and(past) || run_deadline.is_some_and(past)
}

/// Which rules leave no time for an attempt that starts after the delay.
pub(crate) fn lateness(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    run_deadline: Option<Instant>,
    now: Instant,
    delay: Nanos,
) -> Lateness {
    let starts = now.saturating_add(delay);
    let is_over = |deadline: Option<Instant>| deadline.is_some_and(|deadline| is_over(deadline, starts));
    let is_short =
        |deadline: Option<Instant>| deadline.is_some_and(|deadline| is_short(policy, deadline, starts));
    let own = own_deadline(policy, progress);
    // Where the run itself is over, no value of the retry policy could be changed to leave time: none is named.
    if is_over(run_deadline) {
        return Lateness::default();
    }
    let shorter = is_short(run_deadline);
    // A value is named only if another one would have left time, so that changing what an explanation names changes
    // the decision.
    Lateness {
        deadline: is_over(own) || (is_short(own) && !shorter),
        min_attempt_time: shorter || (is_short(own) && !is_over(own)),
    }
}

/// The end of the attempts that the policy sets.
fn own_deadline(policy: &RetryPolicy, progress: AttemptProgress) -> Option<Instant> {
    // Counted from the first attempt, waits included: the route timeout of Envoy is, too, since a limit that each
    // retry renews is none.
    policy.deadline.value.length().map(|length| progress.started.saturating_add(length))
}

/// Whether nothing is left until a deadline.
fn is_over(deadline: Instant, starts: Instant) -> bool {
    // At the deadline itself nothing is left, so equality is too late.
    starts >= deadline
}

/// Whether what is left until a deadline is not enough for an attempt.
// A model call cannot end within some milliseconds: started all the same, it replaces the real error by a timeout.
fn is_short(policy: &RetryPolicy, deadline: Instant, starts: Instant) -> bool {
    deadline.since(starts) < policy.min_attempt_time.value
}

/// Whether the waits together would exceed `total_delay`.
fn is_too_much(policy: &RetryPolicy, progress: AttemptProgress, delay: Nanos) -> bool {
    match policy.total_delay.value {
        // `total_delay` is what may be spent, so a wait that uses up exactly what is left is allowed.
        TimeBound::Within(most) => progress.slept.saturating_add(delay) > most,
        TimeBound::Unlimited => false,
    }
}

/// The longest one attempt may take when it starts now: the attempt's own limit, or what is left until a
/// deadline if that is less. `None`: no limit.
pub(crate) fn attempt_timeout(
    policy: &RetryPolicy,
    started: Instant,
    run_deadline: Option<Instant>,
    now: Instant,
) -> Option<Nanos> {
    let own = match policy.attempt_timeout.value {
        TimeBound::Within(length) => Some(length),
        TimeBound::Unlimited => None,
    };
    // Computed when the attempt starts, not when it was decided upon: gax passes the time on that was left before the
    // wait.
    let left = match policy.deadline.value {
        TimeBound::Within(length) => Some(started.saturating_add(length).since(now)),
        TimeBound::Unlimited => None,
    };
    let run = run_deadline.map(|deadline| deadline.since(now));
    [own, left, run].into_iter().flatten().min()
}

/// The delay before the next attempt, if there is one.
pub(crate) fn delay(
    policy: &RetryPolicy,
    progress: AttemptProgress,
    case: FailureContext,
    seed: Seed,
) -> Nanos {
    wait(case.rules(policy), progress.attempt, case.hint, || seed).0
}

/// The delay before the next attempt, and whether the server's wish is more than the policy grants.
fn wait(
    rules: ClassRules<'_>,
    attempt: u32,
    hint: Option<Nanos>,
    seed: impl FnOnce() -> Seed,
) -> (Nanos, DelayRule, bool) {
    let backoff = &rules.backoff.value;
    match hint {
        Some(hint) if rules.server_delay.value.mode != ServerDelayMode::Ignore => {
            // One seed for both draws: an attempt that is replayed draws the same numbers, whatever else happened
            // meanwhile.
            let seed = seed();
            let computed = backoff.delay(attempt, seed);
            hinted(rules.server_delay.value, computed, hint, attempt, seed)
        }
        _ => (backoff.delay_with(attempt, seed), DelayRule::Backoff, false),
    }
}

/// As [`wait`], where the server asked for `hint`.
fn hinted(
    rule: ServerDelay,
    computed: Nanos,
    hint: Nanos,
    attempt: u32,
    seed: Seed,
) -> (Nanos, DelayRule, bool) {
    // Hints can be too short: Azure was seen sending `retry-after: 1` while its limit renews each minute.
    let mut asked = hint.max(rule.min);
    if let TimeBound::Within(most) = rule.max
        && asked > most
    {
        match rule.above_max {
            // A wait of hours that is cut to a minute burns the attempts against a limit that is still there: these
            // modes leave the model instead, and the reason says how long it asked for.
            AboveMax::GiveUp | AboveMax::NextTarget => return (computed, DelayRule::Server, true),
            // ai-agent's rule, which cuts every hint to a minute. It also bounds a hint that is wrong.
            AboveMax::Clamp => asked = most,
        }
    }
    // Upwards only: earlier than asked fails again. Without a spread, all clients that got the same hint come back in
    // the same instant (AWS, "Exponential Backoff And Jitter").
    let asked = spread(rule, asked, attempt, seed);
    match rule.mode {
        // RFC 9110 10.2.3 lets the server say how long to wait at least, so a longer backoff does not contradict it.
        ServerDelayMode::Floor if computed > asked => (computed, DelayRule::Backoff, false),
        ServerDelayMode::Clamp if computed >= asked => (computed, DelayRule::Backoff, false),
        // The rule of the AWS SDKs since 2026: the hint counts between the own delay and five seconds more.
        ServerDelayMode::Clamp => (asked.min(computed.saturating_add(rule.margin)), DelayRule::Server, false),
        ServerDelayMode::Ignore => (computed, DelayRule::Backoff, false),
        // `replace` is what openai-python and ai-agent do: the hint takes the place of the computed delay, even where
        // it is shorter.
        ServerDelayMode::Floor | ServerDelayMode::Replace => (asked, DelayRule::Server, false),
    }
}

/// What is asked for, lengthened at random: never earlier than asked.
fn spread(rule: ServerDelay, asked: Nanos, attempt: u32, seed: Seed) -> Nanos {
    if rule.spread_ppm == 0 {
        return asked;
    }
    let most = asked.share(rule.spread_ppm);
    // The backoff of this attempt draws by its number alone; the high bit makes this draw another one.
    let drawn = u128::from(seed.draw(attempt.wrapping_add(1 << 31)));
    let more = u128::from(most.0).saturating_mul(drawn) >> 64;
    asked.saturating_add(Nanos(u64::try_from(more).unwrap_or(u64::MAX)))
}

impl RetryBlocker {
    /// The obstacle that the error table knows of.
    pub fn of(classified: ClassifiedFailure) -> Self {
        match classified.origin {
            Some(row) if classified.request_at_fault => Self::RequestAtFault(row),
            _ => Self::None,
        }
    }

    /// This one, or that of the error table if it takes precedence over this one.
    #[must_use]
    pub fn or_fault_of(self, classified: ClassifiedFailure) -> Self {
        match (self, Self::of(classified)) {
            // Whether the tool has already acted decides if it may run at all; whose fault the failure was comes
            // after that.
            (Self::MayHaveActed, _) | (_, Self::None) => self,
            (_, fault) => fault,
        }
    }

    /// This one, or what the server advises if nothing overrides it.
    #[must_use]
    pub fn or_advice(self, should_retry: Option<bool>) -> Self {
        match self {
            // The server speaks for its own state. It cannot know what a tool has done, nor that the table knows this
            // refusal to be final.
            Self::MayHaveActed | Self::RequestAtFault(_) => self,
            _ if should_retry == Some(false) => Self::ShouldNotRetry,
            _ => self,
        }
    }
}

/// Whether it is the row of the error table alone that says how long to wait.
pub(crate) fn assumed(waits: &WaitHints, classified: ClassifiedFailure, rule: &ServerDelay) -> bool {
    let without_row = ClassifiedFailure { wait: None, ..classified };
    hint(waits, classified, rule).is_some() && hint(waits, without_row, rule).is_none()
}

/// The wait that counts: of the sources of the rule the first that says something. The row of the error table does not
/// know the server, so what it says is never longer than what the policy grants.
pub(crate) fn hint(waits: &WaitHints, classified: ClassifiedFailure, rule: &ServerDelay) -> Option<Nanos> {
    // The order of the sources is the policy's order of trust: the first that says something counts, not the longest.
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
pub(crate) fn advised(
    classified: ClassifiedFailure,
    should_retry: Option<bool>,
    retry: &RetryPolicy,
) -> ClassifiedFailure {
    let rule = &retry.for_class(classified.class).server_delay.value;
    let invalid = classified.class == ErrorClass::InvalidRequest && !classified.request_at_fault;
    // openai-python obeys `x-should-retry` before it looks at the status, in both directions: a 400 can be worth
    // another try.
    if invalid && advice(should_retry, rule) == Some(true) {
        return ClassifiedFailure { class: ErrorClass::ModelError, ..classified };
    }
    classified
}

/// What the server says about retries, if the rule listens to that.
pub(crate) fn advice(should_retry: Option<bool>, rule: &ServerDelay) -> Option<bool> {
    should_retry.filter(|_| rule.sources.contains(WaitSource::ShouldRetry))
}

impl FailureContext {
    /// Whether nothing but the policy's own numbers bears on the delay.
    #[inline]
    const fn is_plain(&self) -> bool {
        matches!(self.obstacle, RetryBlocker::None)
            && self.hint.is_none()
            && self.run_deadline.is_none()
            && !self.correction
    }

    /// The rules that decide about it.
    pub(crate) fn rules(self, policy: &RetryPolicy) -> ClassRules<'_> {
        // A correction is made by the model, and no server has to recover meanwhile, so its backoff has values of its
        // own.
        if self.correction { policy.for_correction(self.class) } else { policy.for_class(self.class) }
    }
}

impl RetryPolicy {
    /// The most attempts after `attempt` failed with that class; those that were made are counted, though other classes
    /// may have granted them. `None`: unlimited.
    pub fn most_attempts(&self, class: ErrorClass, attempt: u32) -> Option<u32> {
        // A class with a lower limit may follow others that had a higher one: less than what was made would be
        // untrue.
        self.for_class(class).max_attempts.value.limit().map(|most| most.max(attempt))
    }

    /// Whether another target is asked when attempts at one end for this reason, after a failure of that class, if
    /// there is still time for an attempt.
    pub fn allows_fallback(&self, reason: StopReason, class: ErrorClass) -> bool {
        match reason {
            // What was shown cannot be taken back, and a reducer objects to the action itself: another model changes
            // neither.
            StopReason::Cancelled
            | StopReason::AfterPartial
            | StopReason::ReducerError
            | StopReason::RunBudget => false,
            // `give_up` hands the wait to the caller. Otherwise it is one for this model, and another one may be
            // free.
            StopReason::ServerDelay => self.for_class(class).server_delay.value.above_max != AboveMax::GiveUp,
            StopReason::NeverRetry
            | StopReason::NotRetryable
            | StopReason::MayHaveActed
            | StopReason::RequestAtFault
            | StopReason::ShouldNotRetry
            | StopReason::Attempts
            | StopReason::CircuitOpen
            | StopReason::Budget
            // What is too late is the wait for this model; another one needs no wait.
            | StopReason::Deadline
            | StopReason::TotalDelay
            | StopReason::Shadow => true,
        }
    }

    /// Why the attempt after `failed` ones, the last of that class, is not made; `None`: it is. The rules may have changed
    /// since it was decided upon.
    pub(crate) fn refuses_after(&self, class: ErrorClass, failed: u32) -> Option<StopReason> {
        // A policy may be replaced while a wait lasts: a rule that forbids the class now has to stop the attempt that
        // was granted before.
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
        self.deadline.value != TimeBound::Unlimited || self.total_delay.value != TimeBound::Unlimited
    }

    /// As [`retries`](Self::retries), as if the policy were not in shadow.
    const fn retryable(&self, class: ErrorClass) -> bool {
        self.enabled.value && self.retry_on.value.contains(class) && !self.never_retry.value.contains(class)
    }
}

impl AttemptLimit {
    /// Whether another attempt may follow the `attempt`th.
    pub const fn allow_after(self, attempt: u32) -> bool {
        match self {
            // The first call counts as an attempt, as in gRPC (A6), Temporal and the AWS SDKs; Polly and Istio count
            // retries.
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
