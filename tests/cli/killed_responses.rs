//! A run whose model keeps its responses (`auto_previous_response_id`) and that is killed: what is sent once it is resumed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use unfazed::host::scripted::{
    Script, ScriptAnswer, ScriptEntry, ScriptFault, ScriptOutcome, ScriptedCall, ScriptedServer,
};

use crate::command;

/// The tool waits for a file before it is done.
const AGENT: &str = r#"version: 1
task: What does the lamp cost?
models:
  m: {api: responses, base_url: 'BASE', model: scripted, auto_previous_response_id: true, stream: STREAM}
tools:
  look:
    kind: process
    command: [sh, -c, "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo 12.50"]
    description: Looks up a price.
    parameters: {type: object}
    effect: read_only
"#;

fn calling() -> ScriptEntry {
    let call = ScriptedCall { name: "look".into(), arguments: "{}".into(), id: Some("c1".into()) };
    let extra = json!({"reasoning_content": "Let me look."}).as_object().cloned().unwrap();
    ScriptEntry::new(ScriptOutcome::Answer(ScriptAnswer {
        calls: vec![call],
        extra,
        ..ScriptAnswer::default()
    }))
}

fn agent(server: &ScriptedServer, stream: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = AGENT.replace("BASE", &server.base_url()).replace("STREAM", &stream.to_string());
    fs::write(folder.path().join("agent.yaml"), text).unwrap();
    folder
}

/// Starts a run, kills it once that is so, and lets its tool be done.
fn kill_once(folder: &Path, is_so: impl Fn() -> bool) {
    let mut run = command::unfazed(folder, &["run", "agent.yaml"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until && run.try_wait().unwrap().is_none(), "it never gets so far");
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL: nothing more is written.
    run.kill().unwrap();
    run.wait().unwrap();
    fs::write(folder.join("go"), "").unwrap();
}

fn resumed(folder: &Path) {
    let output = command::unfazed(folder, &["run", "--resume", "latest"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("The lamp costs 12.50."), "{err}");
}

/// Whether a request sends the whole conversation, or what came after the first response and nothing else.
fn is_whole_or_continued(body: &Value) -> Result<bool, String> {
    let items = body["input"].as_array().ok_or("no items")?;
    let of = |kind: &str| items.iter().filter(|item| item["type"] == kind).collect::<Vec<_>>();
    let (calls, results) = (of("function_call"), of("function_call_output"));
    if results.len() != 1 || results[0]["call_id"] != "c1" {
        return Err(format!("results {results:?}"));
    }
    match body["previous_response_id"].as_str() {
        Some("resp_1") if items.len() == 1 => Ok(true),
        None if calls.len() == 1 && calls[0]["call_id"] == "c1" => Ok(false),
        _ => Err(body.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_in_a_tool_continues_the_response_that_was_recorded() {
    for stream in [false, true] {
        let script = Script::new("s.yaml", [calling(), ScriptEntry::text("The lamp costs 12.50.")]);
        let server = ScriptedServer::start(script, 0).await.unwrap();
        let folder = agent(&server, stream);
        kill_once(folder.path(), || folder.path().join("begun").exists());
        resumed(folder.path());
        let bodies: Vec<Value> = server.requests().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies.len(), 2, "{bodies:?}");
        assert_eq!(is_whole_or_continued(&bodies[1]), Ok(true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_while_it_waits_for_a_response_asks_for_the_same_one_again() {
    for stream in [false, true] {
        let hangs = ScriptEntry::fault(ScriptFault::Hang);
        let script = Script::new("s.yaml", [calling(), hangs, ScriptEntry::text("The lamp costs 12.50.")]);
        let server = ScriptedServer::start(script, 0).await.unwrap();
        let folder = agent(&server, stream);
        fs::write(folder.path().join("go"), "").unwrap();
        kill_once(folder.path(), || server.requests().len() == 2);
        resumed(folder.path());
        let bodies: Vec<Value> = server.requests().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies.len(), 3, "{bodies:?}");
        assert_eq!(is_whole_or_continued(&bodies[1]), Ok(true));
        assert_eq!(bodies[1]["input"], bodies[2]["input"]);
        assert_eq!(bodies[1]["previous_response_id"], bodies[2]["previous_response_id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_before_a_response_is_recorded_sends_all_of_it() {
    let script = Script::new(
        "s.yaml",
        [ScriptEntry::fault(ScriptFault::Hang), calling(), ScriptEntry::text("The lamp costs 12.50.")],
    );
    let server = ScriptedServer::start(script, 0).await.unwrap();
    let folder = agent(&server, false);
    kill_once(folder.path(), || server.requests().len() == 1);
    resumed(folder.path());
    let bodies: Vec<Value> = server.requests().into_iter().map(|seen| seen.body).collect();
    assert_eq!((&bodies[0]["input"], bodies[1].get("previous_response_id")), (&bodies[1]["input"], None));
    let continued = bodies[2]["previous_response_id"].as_str().unwrap();
    assert_eq!((continued, bodies[2]["input"].as_array().unwrap().len()), ("resp_2", 1));
}
