//! An agent whose tool always fails, for the tests of breakers and budgets that several share.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use unfazed::engine::ToolSpec;
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{Agent, FunctionTool, Observer, RunTask, SharedStateError, ToolError, Tools};
use unfazed::policy::{Effect, Policy};

/// A breaker that opens at the third failure of all, and stays open.
pub(crate) const BREAKER: &str = "version: 1
tools:
  '*': {retry: {enabled: false}, loop_guard: {enabled: false}}
  flaky: {breaker: {failures: 3, scope: shared, open_for: 1h}}
";

/// An agent that calls a tool so often, one call a turn, and says then that it is done. The tool does this, by the number
/// of its run, and fails.
pub(crate) fn agent(policy: &str, calls: u32, does: impl Fn(u32) + Send + Sync + 'static) -> Agent {
    let spec = ToolSpec {
        name: "flaky".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::ReadOnly),
    };
    let runs = AtomicU32::new(0);
    let tool = FunctionTool::new(spec, move |_: Value, _| {
        does(runs.fetch_add(1, Ordering::Relaxed) + 1);
        async { Err::<Value, _>(ToolError::failed("no such item")) }
    });
    let calls = (0..calls).map(|n| ScriptEntry::call("flaky", json!({ "n": n }).to_string()));
    let script = Script::new("script", calls.chain([ScriptEntry::text("Done.").times(9)]));
    Agent::new(Policy::from_yaml("policy.yaml", policy).unwrap())
        .model("main", ScriptedModel::new(script))
        .tools(Tools::new().with(tool))
}

pub(crate) fn task() -> RunTask {
    RunTask { run: "run".into(), task: "Look.".into(), ..RunTask::default() }
}

/// What was out of reach.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Vec<String>);

impl Observer for Told {
    fn on_shared_error(&mut self, error: &SharedStateError) {
        self.0.push(error.to_string());
    }
}
