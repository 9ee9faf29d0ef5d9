//! Rules for single tools: retries of what must not act twice, breakers without effect.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::LintFindings;
use super::view::{CheckedName, subject};
use crate::policy::{
    AfterEffect, AttemptLimit, Effect, ErrorClass, FailureCounting, LayerKind, OnExhausted, Origin,
    RetryPolicy, ToolPolicy,
};
use crate::text::{Code, Diagnostic, Span};

/// Failures after which a run has certainly not started, or was none.
const BEFORE: &[ErrorClass] = &[
    ErrorClass::InvalidArgs,
    ErrorClass::MalformedToolCall,
    ErrorClass::ToolNotFound,
    ErrorClass::ToolUnavailable,
    ErrorClass::CircuitOpen,
    ErrorClass::RepeatedCall,
];

/// Retries that rules about tools ask for, and the tools do not bear.
#[derive(Default)]
pub(super) struct UnsafeRetries {
    in_vain: IndexMap<Span, Diagnostic>,
    /// Where what is asked for holds for a tool that may run again.
    count: BTreeSet<Span>,
}

impl UnsafeRetries {
    /// Observes how calls of a tool are retried, all or some.
    pub(super) fn observe(
        &mut self,
        named: CheckedName<'_>,
        policy: &ToolPolicy,
        retry: &RetryPolicy,
        found: &mut LintFindings<'_>,
    ) {
        let (told, known, effect) = effects(named, policy);
        let asked = asked(retry, found);
        let Some(first) = asked.first().copied() else { return };
        if effect != Effect::NonIdempotent || policy.on_uncertain_effect.value != AfterEffect::Tell {
            self.count.extend(asked);
            if known == Effect::NonIdempotent
                && let Some(at) = found.place(policy.effect.origin)
            {
                found.push(contradicted(&subject("tool", named.name), told, at));
            }
            return;
        }
        let message = format!(
            "a failed run of {} is not retried, whatever `retry` says: the tool is not idempotent",
            subject("tool", named.name)
        );
        let problem = Diagnostic::warning(Code::NON_IDEMPOTENT, first, message);
        let problem = match found.place(policy.effect.origin) {
            Some(at) if told == Effect::NonIdempotent => problem.also(at, "said here"),
            _ => problem.help("the host says so of the tool"),
        };
        self.in_vain.entry(first).or_insert_with(|| problem.help(
            "only runs that certainly did not start are retried; set no retries, or declare `effect: idempotent` if running it twice does no harm",
        ));
    }

    /// Reports what has no effect.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for (span, problem) in self.in_vain {
            if !self.count.contains(&span) {
                found.push(problem);
            }
        }
    }
}

/// What the policy says a run does, what the host says, and what counts.
fn effects(named: CheckedName<'_>, policy: &ToolPolicy) -> (Effect, Effect, Effect) {
    let told = policy.effect.value;
    let known = named.known.map_or(Effect::Unknown, |known| known.effect);
    (told, known, if told == Effect::Unknown { known } else { told })
}

/// Whether rules about a tool ask for runs that it does not bear.
pub(super) fn in_vain(named: CheckedName<'_>, policy: &ToolPolicy, found: &LintFindings<'_>) -> bool {
    let (.., effect) = effects(named, policy);
    effect == Effect::NonIdempotent
        && policy.on_uncertain_effect.value == AfterEffect::Tell
        && !asked(&policy.retry, found).is_empty()
}

/// Where rules about tools or single calls ask for further runs of a tool that may have had side effects.
fn asked(retry: &RetryPolicy, found: &LintFindings<'_>) -> Vec<Span> {
    let retried = |class| {
        let listed = retry.retry_on.value.contains(class) && !retry.never_retry.value.contains(class);
        listed && !BEFORE.contains(&class)
    };
    let several = |attempts| attempts != AttemptLimit::Limited(core::num::NonZeroU32::MIN);
    let has_own = |class| retry.by_class.get(class).is_some();
    let own = retry.by_class.iter().filter(|(class, own)| retried(*class) && several(own.max_attempts.value));
    let own: Vec<Origin> = own.map(|(_, own)| own.max_attempts.origin).collect();
    let others = retry.retry_on.value.iter().any(|class| retried(class) && !has_own(class));
    let others = others && several(retry.max_attempts.value);
    if !retry.enabled.value || (!others && own.is_empty()) {
        return Vec::new();
    }
    let said =
        others.then_some(retry.max_attempts.origin).into_iter().chain(own).chain([retry.retry_on.origin]);
    let about = said.filter(|origin| matches!(origin.scope, LayerKind::Tool | LayerKind::Call));
    about.filter_map(|origin| found.place(origin)).collect()
}

/// The policy says that acting twice does no harm, and the host that it does.
fn contradicted(subject: &str, told: Effect, at: Span) -> Diagnostic {
    let told = if told == Effect::ReadOnly { "read_only" } else { "idempotent" };
    let message =
        format!("the host declares {subject} non-idempotent, and this policy `{told}`: it is run again");
    Diagnostic::warning(Code::NON_IDEMPOTENT, at, message)
        .help("remove `effect` if the host is right, or correct the host's declaration")
}

/// Reports breakers whose count the attempts of one call never reach, where the run ends with that call.
pub(super) fn idle_breaker(subject: &str, policy: &ToolPolicy, found: &mut LintFindings<'_>) {
    let (Some(failures), AttemptLimit::Limited(attempts)) =
        (policy.breaker.failures.value, policy.retry.max_attempts.value)
    else {
        return;
    };
    let Some(span) = found.place(policy.breaker.failures.origin) else { return };
    if policy.breaker.count.value != FailureCounting::Consecutive {
        return;
    }
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
