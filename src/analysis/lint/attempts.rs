//! Attempts that can never start, and work without a bound.

use super::LintFindings;
use crate::analysis::explain::{AttemptKind, AttemptedWork, WorstCase};
use crate::policy::{
    AttemptLimit, Backoff, BreakerPolicy, FailureCounting, LayerKind, Origin, RetryPolicy, Setting,
    TimeBound, WaitBounds,
};
use crate::text::{Code, Diagnostic, Span};
use crate::time::Nanos;

/// So many waits are added up for a message.
const ADDED: u32 = 1_000;

/// What is attempted, and what somebody should know of it.
pub(super) struct AttemptSubject<'a> {
    pub(super) name: &'a str,
    pub(super) work: AttemptedWork,
    /// Whether an attempt takes time that should be limited.
    pub(super) timed: bool,
    /// The breaker of a tool.
    pub(super) breaker: Option<&'a BreakerPolicy>,
}

/// Looks at one retry policy.
pub(super) fn check(subject: &AttemptSubject<'_>, retry: &RetryPolicy, found: &mut LintFindings<'_>) {
    unreachable(subject, retry, found);
    late_timeout(retry, found);
    if let Some(breaker) = subject.breaker {
        broken_off(subject, retry, breaker, found);
    }
    unbounded(subject.name, &WorstCase::of(retry, subject.work), retry, subject.timed, found);
}

/// The most attempts of each kind of failure that is repeated, with the backoff: of those without rules of their own,
/// and of each class that has some.
fn wanted(retry: &RetryPolicy, kind: AttemptKind) -> Vec<(Setting<AttemptLimit>, &Backoff)> {
    // Calls that cannot be read are corrected before there is a run.
    let corrected = |class| kind == AttemptKind::Run && AttemptKind::Correction.fails_with(class);
    let repeated = |class| retry.retries(class) && kind.fails_with(class) && !corrected(class);
    let has_own = |class| retry.by_class.get(class).is_some();
    let general = |corrects| {
        let of_it = |class| repeated(class) && !has_own(class) && kind.corrects_after(class) == corrects;
        retry.retry_on.value.iter().any(of_it)
    };
    let backoff = |corrects, own| if corrects { &retry.correction_backoff.value } else { own };
    let general = [false, true].into_iter().filter(|corrects| general(*corrects));
    let general = general.map(|corrects| (retry.max_attempts, backoff(corrects, &retry.backoff.value)));
    let own = retry.by_class.iter().filter(|(class, _)| repeated(*class));
    let own =
        own.map(|(class, own)| (own.max_attempts, backoff(kind.corrects_after(class), &own.backoff.value)));
    general.chain(own).collect()
}

/// Reports timeouts of one attempt that leave no time for another.
fn late_timeout(retry: &RetryPolicy, found: &mut LintFindings<'_>) {
    let (TimeBound::Within(timeout), TimeBound::Within(deadline)) =
        (retry.attempt_timeout.value, retry.deadline.value)
    else {
        return;
    };
    let (one, all) = (found.place(retry.attempt_timeout.origin), found.place(retry.deadline.origin));
    let (Some(one), Some(all)) = (one, all) else { return };
    let alone = retry.max_attempts.value == AttemptLimit::Limited(core::num::NonZeroU32::MIN);
    if timeout < deadline || alone || !retry.enabled.value {
        return;
    }
    let message = format!(
        "one attempt may take {timeout}, and all together {deadline}: after a timeout there is no other one"
    );
    let problem = Diagnostic::warning(Code::LATE_TIMEOUT, one, message).also(all, "the deadline");
    found.push(problem.help("make `attempt_timeout` shorter, or `deadline` longer"));
}

/// Reports runs that the breaker ends before: it opens at the latest when so many runs of one call have failed.
fn broken_off(
    subject: &AttemptSubject<'_>,
    retry: &RetryPolicy,
    breaker: &BreakerPolicy,
    found: &mut LintFindings<'_>,
) {
    let Some(failures) = breaker.failures.value else { return };
    if matches!(breaker.count.value, FailureCounting::Window(_)) {
        return;
    }
    let alone = WorstCase::of(retry, AttemptedWork { breaker: None, ..subject.work }).calls;
    if alone.is_some_and(|runs| runs <= failures.get()) {
        return;
    }
    for (most, _) in wanted(retry, AttemptKind::Run) {
        let said = most.origin.scope != LayerKind::Global && most.origin.scope != LayerKind::Profile;
        let (asked, opens) = (found.place(most.origin), found.place(breaker.failures.origin));
        let Some(span) = asked.filter(|_| said || opens.is_some()) else { continue };
        let most = match most.value {
            AttemptLimit::Limited(most) if most <= failures => continue,
            AttemptLimit::Limited(most) => most.to_string(),
            AttemptLimit::Unlimited => "unlimited".to_owned(),
        };
        let message = format!(
            "run {} of {most} of a call of {} can never start: the breaker opens after {failures} failures in a row",
            failures.saturating_add(1),
            subject.name,
        );
        let problem = Diagnostic::warning(Code::UNREACHABLE_ATTEMPT, span, message);
        let problem = match opens.filter(|opens| *opens != span) {
            Some(opens) => problem.also(opens, "opens it"),
            None => problem,
        };
        found.push(problem.help(format!(
            "set `breaker: {{failures: {most}}}` or `failures: never`, or ask for {failures} attempts; only corrections of arguments are not counted by the breaker",
        ).replace("failures: unlimited", "failures: never")));
    }
}

/// Reports attempts that the shortest waits already push past the deadline or above `total_delay`.
fn unreachable(subject: &AttemptSubject<'_>, retry: &RetryPolicy, found: &mut LintFindings<'_>) {
    let work = AttemptedWork { breaker: None, asks: false, ..subject.work };
    let (bound, name) = tighter(retry);
    let Some(bound_at) = found.place(bound.origin) else { return };
    let reached = |retry: &RetryPolicy| WorstCase::of(retry, work).calls.unwrap_or(u32::MAX);
    let attempts = reached(retry);
    let unlimited = Setting::new(TimeBound::Unlimited, bound.origin);
    let free = RetryPolicy { deadline: unlimited, total_delay: unlimited, ..retry.clone() };
    if attempts >= reached(&free) {
        return;
    }
    let alone = retry.by_class.iter().all(|(_, own)| own.backoff.value == retry.backoff.value);
    for (most, backoff) in wanted(retry, work.kind) {
        let AttemptLimit::Limited(limit) = most.value else { continue };
        if attempts < limit.get() {
            let ends = AttemptEnd { bound, bound_at, name, attempts, alone };
            too_late(subject.name, most.origin, limit.get(), backoff, ends, found);
        }
    }
}

/// What ends the attempts, and how many there are.
#[derive(Clone, Copy)]
struct AttemptEnd {
    bound: Setting<TimeBound>,
    bound_at: Span,
    name: &'static str,
    attempts: u32,
    /// Whether no class has waits of its own.
    alone: bool,
}

fn too_late(
    subject: &str,
    said: Origin,
    most: u32,
    backoff: &Backoff,
    ends: AttemptEnd,
    found: &mut LintFindings<'_>,
) {
    let AttemptEnd { bound, bound_at, name, attempts, alone } = ends;
    let TimeBound::Within(length) = bound.value else { return };
    let next = attempts.saturating_add(1);
    let mut waiting = WaitBounds::new(backoff);
    let waits = (0..attempts.min(ADDED)).map(|_| waiting.next().0);
    let waits = waits.fold(Nanos::ZERO, Nanos::saturating_add);
    // Where failures of other classes come before it, their waits count.
    let waits = if alone { format!("take at least {waits}") } else { "are too long".to_owned() };
    let message = format!(
        "attempt {next} of {most} of {subject} can never start: the waits before it {waits}, and `{name}` is {length}"
    );
    let wanted = found.place(said);
    // The built-in attempts were not requested by the user.
    if said.scope == LayerKind::Builtin {
        return;
    }
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
fn tighter(retry: &RetryPolicy) -> (Setting<TimeBound>, &'static str) {
    let (deadline, total) = (retry.deadline, retry.total_delay);
    match (deadline.value, total.value) {
        (TimeBound::Within(length), TimeBound::Within(waits)) if length > waits => (total, "total_delay"),
        (TimeBound::Unlimited, _) => (total, "total_delay"),
        _ => (deadline, "deadline"),
    }
}

/// Reports attempts, waits and time without a bound, if a file made them so.
fn unbounded(
    subject: &str,
    worst: &WorstCase,
    retry: &RetryPolicy,
    timed: bool,
    found: &mut LintFindings<'_>,
) {
    let (origin, message, help): (Origin, String, &str) = if worst.calls.is_none() {
        let message = format!("the number of attempts of {subject} is unbounded: their delays may be zero");
        (
            retry.max_attempts.origin,
            message,
            "write a number, or a `backoff` whose shortest delay is above zero",
        )
    } else if worst.waiting_if_asked == TimeBound::Unlimited {
        let message = format!("a server delay may make {subject} wait without a bound");
        (retry.server_delay.origin, message, "set `max` in `server_delay`, a `deadline` or a `total_delay`")
    } else if timed && worst.total == TimeBound::Unlimited {
        let message = format!("an attempt of {subject} has no time limit");
        (retry.attempt_timeout.origin, message, "set an `attempt_timeout` or a `deadline`")
    } else {
        return;
    };
    if let Some(span) = found.place(origin) {
        found.push(Diagnostic::warning(Code::WITHOUT_BOUND, span, message).help(help));
    }
}
