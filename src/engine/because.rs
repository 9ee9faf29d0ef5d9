//! Reasons of decisions: the rule, its layer and place, and the facts compared with it.

use core::fmt::Display;

use super::directive::DecisionReason;
use super::reason::{StoredReason, told};
use super::retry::{AttemptProgress, DelayRule, FailureContext, RetryBlocker};
use crate::policy::{BreakerPolicy, Policy, RetryPolicy, ServerDelayMode, Setting};
use crate::session::StopReason;
use crate::time::Nanos;

/// Makes a reason: the value of `rule`, and the facts compared with it.
pub(super) fn because<T: Display>(
    policy: &Policy,
    rule: impl Into<String>,
    setting: &Setting<T>,
    facts: impl IntoIterator<Item = String>,
) -> DecisionReason {
    StoredReason::new(policy, rule, setting, facts).told(policy)
}

/// The reasons for another attempt.
pub(crate) fn of_retry(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: AttemptProgress,
    case: &FailureContext,
    delay: Nanos,
    by: DelayRule,
) -> Vec<DecisionReason> {
    told(policy, to_retry(policy, retry, progress, case, delay, by))
}

/// The reasons for another attempt, stored for later use.
pub(super) fn to_retry(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: AttemptProgress,
    case: &FailureContext,
    delay: Nanos,
    by: DelayRule,
) -> Vec<StoredReason> {
    let mut reasons = to_allow(policy, retry, progress, case);
    reasons.push(to_wait(policy, retry, case, delay, by));
    reasons
}

/// The reasons why another attempt is allowed, without the reasons for its delay.
pub(super) fn to_allow(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: AttemptProgress,
    case: &FailureContext,
) -> Vec<StoredReason> {
    let class = format!("{} is retried", case.class);
    let attempt = format!("attempt {} failed", progress.attempt);
    let (rules, all) = (case.rules(retry), retry.for_others());
    // The class may override the value. The path must lead to the value that decided: a change of another value would
    // have no effect.
    let path = path("max_attempts", case, rules.max_attempts, all.max_attempts);
    // A retry needs both values, so a change of either one prevents it. Values without this effect are left out.
    vec![
        StoredReason::new(policy, "retry.retry_on", &retry.retry_on, [class]),
        StoredReason::new(policy, path, rules.max_attempts, [attempt]),
    ]
}

/// The reasons for the delay.
fn to_wait(
    policy: &Policy,
    retry: &RetryPolicy,
    case: &FailureContext,
    delay: Nanos,
    by: DelayRule,
) -> StoredReason {
    let (rules, all) = (case.rules(retry), retry.for_others());
    match by {
        DelayRule::Backoff if case.correction => {
            let waits = format!("waits {}", delay.rounded());
            StoredReason::new(policy, "retry.correction_backoff", rules.backoff, [waits])
        }
        DelayRule::Backoff => {
            let path = path("backoff", case, rules.backoff, all.backoff);
            let waits = format!("waits {}", delay.rounded());
            // With a server delay as minimum, the backoff was longer and decided; the server delay is only a fact.
            let ignored = rules.server_delay.value.mode == ServerDelayMode::Ignore;
            let waits = match case.hint.filter(|_| !ignored) {
                Some(hint) => format!("{waits}, no shorter than the hint of {}", hint.rounded()),
                None => waits,
            };
            StoredReason::new(policy, path, rules.backoff, [waits])
        }
        DelayRule::Server => {
            let asked = asked(case);
            let path = path("server_delay", case, rules.server_delay, all.server_delay);
            StoredReason::new(policy, path, rules.server_delay, asked)
        }
    }
}

/// The reasons why no further attempt is made: the values that prevented it, or another cause.
pub(crate) fn of_stop(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: AttemptProgress,
    case: &FailureContext,
    reason: StopReason,
) -> Vec<DecisionReason> {
    let class = case.class;
    let (rules, all) = (retry.for_class(class), retry.for_others());
    let attempts = format!("attempt {} failed", progress.attempt);
    let one = match reason {
        StopReason::NeverRetry => {
            because(policy, "retry.never_retry", &retry.never_retry, [format!("{class} is never retried")])
        }
        StopReason::NotRetryable => return not_retryable(policy, retry, case),
        StopReason::Attempts => {
            let path = path("max_attempts", case, rules.max_attempts, all.max_attempts);
            because(policy, path, rules.max_attempts, [attempts])
        }
        StopReason::Shadow => because(policy, "retry.shadow", &retry.shadow, []),
        StopReason::Deadline => return too_late(policy, retry, case, &attempts),
        StopReason::ServerDelay => {
            let asked = asked(case);
            let path = path("server_delay", case, rules.server_delay, all.server_delay);
            because(policy, path, rules.server_delay, asked)
        }
        StopReason::ShouldNotRetry => {
            let path = path("server_delay", case, rules.server_delay, all.server_delay);
            because(policy, path, rules.server_delay, ["the server says `x-should-retry: false`".to_owned()])
        }
        StopReason::TotalDelay => because(
            policy,
            "retry.total_delay",
            &retry.total_delay,
            [format!("slept {} so far", progress.slept)],
        ),
        StopReason::RequestAtFault => match case.obstacle {
            RetryBlocker::RequestAtFault(row) => {
                let row = Setting::new(true, row);
                because(
                    policy,
                    "errors.request_at_fault",
                    &row,
                    [format!("{class} is classified by this row")],
                )
            }
            _ => return Vec::new(),
        },
        StopReason::AfterPartial => {
            because(policy, "turn.after_partial", &policy.turn().after_partial.map(ShownValue), [])
        }
        // The caller names the reasons: the rules that decided are outside the retry policy.
        StopReason::Cancelled
        | StopReason::MayHaveActed
        | StopReason::ReducerError
        | StopReason::CircuitOpen
        | StopReason::Budget
        | StopReason::Pace
        | StopReason::RunBudget => return Vec::new(),
    };
    vec![one]
}

/// The reasons why a class of failures is not retried: either of two rules is enough.
fn not_retryable(policy: &Policy, retry: &RetryPolicy, case: &FailureContext) -> Vec<DecisionReason> {
    let class = case.class;
    // If both rules forbid the retry, a change of one is not enough: both are named.
    let off = (!retry.enabled.value).then(|| because(policy, "retry.enabled", &retry.enabled, []));
    let unlisted = (!retry.retry_on.value.contains(class))
        .then(|| because(policy, "retry.retry_on", &retry.retry_on, [format!("{class} is not retried")]));
    off.into_iter().chain(unlisted).collect()
}

/// The values that leave no time for another attempt. Empty if only the deadline of the host is exceeded.
fn too_late(
    policy: &Policy,
    retry: &RetryPolicy,
    case: &FailureContext,
    attempts: &str,
) -> Vec<DecisionReason> {
    // The deadline of the run comes from the host, so no value of the policy is named.
    let RetryBlocker::Late(late) = case.obstacle else { return Vec::new() };
    let fact = || [attempts.to_owned(), "the next one would start too late".to_owned()];
    let least = || because(policy, "retry.min_attempt_time", &retry.min_attempt_time, fact());
    let end = || because(policy, "retry.deadline", &retry.deadline, fact());
    late.min_attempt_time.then(least).into_iter().chain(late.deadline.then(end)).collect()
}

/// The path of a value that the class may override.
fn path<T>(leaf: &str, case: &FailureContext, own: &Setting<T>, all: &Setting<T>) -> String {
    // A class without its own value inherits the general setting together with its origin.
    if own.origin == all.origin {
        format!("retry.{leaf}")
    } else {
        format!("retry.by_class.{}.{leaf}", case.class)
    }
}

/// The threshold of a breaker, written for people.
pub(super) fn threshold(breaker: &BreakerPolicy) -> Setting<String> {
    breaker
        .failures
        .map(|failures| failures.map_or_else(|| "never".to_owned(), |failures| failures.to_string()))
}

/// A value in the notation of policies.
pub(super) struct ShownValue<T>(pub(super) T);

impl<T: serde::Serialize> Display for ShownValue<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let json = serde_json::to_value(&self.0).unwrap_or_default();
        f.write_str(json.as_str().unwrap_or_default())
    }
}

/// The delay that was requested, and its source.
fn asked(case: &FailureContext) -> Option<String> {
    case.hint.map(|hint| {
        // Without the source, people would look for a header that was never sent.
        if case.assumed {
            format!("the server does not say how long, and `errors.wait` says {hint}")
        } else {
            format!("the server asks for {hint}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ErrorClass;
    use crate::time::Instant;

    #[test]
    fn a_backoff_that_is_longer_than_the_hint_names_the_hint() {
        for (mode, expected) in
            [("floor", "waits 2s, no shorter than the hint of 1s"), ("ignore", "waits 2s")]
        {
            let text = format!("version: 1\nmodels: {{m: {{retry: {{server_delay: {{mode: {mode}}}}}}}}}\n");
            let policy = Policy::from_yaml("p.yaml", &text).unwrap();
            let case = FailureContext {
                class: ErrorClass::RateLimit,
                hint: Some(Nanos::from_secs(1)),
                assumed: false,
                obstacle: RetryBlocker::None,
                run_deadline: None,
                correction: false,
            };
            let progress = AttemptProgress { started: Instant(0), attempt: 1, slept: Nanos::ZERO };
            let (retry, delay) = (&policy.model("m").retry, Nanos::from_secs(2));
            let why = of_retry(&policy, retry, progress, &case, delay, DelayRule::Backoff);
            assert_eq!(why.last().unwrap().facts, [expected]);
        }
    }
}
