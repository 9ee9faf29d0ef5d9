//! Runs that continue with a conversation there was before: one that a provider refuses is repaired, and the log tells it.

use std::sync::Arc;

use serde_json::json;

use unfazed::context::findings;
use unfazed::engine::{
    DirectiveKind, Directives, Envelope, Failure, LogHeader, ModelReply, Note, Outcome, Record, RecordLine,
    RecordRef, ReplyHeaders, State, ToolSpec,
};
use unfazed::host::scripted::{
    ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome as Scripted, ScriptedCall, ScriptedModel,
    ScriptedServer,
};
use unfazed::host::{
    Agent, BoxFuture, FunctionTool, HttpModel, Journal, JournalError, Model, ModelConfig, ModelRequest,
    NoopObserver, Provider, RunReport, RunTask, StopSwitch, Tools,
};
use unfazed::policy::Policy;
use unfazed::session::{Message, ToolCall};
use unfazed::store::{FsyncMode, JsonlStore, Recorder, ResumedSession, SessionId, Store, read_log, resume};
use unfazed::time::Instant;

const PRUNE: &str = "version: 1\nhistory: {orphan_calls: prune, check: after_error}";

/// Refuses what Anthropic would refuse, in its words; otherwise it is done.
struct Anthropic;

impl Model for Anthropic {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            let Some(found) = findings(request.messages).into_iter().next() else {
                return Ok(ModelReply { text: "Done.".into(), ..ModelReply::default() });
            };
            let message = format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                found.at, found.call
            );
            let body =
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
            let headers = ReplyHeaders::new([("content-type", &b"application/json"[..])]);
            Err(Failure::from_answer(400, &headers, body.to_string().as_bytes(), Instant::default))
        })
    }
}

/// A log in memory.
#[derive(Default)]
struct Log(Vec<u8>);

impl Log {
    fn add(&mut self, record: RecordRef<'_>) {
        self.0.extend_from_slice(RecordLine::new(record).unwrap().with_end().as_bytes());
    }

    /// The notes, read back.
    fn notes(&self) -> Vec<Note> {
        let records = read_log(&self.0[..]).map(Result::unwrap);
        let lists = records.filter_map(|record| match record {
            Record::Directives { list: Directives(list), .. } => Some(list),
            _ => None,
        });
        let notes = lists.flatten().filter_map(|directive| match directive.order {
            DirectiveKind::Note(note) => Some(note),
            DirectiveKind::Work(_) => None,
        });
        notes.collect()
    }
}

impl Journal for Log {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        if self.0.is_empty() {
            self.add(RecordRef::Session(&LogHeader::new("run-1", "p", Instant(0))));
        }
        self.add(RecordRef::Event(envelope));
        Ok(())
    }

    fn directives(
        &mut self,
        policy: &str,
        directives: &Directives,
        state: &State,
    ) -> Result<(), JournalError> {
        self.add(RecordRef::Directives { seq: state.seq, policy, list: directives });
        Ok(())
    }
}

/// What is left when a run is killed while a tool runs.
fn interrupted() -> Vec<Message> {
    let arguments = json!({"file_path": "/important/file.rb"}).to_string();
    let call = ToolCall { id: "toolu_1".into(), name: "Read".into(), arguments };
    let extra = serde_json::Map::new();
    vec![
        Message::user("Look into the file."),
        Message::Assistant { text: String::new(), calls: vec![call], extra },
    ]
}

async fn run(policy: &str, model: impl Model + 'static, log: &mut Log) -> RunReport {
    let agent = Agent::new(Policy::from_yaml("p.yaml", policy).unwrap()).model("main", model);
    let task = RunTask {
        run: "run-1".into(),
        history: interrupted(),
        task: "Continue.".into(),
        ..RunTask::default()
    };
    agent.run_with(task, &mut NoopObserver, Some(log), StopSwitch::new()).await.unwrap()
}

fn roles(messages: &[Message]) -> Vec<&str> {
    let role = |message: &Message| match message {
        Message::System { .. } => "system",
        Message::User { guidance: Some(_), .. } => "guidance",
        Message::User { .. } => "user",
        Message::Assistant { .. } => "assistant",
        Message::Tool { .. } => "tool",
    };
    messages.iter().map(role).collect()
}

#[tokio::test(start_paused = true)]
async fn a_history_that_anthropic_refuses_is_repaired_and_sent_again_at_once() {
    let mut log = Log::default();
    let start = tokio::time::Instant::now();
    let report = run(PRUNE, Anthropic, &mut log).await;
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert_eq!(roles(&report.messages), ["user", "user", "guidance", "assistant"]);
    let told = report.messages[2].text();
    assert!(told.ends_with("- Read(file_path: \"/important/file.rb\")"), "{told}");
    assert!(told.contains("outcome is unknown"), "{told}");
    assert!(start.elapsed().is_zero());
    let pruned: Vec<_> = log
        .notes()
        .into_iter()
        .filter_map(|note| match note {
            Note::OrphanToolCallsPruned(told) => Some(told),
            _ => None,
        })
        .collect();
    assert_eq!(pruned.len(), 1);
    assert_eq!((pruned[0].pruned_count, pruned[0].model.as_deref()), (1, Some("main")));
    assert!(pruned[0].original_error.as_ref().unwrap().contains("toolu_1"));
}

#[tokio::test]
async fn a_history_that_is_refused_over_http_is_repaired_too() {
    for stream in [false, true] {
        let server =
            ScriptedServer::start(Script::new("s.yaml", [ScriptEntry::text("Done.")]), 0).await.unwrap();
        let config = ModelConfig {
            base_url: server.base_url(),
            stream,
            ..ModelConfig::new(Provider::OPENAI, "scripted")
        };
        let report = run(PRUNE, HttpModel::new(config).unwrap(), &mut Log::default()).await;
        assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
        assert_eq!(server.requests().len(), 2);
        server.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_the_provider_never_sees_it() {
    let mut log = Log::default();
    let report = run("version: 1", Anthropic, &mut log).await;
    assert_eq!(roles(&report.messages), ["user", "assistant", "tool", "user", "assistant"]);
    assert!(report.messages[2].text().contains("may have run"));
    assert!(!String::from_utf8(log.0).unwrap().contains("model_failed"));
}

#[tokio::test(start_paused = true)]
async fn the_notes_of_the_log_make_the_conversation() {
    for policy in ["version: 1", PRUNE] {
        let mut log = Log::default();
        let report = run(policy, Anthropic, &mut log).await;
        let mut conversation = Vec::new();
        log.notes().iter().for_each(|note| note.apply(&mut conversation));
        assert_eq!(conversation, report.messages);
        assert_eq!(findings(&conversation), []);
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_do_not_come_in_by_an_earlier_conversation() {
    let policy = Policy::from_yaml("p.yaml", "version: 1").unwrap();
    let agent = Agent::new(policy).model("main", Anthropic).redact(["/important/file.rb".into()]);
    let task = RunTask { run: "run-1".into(), history: interrupted(), ..RunTask::default() };
    let mut log = Log::default();
    agent.run_with(task, &mut NoopObserver, Some(&mut log), StopSwitch::new()).await.unwrap();
    let text = String::from_utf8(log.0).unwrap();
    assert!(text.contains("[redacted]") && !text.contains("important"), "{text}");
}

/// A session whose first run ended behind a call with arguments that are no JSON, and which continues at a server that
/// refuses such arguments, as llama.cpp and vLLM do; and the arguments that server got.
async fn cured(policy: &str) -> (RunReport, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(dir.path(), FsyncMode::Never);
    let id: SessionId = "poisoned".parse().unwrap();
    let agent = |model: Arc<dyn Model>| {
        let look = FunctionTool::new(
            ToolSpec {
                name: "look".into(),
                description: String::new(),
                parameters: json!({"type": "object"}),
                effect: None,
            },
            |_, _| async { Ok(json!("seen")) },
        );
        Agent::new(Policy::from_yaml("p.yaml", policy).unwrap())
            .model("main", Shared(model))
            .tools(Tools::new().with(look))
    };
    let task = |task: &str| RunTask { run: "poisoned".into(), task: task.into(), ..RunTask::default() };
    // What a session says does not depend on how a request is written.
    let call = ScriptedCall { name: "look".into(), arguments: "{\"text\": [[[,,".into(), id: None };
    let broken =
        ScriptEntry::new(Scripted::Answer(ScriptAnswer { calls: vec![call], ..ScriptAnswer::default() }));
    let refused =
        ScriptEntry::new(Scripted::Error(ErrorReply::new(400, "invalid_request_error", "Invalid request.")));
    let first = agent(Arc::new(ScriptedModel::new(Script::new("s.yaml", [broken, refused]))));
    let header = LogHeader::new("poisoned", first.interpreter().unwrap().policy().digest(), Instant(1));
    let mut recorder = Recorder::new(store.create(&id, &header).await.unwrap()).await;
    first
        .run_with(task("Look it up."), &mut NoopObserver, Some(&mut recorder), StopSwitch::new())
        .await
        .unwrap();
    recorder.close().await;
    let server = ScriptedServer::start(Script::new("s.yaml", [ScriptEntry::text("Done.")]), 0).await.unwrap();
    let config = ModelConfig { base_url: server.base_url(), ..ModelConfig::new(Provider::OPENAI, "m") };
    let second = agent(Arc::new(HttpModel::new(config).unwrap()));
    let ResumedSession { past, log, .. } = resume(&store, &id, &second.interpreter().unwrap()).await.unwrap();
    let mut recorder = Recorder::new(log).await;
    let (next, mut silent) = (task("And now?"), NoopObserver);
    let report = second
        .go_on(Some(past), Some(next), &mut silent, Some(&mut recorder), StopSwitch::new())
        .await
        .unwrap();
    let requests = server.requests();
    let calls =
        requests.iter().flat_map(|request| request.body["messages"].as_array().cloned().unwrap_or_default());
    let calls = calls.flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let arguments = calls.map(|call| call["function"]["arguments"].as_str().unwrap().to_owned()).collect();
    server.shutdown().await;
    (report, arguments)
}

/// A model that is one of several kinds.
struct Shared(Arc<dyn Model>);

impl Model for Shared {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        self.0.call(request)
    }
}

#[tokio::test]
async fn a_session_with_broken_arguments_goes_on_where_every_argument_is_checked() {
    let (report, arguments) = Box::pin(cured("version: 1")).await;
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert_eq!(arguments, [json!({"INVALID_JSON": "{\"text\": [[[,,"}).to_string()]);
}
