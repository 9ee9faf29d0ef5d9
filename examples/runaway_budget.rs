//! A reducer counts what a run spends, and a run that would spend more than it may is asked to end: it gets one last turn
//! for its answer, with no tools.
//!
//! `cargo run --example runaway_budget`
//!
//! The model is a script that would go on searching forever.

use serde_json::json;
use unfazed::engine::{Outcome, ToolSpec};
use unfazed::host::scripted::{Answer, Entry, Matcher, Script, ScriptedCall, ScriptedModel};
use unfazed::host::{Agent, FunctionTool, Observer, Stop, Task, Tools};
use unfazed::policy::{Effect, Policy};
use unfazed::session::{ReducerError, Usage};

const POLICY: &str = "
version: 1
turn:
  max_turns: 500
  on_stop: final_turn     # who is asked to end may still answer
tools:
  search: {loop_guard: {enabled: false}}    # so that nothing but the budget ends this run
session:
  slices: {spent: {initial: 0}}
  reducers:
    spend:
      on: model_responded
      when: event.usage != null     # not every provider tells
      slice: spent
      do: {kind: increment, value: event.usage.input + event.usage.output}
      check: slice <= 5000
";

/// Listens to the reducers, and asks the run to end when the one that counts says no.
struct Purse(Stop);

impl Observer for Purse {
    fn on_reducer_error(&mut self, error: &ReducerError) {
        println!("{} says no: {}", error.reducer, error.message);
        self.0.graceful.cancel();
    }
}

/// What a model says that always wants to search once more.
fn search() -> Entry {
    let call = ScriptedCall { name: "search".into(), arguments: "{}".into(), id: None };
    let usage = Some(Usage { input: 900, output: 100, ..Usage::default() });
    let answer = Answer { calls: vec![call], usage, ..Answer::default() };
    Entry::new(unfazed::host::scripted::Outcome::Answer(answer))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = ToolSpec {
        name: "search".into(),
        description: "Searches.".into(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::ReadOnly),
    };
    let tool = FunctionTool::new(spec, |_, _| async { Ok(json!({"found": "more to search for"})) });
    // It answers when it is told that this is the last turn, and not before.
    let told = Matcher { contains: Some("last turn".into()), ..Matcher::default() };
    let script =
        Script::new("searcher", [Entry::text("This is what I know.").when(told), search().times(500)]);
    let agent = Agent::new(Policy::from_yaml("policy.yaml", POLICY)?)
        .model("main", ScriptedModel::new(script))
        .tools(Tools::new().with(tool));

    let stop = Stop::new();
    let task = Task { run: "demo".into(), task: "Find everything.".into(), ..Task::default() };
    let report = agent.run_with(task, &mut Purse(stop.clone()), None, stop).await?;
    let spent = report.state.slices().get("spent").cloned().unwrap_or_default();
    println!("turns: {}, spent: {spent}", report.state.turn);
    match report.outcome {
        Outcome::Answered { text } => println!("answered: {text}"),
        other => println!("ended: {}", serde_json::to_string(&other)?),
    }
    Ok(())
}
