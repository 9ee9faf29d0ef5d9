//! What is done about a failure as it came: the rules of its class, and what the engine decides after a first attempt that
//! fails like this.

use crate::analysis::{ErrorExplanation, PlacedRule, PolicyExplanation, RequestCure};
use crate::engine::retry::{self, AttemptProgress, DelayRule, FailureContext, RetryBlocker, RetryVerdict};
use crate::engine::{DecisionReason, Failure, of_retry, of_stop};
use crate::policy::{ClassifiedFailure, ErrorClass, HistoryCheck, Policy, RetryPolicy, Seed, ServerDelay};
use crate::time::{Instant, Nanos};

/// What is done about a failure of that class.
pub(crate) fn explain_class(
    policy: &Policy,
    explanation: &PolicyExplanation,
    class: ErrorClass,
) -> ErrorExplanation {
    let told = explanation.on_error(class);
    ErrorExplanation { cure: cure(policy, explanation, class, false), ..told }
}

/// What is done about that failure; `None`: no row of the error tables tells its class.
pub fn explain_failure(
    policy: &Policy,
    explanation: &PolicyExplanation,
    failure: &Failure,
) -> Option<ErrorExplanation> {
    let mut told = if let Some(class) = failure.class {
        explanation.on_error(class)
    } else {
        let (row, at) = policy.error_row(&failure.evidence())?;
        explanation.on_row(row, at)
    };
    let classified = failure.classified(policy);
    if let Some(retry) = explanation.retry() {
        let advised = advised(explanation, retry, failure, classified);
        if advised.class != classified.class {
            told = ErrorExplanation { row: told.row, ..explanation.on_error(advised.class) };
            let rule = retry.for_class(classified.class).server_delay;
            let says = "the server says `x-should-retry: true`".to_owned();
            told.reasons.push(PlacedRule::of(policy, "retry.server_delay", rule.origin, says));
        }
        if told.action.runs_again() {
            told = first(policy, explanation, retry, failure, advised, told);
        }
    }
    told.cure = cure(policy, explanation, told.class, classified.request_at_fault);
    Some(told)
}

/// The same with what the engine decides after the first attempt.
fn first(
    policy: &Policy,
    explanation: &PolicyExplanation,
    retry: &RetryPolicy,
    failure: &Failure,
    classified: ClassifiedFailure,
    told: ErrorExplanation,
) -> ErrorExplanation {
    let rule: &ServerDelay = &retry.for_class(classified.class).server_delay.value;
    let case = FailureContext {
        class: classified.class,
        hint: retry::hint(&failure.waits(), classified, rule),
        assumed: retry::assumed(&failure.waits(), classified, rule),
        obstacle: RetryBlocker::of(classified).or_advice(retry::advice(failure.should_retry, rule)),
        run_deadline: None,
        correction: explanation.is_of_model() && classified.class.is_of_reply(),
    };
    let progress = AttemptProgress { started: Instant::default(), attempt: 1, slept: Nanos::ZERO };
    let seed = || Seed::new(0, "explain", "");
    match retry::decide_unshadowed(retry, progress, case, Instant::default(), seed) {
        RetryVerdict::Stop(reason) => {
            let why = of_stop(policy, retry, progress, &case, reason);
            let elsewhere = retry.allows_fallback(reason, classified.class);
            explanation.on_stop(told, why.into_iter().next().map(read), elsewhere)
        }
        RetryVerdict::Retry { by: DelayRule::Backoff, .. } => {
            let rules = case.rules(retry);
            bounded(policy, explanation, told, rules.backoff.value.bounds(1).0)
        }
        RetryVerdict::Retry { delay, by: DelayRule::Server } => {
            // Where the server says nothing, the row of the error table is among the reasons already.
            let of_row = ClassifiedFailure { wait: None, ..classified };
            let is_said = retry::hint(&failure.waits(), of_row, rule).is_some();
            let why = of_retry(policy, retry, progress, &case, delay, DelayRule::Server);
            // Without what `spread` adds at random.
            let most = rule.max.length().unwrap_or(Nanos::MAX);
            let asked = case.hint.map(|hint| hint.max(rule.min).min(most).min(delay));
            let mut told = ErrorExplanation { first_wait: asked, ..told };
            told.reasons.extend(why.into_iter().last().map(read).filter(|_| is_said));
            bounded(policy, explanation, told, asked.unwrap_or_default())
        }
    }
}

/// The same where what a run may have leaves no room for a second attempt at a model. `least`: the shortest wait before it.
fn bounded(
    policy: &Policy,
    explanation: &PolicyExplanation,
    told: ErrorExplanation,
    least: Nanos,
) -> ErrorExplanation {
    let limits = policy.run_limits();
    let waits = &policy.turn().run_delay;
    let calls = limits.model_calls.filter(|most| most.value <= 1);
    let time = limits.time.filter(|most| most.value <= least);
    let over = waits.value.length().filter(|most| least > *most);
    let waits_for = |most: Nanos| format!("= {most}; the next attempt waits {least} at least");
    let ended = [
        calls.map(|most| ("limits.run.model_calls", most.origin, format!("= {}", most.value))),
        time.map(|most| ("limits.run.time", most.origin, waits_for(most.value))),
        over.map(|most| ("turn.run_delay", waits.origin, waits_for(most))),
    ];
    let ended = ended.into_iter().flatten().next().filter(|_| explanation.is_of_model());
    let Some((path, origin, says)) = ended else { return told };
    let reason = PlacedRule::of(policy, path, origin, says);
    explanation.on_stop(ErrorExplanation { first_wait: None, ..told }, Some(reason), path == "turn.run_delay")
}

/// The class after the server's advice (`should_not_retry`), which the engine takes from models alone.
fn advised(
    explanation: &PolicyExplanation,
    retry: &RetryPolicy,
    failure: &Failure,
    classified: ClassifiedFailure,
) -> ClassifiedFailure {
    if explanation.is_of_model() {
        return retry::advised(classified, failure.should_retry, retry);
    }
    classified
}

/// What the engine does once about a refused request before the rules of its class count.
fn cure(
    policy: &Policy,
    explanation: &PolicyExplanation,
    class: ErrorClass,
    request_at_fault: bool,
) -> Option<(RequestCure, PlacedRule)> {
    if !explanation.is_of_model() {
        return None;
    }
    let (history, context) = (policy.history(), policy.context());
    let broken =
        class == ErrorClass::OrphanToolCall || (class == ErrorClass::MalformedToolCall && request_at_fault);
    let check = match history.check.value {
        HistoryCheck::BeforeCall => Some("= before_call"),
        HistoryCheck::AfterError => Some("= after_error"),
        HistoryCheck::Never => None,
    };
    if let Some(says) = check.filter(|_| broken) {
        let at = PlacedRule::of(policy, "history.check", history.check.origin, says.to_owned());
        return Some((RequestCure::Repaired, at));
    }
    if class == ErrorClass::ContextOverflow
        && context.compact_on_overflow.value
        && !context.reduce.value.is_empty()
    {
        let at = PlacedRule::of(
            policy,
            "context.compact_on_overflow",
            context.compact_on_overflow.origin,
            "= true".into(),
        );
        return Some((RequestCure::Reduced, at));
    }
    None
}

/// A reason of the engine as explanations show it.
fn read(because: DecisionReason) -> PlacedRule {
    let DecisionReason { rule, value, layer, place, facts } = because;
    let says =
        if facts.is_empty() { format!("= {value}") } else { format!("= {value}; {}", facts.join(", ")) };
    PlacedRule { path: rule, says, layer: layer.to_string(), at: place }
}
