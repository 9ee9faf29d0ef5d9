//! Whether a call of a tool would run: the interpreter is given the call, and says.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::analysis::PolicyExplanation;
use crate::engine::{
    DecisionReason, Directive, DirectiveKind, DriveMode, Envelope, Event, Interpreter, Note, ProposedCall,
    RunStarted, State, ToolCatalogue, ToolFacts, ToolSpec, Work,
};
use crate::policy::{CallOverride, ErrorClass, Policy};
use crate::session::ToolCall;
use crate::time::Instant;

/// What becomes of a call before its tool runs, and the rules that say so.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub(super) enum CallVerdict {
    /// It runs at once.
    Runs,
    /// A person is asked first.
    Asks {
        /// Why.
        because: Vec<DecisionReason>,
    },
    /// It does not run.
    Refused {
        /// What is wrong with it; `None`: the run takes no such proposal.
        error_type: Option<ErrorClass>,
        /// The message to the model.
        message: String,
        /// Why.
        because: Vec<DecisionReason>,
    },
}

/// Whether a call would run as the first one of a run, and if not, why not. A tool that `tools` does not have is taken to be
/// there, without a schema of its arguments.
pub(super) fn call_verdict(
    policy: &Policy,
    tools: ToolCatalogue,
    tool: &str,
    arguments: &Value,
    planner: Option<&CallOverride>,
) -> CallVerdict {
    let tools = if tools.get(tool).is_some() { tools } else { without_schema(tool) };
    let facts: Vec<ToolFacts> = tools.iter().map(ToolFacts::from).collect();
    let interpreter = Interpreter::new(policy.clone(), tools);
    let mut state = State::new();
    let now = Instant::default();
    let started = RunStarted {
        run: "explain".to_owned(),
        policy: policy.digest().to_owned(),
        seed: 0,
        drive: DriveMode::Calls,
        system: String::new(),
        history: Vec::new(),
        task: String::new(),
        targets: Vec::new(),
        windows: BTreeMap::new(),
        overheads: BTreeMap::new(),
        prices: BTreeMap::new(),
        tools: facts,
        deadline: None,
    };
    // The run begins; nothing is asked of the host before there is a call.
    let _ = interpreter.step(&mut state, Envelope { seq: 1, now, event: Event::RunStarted(started) });
    let call = ToolCall { id: "call_1".to_owned(), name: tool.to_owned(), arguments: arguments.to_string() };
    let calls = vec![ProposedCall { policy: planner.cloned(), ..call.into() }];
    let event = Event::ToolsProposed { calls, turn: None };
    let directives = interpreter.step(&mut state, Envelope { seq: 2, now, event });
    directives.0.iter().find_map(verdict).unwrap_or(CallVerdict::Runs)
}

/// A tool that takes any arguments.
fn without_schema(tool: &str) -> ToolCatalogue {
    let spec =
        ToolSpec { name: tool.to_owned(), description: String::new(), parameters: json!({}), effect: None };
    ToolCatalogue::new([spec]).unwrap_or_default()
}

fn verdict(directive: &Directive) -> Option<CallVerdict> {
    let because = directive.because.clone();
    match &directive.order {
        DirectiveKind::Work(Work::RunTool(_)) => Some(CallVerdict::Runs),
        DirectiveKind::Work(Work::Ask(_)) => Some(CallVerdict::Asks { because }),
        DirectiveKind::Note(Note::Refused { error_type, message, .. }) => {
            let (error_type, message) = (Some(*error_type), message.clone());
            Some(CallVerdict::Refused { error_type, message, because })
        }
        // The tool is the one that reports the answer.
        DirectiveKind::Note(Note::OutputRefused { message, .. }) => {
            let (error_type, message) = (Some(ErrorClass::InvalidOutput), message.clone());
            Some(CallVerdict::Refused { error_type, message, because })
        }
        DirectiveKind::Note(Note::ProposalRefused { message, .. }) => {
            Some(CallVerdict::Refused { error_type: None, message: message.clone(), because })
        }
        DirectiveKind::Work(_) | DirectiveKind::Note(_) => None,
    }
}

/// Why the rules for one call are what they are, and whether it would run.
pub(crate) fn explain_call(
    policy: &Policy,
    tools: ToolCatalogue,
    tool: &str,
    arguments: &Value,
    planner: Option<&CallOverride>,
) -> PolicyExplanation {
    let verdict = call_verdict(policy, tools, tool, arguments, planner);
    let reasons = |because: &[DecisionReason]| {
        let reasons = because.iter().map(|because| format!("{} ({})", because.rule, because.place));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        if reasons.is_empty() { reasons } else { format!("; {reasons}") }
    };
    let text = match &verdict {
        CallVerdict::Runs => "runs".to_owned(),
        CallVerdict::Asks { because } => format!("runs if a person agrees{}", reasons(because)),
        CallVerdict::Refused { error_type, message, because } => {
            // The reasons of a correction are about the next attempt; what is wrong with this one is in the message.
            let corrected =
                matches!(error_type, Some(ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall));
            let reasons = if corrected { String::new() } else { reasons(because) };
            let class = error_type.map(|class| format!(" {class}{reasons}:")).unwrap_or_default();
            // The first line says that it was refused, those below say why.
            let why = message.split_once('\n').map_or(message.as_str(), |(_, why)| why);
            format!("does not run:{class} {}", PolicyExplanation::shown(why.trim_start_matches("- ")))
        }
    };
    let json = json!(verdict);
    policy.explain_call(tool, arguments, planner).with_verdict(text, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(rules: &str, arguments: &Value) -> CallVerdict {
        let policy =
            Policy::from_yaml("p.yaml", &format!("version: 1\ntools: {{refund: {rules}}}\n")).unwrap();
        call_verdict(&policy, ToolCatalogue::default(), "refund", arguments, None)
    }

    #[test]
    fn a_call_runs_is_asked_about_or_is_refused() {
        let small = "{validate: [{name: small, check: args.amount <= 100, message: refund at most 100}]}";
        assert_eq!(verdict_of(small, &json!({"amount": 5})), CallVerdict::Runs);
        let CallVerdict::Refused { error_type, message, .. } = verdict_of(small, &json!({"amount": 500}))
        else {
            panic!("it is not refused")
        };
        assert_eq!(error_type, Some(ErrorClass::InvalidArgs));
        assert!(message.contains("refund at most 100"), "{message}");
        let asked = "{calls: [{when: args.amount > 100, approval: always}]}";
        assert_eq!(verdict_of(asked, &json!({"amount": 5})), CallVerdict::Runs);
        let CallVerdict::Asks { because } = verdict_of(asked, &json!({"amount": 500})) else {
            panic!("nobody is asked")
        };
        assert_eq!(because.first().map(|because| because.rule.as_str()), Some("approval"));
    }

    #[test]
    fn a_report_that_does_not_hold_is_refused() {
        let rules = "version: 1\noutput: {tool: finish, validate: [{name: priced, check: \"has(output.price)\", message: name a price}]}\n";
        let policy = Policy::from_yaml("p.yaml", rules).unwrap();
        let verdict =
            call_verdict(&policy, ToolCatalogue::default(), "finish", &json!({"text": "done"}), None);
        let CallVerdict::Refused { error_type, message, .. } = verdict else {
            panic!("it runs: {verdict:?}")
        };
        assert_eq!(error_type, Some(ErrorClass::InvalidOutput));
        assert!(message.contains("name a price"), "{message}");
    }
}
