//! What is wrong with files that are each well formed: attempts without end, reducers without a slice, budgets.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::conflict::Work;
use super::decode::{Patch, list};
use super::did_you_mean::closest;
use super::document::ReducerEntry;
use super::layers::{Layers, unbounded};
use super::loader::Part;
use super::rules::Rules;
use super::{Code, Diagnostic, Findings, RetryPolicy, Selector, Span};

/// The most selectors of each kind, of all files together.
pub(crate) const MOST_SELECTORS: usize = 10_000;
/// The most texts in the messages of error rows, and their bytes: all are searched for at once.
const MOST_ERROR_TEXTS: usize = 2_000;
const MOST_ERROR_BYTES: usize = 64 << 10;
/// What it costs to hear one more rule, in comparisons.
const RESOLVED: usize = 16;

/// Reports more selectors than there may be. `true`: there are not.
pub(crate) fn within_budget<T>(rules: &Rules<T>, findings: &mut Findings) -> bool {
    let over = rules.all().iter().max_by_key(|rule| rule.span).filter(|_| rules.all().len() > MOST_SELECTORS);
    if let Some(rule) = over {
        findings.push(too_many_selectors(rule.span));
    }
    over.is_none()
}

/// Says that there are too many selectors.
pub(crate) fn too_many_selectors(span: Span) -> Diagnostic {
    let message = format!("more than {MOST_SELECTORS} selectors");
    Diagnostic::error(Code::TOO_LARGE, span, message).help("use fewer, wider patterns with `*`")
}

/// Reports error rows that exceed the budget. `true`: there are none.
pub(super) fn rows_within_budget(parts: &[&Part], findings: &mut Findings) -> bool {
    let (mut texts, mut bytes) = (0_usize, 0_usize);
    for rule in parts.iter().flat_map(|part| &part.blocks.errors) {
        for text in rule.message.iter().chain(&rule.detail).flat_map(|texts| &texts.0) {
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
pub(crate) fn endless(layers: &Layers, work: &mut Work, findings: &mut Findings) {
    let mut told = HashSet::new();
    let mut report = |retry: Option<RetryPolicy>, subject: &str| {
        let Some(retry) = retry else { return };
        let Some(origin) = unbounded(&retry) else { return };
        let span = Span::new(origin.source, origin.at, origin.at.saturating_add(9));
        if told.insert(span) {
            let message = format!("the attempts of {subject} have no end");
            let problem = Diagnostic::error(Code::UNBOUNDED, span, message);
            findings.push(problem.help("set a `deadline` in the same layer, or a number of attempts"));
        }
    };
    // A name no rule matches shows the global layer; `*` in a pattern may stand for nothing.
    let nobody = "\u{1}".to_owned();
    let names = |selector: &Selector| selector.as_str().replace('*', "");
    report(layers.tool_retry(&nobody, &[]).policy(), "tools");
    report(layers.model_retry(&nobody).policy(), "models");
    report(layers.output().retry.policy(), "the output");
    for rule in layers.tool_rules().all() {
        let name = names(&rule.selector);
        let subject = format!("tool `{}`", rule.selector.as_str());
        let calls = layers.calls(&name);
        let cost = layers.tool_rules().candidates(&name).len();
        if !work.spend(cost.saturating_mul(calls.len().saturating_add(1)).saturating_mul(RESOLVED)) {
            findings.push(Work::used_up(rule.span));
            return;
        }
        report(layers.tool_retry(&name, &[]).policy(), &subject);
        for (_, above) in calls {
            report(layers.tool_retry(&name, &[above]).policy(), &subject);
        }
    }
    for rule in layers.model_rules().all() {
        let subject = format!("model `{}`", rule.selector.as_str());
        let name = names(&rule.selector);
        if !work.spend(layers.model_rules().candidates(&name).len().saturating_mul(RESOLVED)) {
            findings.push(Work::used_up(rule.span));
            return;
        }
        report(layers.model_retry(&name).policy(), &subject);
    }
}

/// Reports reducers whose slice does not exist or cannot be changed that way.
pub(super) fn reducers(parts: &[&Part], findings: &mut Findings) {
    let sessions: Vec<_> = parts.iter().filter_map(|part| part.blocks.session.as_ref()).collect();
    let mut slices: HashMap<&str, &Value> = HashMap::new();
    let mut rules: HashMap<&str, &ReducerEntry> = HashMap::new();
    for session in sessions {
        for (name, slice) in &session.slices.0 {
            match slice {
                Patch::Set(slice, _) => slices.insert(&name.value, &slice.initial.0),
                _ => slices.remove(name.value.as_str()),
            };
        }
        for (name, reducer) in &session.reducers.0 {
            match reducer {
                Patch::Set(reducer, _) => rules.insert(&name.value, reducer),
                _ => rules.remove(name.value.as_str()),
            };
        }
    }
    let set: HashSet<&str> =
        rules.values().filter(|r| r.r#do.value.needs().is_none()).map(|r| r.slice.value.as_str()).collect();
    for reducer in rules.values() {
        let slice = reducer.slice.value.as_str();
        match slices.get(slice) {
            None => findings.push(no_slice(reducer, &slices)),
            Some(initial) if !set.contains(slice) => {
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
}

fn no_slice(reducer: &ReducerEntry, slices: &HashMap<&str, &Value>) -> Diagnostic {
    let (name, span) = (&reducer.slice.value, reducer.slice.span);
    let mut known: Vec<&str> = slices.keys().copied().collect();
    known.sort_unstable();
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, span, format!("there is no slice `{name}`"));
    match closest(name, known.iter().copied()) {
        Some(meant) => problem.meant(span, meant),
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
