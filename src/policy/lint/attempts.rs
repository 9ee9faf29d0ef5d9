//! Attempts that can never start, and work without a bound.

use super::Found;
use crate::policy::explain::{Kind, Work, Worst};
use crate::policy::{
    Attempts, Backoff, Bound, BreakerPolicy, Code, Counting, Diagnostic, Origin, RetryPolicy, Scope, Setting,
    Span, Waiting,
};
use crate::time::Nanos;

/// So many waits are added up for a message.
const ADDED: u32 = 1_000;

/// What is attempted, and what somebody should know of it.
pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    pub(super) work: Work,
    /// Whether an attempt takes time that somebody should bound.
    pub(super) timed: bool,
    /// The breaker of a tool.
    pub(super) breaker: Option<&'a BreakerPolicy>,
}

/// Looks at one retry policy.
pub(super) fn judge(subject: &Subject<'_>, retry: &RetryPolicy, found: &mut Found<'_>) {
    unreachable(subject, retry, found);
    late_timeout(retry, found);
    if let Some(breaker) = subject.breaker {
        broken_off(subject, retry, breaker, found);
    }
    unbounded(subject.name, &Worst::of(retry, subject.work), retry, subject.timed, found);
}

/// The most attempts of each kind of failure that is repeated, with the backoff: of those without rules of their own,
/// and of each class that has some.
fn wanted(retry: &RetryPolicy, kind: Kind) -> Vec<(Setting<Attempts>, &Backoff)> {
    // Calls that cannot be read are corrected before there is a run.
    let corrected = |class| kind == Kind::Run && Kind::Correction.fails_with(class);
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
fn late_timeout(retry: &RetryPolicy, found: &mut Found<'_>) {
    let (Bound::Within(timeout), Bound::Within(deadline)) =
        (retry.attempt_timeout.value, retry.deadline.value)
    else {
        return;
    };
    let (one, all) = (found.place(retry.attempt_timeout.origin), found.place(retry.deadline.origin));
    let (Some(one), Some(all)) = (one, all) else { return };
    let alone = retry.max_attempts.value == Attempts::Limited(core::num::NonZeroU32::MIN);
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
fn broken_off(subject: &Subject<'_>, retry: &RetryPolicy, breaker: &BreakerPolicy, found: &mut Found<'_>) {
    let Some(failures) = breaker.failures.value else { return };
    if matches!(breaker.count.value, Counting::Window(_)) {
        return;
    }
    let alone = Worst::of(retry, Work { breaker: None, ..subject.work }).calls;
    if alone.is_some_and(|runs| runs <= failures.get()) {
        return;
    }
    for (most, _) in wanted(retry, Kind::Run) {
        let said = most.origin.scope != Scope::Global && most.origin.scope != Scope::Profile;
        let (asked, opens) = (found.place(most.origin), found.place(breaker.failures.origin));
        let Some(span) = asked.filter(|_| said || opens.is_some()) else { continue };
        let most = match most.value {
            Attempts::Limited(most) if most <= failures => continue,
            Attempts::Limited(most) => most.to_string(),
            Attempts::Unlimited => "unlimited".to_owned(),
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
fn unreachable(subject: &Subject<'_>, retry: &RetryPolicy, found: &mut Found<'_>) {
    let work = Work { breaker: None, asks: false, ..subject.work };
    let (bound, name) = tighter(retry);
    let Some(bound_at) = found.place(bound.origin) else { return };
    let reached = |retry: &RetryPolicy| Worst::of(retry, work).calls.unwrap_or(u32::MAX);
    let attempts = reached(retry);
    let unlimited = Setting::new(Bound::Unlimited, bound.origin);
    let free = RetryPolicy { deadline: unlimited, total_delay: unlimited, ..retry.clone() };
    if attempts >= reached(&free) {
        return;
    }
    let alone = retry.by_class.iter().all(|(_, own)| own.backoff.value == retry.backoff.value);
    for (most, backoff) in wanted(retry, work.kind) {
        let Attempts::Limited(limit) = most.value else { continue };
        if attempts < limit.get() {
            let ends = End { bound, bound_at, name, attempts, alone };
            too_late(subject.name, most.origin, limit.get(), backoff, ends, found);
        }
    }
}

/// What ends the attempts, and how many there are.
#[derive(Clone, Copy)]
struct End {
    bound: Setting<Bound>,
    bound_at: Span,
    name: &'static str,
    attempts: u32,
    /// Whether no class has waits of its own.
    alone: bool,
}

fn too_late(subject: &str, said: Origin, most: u32, backoff: &Backoff, ends: End, found: &mut Found<'_>) {
    let End { bound, bound_at, name, attempts, alone } = ends;
    let Bound::Within(length) = bound.value else { return };
    let next = attempts.saturating_add(1);
    let mut waiting = Waiting::new(backoff);
    let waits = (0..attempts.min(ADDED)).map(|_| waiting.next().0);
    let waits = waits.fold(Nanos::ZERO, Nanos::saturating_add);
    // Where failures of other classes come before it, their waits count.
    let waits = if alone { format!("take at least {waits}") } else { "are too long".to_owned() };
    let message = format!(
        "attempt {next} of {most} of {subject} can never start: the waits before it {waits}, and `{name}` is {length}"
    );
    let wanted = found.place(said);
    // Nobody asked for the attempts that are built in.
    if said.scope == Scope::Builtin {
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
