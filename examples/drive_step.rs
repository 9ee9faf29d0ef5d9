//! The interpreter by hand: events in, directives out, in a time that the program tells.
//!
//! `cargo run --example drive_step --no-default-features`

use serde_json::json;
use unfazed::engine::{
    DirectiveKind, Directives, DriveMode, EffectState, Envelope, Event, Failure, Interpreter, RunStarted,
    State, ToolCatalogue, ToolOutcome, ToolSpec, Work,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::ToolCall;
use unfazed::time::Instant;

const POLICY: &str = "
version: 1
tools:
  fetch: {effect: read_only, retry: {max_attempts: 2, retry_on: [timeout], backoff: {kind: constant, delay: 3s}}}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fetch = ToolSpec {
        name: "fetch".into(),
        description: "Fetches a page.".into(),
        parameters: json!({ "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] }),
        effect: None,
    };
    let interpreter =
        Interpreter::new(Policy::from_yaml("policy.yaml", POLICY)?, ToolCatalogue::new([fetch])?);
    let (mut state, mut now) = (State::new(), Instant(0));
    let started = RunStarted { run: "demo".into(), drive: DriveMode::Calls, ..RunStarted::default() };
    let call = ToolCall { id: "1".into(), name: "fetch".into(), arguments: r#"{"url": "x"}"#.into() };
    let mut events =
        vec![Event::ToolsProposed { calls: vec![call.into()], turn: None }, Event::RunStarted(started)];

    while let Some(event) = events.pop() {
        let envelope = Envelope { seq: state.seq + 1, now, event };
        let Directives(list) = interpreter.step(&mut state, envelope);
        for directive in list {
            println!("{}", serde_json::to_string(&directive)?);
            match directive.order {
                DirectiveKind::Work(Work::RunTool(run)) if run.attempt == 1 => {
                    let failure = Failure::of(ErrorClass::Timeout, "no answer");
                    events.push(run.finished(ToolOutcome::Failed { failure, effect: EffectState::Unknown }));
                }
                DirectiveKind::Work(Work::RunTool(run)) => {
                    events.push(run.finished(ToolOutcome::Ok { data: json!("<html>") }));
                }
                DirectiveKind::Work(Work::Wait(wait)) => {
                    now = now.saturating_add(wait.delay);
                    events.push(wait.fired());
                }
                DirectiveKind::Work(_) | DirectiveKind::Note(_) => {}
            }
        }
    }
    println!("state {}", state.digest());
    Ok(())
}
