//! What a file says by itself that means nothing: breakers without a pause, conditions that are always the same, empty
//! rules, rules for retries that never happen, names that are there twice.

use std::collections::BTreeMap;

use serde_json::Map;

use super::LintFindings;
use super::numbers::each;
use crate::policy::decode::{Patch, list};
use crate::policy::document::{CallRule, PolicyBlocks, RetryPolicy};
use crate::policy::form::{self, Document};
use crate::policy::layer_value::LayerValue as _;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{ErrorClass, TimeBound, Validator};
use crate::text::{Code, Diagnostic, Span};
use crate::time::Nanos;

/// Looks at every file.
pub(super) fn check(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    let own = || parts.iter().filter(|part| part.kind != PartKind::Builtin);
    let mut switched_on = false;
    own().for_each(|part| {
        each(&part.blocks, &mut |layer| switched_on |= matches!(layer.enabled, Patch::Set(true, _)));
    });
    for part in own() {
        each(&part.blocks, &mut |layer| {
            twice(layer, found);
            // A more specific rule that switches them on takes the others from here.
            if !switched_on {
                switched_off(layer, found);
            }
        });
        blocks(&part.blocks, found);
    }
}

fn blocks(blocks: &PolicyBlocks, found: &mut LintFindings<'_>) {
    for (_, tool) in &blocks.tools.0 {
        if let Patch::Set(TimeBound::Within(Nanos::ZERO), span) = tool.breaker.open_for {
            let message = "the breaker is open for no time: the next call is already a probe";
            let problem = Diagnostic::warning(Code::NO_PAUSE, span, message);
            found.push(problem.help("set a duration, or `failures: never` to keep it closed"));
        }
        super::breakers::plain(tool, found);
        if let Patch::Set(checks, _) = &tool.validate {
            same_names(&checks.over(None), found);
        }
        tool.calls.iter().for_each(|call| of_calls(call, found));
    }
    if let Patch::Set(output, _) = &blocks.output
        && let Patch::Set(checks, _) = &output.validate
    {
        same_names(&checks.over(None), found);
    }
}

/// Looks at a layer for single calls.
fn of_calls(call: &CallRule, found: &mut LintFindings<'_>) {
    let (when, span) = (&call.when.value.expr, call.when.span);
    if !when.reads("args") && !when.reads("tool") {
        let (message, help) = match when.holds(&Map::new()) {
            Ok(true) => ("`when` is always true", "write it as a rule of the tool, for all calls"),
            _ => ("`when` is never true", "remove the rule, or test the `args` it is meant for"),
        };
        found.push(Diagnostic::warning(Code::CONSTANT, span, message).help(help));
    }
    let mut entries = Vec::new();
    form::entries(&*call.retry, "", &mut entries);
    if entries.is_empty() && call.limits.is_none() && call.approval.span().is_none() {
        let problem = Diagnostic::warning(Code::EMPTY_RULE, span, "the rule for these calls has no effect");
        found.push(problem.help("set something under `retry`, `approval` or `limits`, or remove it"));
    }
}

/// Reports rules of retries next to the switch that ends them.
fn switched_off(layer: &RetryPolicy<Document>, found: &mut LintFindings<'_>) {
    let Patch::Set(false, span) = layer.enabled else { return };
    let beside = [
        ("max_attempts", layer.max_attempts.span()),
        ("retry_on", layer.retry_on.as_set().and(layer.retry_on.span())),
        ("backoff", layer.backoff.as_set().and(layer.backoff.span())),
        ("correction_backoff", layer.correction_backoff.as_set().and(layer.correction_backoff.span())),
        ("server_delay", layer.server_delay.as_set().and(layer.server_delay.span())),
        ("total_delay", layer.total_delay.as_set().and(layer.total_delay.span())),
        ("budget", layer.budget.as_set().and(layer.budget.span())),
    ];
    let said: Vec<(&str, Span)> = beside.into_iter().filter_map(|(name, at)| Some((name, at?))).collect();
    let names: Vec<&str> = said.iter().map(|(name, _)| *name).collect();
    let Some((_, first)) = said.first() else { return };
    let verb = if names.len() == 1 { "has" } else { "have" };
    let message =
        format!("`enabled: false` ends all retries, and {} beside it {verb} no effect", list(&names));
    let problem = Diagnostic::warning(Code::SWITCHED_OFF, span, message).also(*first, "has no effect");
    found.push(problem.help("remove the one or the other"));
}

/// Reports classes that a list names twice.
fn twice(layer: &RetryPolicy<Document>, found: &mut LintFindings<'_>) {
    for span in [layer.retry_on.span(), layer.never_retry.span()].into_iter().flatten() {
        let text = found.text(span).to_owned();
        let words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = words.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        let (mut seen, mut again) = (Vec::new(), Vec::new());
        for word in words {
            match ErrorClass::from_name(word) {
                // Another list begins.
                None if matches!(word, "add" | "remove") => seen.clear(),
                Some(class) if seen.contains(&class) => again.push(class.name()),
                class => seen.extend(class),
            }
        }
        if !again.is_empty() {
            again.dedup();
            let message = format!("the list names {} twice", list(&again));
            let problem = Diagnostic::warning(Code::NAMED_TWICE, span, message);
            found.push(problem.help("remove one, or write the class that is meant"));
        }
    }
}

/// Reports validators with the same name, which a report cannot distinguish.
fn same_names(validators: &[Validator], found: &mut LintFindings<'_>) {
    let mut first: BTreeMap<&str, Span> = BTreeMap::new();
    for validator in validators {
        let span = validator.span;
        if let Some(other) = first.get(validator.name.as_str()) {
            let message = format!("there are two validators `{}` here", validator.name);
            let problem = Diagnostic::warning(Code::SAME_NAME, span, message).also(*other, "the first");
            found.push(problem.help("give each a name of its own"));
        } else {
            first.insert(&validator.name, span);
        }
    }
}
