//! Numbers of one value that exclude each other: waits above their cap, waits that can never be asked for, retries
//! that no budget ever grants.

use super::LintFindings;
use crate::policy::decode::Patch;
use crate::policy::document::{PolicyBlocks, RetryPolicy, WrittenBackoff};
use crate::policy::form::Document;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{AboveMax, BackoffShape, RetryBudget, ServerDelay, ServerDelayMode, TimeBound};
use crate::text::{Code, Diagnostic, Span};
use crate::time::Nanos;

/// Looks at every retry policy of the files.
pub(super) fn check(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    for part in parts.iter().filter(|part| part.kind != PartKind::Builtin) {
        each(&part.blocks, &mut |layer| retry(layer, found));
    }
}

/// Every layer that speaks of retries.
pub(super) fn each(blocks: &PolicyBlocks, visit: &mut dyn FnMut(&RetryPolicy<Document>)) {
    visit(&blocks.retry);
    for (_, tool) in &blocks.tools.0 {
        visit(&tool.retry);
        tool.calls.iter().for_each(|call| visit(&call.retry));
    }
    blocks.models.0.iter().for_each(|(_, model)| visit(&model.retry));
    if let Patch::Set(output, _) = &blocks.output {
        visit(&output.retry);
    }
}

fn retry(layer: &RetryPolicy<Document>, found: &mut LintFindings<'_>) {
    let own = layer.by_class.layers();
    let backoffs = [&layer.backoff, &layer.correction_backoff]
        .into_iter()
        .chain(own.clone().map(|(_, own)| &own.backoff));
    for backoff in backoffs {
        if let Patch::Set(backoff, span) = backoff {
            above_cap(backoff, *span, found);
        }
    }
    let delays = core::iter::once(&layer.server_delay).chain(own.map(|(_, own)| &own.server_delay));
    for delay in delays {
        if let Patch::Set(delay, span) = delay {
            upside_down(*delay, *span, found);
        }
    }
    if let Patch::Set(RetryBudget::Tokens(budget), span) = &layer.budget {
        let capacity = budget.capacity.get();
        let general = (budget.cost > capacity).then(|| (String::new(), budget.cost));
        let own = budget.cost_of.iter().filter(|(_, cost)| *cost > capacity);
        let own = own.map(|(class, cost)| (format!(" after {class}"), *cost));
        for (after, cost) in general.into_iter().chain(own) {
            let message =
                format!("a retry{after} costs {cost}, and the capacity of the budget is {capacity}");
            let problem = Diagnostic::warning(Code::NEVER_GRANTED, *span, message).label("never granted");
            found.push(problem.help("raise `capacity`, lower the cost, or take the class out of `retry_on`"));
        }
    }
}

/// Reports delays that the cap cuts down from the first one on.
fn above_cap(backoff: &WrittenBackoff, span: Span, found: &mut LintFindings<'_>) {
    let Some(cap) = backoff.cap else { return };
    let longest = match &backoff.shape {
        BackoffShape::Constant { delay: first }
        | BackoffShape::Linear { base: first, .. }
        | BackoffShape::Exponential { base: first, .. }
        | BackoffShape::Fibonacci { base: first } => *first,
        BackoffShape::Schedule { delays } => delays.iter().copied().max().unwrap_or(Nanos::ZERO),
    };
    if longest > cap {
        let message = format!("a delay of {longest} is longer than the `cap` of {cap}, and has no effect");
        let first = ["base", "delay", "delays"].into_iter().find_map(|key| found.value_of(span, key));
        let problem = Diagnostic::warning(Code::ABOVE_CAP, first.unwrap_or(span), message);
        let problem = match found.value_of(span, "cap") {
            Some(cap) => problem.also(cap, "`cap`"),
            None => problem,
        };
        found.push(problem.help("raise `cap`, or lower the delay"));
    }
}

/// Reports waits whose shortest is longer than their longest.
fn upside_down(delay: ServerDelay, span: Span, found: &mut LintFindings<'_>) {
    let TimeBound::Within(most) = delay.max else { return };
    if delay.min <= most || delay.mode == ServerDelayMode::Ignore {
        return;
    }
    let then = match delay.above_max {
        AboveMax::GiveUp | AboveMax::NextTarget => "every server delay ends the attempts",
        AboveMax::Clamp => "every server delay becomes `max`",
    };
    let message = format!("`min` is {}, and `max` is {most}: {then}", delay.min);
    let problem = match (found.value_of(span, "min"), found.value_of(span, "max")) {
        (Some(min), Some(max)) => {
            Diagnostic::warning(Code::UPSIDE_DOWN, min, message).label("longer than `max`").also(max, "`max`")
        }
        (Some(min), None) => Diagnostic::warning(Code::UPSIDE_DOWN, min, message).label("longer than `max`"),
        _ => Diagnostic::warning(Code::UPSIDE_DOWN, span, message),
    };
    found.push(problem.help("make `max` at least as long as `min`"));
}
