//! Servers that do what no server should: `tests/host/mcp/server.py` plays them.

use std::path::Path;

use serde_json::{Value, json};

use super::{Client, texts};

/// The relay to a server of that mode.
fn hostile(mode: &str) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/mcp/server.py").display().to_string();
    let notes = folder.path().join("notes").display().to_string();
    Client::of(
        folder,
        "version: 1\ntools: {'*': {loop_guard: {enabled: false}}}\n",
        &[],
        &["python3", &script, mode, &notes],
    )
}

fn class(result: &Value) -> &Value {
    &result["_meta"]["unfazed"]["class"]
}

#[test]
fn answers_that_cannot_be_read_are_failures_of_their_calls_alone() {
    let mut client = hostile("stdio-lists");
    client.shake_hands(&json!({}));
    for tool in ["half", "void"] {
        let result = client.call(tool, &json!({}));
        assert_eq!(result["isError"], true, "{tool}: {result}");
    }
    let listed = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["half", "long", "lost", "void"]);
    // An answer that does not say whose it is ends the server, and the next call has another one.
    let lost = client.call("lost", &json!({}));
    assert!(texts(&lost)[0].contains("it sent an answer that cannot be read and was ended"), "{lost}");
    assert_eq!(client.call("void", &json!({}))["isError"], true);
}

#[test]
fn errors_without_an_id_reach_who_waits_alone() {
    let mut client = hostile("stdio-nameless");
    client.shake_hands(&json!({}));
    let unread = client.call("unread", &json!({}));
    assert!(texts(&unread)[0].contains("Parse error"), "{unread}");
    let batch = client.call("batch", &json!({}));
    assert!(texts(&batch)[0].contains("batch"), "{batch}");
    assert_eq!(texts(&client.call("echo", &json!({"text": "a"}))), ["a"]);
}

#[test]
fn second_answers_noise_and_floods_change_nothing() {
    let mut client = hostile("babble");
    client.shake_hands(&json!({}));
    assert_eq!(texts(&client.call("twice", &json!({}))), ["first"]);
    assert_eq!(texts(&client.call("bend", &json!({}))), ["straight"]);
    assert_eq!(texts(&client.call("echo", &json!({"text": "\u{1b}[31m\u{0}"}))), ["\u{1b}[31m\u{0}"]);
    let deep = client.call("deep", &json!({}));
    assert_eq!(deep["isError"], true, "{deep}");
    let failed = client.call("fail", &json!({}));
    assert!(texts(&failed)[0].contains("the disk is full"), "{failed}");
}

#[test]
fn a_message_of_100_megabytes_is_a_failure_of_its_call_alone() {
    let mut client = hostile("plain");
    client.shake_hands(&json!({}));
    let huge = client.call("huge", &json!({"bytes": 100_000_000}));
    assert!(texts(&huge)[0].contains("more than 8388608 bytes"), "{huge}");
    assert_eq!(class(&huge), "execution_error");
    assert_eq!(texts(&client.call("echo", &json!({"text": "a"}))), ["a"]);
    let starts = client.notes().iter().filter(|note| note.contains("start")).count();
    assert_eq!(starts, 1, "{:?}", client.notes());
}

#[test]
fn a_server_that_ends_at_once_is_reported_by_what_it_wrote() {
    let mut client = hostile("early");
    client.send(&json!(1), "initialize", &json!({"protocolVersion": "1", "capabilities": {}}));
    let answer = client.answer_to(&json!(1));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("exited with code 7") && why.contains("no licence"), "{why}");
}

#[test]
fn a_server_that_writes_rubbish_without_end_is_not_kept() {
    let mut client = hostile("garbage");
    client.send(&json!(1), "ping", &json!({}));
    drop(client.input.take());
    assert_eq!(client.end(), Some(0));
}
