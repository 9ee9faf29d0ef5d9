//! `unfazed context`: where the tokens of a session, an agent or a request go.
#![cfg(all(feature = "cli", unix))]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const AGENT: &str = "version: 1
name: desk
system: You look up prices.
task: What does the lamp cost?
policy: policy.yaml
models: {m: {api: scripted, script: model.yaml}}
tools:
  look:
    kind: process
    command: [sh, look.sh]
    description: Looks up a price.
    parameters: {type: object}
    effect: read_only
  calc: {kind: builtin}
";
const POLICY: &str = "version: 1
models: {'*': {context_window: 2000, output_reserve: 200}}
context: {safety: 20 tokens}
";
const SCRIPT: &str = "version: 1
model: m
replies:
  - {match: {turn: 1}, calls: [{name: look, arguments: {}, id: a}]}
  - {match: {turn: 2}, text: The lamp costs 12.50.}
";

fn scene() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in
        [("agent.yaml", AGENT), ("policy.yaml", POLICY), ("model.yaml", SCRIPT), ("look.sh", "echo 12.50\n")]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn unfazed(dir: &TempDir, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unfazed"));
    for name in ["CONFIG", "COLOR", "LOG", "LOG_JSON", "POLICY", "SESSIONS", "PROFILE"] {
        command.env_remove(format!("UNFAZED_{name}"));
    }
    command.args(args).current_dir(dir.path()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who reads nothing of it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn shown(dir: &TempDir, args: &[&str], input: &str) -> String {
    let output = unfazed(dir, args, input);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn request() -> Value {
    let mut messages = vec![json!({"role": "system", "content": "You look up prices."})];
    for n in 0..12 {
        let id = format!("c{n}");
        messages.push(json!({"role": "user", "content": format!("And item {n}, please?")}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "price list ".repeat(40)}));
    }
    json!({
        "model": "house-model", "max_tokens": 300, "messages": messages,
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks up a price."}}],
    })
}

#[test]
fn an_agent_is_shown_with_what_it_begins_with() {
    insta::assert_snapshot!(shown(&scene(), &["context", "agent.yaml"], ""));
}

#[test]
fn a_session_is_shown_as_it_stands_by_its_id_and_by_its_file() {
    let dir = scene();
    assert!(unfazed(&dir, &["run", "agent.yaml"], "").status.success());
    let text = shown(&dir, &["context", "latest"], "");
    let (title, rest) = text.split_once('\n').unwrap();
    assert!(title.starts_with("session "), "{title}");
    insta::assert_snapshot!(rest);
    let path = format!(".unfazed/sessions/{}.jsonl", title.trim_start_matches("session "));
    assert_eq!(shown(&dir, &["context", &path], ""), text);
}

#[test]
fn a_request_that_is_too_large_is_shown_with_what_would_be_cut() {
    let text = shown(&scene(), &["context", "-", "--policy", "policy.yaml"], &request().to_string());
    insta::assert_snapshot!(text);
}

#[test]
fn machines_get_the_same_numbers() {
    let args = ["context", "-", "--policy", "policy.yaml", "--format", "json"];
    let told: Value = serde_json::from_str(&shown(&scene(), &args, &request().to_string())).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!((number(&told["window"]["tokens"]), number(&told["output"])), (2000, 300));
    let kinds = ["user", "assistant", "results"].map(|kind| number(&told["messages"][kind]["tokens"]));
    let all = kinds.iter().sum::<u64>() + number(&told["system"]);
    assert_eq!(all, number(&told["messages"]["tokens"]));
    assert_eq!(told["tools"]["each"][0]["name"], "look");
    assert_eq!(number(&told["over"]), all - number(&told["budget"]));
    let steps = told["next"]["steps"].as_array().unwrap();
    assert!(told["next"]["due"].as_bool().unwrap() && !steps.is_empty());
    assert_eq!(steps[0]["tokens_before"], told["messages"]["tokens"]);
    assert!(number(&steps[steps.len() - 1]["tokens_after"]) <= number(&told["next"]["above"]));
}

#[test]
fn the_catalogue_tells_the_window_of_a_model_that_is_named() {
    let body = json!({"messages": [{"role": "user", "content": "Hello."}]}).to_string();
    let args = ["context", "-", "--model", "gpt-4-0613", "--format", "json"];
    let told: Value = serde_json::from_str(&shown(&scene(), &args, &body)).unwrap();
    assert_eq!(told["window"], json!({"tokens": 8192, "source": "catalogue", "output": 4096}));
}

#[test]
fn what_is_no_request_is_told() {
    let dir = scene();
    let refused = |input: &str| {
        let output = unfazed(&dir, &["context", "-"], input);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for input in ["", "{", "[]", "{\"messages\": 3}", "\u{0}"] {
        let (code, told) = refused(input);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("a JSON object with a list of `messages`"), "{told}");
    }
    assert_eq!(refused("{\"messages\": []}").0, Some(3));
}

#[test]
fn a_model_that_the_agent_does_not_have_is_told_with_those_it_has() {
    let output = unfazed(&scene(), &["context", "agent.yaml", "--model", "n"], "");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("the agent has no model `n`; it has m"), "{told}");
}

#[test]
fn a_name_that_is_neither_file_nor_session_is_told() {
    let output = unfazed(&scene(), &["context", "nothing"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no session `nothing`"));
}
