//! Attempts that can never start, and work without a bound.

use super::Found;
use crate::policy::explain::{Work, Worst};
use crate::policy::{Attempts, Bound, Code, Diagnostic, Origin, RetryPolicy, Setting};
use crate::time::Nanos;

/// So many waits are added up for a message.
const ADDED: u32 = 1_000;

/// Looks at one retry policy. `timed`: an attempt takes time that somebody should bound.
pub(super) fn judge(subject: &str, retry: &RetryPolicy, work: Work, timed: bool, found: &mut Found<'_>) {
    unreachable(subject, retry, Work { breaker: None, asks: false, ..work }, found);
    unbounded(subject, &Worst::of(retry, work), retry, timed, found);
}

/// Reports attempts that the shortest waits already push past the deadline or above `total_delay`.
fn unreachable(subject: &str, retry: &RetryPolicy, work: Work, found: &mut Found<'_>) {
    let Attempts::Limited(most) = retry.max_attempts.value else { return };
    let (bound, name) = tighter(retry);
    let Some(bound_at) = found.place(bound.origin) else { return };
    let most = most.get();
    let reached = |retry: &RetryPolicy| Worst::of(retry, work).calls.unwrap_or(u32::MAX);
    let attempts = reached(retry);
    if attempts >= most {
        return;
    }
    let unlimited = Setting::new(Bound::Unlimited, bound.origin);
    let free = RetryPolicy { deadline: unlimited, total_delay: unlimited, ..retry.clone() };
    if attempts >= reached(&free) {
        return;
    }
    let next = attempts.saturating_add(1);
    let waits = (1..=attempts.min(ADDED)).map(|attempt| retry.backoff.value.bounds(attempt).0);
    let waits = waits.fold(Nanos::ZERO, Nanos::saturating_add);
    let Bound::Within(length) = bound.value else { return };
    let message = format!(
        "attempt {next} of {most} of {subject} can never start: the waits before it take at least {waits}, and `{name}` is {length}"
    );
    let wanted = found.place(retry.max_attempts.origin);
    let problem = Diagnostic::warning(Code::UNREACHABLE_ATTEMPT, wanted.unwrap_or(bound_at), message);
    let problem = match wanted {
        Some(_) => {
            problem.label(format!("only {attempts} can start")).also(bound_at, format!("`{name}` ends them"))
        }
        None => problem.label("ends the attempts"),
    };
    found
        .push(problem.help(format!(
            "ask for {attempts} attempts, wait less between them, or give `{name}` more time"
        )));
}

/// The tighter of the two bounds on waits.
fn tighter(retry: &RetryPolicy) -> (Setting<Bound>, &'static str) {
    let (deadline, total) = (retry.deadline, retry.total_delay);
    match (deadline.value, total.value) {
        (Bound::Within(length), Bound::Within(waits)) if length > waits => (total, "total_delay"),
        (Bound::Unlimited, _) => (total, "total_delay"),
        _ => (deadline, "deadline"),
    }
}

/// Reports attempts, waits and time without a bound, if a file made them so.
fn unbounded(subject: &str, worst: &Worst, retry: &RetryPolicy, timed: bool, found: &mut Found<'_>) {
    let (origin, message, help): (Origin, String, &str) = if worst.calls.is_none() {
        let message =
            format!("the number of attempts of {subject} has no bound: their waits may be of no length");
        (
            retry.max_attempts.origin,
            message,
            "write a number, or a `backoff` whose shortest delay is above zero",
        )
    } else if worst.asleep_if_asked == Bound::Unlimited {
        let message = format!("the other side may let {subject} wait without a bound");
        (retry.server_delay.origin, message, "set `max` in `server_delay`, a `deadline` or a `total_delay`")
    } else if timed && worst.total == Bound::Unlimited {
        let message = format!("an attempt of {subject} may take for ever");
        (retry.attempt_timeout.origin, message, "set an `attempt_timeout` or a `deadline`")
    } else {
        return;
    };
    if let Some(span) = found.place(origin) {
        found.push(Diagnostic::warning(Code::WITHOUT_BOUND, span, message).help(help));
    }
}
