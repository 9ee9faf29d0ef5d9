//! Numbers of `context:` that exclude each other, or leave no room for a conversation.

use super::Found;
use crate::policy::{
    Code, ContextPolicy, ContextWindow, Diagnostic, ModelPolicy, Origin, ReduceStep, Setting, Share, Span,
};

/// Looks at the rules for all windows.
pub(super) fn judge(rules: &ContextPolicy, found: &mut Found<'_>) {
    no_room(rules, found);
    late_reduction(rules, found);
    short_reduction(rules, found);
    uncut(rules, found);
}

/// Reports parts of the window that are kept free and leave nothing of any window.
fn no_room(rules: &ContextPolicy, found: &mut Found<'_>) {
    let (reserve, safety) = (&rules.reserve, &rules.safety);
    let part = |share: Share| match share {
        Share::Part(part) => part,
        Share::Tokens(_) => 0,
    };
    if part(reserve.value).saturating_add(part(safety.value)) < 1_000_000 {
        return;
    }
    let Some(span) = place(found, [reserve.origin, safety.origin]) else { return };
    let message = format!(
        "`reserve` is {} and `safety` is {}: of no window anything is left for messages",
        reserve.value, safety.value
    );
    found.push(Diagnostic::warning(Code::NO_ROOM, span, message).help("make them smaller"));
}

/// Looks at the window of one model.
pub(super) fn judge_model(subject: &str, rules: &ContextPolicy, model: &ModelPolicy, found: &mut Found<'_>) {
    let ContextWindow::Tokens(window) = model.context_window.value else { return };
    let Some(span) = place(found, [model.context_window.origin, model.output_reserve.origin]) else { return };
    let (window, reply) = (window.get(), u64::from(model.output_reserve.value.get()));
    let kept = [reply, rules.reserve.value.of(window), rules.safety.value.of(window)];
    let kept = kept.into_iter().fold(0, u64::saturating_add);
    if kept < window {
        return late_reduction_of(subject, window.saturating_sub(kept), rules, found);
    }
    let message = format!(
        "the window of {subject} has {window} tokens, and {kept} of them are kept free: none are left for messages"
    );
    let problem = Diagnostic::warning(Code::NO_ROOM, span, message);
    found.push(problem.help("make `output_reserve`, `context.reserve` or `context.safety` smaller"));
}

/// Reports a gate that closes before the conversation is reduced.
fn late_reduction(rules: &ContextPolicy, found: &mut Found<'_>) {
    let (gate, evict) = (&rules.gate, &rules.evict_at);
    if rules.reduce.value.is_empty() || !at_least(gate, evict) {
        return;
    }
    let said = format!("`gate` is {} and `evict_at` is {}", gate.value, evict.value);
    say_late_reduction(&said, rules, found);
}

fn say_late_reduction(said: &str, rules: &ContextPolicy, found: &mut Found<'_>) {
    let Some(span) = place(found, [rules.gate.origin, rules.evict_at.origin]) else { return };
    let message = format!(
        "{said}: the conversation is reduced only when the gate is closed, and `evict_at` says nothing"
    );
    let problem = Diagnostic::warning(Code::LATE_REDUCTION, span, message);
    found.push(problem.help("make `gate` smaller than `evict_at`"));
}

/// The same where one is in tokens and the other a part of a window that is known, whatever its tools take of it.
fn late_reduction_of(subject: &str, budget: u64, rules: &ContextPolicy, found: &mut Found<'_>) {
    let (gate, evict) = (rules.gate.value, rules.evict_at.value);
    let (gate_of, evict_of) = (gate.of(budget), evict.of(budget));
    let mixed =
        matches!((gate, evict), (Share::Part(_), Share::Tokens(_)) | (Share::Tokens(_), Share::Part(_)));
    if rules.reduce.value.is_empty() || !mixed || gate_of < evict_of {
        return;
    }
    let said = format!(
        "`gate` is {gate} and `evict_at` is {evict}, in the window of {subject} {gate_of} and {evict_of} tokens"
    );
    say_late_reduction(&said, rules, found);
}

/// Reports reductions after which there is too little room again.
fn short_reduction(rules: &ContextPolicy, found: &mut Found<'_>) {
    let (target, evict) = (&rules.target, &rules.evict_at);
    if rules.reduce.value.is_empty() || target.value == evict.value || !at_least(evict, target) {
        return;
    }
    let Some(span) = place(found, [target.origin, evict.origin]) else { return };
    let message = format!(
        "`target` is {} and `evict_at` is {}: a reduction never ends where the next one begins",
        target.value, evict.value
    );
    let problem = Diagnostic::warning(Code::SHORT_REDUCTION, span, message);
    found.push(problem.help("make `target` at least as large as `evict_at`"));
}

/// Reports texts that are no shorter when they are cut.
fn uncut(rules: &ContextPolicy, found: &mut Found<'_>) {
    let Some(span) = place(found, [rules.reduce.origin]) else { return };
    for step in rules.reduce.value.iter() {
        let (over, left) = match step {
            ReduceStep::Truncate { over, head, tail, .. }
                if over.unit == head.unit && over.unit == tail.unit =>
            {
                (*over, head.count.saturating_add(tail.count))
            }
            ReduceStep::Results { over, show, .. } if over.unit == show.unit => (*over, show.count),
            _ => continue,
        };
        if left > over.count {
            let (name, unit) = (step.name(), over.unit.name());
            let message =
                format!("the step `{name}` cuts texts of more than {over}, and leaves {left} {unit} of them");
            let problem = Diagnostic::warning(Code::UNCUT, span, message);
            found.push(problem.help("leave less of them, or make `over` larger"));
        }
    }
}

/// Whether `a` is certainly no less than `b`: tokens and parts of a window that nobody knows cannot be compared.
fn at_least(a: &Setting<Share>, b: &Setting<Share>) -> bool {
    match (a.value, b.value) {
        (Share::Part(a), Share::Part(b)) => a >= b,
        (Share::Tokens(a), Share::Tokens(b)) => a >= b,
        _ => false,
    }
}

/// The first of these places that is in a file.
fn place(found: &Found<'_>, origins: impl IntoIterator<Item = Origin>) -> Option<Span> {
    origins.into_iter().find_map(|origin| found.place(origin))
}
