//! What a file says by itself that means nothing: breakers without a pause, conditions that are always the same, empty
//! rules, rules for retries that are switched off, names that are there twice.

use std::collections::HashMap;

use serde_json::Map;

use super::Found;
use super::numbers::each;
use crate::policy::decode::{Patch, list};
use crate::policy::document::{Blocks, CallRule, RetryPolicy};
use crate::policy::form::{self, Document};
use crate::policy::loader::{Part, PartKind};
use crate::policy::merge::Leaf as _;
use crate::policy::{Bound, Code, Diagnostic, ErrorClass, Span, Validator};
use crate::time::Nanos;

/// Looks at every file.
pub(super) fn judge(parts: &[Part], found: &mut Found<'_>) {
    let own = || parts.iter().filter(|part| part.kind != PartKind::Builtin);
    let mut switched_on = false;
    own().for_each(|part| {
        each(&part.blocks, &mut |layer| switched_on |= matches!(layer.enabled, Patch::Set(true, _)));
    });
    for part in own() {
        each(&part.blocks, &mut |layer| {
            twice(layer, found);
            // A narrower rule that switches them on takes the others from here.
            if !switched_on {
                switched_off(layer, found);
            }
        });
        blocks(&part.blocks, found);
    }
}

fn blocks(blocks: &Blocks, found: &mut Found<'_>) {
    for (_, tool) in &blocks.tools.0 {
        if let Patch::Set(Bound::Within(Nanos::ZERO), span) = tool.breaker.open_for {
            let message = "the breaker opens for no time: the next call is its probe";
            let problem = Diagnostic::warning(Code::NO_PAUSE, span, message);
            found.push(problem.help("say how long, or write `failures: never` if it is to stay closed"));
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
fn of_calls(call: &CallRule, found: &mut Found<'_>) {
    let (when, span) = (&call.when.value.expr, call.when.span);
    if !when.reads("args") && !when.reads("tool") {
        let (message, help) = match when.holds(&Map::new()) {
            Ok(true) => ("`when` always holds", "write it as a rule of the tool, for all calls"),
            _ => ("`when` never holds", "remove the rule, or say of which `args` it is meant"),
        };
        found.push(Diagnostic::warning(Code::CONSTANT, span, message).help(help));
    }
    let mut entries = Vec::new();
    form::entries(&*call.retry, "", &mut entries);
    if entries.is_empty() && call.limits.is_none() && call.approval.span().is_none() {
        let problem = Diagnostic::warning(Code::EMPTY_RULE, span, "the rule for these calls says nothing");
        found.push(problem.help("set something under `retry`, `approval` or `limits`, or remove it"));
    }
}

/// Reports what is said of retries beside the switch that ends them.
fn switched_off(layer: &RetryPolicy<Document>, found: &mut Found<'_>) {
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
    let s = if names.len() == 1 { "s" } else { "" };
    let message =
        format!("`enabled: false` ends all retries, and {} beside it decide{s} nothing", list(&names));
    let problem = Diagnostic::warning(Code::SWITCHED_OFF, span, message).also(*first, "never decides");
    found.push(problem.help("remove the one or the other"));
}

/// Reports classes that a list names twice.
fn twice(layer: &RetryPolicy<Document>, found: &mut Found<'_>) {
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

/// Reports validators of one name: nobody can tell from a report which of them it was.
fn same_names(validators: &[Validator], found: &mut Found<'_>) {
    let mut first: HashMap<&str, Span> = HashMap::new();
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
