//! The retry decision: one function, one order of checks, no allocation.

use crate::policy::{
    AboveMax, AttemptLimit, ClassRules, ClassifiedFailure, ErrorClass, Origin, RetryPolicy, Seed,
    ServerDelay, ServerDelayMode, TimeBound, WaitSource,
};
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

use super::failure::WaitHints;

/// The progress of one series of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// When the first attempt started.
    pub started: Instant,
    /// The failed attempt, from 1.
    pub attempt: u32,
    /// Time spent waiting between attempts so far.
    pub slept: Nanos,
}

/// The facts that decide about another attempt, in addition to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureContext {
    /// The class of the failure.
    pub class: ErrorClass,
    /// The server delay.
    pub hint: Option<Nanos>,
    /// Whether the delay comes from the rule of the error table (`errors.wait`), not from the server.
    pub assumed: bool,
    /// What forbids another attempt, whatever the limits allow.
    pub obstacle: RetryBlocker,
    /// The deadline of the whole run.
    pub run_deadline: Option<Instant>,
    /// Whether the next attempt is a correction by the model, which has its own backoff.
    pub correction: bool,
}

/// What forbids another attempt, whatever the limits allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryBlocker {
    /// Nothing.
    #[default]
    None,
    /// The tool may have had side effects and must not run again.
    MayHaveActed,
    /// A rule of the error table finds the request itself at fault.
    RequestAtFault(Origin),
    /// The server's advice is that a retry cannot help.
    ShouldNotRetry,
    /// A reducer failed on this action.
    ReducerError,
    /// The circuit breaker is open.
    CircuitOpen,
    /// The retry budget is used up.
    Overdrawn,
    /// No time is left for another attempt, because of these rules.
    Late(Lateness),
}

/// The values of a retry policy that leave no time for another attempt; with other values there would be time. Both
/// are `false` if only the deadline of the run is exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// `deadline`.
    pub deadline: bool,
    /// `min_attempt_time`: some time is left, but not enough.
    pub min_attempt_time: bool,
}

/// Whether there is another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// Yes, after this delay.
    Retry {
        /// The delay; zero means at once, without a timer.
        delay: Nanos,
        /// The rule that determined the delay.
        by: DelayRule,
    },
    /// No.
    Stop(StopReason),
}

impl RetryVerdict {
    /// The delay before the next attempt; zero if there is none.
    pub const fn delay(self) -> Nanos {
        match self {
            Self::Retry { delay, .. } => delay,
            Self::Stop(_) => Nanos::ZERO,
        }
    }
}

/// The rule that determined a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayRule {
    /// `backoff`.
    Backoff,
    /// `server_delay`: the server requested it.
    Server,
}

/// Decides about another attempt.
///
/// The order of the checks is part of the contract, and the first that applies is the reported reason: `never_retry`,
/// not retryable, may have had side effects, request at fault, `x-should-retry: false`, reducer error, attempts,
/// deadline, breaker, budget, server delay, total delay, shadow. (Cancellation comes before all of them and is not
/// decided here.) There is no wait for an attempt that could only start at or after a deadline: `now + delay >=
/// deadline` stops now.
///
/// `seed` is called only if the backoff has jitter.
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

/// Like [`decide`], as if the policy were not in shadow mode.
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
        // A deny list overrides any allow list, so it is also the reason if both would end the attempts.
        let never = policy.never_retry.value.contains(case.class);
        return RetryVerdict::Stop(if never { StopReason::NeverRetry } else { StopReason::NotRetryable });
    }
    // With these, another attempt would be wrong, not merely late: no limit of the policy can permit it. Istio
    // retried every HTTP route by default, whatever its method, and payouts were made twice (istio/istio#50506).
    match case.obstacle {
        RetryBlocker::MayHaveActed => return RetryVerdict::Stop(StopReason::MayHaveActed),
        RetryBlocker::RequestAtFault(_) => return RetryVerdict::Stop(StopReason::RequestAtFault),
        RetryBlocker::ShouldNotRetry => return RetryVerdict::Stop(StopReason::ShouldNotRetry),
        RetryBlocker::ReducerError => return RetryVerdict::Stop(StopReason::ReducerError),
        RetryBlocker::None | RetryBlocker::CircuitOpen | RetryBlocker::Overdrawn | RetryBlocker::Late(_) => {}
    }
    // Most failures have no limit on the delay. They take this short path, so that a decision costs some dozen
    // instructions; `decide_in_full` would have the same result.
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

/// The full decision, for classes with their own rules or with limits on the delay.
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
    // Attempts before deadline, deadline before breaker, breaker before budget: people read the first reason, so the
    // order is as fixed as the outcome. The AWS SDKs check attempts and quota in this order, too.
    if !rules.max_attempts.value.allow_after(progress.attempt) {
        return RetryVerdict::Stop(StopReason::Attempts);
    }
    let (delay, by, refused) = wait(rules, progress.attempt, case.hint, seed);
    // Stops now instead of waiting into the deadline, as Temporal and gax do: the caller saves the time and gets the
    // real error. grpc-go waits and ends with the deadline's error.
    if is_late(policy, progress, case.run_deadline, now, delay) {
        return RetryVerdict::Stop(StopReason::Deadline);
    }
    // A refusal by the breaker is no failure of the service: waiting and asking again would use up attempts without a
    // call. Polly's `BrokenCircuitException` has a `RetryAfter` for the same reason.
    if case.obstacle == RetryBlocker::CircuitOpen {
        return RetryVerdict::Stop(StopReason::CircuitOpen);
    }
    // The budget is checked before the wait: gax and failsafe-go check after it, and may have waited for nothing.
    if case.obstacle == RetryBlocker::Overdrawn {
        return RetryVerdict::Stop(StopReason::Budget);
    }
    // Checked late, so that the server delay is never the reason if the attempt was impossible anyway.
    if refused {
        return RetryVerdict::Stop(StopReason::ServerDelay);
    }
    // Many short waits can also outlast the caller: the throttle policy of weakincentives ends at 30 s in total.
    if is_too_much(policy, progress, delay) {
        return RetryVerdict::Stop(StopReason::TotalDelay);
    }
    // Shadow comes last, so it reports exactly the retries that the policy would have made.
    if shadow {
        return RetryVerdict::Stop(StopReason::Shadow);
    }
    RetryVerdict::Retry { delay, by }
}

/// The limit that an attempt after this delay would exceed: a deadline, or `total_delay`.
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

/// Whether after the delay too little time is left before a deadline.
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

/// The rules that leave no time for an attempt after the delay.
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
    // If the run itself is over, no value of the retry policy could leave time: none is named.
    if is_over(run_deadline) {
        return Lateness::default();
    }
    let shorter = is_short(run_deadline);
    // A value is named only if another one would have left time, so that changing the named value changes the
    // decision.
    Lateness {
        deadline: is_over(own) || (is_short(own) && !shorter),
        min_attempt_time: shorter || (is_short(own) && !is_over(own)),
    }
}

/// The policy's deadline for the attempts.
fn own_deadline(policy: &RetryPolicy, progress: AttemptProgress) -> Option<Instant> {
    // Counted from the first attempt, waits included, like Envoy's route timeout: a limit that each retry renews is
    // no limit.
    policy.deadline.value.length().map(|length| progress.started.saturating_add(length))
}

/// Whether no time is left before a deadline.
fn is_over(deadline: Instant, starts: Instant) -> bool {
    // At the deadline itself nothing is left, so equality is too late.
    starts >= deadline
}

/// Whether the time left before a deadline is too short for an attempt.
// A model call cannot end within milliseconds: an attempt would only replace the real error by a timeout.
fn is_short(policy: &RetryPolicy, deadline: Instant, starts: Instant) -> bool {
    deadline.since(starts) < policy.min_attempt_time.value
}

/// Whether the waits together would exceed `total_delay`.
fn is_too_much(policy: &RetryPolicy, progress: AttemptProgress, delay: Nanos) -> bool {
    match policy.total_delay.value {
        // `total_delay` may be used up exactly, so a delay equal to the rest is allowed.
        TimeBound::Within(most) => progress.slept.saturating_add(delay) > most,
        TimeBound::Unlimited => false,
    }
}

/// The maximum duration of an attempt that starts now: its own limit, or the time left before a deadline if that is
/// less. `None`: no limit.
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
    // Computed at the start of the attempt, not at the decision: gax passes on the time that was left before the
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

/// The delay before the next attempt, and whether the server delay exceeds what the policy grants.
fn wait(
    rules: ClassRules<'_>,
    attempt: u32,
    hint: Option<Nanos>,
    seed: impl FnOnce() -> Seed,
) -> (Nanos, DelayRule, bool) {
    let backoff = &rules.backoff.value;
    match hint {
        Some(hint) if rules.server_delay.value.mode != ServerDelayMode::Ignore => {
            // One seed for both draws: a replayed attempt draws the same numbers, whatever happened in between.
            let seed = seed();
            let computed = backoff.delay(attempt, seed);
            hinted(rules.server_delay.value, computed, hint, attempt, seed)
        }
        _ => (backoff.delay_with(attempt, seed), DelayRule::Backoff, false),
    }
}

/// Like [`wait`], with a server delay of `hint`.
fn hinted(
    rule: ServerDelay,
    computed: Nanos,
    hint: Nanos,
    attempt: u32,
    seed: Seed,
) -> (Nanos, DelayRule, bool) {
    // Server delays can be too short: Azure was seen sending `retry-after: 1` while its limit renews each minute.
    let mut asked = hint.max(rule.min);
    if let TimeBound::Within(most) = rule.max
        && asked > most
    {
        match rule.above_max {
            // A wait of hours that is cut to a minute uses up the attempts against an unchanged limit: these modes
            // leave the model instead, and the reason contains the requested delay.
            AboveMax::GiveUp | AboveMax::NextTarget => return (computed, DelayRule::Server, true),
            // ai-agent's rule, which cuts every server delay to a minute. It also limits a wrong delay.
            AboveMax::Clamp => asked = most,
        }
    }
    // Only longer, as an earlier attempt fails again. Without a spread, all clients with the same delay return at the
    // same instant (AWS, "Exponential Backoff And Jitter").
    let asked = spread(rule, asked, attempt, seed);
    match rule.mode {
        // In RFC 9110 10.2.3 the server names a minimum, so a longer backoff does not contradict it.
        ServerDelayMode::Floor if computed > asked => (computed, DelayRule::Backoff, false),
        ServerDelayMode::Clamp if computed >= asked => (computed, DelayRule::Backoff, false),
        // The rule of the AWS SDKs since 2026: the server delay counts between the own delay and five seconds more.
        ServerDelayMode::Clamp => (asked.min(computed.saturating_add(rule.margin)), DelayRule::Server, false),
        ServerDelayMode::Ignore => (computed, DelayRule::Backoff, false),
        // `replace` follows openai-python and ai-agent: the server delay replaces the computed delay, even if it is
        // shorter.
        ServerDelayMode::Floor | ServerDelayMode::Replace => (asked, DelayRule::Server, false),
    }
}

/// The requested delay, lengthened at random; never shortened.
fn spread(rule: ServerDelay, asked: Nanos, attempt: u32, seed: Seed) -> Nanos {
    if rule.spread_ppm == 0 {
        return asked;
    }
    let most = asked.share(rule.spread_ppm);
    // The backoff of this attempt draws by its number alone; the high bit makes this draw a different one.
    let drawn = u128::from(seed.draw(attempt.wrapping_add(1 << 31)));
    let more = u128::from(most.0).saturating_mul(drawn) >> 64;
    asked.saturating_add(Nanos(u64::try_from(more).unwrap_or(u64::MAX)))
}

impl RetryBlocker {
    /// The obstacle found by the error table.
    pub fn of(classified: ClassifiedFailure) -> Self {
        match classified.origin {
            Some(row) if classified.request_at_fault => Self::RequestAtFault(row),
            _ => Self::None,
        }
    }

    /// This obstacle, or that of the error table if it takes precedence.
    #[must_use]
    pub fn or_fault_of(self, classified: ClassifiedFailure) -> Self {
        match (self, Self::of(classified)) {
            // A possible side effect decides first whether the tool may run again; the cause of the failure comes
            // after that.
            (Self::MayHaveActed, _) | (_, Self::None) => self,
            (_, fault) => fault,
        }
    }

    /// This obstacle, or the server's advice if nothing overrides it.
    #[must_use]
    pub fn or_advice(self, should_retry: Option<bool>) -> Self {
        match self {
            // The server only knows its own state, not the side effects of a tool, nor that the table treats this
            // refusal as final.
            Self::MayHaveActed | Self::RequestAtFault(_) => self,
            _ if should_retry == Some(false) => Self::ShouldNotRetry,
            _ => self,
        }
    }
}

/// Whether the delay comes only from the rule of the error table.
pub(crate) fn assumed(waits: &WaitHints, classified: ClassifiedFailure, rule: &ServerDelay) -> bool {
    let without_row = ClassifiedFailure { wait: None, ..classified };
    hint(waits, classified, rule).is_some() && hint(waits, without_row, rule).is_none()
}

/// The server delay: from the first source of the rule that has one. The rule of the error table does not know the
/// server, so its delay is limited to what the policy grants.
pub(crate) fn hint(waits: &WaitHints, classified: ClassifiedFailure, rule: &ServerDelay) -> Option<Nanos> {
    // The order of the sources is the policy's order of trust: the first with a delay counts, not the longest.
    rule.sources.iter().find_map(|source| match source {
        WaitSource::Row => {
            let most = rule.max.length().unwrap_or(Nanos::MAX);
            classified.wait.map(|wait| wait.min(most))
        }
        WaitSource::Header | WaitSource::Body | WaitSource::Reset => waits.at(source),
        WaitSource::ShouldRetry => None,
    })
}

/// The failure with the server's advice applied, if the policy accepts it: a request worth a retry is not invalid.
pub(crate) fn advised(
    classified: ClassifiedFailure,
    should_retry: Option<bool>,
    retry: &RetryPolicy,
) -> ClassifiedFailure {
    let rule = &retry.for_class(classified.class).server_delay.value;
    let invalid = classified.class == ErrorClass::InvalidRequest && !classified.request_at_fault;
    // openai-python obeys `x-should-retry` before the status, in both directions: a 400 can be worth a retry.
    if invalid && advice(should_retry, rule) == Some(true) {
        return ClassifiedFailure { class: ErrorClass::ModelError, ..classified };
    }
    classified
}

/// The server's advice about retries, if the rule accepts it.
pub(crate) fn advice(should_retry: Option<bool>, rule: &ServerDelay) -> Option<bool> {
    should_retry.filter(|_| rule.sources.contains(WaitSource::ShouldRetry))
}

impl FailureContext {
    /// Whether only the policy's own values determine the delay.
    #[inline]
    const fn is_plain(&self) -> bool {
        matches!(self.obstacle, RetryBlocker::None)
            && self.hint.is_none()
            && self.run_deadline.is_none()
            && !self.correction
    }

    /// The rules for the class of the failure.
    pub(crate) fn rules(self, policy: &RetryPolicy) -> ClassRules<'_> {
        // The model makes a correction, and no server has to recover, so its backoff has its own values.
        if self.correction { policy.for_correction(self.class) } else { policy.for_class(self.class) }
    }
}

impl RetryPolicy {
    /// The maximum number of attempts shown after `attempt` failed with this class; at least the number already made,
    /// which rules of other classes may have granted. `None`: unlimited.
    pub fn most_attempts(&self, class: ErrorClass, attempt: u32) -> Option<u32> {
        // A class with a lower limit may follow others with a higher one: a maximum below the attempts made would be
        // wrong.
        self.for_class(class).max_attempts.value.limit().map(|most| most.max(attempt))
    }

    /// Whether a fallback to another target is allowed when attempts end for this reason, after a failure of this
    /// class, if there is time for an attempt.
    pub fn allows_fallback(&self, reason: StopReason, class: ErrorClass) -> bool {
        match reason {
            // A shown part cannot be retracted, and a reducer objects to the action itself: another model changes
            // neither.
            StopReason::Cancelled
            | StopReason::AfterPartial
            | StopReason::ReducerError
            | StopReason::RunBudget => false,
            // `give_up` leaves the wait to the caller. Otherwise it concerns this model only, and another one may be
            // available.
            StopReason::ServerDelay => self.for_class(class).server_delay.value.above_max != AboveMax::GiveUp,
            StopReason::NeverRetry
            | StopReason::NotRetryable
            | StopReason::MayHaveActed
            | StopReason::RequestAtFault
            | StopReason::ShouldNotRetry
            | StopReason::Attempts
            | StopReason::CircuitOpen
            | StopReason::Budget
            // Only the wait for this model is too long; another one needs no wait.
            | StopReason::Deadline
            | StopReason::TotalDelay
            | StopReason::Pace
            | StopReason::Shadow => true,
        }
    }

    /// Why the attempt after `failed` failures, the last with this class, is not made; `None`: it is made. The rules
    /// may have changed since the decision.
    pub(crate) fn refuses_after(&self, class: ErrorClass, failed: u32) -> Option<StopReason> {
        // A policy may be replaced during a wait: a new rule that forbids the class must stop the attempt granted
        // before.
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

    /// Whether the policy limits the delay.
    #[inline]
    fn is_limited(&self) -> bool {
        self.deadline.value != TimeBound::Unlimited || self.total_delay.value != TimeBound::Unlimited
    }

    /// Like [`retries`](Self::retries), as if the policy were not in shadow mode.
    const fn retryable(&self, class: ErrorClass) -> bool {
        self.enabled.value && self.retry_on.value.contains(class) && !self.never_retry.value.contains(class)
    }
}

impl AttemptLimit {
    /// Whether another attempt may follow attempt number `attempt`.
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
