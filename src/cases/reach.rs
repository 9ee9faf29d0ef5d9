//! What can never come about in a case: events of a model in a case without one, tools that are not there.

use serde_json::Value;

use super::expect::ExpectRule;
use super::pattern::{RecordFields, RecordPattern};
use super::run::{CasePlot, CaseSetup};
use crate::text::{Code, Diagnostic, Span, did_you_mean};

/// Directives and events that take a model.
const OF_A_MODEL: &[&str] = &[
    "prepare_turn",
    "call_model",
    "turn_retry",
    "leaked_calls",
    "rounds_failed",
    "turn_prepared",
    "model_responded",
    "model_failed",
];

/// Events that only hosts make that run their own loop.
const OF_A_HOST: &[&str] = &["tools_proposed"];

/// Events that no case has.
const OF_NO_CASE: &[&str] = &[
    "turn_proposed",
    "proposal_withdrawn",
    "output_proposed",
    "policy_changed",
    "tools_changed",
    "shared_changed",
    "stop_requested",
];

/// An expectation, and where it is written.
type PlacedExpectation<'a> = (&'a Value, Span);

/// What is expected or ruled out although it can never come.
pub(super) fn impossible(expect: &ExpectRule, setup: &CaseSetup) -> Vec<Diagnostic> {
    let calls = matches!(setup.plot, CasePlot::Calls(_));
    let mut problems = Vec::new();
    for (value, span) in all(expect) {
        let word = ["directive", "event"].into_iter().find_map(|tag| value.get(tag)?.as_str());
        let why = match word.unwrap_or_default() {
            word if OF_NO_CASE.contains(&word) => Some("no case has it"),
            word if calls && OF_A_MODEL.contains(&word) => Some("the case has no model"),
            word if !calls && OF_A_HOST.contains(&word) => Some("the model makes the calls"),
            _ => None,
        };
        if let (Some(why), Some(word)) = (why, word) {
            let message = format!("`{word}` can never come: {why}");
            let problem = Diagnostic::error(Code::CONTRADICTION, span, message);
            problems.push(problem.help("expect something that may happen, or remove it"));
        }
        // A model may call tools that are not there, and is refused: they run nowhere.
        if calls || matches!(word, Some("run_tool" | "breaker")) {
            problems.extend(named(value).and_then(|name| no_tool(name, span, setup)));
        }
    }
    if let Some(turns) = expect.turns.as_ref().filter(|_| calls) {
        let message = "`turns` is of runs with a model, and the case has none";
        let problem = Diagnostic::error(Code::CONTRADICTION, turns.span, message);
        problems.push(problem.help("remove it, or write `replies`"));
    }
    problems
}

fn all(expect: &ExpectRule) -> impl Iterator<Item = PlacedExpectation<'_>> {
    fn each<F: RecordFields>(
        list: Option<&[RecordPattern<F>]>,
    ) -> impl Iterator<Item = PlacedExpectation<'_>> {
        list.into_iter().flatten().map(|pattern| (&pattern.value, pattern.span))
    }
    each(expect.never.as_ref().map(|list| list.value.0.as_slice()))
        .chain(each(expect.directives.as_ref().map(|list| list.value.as_slice())))
        .chain(each(expect.events.as_ref().map(|list| list.value.as_slice())))
}

/// The tool that is named, by itself or as what is waited for.
fn named(value: &Value) -> Option<&str> {
    let subject = ["subject", "action"].into_iter().find_map(|key| value.get(key)?.as_str());
    let exhausted = || value.get("exhausted")?.get("action")?.as_str();
    let tool = value.get("tool").and_then(Value::as_str);
    tool.or_else(|| subject.or_else(exhausted)?.strip_prefix("tool "))
}

fn no_tool(name: &str, span: Span, setup: &CaseSetup) -> Option<Diagnostic> {
    let report = setup.policy.output().map(|output| output.tool.value.as_str());
    let known: Vec<&str> = setup.tools.names().chain(report).collect();
    // Of what has no tool the name is empty.
    if name.is_empty() || known.contains(&name) {
        return None;
    }
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, span, format!("the case has no tool `{name}`"));
    Some(match did_you_mean(name, known.iter().copied()) {
        Some(meant) => problem.help(format!("did you mean `{meant}`?")),
        None => problem.help(format!("it has {}", crate::policy::decode::list(&known))),
    })
}
