//! What is wrong with files that are each well formed: attempts without end, reducers without a slice, budgets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::conflict::{SearchBudget, short};
use super::decode::{Patch, list};
use super::document::{MOST_SELECTORS, ReducerEntry, too_many_selectors};
use super::layers::{PolicyLayers, unbounded};
use super::rules::RuleList;
use super::{Findings, Origin, RetryBudget, RetryPolicy, Selector, Setting};
use crate::policy::form::MergedBlock as _;
use crate::policy::layer_value::LayerValue as _;
use crate::policy::part::PolicyPart;
use crate::text::did_you_mean::closest;
use crate::text::{Code, Diagnostic, Sources, Span};

/// The most texts in the error rows of files, and their bytes: all are searched for at once.
const MOST_ERROR_TEXTS: usize = 2_500;
const MOST_ERROR_BYTES: usize = 64 << 10;
/// What may set a bound, where it cannot be read.
const BOUNDING: [&str; 13] = [
    "deadline",
    "enabled",
    "max_attempts",
    "by_class",
    "retry",
    "limits",
    "calls",
    "CallRule",
    "tools",
    "ToolLayer",
    "models",
    "ModelLayer",
    "output",
];
/// What may say another budget, where it cannot be read.
const BUDGETING: [&str; 9] =
    ["budget", "retry", "calls", "CallRule", "tools", "ToolLayer", "models", "ModelLayer", "output"];
/// So many shapes of a pool are reported.
const SHAPES: usize = 8;

/// Reports more selectors than there may be. `true`: there are not.
pub(crate) fn within_budget<T>(rules: &RuleList<T>, findings: &mut Findings) -> bool {
    // The last selector is shown, because the earlier ones were within the limit.
    let over = rules.all().iter().max_by_key(|rule| rule.span).filter(|_| rules.all().len() > MOST_SELECTORS);
    if let Some(rule) = over {
        findings.push(too_many_selectors(rule.span));
    }
    over.is_none()
}

/// Reports error rows that exceed the budget. `true`: there are none.
pub(crate) fn rows_within_budget(parts: &[&PolicyPart], findings: &mut Findings) -> bool {
    let (mut texts, mut bytes) = (0_usize, 0_usize);
    for rule in parts.iter().flat_map(|part| &part.blocks.errors) {
        let pieces = rule.message.iter().chain(&rule.detail).flat_map(|texts| &texts.0);
        let phrases = rule.words.iter().flat_map(|words| &words.0).flat_map(|concept| &concept.0);
        for text in pieces.map(|piece| &piece.0).chain(phrases) {
            texts = texts.saturating_add(1);
            bytes = bytes.saturating_add(text.len());
        }
        if texts > MOST_ERROR_TEXTS || bytes > MOST_ERROR_BYTES {
            let message = format!(
                "the error rows up to here look for more than {MOST_ERROR_TEXTS} texts or {MOST_ERROR_BYTES} bytes"
            );
            let problem = Diagnostic::error(Code::TOO_LARGE, rule.class.span, message);
            findings.push(problem.help("remove some, or shorten them"));
            return false;
        }
    }
    true
}

/// Reports attempts without end, for every subject the files name.
pub(crate) fn endless(layers: &PolicyLayers, work: &mut SearchBudget, findings: &mut Findings) {
    // A key that could not be read may be the bound that seems to be missing.
    if findings.lost().any(&BOUNDING) {
        return;
    }
    let (mut told, mut problems) = (BTreeSet::new(), Vec::new());
    let finished = everywhere(layers, work, &mut |retry, subject| {
        let Some(origin) = unbounded(retry) else { return };
        // The word `unlimited` has nine letters.
        let span = Span::new(origin.source, origin.at, origin.at.saturating_add(9));
        // Many names share one place, and one report of it is enough.
        if told.insert(span) {
            let message = format!("the attempts of {subject} have no end");
            let problem = Diagnostic::error(Code::UNBOUNDED, span, message);
            problems.push(problem.help("set a `deadline` in the same layer, or a number of attempts"));
        }
    });
    problems.extend(finished.err().map(|problem| *problem));
    for problem in problems {
        findings.push(problem);
    }
}

/// Reports pools of budgets that are not the same wherever they are drawn on: each use would begin again.
pub(crate) fn pools(
    layers: &PolicyLayers,
    sources: &Sources,
    work: &mut SearchBudget,
    findings: &mut Findings,
) {
    if findings.lost().any(&BUDGETING) {
        return;
    }
    let mut pools: BTreeMap<String, Vec<Setting<RetryBudget>>> = BTreeMap::new();
    let finished = everywhere(layers, work, &mut |retry, _| {
        let Some(pool) = retry.budget.value.pool() else { return };
        let shapes = pools.entry(pool.to_owned()).or_default();
        // Each new shape is compared with those before it, so their number is bounded.
        if shapes.len() < SHAPES && !shapes.iter().any(|shape| shape.value == retry.budget.value) {
            shapes.push(retry.budget.clone());
        }
    });
    for (pool, mut shapes) in pools {
        shapes.sort_by_key(|shape| (shape.origin.source, shape.origin.at));
        let mut shapes = shapes.into_iter();
        let Some(first) = shapes.next() else { continue };
        for other in shapes {
            let place = sources.place(first.origin);
            let at = |origin: Origin| Span::new(origin.source, origin.at, origin.at.saturating_add(1));
            let message = format!("the pool `{pool}` has another shape here than at {place}");
            let problem = Diagnostic::error(Code::CONTRADICTION, at(other.origin), message)
                .label(format!("here: {}", short(&other.value.show())))
                .also(at(first.origin), format!("there: {}", short(&first.value.show())))
                .help("write the same budget in both places, or give one of the two another `pool`");
            findings.push(problem);
        }
    }
    if let Err(problem) = finished {
        findings.push(*problem);
    }
}

/// Shows the retries of every subject the files name. The error says that there is too much to look at.
fn everywhere(
    layers: &PolicyLayers,
    work: &mut SearchBudget,
    see: &mut dyn FnMut(&RetryPolicy, &str),
) -> Result<(), Box<Diagnostic>> {
    let mut show = |retry: Option<RetryPolicy>, subject: &str| {
        if let Some(retry) = retry {
            see(&retry, subject);
        }
    };
    // U+0001 is in no name, so only the global layer matches it. A pattern is looked at through the shortest name it
    // matches, with nothing for each `*`.
    let nobody = "\u{1}".to_owned();
    let names = |selector: &Selector| selector.as_str().replace('*', "");
    show(layers.tool_retry(&nobody, &[]).policy(), "tools");
    show(layers.model_retry(&nobody).policy(), "models");
    show(layers.output().retry.policy(), "the output");
    for rule in layers.tool_rules().all() {
        let name = names(&rule.selector);
        let subject = format!("tool `{}`", rule.selector.as_str());
        let calls = layers.calls(&name);
        // One merge for the tool and one for each of its calls. The budget keeps a hostile file from taking minutes.
        let cost = layers.tool_rules().cost(&name);
        if !work.spend(cost.saturating_mul(calls.len().saturating_add(1))) {
            return Err(Box::new(SearchBudget::used_up(rule.span)));
        }
        show(layers.tool_retry(&name, &[]).policy(), &subject);
        for (_, above) in calls {
            show(layers.tool_retry(&name, &[above]).policy(), &subject);
        }
    }
    for rule in layers.model_rules().all() {
        let subject = format!("model `{}`", rule.selector.as_str());
        let name = names(&rule.selector);
        if !work.spend(layers.model_rules().cost(&name)) {
            return Err(Box::new(SearchBudget::used_up(rule.span)));
        }
        show(layers.model_retry(&name).policy(), &subject);
    }
    Ok(())
}

/// Reports reducers whose slice does not exist or cannot be changed that way, and messages that read a slice there is not.
pub(crate) fn reducers(parts: &[&PolicyPart], findings: &mut Findings) {
    let sessions: Vec<_> = parts.iter().filter_map(|part| part.blocks.session.as_ref()).collect();
    if findings.lost().any(&["session", "slices", "reducers"]) {
        return;
    }
    // What a slice starts as; not known of one that could not be read.
    let mut slices: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    let mut removed: BTreeMap<&str, Span> = BTreeMap::new();
    let mut rules: BTreeMap<&str, &ReducerEntry> = BTreeMap::new();
    let mut guess = true;
    for session in sessions {
        for (name, slice) in &session.slices.0 {
            match slice {
                Patch::Set(slice, _) => slices.insert(&name.value, Some(&slice.initial.0)),
                Patch::Absent => slices.insert(&name.value, None),
                Patch::Null(at) => {
                    removed.insert(&name.value, *at);
                    slices.remove(name.value.as_str())
                }
            };
        }
        for (name, reducer) in &session.reducers.0 {
            match reducer {
                Patch::Set(reducer, _) => {
                    rules.insert(&name.value, reducer);
                }
                // A reducer that could not be read may give any slice a value of any kind.
                Patch::Absent => guess = false,
                Patch::Null(_) => {
                    rules.remove(name.value.as_str());
                }
            }
        }
    }
    // A reducer that sets a slice may change its kind, so the others are compared with `initial` only without one.
    let set: BTreeSet<&str> =
        rules.values().filter(|r| r.r#do.value.needs().is_none()).map(|r| r.slice.value.as_str()).collect();
    for (name, reducer) in &rules {
        let slice = reducer.slice.value.as_str();
        match slices.get(slice) {
            None => findings.push(match removed.get(slice) {
                Some(at) => no_slice_any_more(name, reducer, *at),
                None => no_slice(&reducer.slice.value, reducer.slice.span, &slices),
            }),
            Some(Some(initial)) if guess && !set.contains(slice) => {
                let kind = kind(initial);
                if let Some(needed) = reducer.r#do.value.needs().filter(|needed| *needed != kind) {
                    let message = format!("this needs {needed}, and slice `{slice}` starts as {kind}");
                    let problem = Diagnostic::error(Code::CONTRADICTION, reducer.r#do.span, message);
                    findings.push(problem.help("give the slice another `initial`, or change it another way"));
                }
            }
            Some(_) => {}
        }
    }
    for (name, span) in findings.slices_read() {
        if !slices.contains_key(name.as_str()) {
            findings.push(no_slice(&name, span, &slices));
        }
    }
}

fn no_slice_any_more(name: &str, reducer: &ReducerEntry, at: Span) -> Diagnostic {
    let slice = &reducer.slice.value;
    let message = format!("`{slice}` is removed, and the reducer `{name}` changes it");
    Diagnostic::error(Code::CONTRADICTION, at, message).also(reducer.slice.span, "here").help(format!(
        "remove the reducer too, by `{name}: null` under `session.reducers`, or keep the slice"
    ))
}

fn no_slice(name: &str, span: Span, slices: &BTreeMap<&str, Option<&Value>>) -> Diagnostic {
    let mut known: Vec<&str> = slices.keys().copied().collect();
    known.sort_unstable();
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, span, format!("there is no slice `{name}`"));
    match closest(name, known.iter().copied()) {
        Some(meant) => problem.meant(span, name, meant, known.iter().copied()),
        None => problem.help(format!("declare it under `session.slices`; there are {}", list(&known))),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
