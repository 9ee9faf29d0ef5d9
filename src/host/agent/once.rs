//! What is to happen once happens once, in whole runs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Agent;
use crate::counted::{Walk, taken};
use crate::engine::{EffectState, Failure, ToolOutcome, ToolSpec};
use crate::host::scripted::{Script, ScriptEntry, ScriptedModel, ScriptedServer};
use crate::host::{
    BoxFuture, FunctionTool, HttpModel, Metrics, ModelAttempt, ModelConfig, Observer, Provider, RunTask,
    StopSwitch, Tool, ToolInput, Tools,
};
use crate::policy::{ErrorClass, Policy};

const AT_ONCE: &str =
    "version: 1\nmodels: {'*': {retry: {backoff: {kind: constant, delay: 1ms, jitter: none}}}}";

#[derive(Default)]
struct Attempts(Vec<Option<ErrorClass>>);

impl Observer for Attempts {
    fn attempt(&mut self, attempt: &ModelAttempt) {
        self.0.push(attempt.error_type);
    }
}

fn task() -> RunTask {
    RunTask { run: "run-1".into(), task: "look".into(), ..RunTask::default() }
}

fn spec(name: &str) -> ToolSpec {
    let (name, parameters) = (name.to_owned(), json!({"type": "object"}));
    ToolSpec { name, description: String::new(), parameters, effect: None }
}

/// An agent whose model calls a tool once and is done; what is counted begins at zero.
fn agent(tool: impl Tool + 'static, metrics: &Arc<Metrics>) -> Agent {
    let replies = [ScriptEntry::call("look", "{}"), ScriptEntry::text("done")];
    let model = ScriptedModel::new(Script::new("script", replies));
    let policy = Policy::from_yaml("p.yaml", "version: 1\n").unwrap();
    for walk in [Walk::Classify, Walk::Redact, Walk::Measure, Walk::Size] {
        taken(walk);
    }
    Agent::new(policy).model("main", model).tools(Tools::new().with(tool)).metrics(Arc::clone(metrics))
}

#[tokio::test]
async fn a_run_without_an_id_is_refused_before_it_begins() {
    let agent = Agent::new(Policy::builtin()).model("main", ScriptedModel::new(Script::new("script", [])));
    let error = agent.run(RunTask { run: String::new(), ..task() }).await.unwrap_err();
    assert_eq!(error.to_string(), "the run has no id: set `RunTask::run`, to a UUID for example");
}

#[tokio::test]
async fn a_429_is_redacted_once_and_classified_once() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let busy = ScriptEntry::error(429, "rate_limit_exceeded", "sk-from-server and pass-of-agent are busy");
    let script = Script::new("script", [busy, ScriptEntry::text("done")]);
    let server = ScriptedServer::start(script, 0).await.unwrap();
    let config = ModelConfig {
        base_url: server.base_url(),
        api_key: Some("sk-from-server".into()),
        ..ModelConfig::new(Provider::OPENAI, "any")
    };
    let model = HttpModel::new(config).unwrap();
    let policy = Policy::from_yaml("p.yaml", AT_ONCE).unwrap();
    let agent = Agent::new(policy).model("main", model).redact(["pass-of-agent".into()]);
    let mut attempts = Attempts::default();
    taken(Walk::Redact);
    taken(Walk::Classify);
    let report = agent.run_with(task(), &mut attempts, None, StopSwitch::new()).await.unwrap();
    assert_eq!((taken(Walk::Redact), taken(Walk::Classify)), (1, 1));
    assert_eq!(attempts.0, [Some(ErrorClass::RateLimit), None]);
    let last = serde_json::to_value(&report.state).unwrap()["last"]["error"].clone();
    assert_eq!(last, json!(["rate_limit", "[redacted] and [redacted] are busy"]));
}

/// A tool that fails without knowing how.
struct Failing(ToolSpec, EffectState);

impl Tool for Failing {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        let failure = Failure { message: "no such row".into(), ..Failure::default() };
        Box::pin(std::future::ready(ToolOutcome::Failed { failure, effect: self.1 }))
    }
}

#[tokio::test]
async fn a_failure_of_a_tool_is_redacted_once_and_classified_once() {
    let metrics = Arc::new(Metrics::default());
    agent(Failing(spec("look"), EffectState::NotStarted), &metrics).run(task()).await.unwrap();
    assert_eq!((taken(Walk::Redact), taken(Walk::Classify)), (1, 1));
    assert!(metrics.prometheus().contains(r#"error_type="model_error""#));
}

#[tokio::test]
async fn a_failure_is_classified_once_though_its_effect_is_verified_in_between() {
    let rules = "version: 1
tools:
  look:
    effect: non_idempotent
    on_uncertain_effect: {kind: verify, tool: check, acted: result}
    retry: {max_attempts: 2, retry_on: [model_error]}
  check: {effect: read_only}
";
    let check = FunctionTool::new(spec("check"), |_, _| async { Ok(json!(true)) });
    let tools = Tools::new().with(Failing(spec("look"), EffectState::Unknown)).with(check);
    let replies = [ScriptEntry::call("look", "{}"), ScriptEntry::text("done")];
    let model = ScriptedModel::new(Script::new("script", replies));
    let agent = Agent::new(Policy::from_yaml("p.yaml", rules).unwrap()).model("main", model).tools(tools);
    taken(Walk::Classify);
    let report = agent.run(task()).await.unwrap();
    assert_eq!(taken(Walk::Classify), 1);
    let messages = format!("{:?}", report.messages);
    assert!(messages.contains("it has acted"), "{messages}");
}

#[tokio::test]
async fn a_large_result_is_measured_once_to_read_it_and_once_to_cut_it() {
    let list: Value = (0..200_000).collect();
    let length = list.to_string().len() as u64;
    let metrics = Arc::new(Metrics::default());
    let tool = FunctionTool::new(spec("look"), move |_, _| {
        let list = list.clone();
        async { Ok(list) }
    });
    agent(tool, &metrics).run(task()).await.unwrap();
    // The arguments are measured, too.
    assert_eq!((taken(Walk::Measure), taken(Walk::Size)), (2, 1));
    let text = metrics.prometheus();
    assert!(text.contains(&format!(" {length}\n")), "{text}");
}

#[tokio::test]
async fn a_result_that_fits_is_not_measured_to_cut_it() {
    let metrics = Arc::new(Metrics::default());
    let tool = FunctionTool::new(spec("look"), |_, _| async { Ok(json!({"price": 12.5})) });
    agent(tool, &metrics).run(task()).await.unwrap();
    assert_eq!((taken(Walk::Measure), taken(Walk::Size)), (2, 0));
}
