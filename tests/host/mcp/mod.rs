//! Servers of tools, well-behaved and hostile: `server.py` plays them all.

mod from_file;
mod growing;
mod notes;
mod real;
mod signals;
mod unreadable;

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;
use unfazed::engine::{
    EffectState, Envelope, Event, Failure, ModelReply, Outcome, ProposedCall, ToolOutcome,
};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, BoxFuture, McpConfig, McpReach, McpServer, McpServers, Model, ModelRequest, Observer,
    ProgressReporter, RunTask, ToolInput, ToolProgress, ToolSource,
};
use unfazed::policy::{Effect, ErrorClass, Policy};
use unfazed::session::{Message, ToolCall};

use crate::command;

use notes::Notes;

fn config(mode: &str, notes: &Notes) -> McpConfig {
    let command = [
        "python3".to_owned(),
        notes::server().display().to_string(),
        mode.to_owned(),
        notes.path().display().to_string(),
    ];
    McpConfig::new("s", McpReach::command(command)).grace(Duration::from_millis(500))
}

async fn server(mode: &str, notes: &Notes) -> McpServer {
    McpServer::start(config(mode, notes)).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn call_within(
    server: &McpServer,
    tool: &str,
    arguments: &Value,
    timeout: Option<Duration>,
    cancel: CancellationToken,
) -> ToolOutcome {
    let tools = server.tools();
    let found = tools.iter().find(|known| known.spec().name == tool).unwrap_or_else(|| panic!("no {tool}"));
    let aside = ProgressReporter::default();
    found.run(ToolInput { arguments, attempt: 1, idempotency_key: "key", timeout, cancel, aside }).await
}

async fn call(server: &McpServer, tool: &str, arguments: Value) -> ToolOutcome {
    call_within(server, tool, &arguments, Some(Duration::from_secs(20)), CancellationToken::new()).await
}

fn said(outcome: ToolOutcome) -> Value {
    match outcome {
        ToolOutcome::Ok { data } => data,
        ToolOutcome::Done => Value::Null,
        ToolOutcome::Failed { failure, .. } => panic!("{failure:?}"),
    }
}

fn failed(outcome: ToolOutcome) -> (ErrorClass, EffectState, String) {
    match outcome {
        ToolOutcome::Failed { failure, effect } => (failure.class.unwrap(), effect, failure.message),
        ToolOutcome::Ok { data } => panic!("it went well: {data}"),
        ToolOutcome::Done => panic!("it went well"),
    }
}

#[tokio::test]
async fn the_tools_of_a_server_are_named_after_it_and_have_the_effects_it_tells() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let tools = server.tools();
    let known: Vec<_> = tools.iter().map(|tool| (tool.spec().name.as_str(), tool.spec().effect)).collect();
    assert_eq!(known[0], ("s__echo", Some(Effect::ReadOnly)));
    assert_eq!(known[1], ("s__write", Some(Effect::Idempotent)));
    assert_eq!(known[2], ("s__send", Some(Effect::NonIdempotent)));
    assert_eq!(known[3], ("s__plain", None));
    assert!(!known.iter().any(|(name, _)| *name == "s__broken"), "its schema is none");
    assert_eq!(tools[0].spec().description, "It does echo.");
    server.shutdown().await;
}

#[tokio::test]
async fn results_are_text_json_or_a_description() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    assert_eq!(said(call(&server, "s__echo", json!({"text": "grüezi"})).await), json!("grüezi"));
    assert_eq!(said(call(&server, "s__plain", json!({})).await), json!({"key": "none", "n": 1}));
    assert_eq!(
        said(call(&server, "s__image", json!({})).await),
        json!("[image, image/png, 8 bytes: not shown]")
    );
    server.shutdown().await;
}

#[tokio::test]
async fn errors_are_told_in_the_classes_of_the_policy() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let full = failed(call(&server, "s__fail", json!({})).await);
    assert_eq!(full, (ErrorClass::ExecutionError, EffectState::Started, "the disk is full".into()));
    for (tool, message) in
        [("s__gone", "MCP error -32602: Tool gone not found"), ("s__bad", "Unknown tool: bad (-32602)")]
    {
        let unknown = failed(call(&server, tool, json!({})).await);
        assert_eq!(unknown, (ErrorClass::ToolNotFound, EffectState::NotStarted, message.into()));
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_large_result_is_cut() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let Value::String(text) = said(call(&server, "s__huge", json!({})).await) else { panic!("text") };
    assert!(text.len() < 1_100_000, "{}", text.len());
    assert!(text.ends_with("[cut: the tool gave 4000000 bytes, the first 1048576 are shown]"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_message_too_long_to_be_read_ends_the_server_and_the_next_call_starts_it_again() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let said_of_it = failed(call(&server, "s__huge", json!({"bytes": 20_000_000})).await);
    assert_eq!((said_of_it.0, said_of_it.1), (ErrorClass::NetworkError, EffectState::Unknown));
    assert!(said_of_it.2.contains("it sent a message longer than 8388608 bytes"), "{}", said_of_it.2);
    assert_eq!(said(call(&server, "s__echo", json!({"text": "again"})).await), json!("again"));
    server.shutdown().await;
    notes.all_gone().await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_may_have_acted_and_the_next_call_starts_it_again() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let (class, effect, message) = failed(call(&server, "s__die", json!({})).await);
    assert_eq!((class, effect), (ErrorClass::NetworkError, EffectState::Unknown));
    assert_eq!(message, "`python3` exited with code 3\nits standard error:\nsomething is wrong in here");
    assert_eq!(said(call(&server, "s__echo", json!({"text": "again"})).await), json!("again"));
    assert_eq!(notes.pids().len(), 2);
    server.shutdown().await;
}

#[tokio::test]
async fn calls_that_find_the_server_dead_share_one_start() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    failed(call(&server, "s__die", json!({})).await);
    let echo = || call(&server, "s__echo", json!({"text": "x"}));
    tokio::join!(echo(), echo(), echo(), echo());
    assert_eq!(notes.pids().len(), 2);
    server.shutdown().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_tells_how_far_it_came_and_the_server_that_nobody_waits() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let timeout = Some(Duration::from_secs(1));
    let outcome = call_within(&server, "s__slow", &json!({}), timeout, CancellationToken::new()).await;
    let (class, effect, message) = failed(outcome);
    assert_eq!((class, effect), (ErrorClass::Timeout, EffectState::Unknown));
    assert_eq!(message, "`s__slow` gave no answer within 1s; it had come to 3 of 10: copying");
    notes.wait_for("cancelled: it took too long", 1).await;
    assert_eq!(said(call(&server, "s__echo", json!({"text": "on"})).await), json!("on"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_stop_ends_the_call_and_the_server_is_told() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let cancel = CancellationToken::new();
    let arguments = json!({});
    let (outcome, ()) =
        tokio::join!(call_within(&server, "s__slow", &arguments, None, cancel.clone()), async {
            notes.wait_for("begun", 1).await;
            cancel.cancel();
        });
    assert_eq!(
        failed(outcome),
        (ErrorClass::Cancelled, EffectState::Unknown, "`s__slow` was stopped".into())
    );
    notes.wait_for("cancelled: stopped", 1).await;
    let early = call_within(&server, "s__echo", &arguments, None, cancel).await;
    assert_eq!(failed(early).1, EffectState::NotStarted);
    server.shutdown().await;
}

#[tokio::test]
async fn of_two_answers_the_first_counts() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    assert_eq!(said(call(&server, "s__twice", json!({})).await), json!("first"));
    assert_eq!(said(call(&server, "s__echo", json!({"text": "next"})).await), json!("next"));
    server.shutdown().await;
}

#[tokio::test]
async fn what_is_no_message_is_passed_over() {
    let notes = Notes::new();
    let server = server("babble", &notes).await;
    assert_eq!(said(call(&server, "s__bend", json!({})).await), json!("straight"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_hangs_while_it_starts_is_given_up_and_ended() {
    let notes = Notes::new();
    let config = config("hang", &notes).start_timeout(Duration::from_secs(2));
    let error = McpServer::start(config).await.unwrap_err().to_string();
    assert_eq!(error, "MCP server `s`: it did not answer within 2s\nits standard error:\nstill thinking");
    notes.all_gone().await;
}

#[tokio::test]
async fn a_server_that_ends_while_it_starts_says_why() {
    let notes = Notes::new();
    let error = McpServer::start(config("early", &notes)).await.unwrap_err().to_string();
    assert_eq!(error, "MCP server `s`: `python3` exited with code 7\nits standard error:\nno licence");
    let missing = McpConfig::new("s", McpReach::command(["no-such-program-here"]));
    let error = McpServer::start(missing).await.unwrap_err().to_string();
    assert!(error.starts_with("MCP server `s`: `no-such-program-here` cannot be started: "), "{error}");
}

#[tokio::test]
async fn pages_of_tools_are_all_read_but_not_without_end() {
    let notes = Notes::new();
    let server = server("pages", &notes).await;
    let names: Vec<String> = server.tools().iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(names, ["s__t0", "s__t1", "s__t2"]);
    server.shutdown().await;
    let error = McpServer::start(config("endless", &notes)).await.unwrap_err();
    assert_eq!(error.message, "its list of tools has more than 100 pages");
}

#[tokio::test]
async fn a_shutdown_lets_the_server_end_by_itself() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    server.shutdown().await;
    assert_eq!(notes.all().last().unwrap(), "ended");
    let (class, effect, message) = failed(call(&server, "s__echo", json!({"text": "x"})).await);
    assert_eq!((class, effect), (ErrorClass::ToolUnavailable, EffectState::NotStarted));
    assert_eq!(message, "MCP server `s`: it was shut down");
}

#[tokio::test]
async fn grandchildren_do_not_survive_the_server() {
    for mode in ["fork", "deaf"] {
        let notes = Notes::new();
        let server = server(mode, &notes).await;
        assert_eq!(notes.pids().len(), 2);
        server.shutdown().await;
        notes.all_gone().await;
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_is_killed_with_its_grandchildren() {
    let notes = Notes::new();
    drop(server("deaf", &notes).await);
    notes.all_gone().await;
}

/// The server over HTTP, and where it is.
async fn far(mode: &str) -> (tokio::process::Child, String) {
    let mut host = tokio::process::Command::new("python3")
        .arg(notes::server())
        .arg(mode)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = BufReader::new(host.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
    (host, url)
}

fn http(url: &str, key: &str) -> McpReach {
    McpReach::Http { url: url.to_owned(), headers: vec![("x-key".into(), key.into())] }
}

#[tokio::test]
async fn a_server_is_reached_over_http() {
    let (mut host, url) = far("http").await;
    let reach = |key: &str| http(&url, key);
    let server = McpServer::start(McpConfig::new("web", reach("sesame"))).await.unwrap();
    assert_eq!(said(call(&server, "web__echo", json!({"text": "far"})).await), json!("far"));
    let unknown = failed(call(&server, "web__bad", json!({})).await);
    assert_eq!((unknown.0, unknown.1), (ErrorClass::ToolNotFound, EffectState::NotStarted));
    let refused = McpServer::start(McpConfig::new("web", reach("wrong"))).await.unwrap_err();
    assert_eq!(refused.message, "the server's answer cannot be used: HTTP 401 Unauthorized");
    host.kill().await.unwrap();
    let (class, effect, message) = failed(call(&server, "web__echo", json!({"text": "far"})).await);
    assert_eq!(class, ErrorClass::NetworkError, "{message}");
    assert_eq!(effect, EffectState::NotStarted, "{message}");
    server.shutdown().await;
}

/// Runs an agent whose server is played in that mode and whose model answers with these replies.
fn unfazed(mode: &str, notes: &Notes, replies: &str) -> std::process::Command {
    let dir = notes.folder();
    let agent = json!({
        "version": 1,
        "task": "try it",
        "models": {"main": {"api": "scripted", "script": "model.yaml"}},
        "mcp": {"s": {"command": ["python3", notes::server(), mode, notes.path()], "start_timeout": "20s"}},
    });
    std::fs::write(dir.join("agent.yaml"), agent.to_string()).unwrap();
    std::fs::write(dir.join("model.yaml"), format!("version: 1\nreplies: {replies}\n")).unwrap();
    command::unfazed(dir, &["run", "agent.yaml"])
}

#[tokio::test]
async fn an_agent_has_the_tools_of_its_servers_and_leaves_none_of_them_behind() {
    let notes = Notes::new();
    let replies = r#"[{calls: [{name: s__echo, arguments: {text: "from afar"}}]}, {match: {contains: "from afar"}, text: done}]"#;
    let output = unfazed("fork", &notes, replies).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{errors}");
    assert!(output.status.success());
    notes.all_gone().await;
}

#[test]
fn an_agent_whose_server_does_not_start_says_so_and_does_not_run() {
    let notes = Notes::new();
    let output = unfazed("early", &notes, "[{text: done}]").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("MCP server `s`: `python3` exited with code 7"), "{errors}");
    assert!(errors.contains("no licence"), "{errors}");
}

#[tokio::test]
async fn a_signal_ends_the_run_and_its_servers() {
    let notes = Notes::new();
    let run = unfazed("deaf", &notes, "[{calls: [{name: s__slow, arguments: {}}]}, {text: done}]");
    let mut run = tokio::process::Command::from(run);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    notes.wait_for("begun", 1).await;
    notes::signal("INT", run.id().unwrap());
    assert_eq!(run.wait().await.unwrap().code(), Some(130));
    notes.all_gone().await;
}

#[tokio::test]
async fn every_kind_of_content_reaches_the_model_as_text_and_none_as_base64() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let Value::String(text) = said(call(&server, "s__mixed", json!({})).await) else { panic!("text") };
    insta::assert_snapshot!(text, @r#"
    see:
    [image, image/png, 8 bytes: not shown]
    [file:///a.txt]
    inside aa
    [resource file:///b, 3 bytes: not shown]
    [c: file:///c]
    {"a":[1]}
    "#);
    let large = json!({"bytes": 2_000_000, "chars": 2_000_000});
    let Value::String(text) = said(call(&server, "s__mixed", large).await) else { panic!("text") };
    assert!(text.starts_with("see:\n[image, image/png, 2000004 bytes: not shown]\n"));
    assert!(text.len() < 1_100_000 && text.contains("\n[cut: the tool gave 2000"), "{}", text.len());
    server.shutdown().await;
}

/// Runs an agent that calls the tools of a server one after the other, and hears what is said of it.
async fn run_agent(
    server: &McpServer,
    policy: &str,
    folder: &Path,
    calls: &[(&str, Value)],
) -> (Vec<String>, Heard) {
    let calls = calls.iter().map(|(tool, arguments)| ScriptEntry::call(*tool, arguments.to_string()));
    let model = ScriptedModel::new(Script::new("script", calls.chain([ScriptEntry::text("done")])));
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    let agent = Agent::new(policy).model("main", model).tool_source(server.clone()).results(folder);
    let mut heard = Heard::default();
    let task = RunTask { run: "run-1".into(), task: "look".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut heard, None, CancellationToken::new()).await.unwrap();
    let results = report.messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    (results.map(|message| message.text().to_owned()).collect(), heard)
}

/// What tools say while they run.
#[derive(Default)]
struct Heard(Vec<ToolProgress>);

impl Observer for Heard {
    fn progressed(&mut self, progress: &ToolProgress) {
        self.0.push(progress.clone());
    }
}

#[tokio::test]
async fn no_more_of_a_result_of_a_server_is_shown_than_the_policy_allows() {
    let (notes, folder) = (Notes::new(), tempfile::tempdir().unwrap());
    let server = server("normal", &notes).await;
    let policy = "version: 1\ntools: {'*': {result: {max: 6000 chars, keep: head}}}\n";
    let calls = [("s__huge", json!({"bytes": 32_613})), ("s__echo", json!({"text": "x".repeat(6000)}))];
    let (shown, _) = run_agent(&server, policy, folder.path(), &calls).await;
    assert!(
        shown[0].chars().count() <= 6000 && shown[0].ends_with("of 32613 chars shown]"),
        "{}",
        shown[0].len()
    );
    assert_eq!(shown[1], "x".repeat(6000));
    server.shutdown().await;
}

#[tokio::test]
async fn what_is_no_text_is_kept_in_files_where_the_policy_keeps_results() {
    let (notes, folder) = (Notes::new(), tempfile::tempdir().unwrap());
    let server = server("normal", &notes).await;
    let policy = "version: 1\ntools: {'*': {result: {overflow: spill}}}";
    let read = json!({"handle": "r1-0-0"});
    let calls = [("s__mixed", json!({})), ("read_result", read)];
    let (results, _) = run_agent(&server, policy, folder.path(), &calls).await;
    let image = "[image, image/png, 8 bytes: not shown, kept under the handle \"r1-0-0\"]";
    assert!(results[0].contains(image), "{}", results[0]);
    assert!(
        results[0].contains("[resource file:///b, 3 bytes: not shown, kept under the handle \"r1-0-1\"]")
    );
    assert_eq!(std::fs::read(folder.path().join("r1-0-0.png")).unwrap(), b"\x89PNG\0\0\0\0");
    assert_eq!(std::fs::read(folder.path().join("r1-0-1.bin")).unwrap(), [0, 1, 2]);
    assert!(results[1].contains("what is kept under the handle `r1-0-0` is no text"), "{}", results[1]);
    let (results, _) = run_agent(&server, "version: 1", folder.path(), &calls[..1]).await;
    assert!(results[0].contains("[image, image/png, 8 bytes: not shown]"), "{}", results[0]);
    server.shutdown().await;
}

#[tokio::test]
async fn how_far_a_call_is_is_told_while_it_runs_and_gives_it_no_more_time() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let policy = "version: 1\ntools: {'*': {retry: {max_attempts: 1, attempt_timeout: 700ms}}}";
    let begun = std::time::Instant::now();
    let (results, heard) = run_agent(&server, policy, Path::new("unused"), &[("s__chat", json!({}))]).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(results[0].contains("timeout") && results[0].contains("it had come to"), "{}", results[0]);
    let first =
        ToolProgress { call: heard.0[0].call.clone(), tool: "s__chat".into(), text: "0: on and on".into() };
    assert_eq!(heard.0[0], first);
    assert!((2..=8).contains(&heard.0.len()), "{}", heard.0.len());
    server.shutdown().await;
}

#[tokio::test]
async fn a_tool_that_a_server_has_taken_away_is_not_offered_any_more() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let calls = [("s__shrink", json!({})), ("s__send", json!({"text": "x"}))];
    let (results, _) = run_agent(&server, "version: 1", Path::new("unused"), &calls).await;
    assert_eq!(results[0], "shrunk");
    assert!(results[1].contains("There is no tool `s__send`"), "{}", results[1]);
    server.shutdown().await;
}

#[tokio::test]
async fn arguments_of_ten_megabytes_reach_a_server() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let arguments = json!({"text": "x".repeat(10_000_000)});
    let (class, _, message) = failed(call(&server, "s__echo", arguments).await);
    assert_eq!(class, ErrorClass::NetworkError, "{message}");
    assert!(message.contains("it sent a message longer than 8388608 bytes"), "{message}");
    assert_eq!(said(call(&server, "s__echo", json!({"text": "on"})).await), json!("on"));
    server.shutdown().await;
}
