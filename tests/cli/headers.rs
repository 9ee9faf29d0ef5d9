//! The headers an agent file names: they are sent, those that are secret are never shown, and mistakes have their places.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;

use tempfile::TempDir;

use crate::command;

const CHAT: &str = r#"{"choices": [{"message": {"role": "assistant", "content": "team-planted-1 says hello"}, "finish_reason": "stop"}]}"#;
const MESSAGES: &str = r#"{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "team-planted-1 says hello"}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}"#;
const RESPONSES: &str = r#"{"object": "response", "status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "team-planted-1 says hello"}]}]}"#;

const GEMINI: &str = r#"{"candidates": [{"content": {"role": "model", "parts": [{"text": "team-planted-1 says hello"}]}, "finishReason": "STOP"}]}"#;

/// A folder with that agent file, and one with a secret.
fn folder(agent: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("agent.yaml"), agent).unwrap();
    fs::write(dir.path().join("team.txt"), "team-planted-1\n").unwrap();
    dir
}

fn unfazed(dir: &TempDir, args: &[&str]) -> Output {
    let mut command = command::unfazed(dir.path(), args);
    command.env("TEAM_TOKEN", "team-planted-1");
    command.env("BROKEN_TOKEN", "team-planted-1\nx: y").env_remove("NO_SUCH_TOKEN_HERE");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Answers one request with that body; gives its head in lower case.
fn answer(listener: &TcpListener, body: &str) -> String {
    let (mut socket, _) = listener.accept().unwrap();
    let head = read_request(&mut socket);
    let length = body.len();
    write!(
        socket,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    head
}

fn read_request(socket: &mut TcpStream) -> String {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = socket.read(&mut buffer).unwrap();
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        if body.len() >= length.parse().unwrap() {
            return head;
        }
    }
}

/// Runs an agent with a model of that kind, with these headers. What was sent, and the messages and written down.
fn run(api: &str, answered: &'static str, headers: &str) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = format!(
        "version: 1\ntask: say hello\nmodels:\n  m:\n    api: {api}\n    base_url: http://{}\n    model: x\n    ask_window: false\n    stream: false\n    headers: {headers}\n",
        listener.local_addr().unwrap()
    );
    let dir = folder(&agent);
    let server = thread::spawn(move || answer(&listener, answered));
    let output = unfazed(&dir, &["run", "agent.yaml", "--log", "trace"]);
    assert!(output.status.success(), "{}", said(&output));
    let files = fs::read_dir(dir.path().join(".unfazed/sessions")).unwrap();
    let session: String = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    (server.join().unwrap(), said(&output) + &session)
}

#[test]
fn headers_are_sent_with_every_request_and_secret_ones_are_never_shown() {
    let headers =
        "{anthropic-beta: 'first-beta,second-beta', X-Team: {env: TEAM_TOKEN}, x-other: {file: team.txt}}";
    for (api, answered) in
        [("openai", CHAT), ("anthropic", MESSAGES), ("responses", RESPONSES), ("gemini", GEMINI)]
    {
        let (sent, shown) = run(api, answered, headers);
        for header in
            ["anthropic-beta: first-beta,second-beta", "x-team: team-planted-1", "x-other: team-planted-1"]
        {
            assert!(sent.lines().any(|line| line == header), "{api} does not send {header}:\n{sent}");
        }
        assert!(shown.contains("[redacted] says hello") && !shown.contains("planted"), "{shown}");
    }
}

#[test]
fn a_header_of_the_file_goes_before_the_agents_own() {
    let (sent, _) = run("anthropic", MESSAGES, "{anthropic-version: '2030-01-01'}");
    assert_eq!(sent.matches("anthropic-version").count(), 1);
    assert!(sent.contains("anthropic-version: 2030-01-01"), "{sent}");
}

#[test]
fn headers_that_cannot_be_sent_are_told_with_their_places() {
    let agent = "version: 1
task: t
models:
  m:
    api: openai
    base_url: https://host/v1
    model: x
    headers:
      x team: a
      x-note: \"two\\nlines\"
      content-length: \"3\"
      X-Same: a
      x-same: b
  o:
    api: openai
    base_url: https://host/v1
    model: x
    headers:
      x-number: 2
      x-nowhere: {path: team.txt}
      x-both: {env: TEAM_TOKEN, file: team.txt}
  n:
    api: anthropic
    model: x
    headers: {authorization: Bearer sk-ant-planted-0123456789, x-gateway: Bearer sk-ant-planted-0123456789}
";
    let dir = folder(agent);
    let check = unfazed(&dir, &["check", "agent.yaml"]);
    assert!(!said(&check).contains("planted"), "{}", said(&check));
    insta::assert_snapshot!(said(&check));
}

#[test]
fn a_secret_that_is_missing_or_cannot_be_sent_is_told_before_anything_starts() {
    let agent = "version: 1
task: t
models:
  m:
    api: openai
    base_url: http://127.0.0.1:1
    model: x
    headers:
      x-team: {env: NO_SUCH_TOKEN_HERE}
      x-broken: {env: BROKEN_TOKEN}
      x-file: {file: nowhere.txt}
";
    let dir = folder(agent);
    assert!(unfazed(&dir, &["check", "agent.yaml"]).status.success());
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(run.status.code(), Some(1));
    insta::assert_snapshot!(said(&run));
}
