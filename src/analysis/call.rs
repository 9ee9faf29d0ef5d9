//! Whether a call of a tool would run: the interpreter is given the call, and says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::engine::{
    Because, Catalogue, Directive, Drive, Envelope, Event, Interpreter, Note, Order, Proposal, RunStarted,
    State, ToolFacts, ToolSpec, Work,
};
use crate::policy::{CallOverride, ErrorClass, Explanation, Policy};
use crate::session::ToolCall;
use crate::time::Instant;

/// What becomes of a call before its tool runs, and the rules that say so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallVerdict {
    /// It runs at once.
    Runs,
    /// A person is asked first.
    Asks {
        /// Why.
        because: Vec<Because>,
    },
    /// It does not run.
    Refused {
        /// What is wrong with it.
        class: ErrorClass,
        /// What the model is told.
        message: String,
        /// Why.
        because: Vec<Because>,
    },
}

/// Whether a call would run as the first one of a run, and if not, why not. A tool that `tools` does not have is taken to be
/// there, without a schema of its arguments.
pub fn call_verdict(
    policy: &Policy,
    tools: Catalogue,
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
        drive: Drive::Calls,
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
    let calls = vec![Proposal { call, policy: planner.cloned() }];
    let event = Event::ToolsProposed { calls, turn: None };
    let directives = interpreter.step(&mut state, Envelope { seq: 2, now, event });
    directives.0.iter().find_map(verdict).unwrap_or(CallVerdict::Runs)
}

/// A tool that takes any arguments.
fn without_schema(tool: &str) -> Catalogue {
    let spec =
        ToolSpec { name: tool.to_owned(), description: String::new(), parameters: json!({}), effect: None };
    Catalogue::new([spec]).unwrap_or_default()
}

fn verdict(directive: &Directive) -> Option<CallVerdict> {
    let because = directive.because.clone();
    match &directive.order {
        Order::Work(Work::RunTool(_)) => Some(CallVerdict::Runs),
        Order::Work(Work::Ask(_)) => Some(CallVerdict::Asks { because }),
        Order::Note(Note::Refused { error_type, message, .. }) => {
            Some(CallVerdict::Refused { class: *error_type, message: message.clone(), because })
        }
        Order::Work(_) | Order::Note(_) => None,
    }
}

/// Why the rules for one call are what they are, and whether it would run.
pub fn explain_call(
    policy: &Policy,
    tools: Catalogue,
    tool: &str,
    arguments: &Value,
    planner: Option<&CallOverride>,
) -> Explanation {
    let verdict = call_verdict(policy, tools, tool, arguments, planner);
    let reasons = |because: &[Because]| {
        let reasons = because.iter().map(|because| format!("{} ({})", because.rule, because.place));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        if reasons.is_empty() { reasons } else { format!("; {reasons}") }
    };
    let (text, json) = match &verdict {
        CallVerdict::Runs => ("runs".to_owned(), json!({"verdict": "runs"})),
        CallVerdict::Asks { because } => (
            format!("runs if a person agrees{}", reasons(because)),
            json!({"verdict": "asks", "because": because}),
        ),
        CallVerdict::Refused { class, message, because } => {
            // The reasons of a correction are about the next attempt; what is wrong with this one is in the message.
            let reasons = if matches!(class, ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall) {
                String::new()
            } else {
                reasons(because)
            };
            // The first line says that it was refused, those below say why.
            let why = message.split_once('\n').map_or(message.as_str(), |(_, why)| why);
            (
                format!(
                    "does not run: {class}{reasons}: {}",
                    Explanation::shown(why.trim_start_matches("- "))
                ),
                json!({"verdict": "refused", "error_type": class, "message": message, "because": because}),
            )
        }
    };
    policy.explain_call(tool, arguments, planner).with_verdict(text, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(rules: &str, arguments: &Value) -> CallVerdict {
        let policy =
            Policy::from_yaml("p.yaml", &format!("version: 1\ntools: {{refund: {rules}}}\n")).unwrap();
        call_verdict(&policy, Catalogue::default(), "refund", arguments, None)
    }

    #[test]
    fn a_call_runs_is_asked_about_or_is_refused() {
        let small = "{validate: [{name: small, check: args.amount <= 100, message: refund at most 100}]}";
        assert_eq!(verdict_of(small, &json!({"amount": 5})), CallVerdict::Runs);
        let CallVerdict::Refused { class, message, .. } = verdict_of(small, &json!({"amount": 500})) else {
            panic!("it is not refused")
        };
        assert_eq!(class, ErrorClass::InvalidArgs);
        assert!(message.contains("refund at most 100"), "{message}");
        let asked = "{calls: [{when: args.amount > 100, approval: always}]}";
        assert_eq!(verdict_of(asked, &json!({"amount": 5})), CallVerdict::Runs);
        let CallVerdict::Asks { because } = verdict_of(asked, &json!({"amount": 500})) else {
            panic!("nobody is asked")
        };
        assert_eq!(because.first().map(|because| because.rule.as_str()), Some("approval"));
    }
}
