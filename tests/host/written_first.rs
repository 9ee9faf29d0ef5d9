//! Nothing is done before it is written down, however long that takes.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use unfazed::engine::{RecordLine, ToolSpec};
use unfazed::host::guard::CallError;
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, FunctionTool, Guard, GuardConfig, NoopObserver, ProposalError, RunTask, StopSwitch, ToolError,
    Tools,
};
use unfazed::policy::Policy;
use unfazed::store::{Recorder, SessionLog, StoreError, StoreFuture};

/// A log that takes its time.
#[derive(Clone, Default)]
struct SlowLog(Arc<Mutex<String>>);

impl SlowLog {
    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().contains(text)
    }
}

impl SessionLog for SlowLog {
    fn place(&self) -> String {
        "slow".into()
    }

    fn append(&mut self, lines: Vec<RecordLine>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for line in lines {
                self.0.lock().unwrap().push_str(line.with_end());
            }
            Ok(())
        })
    }
}

/// A log on a disk that is full.
struct FullLog;

impl SessionLog for FullLog {
    fn place(&self) -> String {
        "full".into()
    }

    fn append(&mut self, _: Vec<RecordLine>) -> StoreFuture<'_, ()> {
        let source = io::Error::from(io::ErrorKind::StorageFull);
        Box::pin(std::future::ready(Err(StoreError::Write { place: self.place(), source })))
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_runs_a_tool_once_its_call_is_written_and_ends_once_its_end_is() {
    let log = SlowLog::default();
    let seen = log.clone();
    let spec = ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let look = FunctionTool::new(spec, move |_: Value, _| {
        let written = seen.has(r#""directive":"run_tool""#);
        async move { Ok(json!({ "written": written })) }
    });
    let replies = [ScriptEntry::call("look", "{}"), ScriptEntry::text("done")];
    let agent = Agent::new(Policy::builtin())
        .model("m", ScriptedModel::new(Script::new("script", replies)))
        .tools(Tools::new().with(look));
    let mut recorder = Recorder::new(Box::new(log.clone())).await;
    let task = RunTask { run: "r".into(), task: "Look.".into(), ..RunTask::default() };
    let mut silent = NoopObserver;
    let run = agent.run_with(task, &mut silent, Some(&mut recorder), StopSwitch::new());
    let messages = run.await.unwrap().messages;
    assert!(messages.iter().any(|message| message.text().contains(r#""written":true"#)), "{messages:?}");
    assert!(log.has(r#""directive":"finish""#));
}

#[tokio::test(start_paused = true)]
async fn a_guard_makes_a_call_once_it_is_written_and_returns_once_its_result_is() {
    let log = SlowLog::default();
    let recorder = Recorder::new(Box::new(log.clone())).await;
    let guard = Guard::new(GuardConfig::new(Policy::builtin()).record(recorder));
    let tool = guard.tool("look");
    let call = tool.call((), |(), _| {
        let written = log.has(r#""directive":"run_tool""#);
        async move { Ok::<_, ToolError>(written) }
    });
    assert!(call.await.unwrap());
    assert!(log.has(r#""directive":"settled""#));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_written_is_not_made() {
    let recorder = Recorder::new(Box::new(FullLog)).await;
    let guard = Guard::new(GuardConfig::new(Policy::builtin()).record(recorder));
    let (tool, made) = (guard.tool("look"), AtomicU32::new(0));
    let call = async || {
        let call = tool.call((), |(), _| {
            made.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, ToolError>(()))
        });
        let Err(CallError::Run(error)) = call.await else { panic!("it is made") };
        error
    };
    let error = call().await.to_string();
    assert!(error.contains("cannot write to session `full`"), "{error}");
    assert!(matches!(*call().await, ProposalError::Stopped));
    assert_eq!(made.into_inner(), 0);
}
