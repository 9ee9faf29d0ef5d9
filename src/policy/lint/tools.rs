//! Rules for single tools: retries of what must not act twice, breakers that wait in vain.

use super::view::{Named, subject};
use super::{Found, View};
use crate::policy::document::ToolLayer;
use crate::policy::rules::Rule;
use crate::policy::{
    Attempts, ClassSet, Code, Diagnostic, Effect, ErrorClass, OnExhausted, Origin, Span, ToolPolicy,
};

/// Failures after which a run has certainly not started, or was none.
const BEFORE: &[ErrorClass] = &[
    ErrorClass::InvalidArgs,
    ErrorClass::MalformedToolCall,
    ErrorClass::ToolNotFound,
    ErrorClass::ToolUnavailable,
    ErrorClass::CircuitOpen,
];

/// Looks at the rules of one tool.
pub(super) fn judge(view: &View<'_>, named: Named<'_>, policy: &ToolPolicy, found: &mut Found<'_>) {
    non_idempotent(view, named, policy, found);
    idle_breaker(&subject("tool", named.name), policy, found);
}

/// Reports retries that a rule about a tool asks for and the tool does not bear.
fn non_idempotent(view: &View<'_>, named: Named<'_>, policy: &ToolPolicy, found: &mut Found<'_>) {
    let told = policy.effect.value;
    let effect = match named.known {
        Some(known) if told == Effect::Unknown => known.effect,
        _ => told,
    };
    let retry = &policy.retry;
    let after = retry.retry_on.value.iter().filter(|class| !BEFORE.contains(class));
    let after: ClassSet = after.filter(|class| !retry.never_retry.value.contains(*class)).collect();
    let once = retry.max_attempts.value == Attempts::Limited(core::num::NonZeroU32::MIN);
    if effect != Effect::NonIdempotent || !retry.enabled.value || once || after == ClassSet::EMPTY {
        return;
    }
    let rules = view.layers.tool_rules().matching(named.name);
    let about = about(&rules, policy.effect.origin);
    let said = [retry.max_attempts.origin, retry.retry_on.origin];
    let Some(span) = said.into_iter().find_map(|origin| about.iter().find_map(|rule| asks(rule, origin)))
    else {
        return;
    };
    let subject = subject("tool", named.name);
    let message = format!(
        "a run of {subject} that has failed is not repeated, whatever `retry` says: it is not idempotent"
    );
    let problem = Diagnostic::warning(Code::NON_IDEMPOTENT, span, message);
    let problem = match found.place(policy.effect.origin) {
        Some(at) if told == Effect::NonIdempotent => problem.also(at, "said here"),
        _ => problem.help("the host says so of the tool"),
    };
    found.push(problem.help(
        "only runs that certainly did not start are repeated, and arguments corrected; ask for no retries, or declare `effect: idempotent` if acting twice does no harm",
    ));
}

/// The rules that speak of such a tool knowing what it is: the one that says what its runs do and narrower ones. If
/// only the host says so, those that name it.
fn about<'r, 'p>(rules: &'r [&'p Rule<ToolLayer>], effect: Origin) -> Vec<&'r &'p Rule<ToolLayer>> {
    let says = |rule: &&Rule<ToolLayer>| rule.layer.effect.span().is_some_and(|span| is_at(span, effect));
    match rules.iter().rposition(says) {
        Some(first) => rules.iter().skip(first).collect(),
        None => rules.iter().filter(|rule| rule.selector.is_exact()).collect(),
    }
}

/// Where the rule says what holds, if it does.
fn asks(rule: &Rule<ToolLayer>, origin: Origin) -> Option<Span> {
    let retry = &rule.layer.retry.0;
    let said = [retry.max_attempts.span(), retry.retry_on.span()];
    said.into_iter().flatten().find(|span| is_at(*span, origin))
}

fn is_at(span: Span, origin: Origin) -> bool {
    span.source == origin.source && span.start == origin.at
}

/// Reports breakers whose count the attempts of one call never reach, where the run ends with that call.
fn idle_breaker(subject: &str, policy: &ToolPolicy, found: &mut Found<'_>) {
    let (Some(failures), Attempts::Limited(attempts)) =
        (policy.breaker.failures.value, policy.retry.max_attempts.value)
    else {
        return;
    };
    let Some(span) = found.place(policy.breaker.failures.origin) else { return };
    if failures <= attempts || policy.on_exhausted.value != OnExhausted::Fail {
        return;
    }
    let message = format!(
        "the breaker of {subject} waits for {failures} failures, and the run ends after {attempts} of one call"
    );
    let problem = Diagnostic::warning(Code::IDLE_BREAKER, span, message);
    let places = [
        (policy.retry.max_attempts.origin, "the most attempts"),
        (policy.on_exhausted.origin, "ends the run"),
    ];
    let problem = places.into_iter().fold(problem, |problem, (origin, label)| match found.place(origin) {
        Some(at) => problem.also(at, label),
        None => problem,
    });
    found.push(problem.help(format!(
        "set `failures` to {attempts} or less; as it is, only failures that are not retried, of calls that do not end the run, can open it"
    )));
}
