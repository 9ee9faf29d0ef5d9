//! The arguments of a tool call: repaired, validated, and in the form by which equal ones are recognised.

use serde_json::{Map, Value};

use crate::engine::{
    DirectiveKind, DriveMode, Envelope, Event, Interpreter, RunStarted, State, ToolCatalogue, ToolSpec, Work,
    canonical,
};
use crate::policy::Policy;
use crate::session::ToolCall;
use crate::time::Instant;

/// The first line is the schema, the rest what the model wrote. A tool runs with arguments that its schema takes, or the
/// model gets an error; arguments that hold as they are written run as they are.
pub fn tool_arguments(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let (schema, arguments) = text.split_once('\n').unwrap_or(("{}", text));
    let Ok(parameters) = serde_json::from_str(schema) else { return };
    let spec = ToolSpec { name: "tool".into(), description: String::new(), parameters, effect: None };
    let Ok(tools) = ToolCatalogue::new([spec]) else { return };
    let ran = run(&tools, arguments);
    let schema = tools.schema("tool");
    if let Some(ran) = &ran {
        let problems = schema.map(|schema| schema.problems(ran)).unwrap_or_default();
        assert!(problems.is_empty(), "it runs with arguments its schema does not take: {ran}");
        assert_eq!(canonical::of(ran), canonical::of(&turned(ran)), "the order of keys makes a difference");
        let again = run(&tools, &ran.to_string());
        assert_eq!(again.as_ref(), Some(ran), "the arguments it ran with run as others");
    }
    let written = serde_json::from_str::<Value>(arguments).ok();
    if let (Some(written), Some(ran)) = (written, ran) {
        let holds = schema.is_some_and(|schema| schema.is_valid(&written));
        assert!(!holds || written.is_string() || ran == written, "{written} runs as {ran}");
    }
}

/// What a call of the tool with that text runs with; `None`: it does not run.
fn run(tools: &ToolCatalogue, arguments: &str) -> Option<Value> {
    let interpreter = Interpreter::new(Policy::builtin(), tools.clone());
    let mut state = State::new();
    let mut tell = |event| {
        let seq = state.seq + 1;
        interpreter.step(&mut state, Envelope { seq, now: Instant(0), event }).0
    };
    let started = RunStarted { run: "r".into(), drive: DriveMode::Calls, ..RunStarted::default() };
    tell(Event::RunStarted(started));
    let call = ToolCall { id: "c".into(), name: "tool".into(), arguments: arguments.into() };
    let told = tell(Event::ToolsProposed { calls: vec![call.into()], turn: None });
    assert!(!told.is_empty(), "nothing is said about a call");
    told.into_iter().find_map(|directive| match directive.order {
        DirectiveKind::Work(Work::RunTool(run)) => Some(run.arguments),
        _ => None,
    })
}

/// The value with all its keys in the other order.
fn turned(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(turned).collect(),
        Value::Object(entries) => {
            let entries = entries.iter().rev().map(|(key, value)| (key.clone(), turned(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
