//! Numbers of `context:` that exclude each other, or leave no room for a conversation.

use super::LintFindings;
use crate::policy::{ContextPolicy, ContextShare, ContextWindow, ModelPolicy, Origin, ReduceStep, Setting};
use crate::text::{Code, Diagnostic, Span};

/// Looks at the rules for all windows.
pub(super) fn check(rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    no_room(rules, found);
    late_reduction(rules, found);
    short_reduction(rules, found);
    uncut(rules, found);
}

/// Reports parts of the window that are kept free and leave nothing of any window.
fn no_room(rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    let (reserve, safety) = (&rules.reserve, &rules.safety);
    let part = |share: ContextShare| match share {
        ContextShare::Part(part) => part,
        ContextShare::Tokens(_) => 0,
    };
    if part(reserve.value).saturating_add(part(safety.value)) < 1_000_000 {
        return;
    }
    let Some(span) = place(found, [reserve.origin, safety.origin]) else { return };
    let message = format!(
        "`reserve` is {} and `safety` is {}: no window has room left for messages",
        reserve.value, safety.value
    );
    found.push(Diagnostic::warning(Code::NO_ROOM, span, message).help("make them smaller"));
}

/// Looks at the window of one model.
pub(super) fn check_model(
    subject: &str,
    rules: &ContextPolicy,
    model: &ModelPolicy,
    found: &mut LintFindings<'_>,
) {
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
fn late_reduction(rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    let (gate, evict) = (&rules.min_free, &rules.compact_at_free);
    if rules.reduce.value.is_empty() || !at_least(gate, evict) {
        return;
    }
    let said = format!("`min_free` is {} and `compact_at_free` is {}", gate.value, evict.value);
    say_late_reduction(&said, rules, found);
}

fn say_late_reduction(said: &str, rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    let Some(span) = place(found, [rules.min_free.origin, rules.compact_at_free.origin]) else { return };
    let message = format!(
        "{said}: the conversation is compacted only when `min_free` is reached, and `compact_at_free` has no effect"
    );
    let problem = Diagnostic::warning(Code::LATE_REDUCTION, span, message);
    found.push(problem.help("make `min_free` smaller than `compact_at_free`"));
}

/// The same where one is in tokens and the other a part of a window that is known, whatever its tools take of it.
fn late_reduction_of(subject: &str, budget: u64, rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    let (gate, evict) = (rules.min_free.value, rules.compact_at_free.value);
    let (gate_of, evict_of) = (gate.of(budget), evict.of(budget));
    let mixed = matches!(
        (gate, evict),
        (ContextShare::Part(_), ContextShare::Tokens(_)) | (ContextShare::Tokens(_), ContextShare::Part(_))
    );
    if rules.reduce.value.is_empty() || !mixed || gate_of < evict_of {
        return;
    }
    let said = format!(
        "`min_free` is {gate} and `compact_at_free` is {evict}, in the window of {subject} {gate_of} and {evict_of} tokens"
    );
    say_late_reduction(&said, rules, found);
}

/// Reports reductions after which there is too little room again.
fn short_reduction(rules: &ContextPolicy, found: &mut LintFindings<'_>) {
    let (target, evict) = (&rules.target_free, &rules.compact_at_free);
    if rules.reduce.value.is_empty() || target.value == evict.value || !at_least(evict, target) {
        return;
    }
    let Some(span) = place(found, [target.origin, evict.origin]) else { return };
    let message = format!(
        "`target_free` is {} and `compact_at_free` is {}: compaction ends below the point where the next one begins",
        target.value, evict.value
    );
    let problem = Diagnostic::warning(Code::SHORT_REDUCTION, span, message);
    found.push(problem.help("make `target_free` at least as large as `compact_at_free`"));
}

/// Reports texts that are no shorter when they are cut.
fn uncut(rules: &ContextPolicy, found: &mut LintFindings<'_>) {
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

/// Whether `a` is certainly no less than `b`: tokens and parts of a window that is unknown cannot be compared.
fn at_least(a: &Setting<ContextShare>, b: &Setting<ContextShare>) -> bool {
    match (a.value, b.value) {
        (ContextShare::Part(a), ContextShare::Part(b)) => a >= b,
        (ContextShare::Tokens(a), ContextShare::Tokens(b)) => a >= b,
        _ => false,
    }
}

/// The first of these places that is in a file.
fn place(found: &LintFindings<'_>, origins: impl IntoIterator<Item = Origin>) -> Option<Span> {
    origins.into_iter().find_map(|origin| found.place(origin))
}
