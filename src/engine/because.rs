//! Reasons: which rule, from which layer and place, held against which facts.

use core::fmt::Display;

use super::directive::Because;
use super::reason::{Reason, told};
use super::retry::{Case, DelayRule, Obstacle, Progress};
use crate::policy::{BreakerPolicy, Policy, RetryPolicy, ServerDelayMode, Setting};
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
pub(crate) fn of_retry(
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
            let waits = format!("waits {}", delay.rounded());
            // Where a hint is the least that is waited for, a longer backoff decides.
            let ignored = rules.server_delay.value.mode == ServerDelayMode::Ignore;
            let waits = match case.hint.filter(|_| !ignored) {
                Some(hint) => format!("{waits}, no shorter than the hint of {}", hint.rounded()),
                None => waits,
            };
            Reason::new(policy, path, rules.backoff, [waits])
        }
        DelayRule::Server => {
            let asked = asked(case);
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
pub(crate) fn of_stop(
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

/// The wait that was asked for, and by whom.
fn asked(case: &Case) -> Option<String> {
    case.hint.map(|hint| {
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
            let case = Case {
                class: ErrorClass::RateLimit,
                hint: Some(Nanos::from_secs(1)),
                assumed: false,
                obstacle: Obstacle::None,
                run_deadline: None,
                correction: false,
            };
            let progress = Progress { started: Instant(0), attempt: 1, slept: Nanos::ZERO };
            let (retry, delay) = (&policy.model("m").retry, Nanos::from_secs(2));
            let why = of_retry(&policy, retry, progress, &case, delay, DelayRule::Backoff);
            assert_eq!(why.last().unwrap().facts, [expected]);
        }
    }
}
