//! Reasons: which rule, from which layer and place, held against which facts.

use core::fmt::Display;

use super::directive::Because;
use super::reason::{Reason, told};
use super::retry::{Case, DelayRule, Obstacle, Progress};
use crate::policy::{BreakerPolicy, Policy, RetryPolicy, Setting};
use crate::session::StopReason;
use crate::time::Nanos;

/// A reason: `rule` has this value, and these facts were held against it.
pub(super) fn because<T: Display>(
    policy: &Policy,
    rule: impl Into<String>,
    setting: &Setting<T>,
    facts: impl IntoIterator<Item = String>,
) -> Because {
    Reason::new(policy, rule, setting, facts).told(policy)
}

/// Why there is another attempt.
pub(super) fn of_retry(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: Progress,
    case: &Case,
    delay: Nanos,
    by: DelayRule,
) -> Vec<Because> {
    told(policy, to_retry(policy, retry, progress, case, delay, by))
}

/// The same reasons, for later.
pub(super) fn to_retry(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: Progress,
    case: &Case,
    delay: Nanos,
    by: DelayRule,
) -> Vec<Reason> {
    let class = format!("{} is retried", case.class);
    let attempt = format!("attempt {} failed", progress.attempt);
    let (rules, all) = (case.rules(retry), retry.for_others());
    let waits = match by {
        DelayRule::Backoff if case.correction => {
            let waits = format!("waits {}", delay.rounded());
            Reason::new(policy, "retry.correction_backoff", rules.backoff, [waits])
        }
        DelayRule::Backoff => {
            let path = path("backoff", case, rules.backoff, all.backoff);
            Reason::new(policy, path, rules.backoff, [format!("waits {}", delay.rounded())])
        }
        DelayRule::Server => {
            let asked = case.hint.map(|hint| format!("the server asks for {hint}"));
            let path = path("server_delay", case, rules.server_delay, all.server_delay);
            Reason::new(policy, path, rules.server_delay, asked)
        }
    };
    vec![
        Reason::new(policy, "retry.retry_on", &retry.retry_on, [class]),
        Reason::new(
            policy,
            path("max_attempts", case, rules.max_attempts, all.max_attempts),
            rules.max_attempts,
            [attempt],
        ),
        waits,
    ]
}

/// Why there is no other attempt.
pub(super) fn of_stop(
    policy: &Policy,
    retry: &RetryPolicy,
    progress: Progress,
    case: &Case,
    reason: StopReason,
) -> Vec<Because> {
    let class = case.class;
    let (rules, all) = (retry.for_class(class), retry.for_others());
    let attempts = format!("attempt {} failed", progress.attempt);
    let one = match reason {
        StopReason::NeverRetry => {
            because(policy, "retry.never_retry", &retry.never_retry, [format!("{class} is never retried")])
        }
        StopReason::NotRetryable if !retry.enabled.value => {
            because(policy, "retry.enabled", &retry.enabled, [])
        }
        StopReason::NotRetryable => {
            because(policy, "retry.retry_on", &retry.retry_on, [format!("{class} is not retried")])
        }
        StopReason::Attempts => {
            let path = path("max_attempts", case, rules.max_attempts, all.max_attempts);
            because(policy, path, rules.max_attempts, [attempts])
        }
        StopReason::Shadow => because(policy, "retry.shadow", &retry.shadow, []),
        StopReason::Deadline => because(policy, "retry.deadline", &retry.deadline, [attempts]),
        StopReason::ServerDelay => {
            let asked = case.hint.map(|hint| format!("the server asks for {hint}"));
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
            Obstacle::RequestAtFault(row) => {
                let row = Setting::new(true, row);
                because(policy, "errors.request_at_fault", &row, [format!("{class} is told by this row")])
            }
            _ => return Vec::new(),
        },
        StopReason::AfterPartial => {
            because(policy, "turn.after_partial", &policy.turn().after_partial.map(Shown), [])
        }
        // Decided by something else than the retry policy; the caller names it.
        StopReason::Cancelled
        | StopReason::MayHaveActed
        | StopReason::ReducerError
        | StopReason::CircuitOpen
        | StopReason::Budget
        | StopReason::RunBudget => return Vec::new(),
    };
    vec![one]
}

/// The path of a value that may be the class's own.
fn path<T>(leaf: &str, case: &Case, own: &Setting<T>, all: &Setting<T>) -> String {
    if own.origin == all.origin {
        format!("retry.{leaf}")
    } else {
        format!("retry.by_class.{}.{leaf}", case.class)
    }
}

/// The threshold of a breaker, as people read it.
pub(super) fn threshold(breaker: &BreakerPolicy) -> Setting<String> {
    breaker
        .failures
        .map(|failures| failures.map_or_else(|| "never".to_owned(), |failures| failures.to_string()))
}

/// A value as policies write it.
pub(super) struct Shown<T>(pub(super) T);

impl<T: serde::Serialize> Display for Shown<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let json = serde_json::to_value(&self.0).unwrap_or_default();
        f.write_str(json.as_str().unwrap_or_default())
    }
}
