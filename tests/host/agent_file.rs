//! Agents that are run from their files by the library alone.

use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use futures_util::StreamExt;
use tempfile::TempDir;
use unfazed::Agent;
use unfazed::engine::{Outcome, Record};
use unfazed::host::agent_file::{AgentFileError, AgentWarning, NamedAgent, StartOptions};
use unfazed::host::{NoopObserver, RunError, RunTask, StopSwitch};
use unfazed::policy::Loader;
use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId, Store};

/// A script with one answer.
const SCRIPT: &str = "version: 1\nreplies: [{text: done}]\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The error's text, with the folder of the file left out.
fn said(error: &dyn std::fmt::Display, folder: &TempDir) -> String {
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

#[tokio::test]
async fn the_quickstart_runs_from_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let agent = Agent::from_file(root.join("examples/quickstart/agent.yaml")).await.unwrap();
    assert!(agent.warnings.is_empty(), "{:?}", agent.warnings);
    let report = agent.run().await.unwrap();
    let Outcome::Reported { output } = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(output["total_eur"], 270.48);
    agent.shutdown().await;
}

#[tokio::test]
async fn every_mistake_has_its_place_and_nothing_starts() {
    let agent = "version: 1
task: t
policy: [policy.yaml, polcy.yaml]
models:
  m: {api: scripted, script: model.yaml}
tools:
  calc: {kind: builtin, name: clac}
";
    let folder = folder(&[
        ("agent.yaml", agent),
        ("policy.yaml", "version: 1\nretry: {max_attempts: many}\n"),
        ("model.yaml", "version: 1\nreplies: [{txt: done}]\n"),
    ]);
    let error = Agent::from_file(folder.path().join("agent.yaml")).await.unwrap_err();
    insta::assert_snapshot!(said(&error, &folder));
}

#[tokio::test]
async fn names_that_the_agent_does_not_have_are_refused_before_anything_starts() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    // What is served there could not start.
    let agent = format!(
        "version: 1\npolicy: policy.yaml\nmodels: {{m: {{api: scripted, script: model.yaml, port: {port}}}}}\n\
         tools: {{calc: {{kind: builtin}}}}\n"
    );
    let policy = "version: 1\ntools: {clac: {retry: {max_attempts: 2}}}\n";
    let folder = folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", SCRIPT)]);
    let path = folder.path().join("agent.yaml");
    let error = Agent::from_file(&path).await.unwrap_err();
    insta::assert_snapshot!(said(&error, &folder));
    assert!(matches!(error, AgentFileError::Mistakes(_)));

    fs::write(folder.path().join("policy.yaml"), "version: 1\n").unwrap();
    let error = Agent::from_file(&path).await.unwrap_err();
    assert!(matches!(&error, AgentFileError::Model { name, .. } if name == "m"), "{error}");
    assert!(error.source().is_some());
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let error = Agent::from_file("/nowhere/agent.yaml").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nowhere/agent.yaml: there is no such file");
    assert!(error.source().is_some_and(<dyn Error>::is::<std::io::Error>));
}

#[tokio::test]
async fn a_session_is_recorded_as_the_file_says() {
    let agent = "version: 1\nname: desk\nsystem: be brief\nseed: 7\nmodels: {m: {api: scripted, script: model.yaml}}\n";
    let folder = folder(&[("agent.yaml", agent), ("model.yaml", SCRIPT)]);
    let path = folder.path().join("agent.yaml");
    let agent = Agent::from_file(&path).await.unwrap();
    assert!(matches!(agent.run().await, Err(RunError::NoTask)));

    let store = JsonlStore::new(folder.path().join("sessions"), FsyncMode::of_agent(&agent));
    let id = SessionId::generate();
    let header = agent.log_header(id.as_str());
    let mut recorder = Recorder::new(store.create(&id, &header).await.unwrap()).await;
    let task = RunTask { run: id.to_string(), task: "hello".into(), ..agent.task() };
    assert_eq!((task.system.as_str(), task.seed), ("be brief", 7));
    let mut observer = NoopObserver;
    let run = agent.agent.run_with(task, &mut observer, Some(&mut recorder), StopSwitch::new());
    assert_eq!(run.await.unwrap().outcome, Outcome::Answered { text: "done".into() });

    let first = store.read(&id).await.unwrap().next().await;
    let Some(Ok(Record::Session(first))) = first else { panic!("no header") };
    let facts = first.agent.unwrap();
    assert_eq!((facts.name.as_str(), Path::new(&facts.file)), ("desk", &*path));
    assert_eq!(first.policy, agent.agent.interpreter().unwrap().policy().digest());
    agent.shutdown().await;
}

#[tokio::test]
async fn each_run_has_an_id_of_its_own() {
    let folder = folder(&[
        ("agent.yaml", "version: 1\ntask: t\nmodels: {m: {api: scripted, script: model.yaml}}\n"),
        ("model.yaml", "version: 1\nreplies: [{text: one}, {text: two}]\n"),
    ]);
    let agent = Agent::from_file(folder.path().join("agent.yaml")).await.unwrap();
    let (one, two) = (agent.run().await.unwrap(), agent.run_task("again").await.unwrap());
    assert_eq!(two.outcome, Outcome::Answered { text: "two".into() });
    assert_ne!(one.state.run, two.state.run);
}

#[tokio::test]
async fn a_watched_policy_is_replaced_while_the_agent_stands() {
    let folder = folder(&[
        (
            "agent.yaml",
            "version: 1\ntask: t\npolicy: policy.yaml\nmodels: {m: {api: scripted, script: model.yaml}}\n",
        ),
        ("policy.yaml", "version: 1\nturn: {max_turns: 3}\n"),
        ("model.yaml", SCRIPT),
    ]);
    let path = folder.path().join("agent.yaml");
    let (named, _) = NamedAgent::read(&path, &fs::read(&path).unwrap(), &Loader::new());
    let before = named.as_ref().unwrap().policy.digest().to_owned();
    let agent = named.unwrap().start(StartOptions::new().reload(true)).await.unwrap();
    fs::write(folder.path().join("policy.yaml"), "version: 1\nturn: {max_turns: 44}\n").unwrap();
    agent.run().await.unwrap();
    assert_ne!(agent.log_header("x").policy, before);
}

#[tokio::test]
async fn a_budget_that_is_too_small_for_a_turn_is_a_warning() {
    let folder = folder(&[
        (
            "agent.yaml",
            "version: 1\ntask: t\npolicy: policy.yaml\nmodels: {m: {api: scripted, script: model.yaml}}\n",
        ),
        ("policy.yaml", "version: 1\nlimits: {run: {tokens: 20}}\n"),
        ("model.yaml", SCRIPT),
    ]);
    let agent = Agent::from_file(folder.path().join("agent.yaml")).await.unwrap();
    assert!(
        agent.warnings.iter().any(|warning| matches!(warning, AgentWarning::ShortBudget(_))),
        "{:?}",
        agent.warnings
    );
    assert!(agent.warnings.iter().any(|warning| warning.to_string().contains("limits.run.tokens")));
}

#[tokio::test]
async fn the_mistakes_of_a_script_are_reported_once_for_all_its_models() {
    let agent = "version: 1
task: t
models:
  a: {api: scripted, script: model.yaml}
  b: {api: scripted, script: model.yaml}
  c: {api: scripted, script: missing.yaml}
  d: {api: scripted, script: missing.yaml}
";
    let script = "version: 1\nreplies: [{txt: done}]\n";
    let folder = folder(&[("agent.yaml", agent), ("model.yaml", script)]);
    let error = Agent::from_file(folder.path().join("agent.yaml")).await.unwrap_err();
    let text = said(&error, &folder);
    let count = |words: &str| text.matches(words).count();
    // What each model names is its own mistake; what the script says is that of the script.
    assert_eq!((count("unknown field `txt`"), count("cannot read the script")), (1, 2), "{text}");
}

/// What no message and no `Debug` may show.
const SECRETS: [&str; 3] = ["sk-key-12345", "header-67890", "env-24680"];

#[tokio::test]
async fn no_secret_is_shown() {
    let agent = "version: 1
models:
  main: {api: openai, model: m, base_url: 'http://127.0.0.1:9/v1', ask_window: false, api_key: {file: key},
         headers: {x-tenant: {file: header}}}
tools:
  t: {kind: process, command: ['true'], description: d, parameters: {type: object}, env: {APP_TOKEN: env-24680}}
";
    let folder = folder(&[("agent.yaml", agent), ("key", SECRETS[0]), ("header", SECRETS[1])]);
    let path = folder.path().join("agent.yaml");
    let read = || NamedAgent::read(&path, &fs::read(&path).unwrap(), &Loader::new()).0.unwrap();
    let options = StartOptions::new().redact([SECRETS[0].into()]);
    let shown = format!("{:?} {options:?}", read());
    let started = read().start(options).await.unwrap();
    let shown = format!("{shown} {started:?}");

    // A header that no request can carry, and a key that is not there.
    fs::write(folder.path().join("header"), format!("{}\u{7}", SECRETS[1])).unwrap();
    let header = Agent::from_file(&path).await.unwrap_err();
    fs::remove_file(folder.path().join("key")).unwrap();
    let key = Agent::from_file(&path).await.unwrap_err();
    insta::assert_snapshot!(said(&key, &folder));
    let shown = format!("{shown} {header} {header:?} {key} {key:?}");
    for secret in &SECRETS[..2] {
        assert!(!shown.contains(secret), "{shown}");
    }
    // What the file itself says of a program's environment may be in the text that a report shows, and nowhere else.
    let shown = format!("{:?} {started:?} {header} {key} {header:?} {key:?}", read());
    assert!(!shown.contains(SECRETS[2]), "{shown}");

    // Nor is the text of the file in the `Debug` of its mistakes, whichever line they are on.
    for (mistake, agent) in [
        ("elsewhere", agent.replace("ask_window", "ask_windw")),
        ("beside it", agent.replace("kind: process", "knd: process")),
        ("before it", agent.replace("env: {APP", "env: {OTHER: 7, APP")),
        ("no YAML", format!("{agent}  - [\n")),
    ] {
        let (_, reports) = NamedAgent::read(&path, agent.as_bytes(), &Loader::new());
        assert!(reports.iter().any(unfazed::Report::has_errors), "{mistake}");
        let shown = format!("{reports:?}");
        assert!(!shown.contains(SECRETS[2]), "{mistake}: {shown}");
    }
}

/// A provider that repeats the token it was sent, to the first so many requests.
async fn repeating(listener: tokio::net::TcpListener, requests: usize) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for number in 0..requests {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 65536];
        let read = socket.read(&mut buffer).await.unwrap();
        let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
        let token =
            head.split("Bearer ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap().to_owned();
        let (status, body) = match number {
            0 => (401, format!(r#"{{"error":{{"code":"invalid_token","message":"{token} has expired"}}}}"#)),
            _ => (
                200,
                format!(
                    r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"not tok-1 but {token}"}},"finish_reason":"stop"}}]}}"#
                ),
            ),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(answer.as_bytes()).await.unwrap();
        let _ = socket.shutdown().await;
    }
}

#[tokio::test]
async fn a_token_of_a_command_is_renewed_and_in_no_session() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(repeating(listener, 2));
    let agent = format!(
        "version: 1
task: go
models:
  main: {{api: azure, base_url: 'http://{address}', model: m, api_version: '2024-10-21', stream: false,
         token: {{command: [sh, token.sh], pass_env: [NOTHING], timeout: 10s, lifetime: 45m}}}}
"
    );
    let script = "n=$(($(cat runs 2>/dev/null || echo 0) + 1)); echo $n > runs; echo tok-$n\n";
    let folder = folder(&[("agent.yaml", &agent), ("token.sh", script)]);
    let agent = Agent::from_file(folder.path().join("agent.yaml")).await.unwrap();
    assert!(agent.warnings.is_empty(), "{:?}", agent.warnings);
    let store = JsonlStore::new(folder.path().join("sessions"), FsyncMode::Never);
    let id = SessionId::generate();
    let log = store.create(&id, &agent.log_header(id.as_str())).await.unwrap();
    let mut recorder = Recorder::new(log).await;
    let task = RunTask { run: id.to_string(), ..agent.task() };
    let mut observer = NoopObserver;
    let run = agent.agent.run_with(task, &mut observer, Some(&mut recorder), StopSwitch::new());
    let report = run.await.unwrap();
    server.await.unwrap();
    let written = fs::read_dir(folder.path().join("sessions"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()));
    let log: String = written.filter_map(Result::ok).collect();
    assert!(log.contains("not [redacted] but [redacted]"), "{log}");
    assert!(log.contains("the key was refused (HTTP 401) and asked for again"), "{log}");
    assert!(!format!("{log} {report:?}").contains("tok-"), "{log}");
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap().trim(), "2");
    agent.shutdown().await;
}
