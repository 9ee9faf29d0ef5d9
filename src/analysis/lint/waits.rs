//! Waits that many clients make in step, and rules for waits and targets that decide nothing.

use super::found::LintFindings;
use super::view::ProfileView;
use crate::policy::decode::Patch;
use crate::policy::form::{Document, MergedBlock as _};
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{Advance, Backoff, ClassRules, ErrorClass, Jitter, RetryPolicy, Setting};
use crate::text::{Code, Diagnostic, Span};

/// Reports waits for a model that all clients make alike: those that failed at the same moment come back at the same
/// moment.
pub(super) fn in_step(retry: &RetryPolicy, found: &mut LintFindings<'_>) {
    let has_own = |class| retry.by_class.get(class).is_some();
    let others = |class| retry.retries(class) && !has_own(class);
    let general = retry.retry_on.value.iter().any(others).then(|| retry.for_others());
    let own = retry.by_class.iter().map(|(class, _)| class).filter(|class| retry.retries(*class));
    for rules in general.into_iter().chain(own.map(|class| retry.for_class(class))) {
        if alike(&rules) {
            without_jitter(rules.backoff, found);
        }
    }
}

/// Whether there are such waits.
fn alike(rules: &ClassRules<'_>) -> bool {
    let backoff = &rules.backoff.value;
    let longest = backoff.bounds(1).1.max(backoff.limits().1);
    rules.max_attempts.value.allow_after(1) && backoff.jitter == Jitter::None && !longest.is_zero()
}

fn without_jitter(backoff: &Setting<Backoff>, found: &mut LintFindings<'_>) {
    let Some(span) = found.place(backoff.origin) else { return };
    let message = "waits for a model without jitter: clients that failed together retry together";
    let problem = Diagnostic::warning(Code::IN_STEP, span, message);
    found.push(problem.help("write `jitter: equal`, or `full`, into this `backoff`"));
}

/// Reports rules for targets that decide nothing. `most`: the most attempts that any model has.
pub(super) fn targets(view: &ProfileView<'_>, most: Option<u32>, found: &mut LintFindings<'_>) {
    let Some(rules) = view.layers.turn().targets.policy() else { return };
    let advance = rules.fallback.value;
    let named = [("attempts", rules.attempts.origin), ("fallback_after", rules.fallback_after.origin)];
    for (name, origin) in named {
        let idle = |span: &Span| advance != Advance::Rotate && !found.ships(*span);
        let Some(span) = found.place(origin).filter(idle) else { continue };
        let word = advance.name();
        let message = format!("`targets.{name}` has no effect with `fallback: {word}`");
        let problem = Diagnostic::warning(Code::DECIDES_NOTHING, span, message);
        let problem = match found.place(rules.fallback.origin) {
            Some(advance) => problem.also(advance, "`fallback`"),
            None => problem,
        };
        found.push(problem.help("remove it, or write `fallback: rotate`"));
    }
    let (Some(attempts), Some(most)) = (rules.attempts.value.limit(), most) else {
        return;
    };
    if advance == Advance::Rotate
        && attempts > most
        && let Some(span) = found.place(rules.attempts.origin)
    {
        let message =
            format!("`targets.attempts` is {attempts}, and a turn has no more than {most} (`max_attempts`)");
        let problem = Diagnostic::warning(Code::DECIDES_NOTHING, span, message);
        found.push(problem.help("lower it, or raise `max_attempts` of the models"));
    }
}

/// Reports waits before corrections that stand where none is looked for.
pub(super) fn corrections(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    let own = || parts.iter().filter(|part| part.kind != PartKind::Builtin);
    for part in own() {
        if let Patch::Set(output, _) = &part.blocks.output {
            let layer = &output.retry;
            idle("a rejected report is", "backoff", layer.backoff.as_set().and(layer.backoff.span()), found);
            of_classes(layer, |_| true, "a rejected report is", found);
        }
        for (_, tool) in &part.blocks.tools.0 {
            let corrected = |class| class == ErrorClass::InvalidArgs;
            of_classes(&tool.retry, corrected, "invalid arguments are", found);
        }
    }
}

fn of_classes(
    layer: &RetryPolicy<Document>,
    looked_at: impl Fn(ErrorClass) -> bool,
    what: &str,
    found: &mut LintFindings<'_>,
) {
    for (class, own) in layer.by_class.layers().filter(|(class, _)| looked_at(*class)) {
        let name = format!("by_class.{class}.backoff");
        idle(what, &name, own.backoff.as_set().and(own.backoff.span()), found);
    }
}

fn idle(what: &str, name: &str, at: Option<Span>, found: &mut LintFindings<'_>) {
    let Some(span) = at else { return };
    let message = format!("`{name}` has no effect here: {what} corrected after `correction_backoff`");
    let problem = Diagnostic::warning(Code::DECIDES_NOTHING, span, message);
    found.push(problem.help("write `correction_backoff` instead, or remove it"));
}
