//! What is wrong with files that are each well formed: conflicts, attempts without end, reducers without a slice.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::decode::{Patch, list};
use super::did_you_mean::closest;
use super::document::{PolicyFile, ReducerEntry};
use super::layers::{Layers, Rule, unbounded};
use super::merge::Layer;
use super::{Code, Diagnostic, Findings, RetryPolicy, Selector, Span};

/// The most selectors of each kind.
const MOST_SELECTORS: usize = 2_000;
/// The most characters of all patterns of a kind: each is compared with each, and that takes their product.
const MOST_PATTERN_TEXT: usize = 4_096;
/// The most texts in the messages of error rows, and their bytes: all are searched for at once.
const MOST_ERROR_TEXTS: usize = 2_000;
const MOST_ERROR_BYTES: usize = 64 << 10;

/// Reports selectors that exceed the budget. `true`: there are none.
pub(crate) fn within_budget<T>(rules: &[Rule<T>], findings: &mut Findings) -> bool {
    let lengths = rules.iter().scan(0_usize, |sum, rule| {
        let pattern = !rule.selector.is_exact();
        *sum = sum.saturating_add(if pattern { rule.selector.as_str().len() } else { 0 });
        Some((rule, *sum))
    });
    let mut over = |rule: Option<&Rule<T>>, message: String| {
        if let Some(rule) = rule {
            let problem = Diagnostic::error(Code::TOO_LARGE, rule.span, message);
            findings.push(problem.help("use fewer, wider patterns with `*`"));
        }
        rule.is_none()
    };
    let long = lengths.into_iter().find(|(_, sum)| *sum > MOST_PATTERN_TEXT).map(|(rule, _)| rule);
    over(rules.get(MOST_SELECTORS), format!("more than {MOST_SELECTORS} selectors"))
        & over(long, format!("the patterns up to here have more than {MOST_PATTERN_TEXT} characters"))
}

/// Reports error rows that exceed the budget. `true`: there are none.
pub(crate) fn rows_within_budget(files: &[(bool, &PolicyFile)], findings: &mut Findings) -> bool {
    let (mut texts, mut bytes) = (0_usize, 0_usize);
    for rule in files.iter().flat_map(|(_, file)| &file.errors) {
        for text in rule.message.iter().flat_map(|messages| &messages.0) {
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

/// Reports patterns that overlap, neither narrower, and disagree where no narrower selector decides.
pub(crate) fn conflicts<T: Layer>(rules: &[Rule<T>], findings: &mut Findings) {
    let said = by_selector(rules);
    let patterns: Vec<_> = said.iter().filter(|(selector, _)| !selector.is_exact()).collect();
    for (i, (a, of_a)) in patterns.iter().enumerate() {
        for (b, of_b) in patterns.iter().skip(i.saturating_add(1)) {
            if findings.is_crowded() {
                return;
            }
            let disagree: Vec<_> = of_a
                .iter()
                .filter_map(|(path, mine)| of_b.get(path).map(|theirs| (path, mine, theirs)))
                .filter(|(_, mine, theirs)| mine.1 != theirs.1)
                .collect();
            if disagree.is_empty() || a.includes(b) || b.includes(a) {
                continue;
            }
            let Some(witness) = a.overlaps(b) else { continue };
            for (path, mine, theirs) in disagree {
                let decided = said.iter().any(|(narrow, of_narrow)| {
                    narrow.matches(&witness)
                        && a.includes(narrow)
                        && b.includes(narrow)
                        && of_narrow.contains_key(path)
                });
                if !decided {
                    findings.push(conflict(path, &witness, (a, mine), (b, theirs)));
                }
            }
        }
    }
}

type Said = HashMap<String, (Span, Value)>;

/// What each selector says in the end: within one selector the later file wins.
fn by_selector<T: Layer>(rules: &[Rule<T>]) -> Vec<(&Selector, Said)> {
    let mut all: Vec<(&Selector, Said)> = Vec::new();
    for rule in rules {
        let mut entries = Vec::new();
        rule.layer.entries("", &mut entries);
        let entries = entries.into_iter().map(|(path, span, value)| (path, (span, value)));
        match all.last_mut() {
            // The rules are sorted by selector.
            Some((selector, said)) if **selector == rule.selector => said.extend(entries),
            _ => all.push((&rule.selector, entries.collect())),
        }
    }
    all
}

fn conflict(
    path: &str,
    witness: &str,
    (a, (at_a, value_a)): (&Selector, &(Span, Value)),
    (b, (at_b, value_b)): (&Selector, &(Span, Value)),
) -> Diagnostic {
    let (a, b) = (a.as_str(), b.as_str());
    let message =
        format!("`{a}` and `{b}` both match `{witness}`, neither is narrower, and they disagree on `{path}`");
    Diagnostic::error(Code::CONFLICT, *at_b, message)
        .label(format!("`{b}` says {}", short(value_b)))
        .also(*at_a, format!("`{a}` says {}", short(value_a)))
        .help(format!("set `{path}` under `{witness}` too, or make one pattern narrower"))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// Reports attempts without end, for every subject the files name.
pub(crate) fn endless(layers: &Layers, findings: &mut Findings) {
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
    report(layers.tool(&nobody, &[]).retry.policy(), "tools");
    report(layers.model(&nobody).retry.policy(), "models");
    report(layers.output().retry.policy(), "the output");
    for rule in layers.tool_rules() {
        let name = names(&rule.selector);
        let subject = format!("tool `{}`", rule.selector.as_str());
        report(layers.tool(&name, &[]).retry.policy(), &subject);
        for (_, above) in layers.calls(&name) {
            report(layers.tool(&name, &[above]).retry.policy(), &subject);
        }
    }
    for rule in layers.model_rules() {
        let subject = format!("model `{}`", rule.selector.as_str());
        report(layers.model(&names(&rule.selector)).retry.policy(), &subject);
    }
}

/// Reports reducers whose slice does not exist or cannot be changed that way.
pub(crate) fn reducers(files: &[(bool, &PolicyFile)], findings: &mut Findings) {
    let sessions: Vec<_> = files.iter().filter_map(|(_, file)| file.session.as_ref()).collect();
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
