//! A reducer counts what a run spends, and a run that would spend more than it may is asked to end: it gets one final turn
//! for its answer, with no tools.
//!
//! `cargo run --example runaway_budget`
//!
//! The model is a script that would continue searching forever.

use serde_json::json;
use unfazed::engine::{Outcome, ToolSpec};
use unfazed::host::scripted::{
    RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptedCall, ScriptedModel,
};
use unfazed::host::{Agent, FunctionTool, Observer, RunTask, StopSwitch, Tools};
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
struct Purse(StopSwitch);

impl Observer for Purse {
    fn on_reducer_error(&mut self, error: &ReducerError) {
        println!("{} says no: {}", error.reducer, error.message);
        self.0.graceful.cancel();
    }
}

/// What a model says that always wants to search once more.
fn search() -> ScriptEntry {
    let call = ScriptedCall { name: "search".into(), arguments: "{}".into(), id: None };
    let usage = Some(Usage { input: 900, output: 100, ..Usage::default() });
    let answer = ScriptAnswer { calls: vec![call], usage, ..ScriptAnswer::default() };
    ScriptEntry::new(unfazed::host::scripted::ScriptOutcome::Answer(answer))
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
    // It answers when it learns that this is the final turn, and not before.
    let told = RequestMatcher { contains: Some("final turn".into()), ..RequestMatcher::default() };
    let script =
        Script::new("searcher", [ScriptEntry::text("This is what I know.").when(told), search().times(500)]);
    let agent = Agent::new(Policy::from_yaml("policy.yaml", POLICY)?)
        .model("main", ScriptedModel::new(script))
        .tools(Tools::new().with(tool));

    let stop = StopSwitch::new();
    let task = RunTask { run: "demo".into(), task: "Find everything.".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut Purse(stop.clone()), None, stop).await?;
    let spent = report.state.slices().get("spent").cloned().unwrap_or_default();
    println!("turns: {}, spent: {spent}", report.state.turn);
    match report.outcome {
        Outcome::Answered { text } => println!("answered: {text}"),
        other => println!("ended: {}", serde_json::to_string(&other)?),
    }
    Ok(())
}
