//! Servers that end, and clients that go.

use serde_json::{Value, json};

use super::{Client, POLICY, texts};

#[test]
fn a_client_that_has_said_all_learns_why_a_server_does_not_start() {
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let mut client = Client::of(folder, POLICY, &[], &["sh", "-c", "echo no licence >&2; exit 3"]);
        client.send(&json!(1), "initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
        drop(client.input.take());
        let answer = client.answer_to(&json!(1));
        assert!(answer["error"]["message"].as_str().unwrap().contains("no licence"), "{answer}");
    }
}

#[test]
fn a_server_that_is_killed_in_a_call_has_run_it_once_and_is_started_again() {
    let mut client = Client::ready("again", POLICY, &[]);
    assert_eq!(texts(&client.call("echo", &json!({"text": "a"}))), ["a"]);
    let result = client.call("die", &json!({"text": "a"}));
    let text = texts(&result)[0];
    assert!(text.contains("killed by signal 9") && text.contains("may have had side effects"), "{text}");
    assert_eq!(result["_meta"]["unfazed"]["class"], "network_error");
    assert_eq!(client.calls_of("die").len(), 1);
    assert_eq!(texts(&client.call("echo", &json!({"text": "b"}))), ["b"]);
    // The one that was started again knows its client.
    let read = client.read_by_server();
    let handshakes: Vec<&String> = read.iter().filter(|line| line.contains("initialize")).collect();
    assert_eq!(handshakes.len(), 4, "{handshakes:?}");
    assert!(handshakes[2].contains(r#""clientInfo":{"name":"c","version":"1"}"#), "{handshakes:?}");
}

#[test]
fn what_is_harmless_runs_again_on_the_server_that_was_started_again() {
    let policy = "version: 1\ntools: {die: {effect: read_only, retry: {max_attempts: 2}}}\n";
    let mut client = Client::ready("plain", policy, &[]);
    let result = client.call("die", &json!({"text": "a"}));
    assert_eq!(result["_meta"]["unfazed"]["attempts"], 2, "{result}");
    assert_eq!(client.calls_of("die").len(), 2);
}

#[test]
fn tools_that_are_others_after_a_restart_are_announced_and_known() {
    let mut client = Client::ready("again", POLICY, &[]);
    client.call("echo", &json!({"text": "a"}));
    client.call("die", &json!({"text": "a"}));
    client.send(&json!(1), "ping", &json!({}));
    let mut announced = false;
    while !announced {
        announced = client.next()["method"] == "notifications/tools/list_changed";
    }
    let listed = client.ask("tools/list", &json!({}));
    assert!(
        listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "late"),
        "{listed}"
    );
    assert!(texts(&client.call("late", &json!({})))[0].contains("Unknown tool"));
}

#[test]
fn tools_that_are_others_than_the_client_was_shown_are_announced_after_a_restart() {
    let mut client = Client::ready("again", POLICY, &[]);
    // The relay itself lists nothing: the list is the client's, and no tool is called.
    client.ask("tools/list", &json!({}));
    client.ask("die", &json!({}));
    client.send(&json!(1), "ping", &json!({}));
    while client.next()["method"] != "notifications/tools/list_changed" {}
}

#[test]
fn who_waits_for_a_server_that_ends_learns_why_there_is_no_answer() {
    let mut client = Client::start("mute", POLICY, &[]);
    client.send(&json!("i"), "initialize", &json!({"protocolVersion": "1", "capabilities": {}}));
    client.wait_for_note("in  ");
    client.send(&json!(2), "tools/call", &json!({"name": "die", "arguments": {}}));
    let answer = client.answer_to(&json!("i"));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("killed by signal 9"), "{why}");
}

#[test]
fn a_server_that_is_started_again_has_the_level_and_the_subscriptions_of_its_client() {
    let mut client = Client::ready("resources", POLICY, &[]);
    for level in ["info", "debug"] {
        client.ask("logging/setLevel", &json!({ "level": level }));
    }
    for (method, uri) in
        [("subscribe", "file:///a"), ("subscribe", "file:///b"), ("unsubscribe", "file:///a")]
    {
        client.ask(&format!("resources/{method}"), &json!({ "uri": uri }));
    }
    client.call("die", &json!({"text": "a"}));
    client.call("echo", &json!({"text": "b"}));
    let read = client.read_by_server();
    let begins = read.iter().rposition(|line| line.contains(r#""method":"initialize""#)).unwrap();
    let again: Vec<Value> = read[begins..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sent = |method: &str| -> Vec<&Value> {
        again.iter().filter(|line| line["method"] == method).map(|line| &line["params"]).collect()
    };
    assert_eq!(sent("logging/setLevel"), [&json!({"level": "debug"})]);
    assert_eq!(sent("resources/subscribe"), [&json!({"uri": "file:///b"})]);
}

#[test]
fn requests_right_before_the_end_of_the_input_are_answered() {
    let mut client = Client::ready("plain", POLICY, &[]);
    for id in 1..4 {
        client.send(&json!(id), "tools/call", &json!({"name": "echo", "arguments": {"text": "a"}}));
    }
    client.send(&json!(4), "prompts/list", &json!({}));
    assert_eq!(client.end(), Some(0));
    let mut answered: Vec<Value> =
        client.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
    answered.retain(|message: &Value| message.get("result").is_some());
    let mut ids: Vec<&Value> = answered.iter().map(|message| &message["id"]).collect();
    ids.sort_by_key(|id| id.as_u64());
    assert_eq!(ids, [1, 2, 3, 4]);
}

#[test]
fn a_server_that_does_not_start_ends_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::command::unfazed(folder.path(), &["mcp", "--", "no-such-server"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("MCP server `no-such-server`: `no-such-server` cannot be started"), "{said}");
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let mut client = Client::ready("plain", POLICY, &["--sessions", "log"]);
    client.send(&json!(1), "tools/call", &json!({"name": "slow", "arguments": {}}));
    while client.calls_of("slow").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(client.end(), Some(0));
    let notes = client.notes();
    let pid = notes.iter().find_map(|note| note.strip_prefix("started ")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid).exists(), "the server is left");
    let mut command =
        crate::command::unfazed(client.folder.path(), &["sessions", "list", "--format", "json"]);
    let listed = command.env("UNFAZED_SESSIONS", "log").output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["sessions"][0]["status"], "stopped", "{listed}");
}

#[test]
fn one_bad_tool_is_left_out_of_the_list_and_the_others_stay() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let listed = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(
        names.contains(&"echo") && names.contains(&"new.kind") && !names.contains(&"broken"),
        "{names:?}"
    );
    assert!(texts(&client.call("broken", &json!({})))[0].contains("There is no tool `broken`"));
}

#[test]
fn a_call_that_is_taken_back_while_tools_are_listed_leaves_them_known() {
    let mut client = Client::ready("slow", POLICY, &[]);
    client.send(&json!(1), "tools/call", &json!({"name": "echo", "arguments": {"text": "a"}}));
    client.wait_for_note("in  {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"");
    client.tell("notifications/cancelled", &json!({"requestId": 1}));
    assert_eq!(texts(&client.call("echo", &json!({"text": "b"}))), ["b"]);
}

#[test]
fn calls_that_are_taken_back_while_the_server_starts_leave_one_server() {
    let mut client = Client::ready("slow", POLICY, &[]);
    client.call("echo", &json!({"text": "a"}));
    client.call("die", &json!({"text": "a"}));
    for id in 1..5 {
        client.send(&json!(id), "tools/call", &json!({"name": "echo", "arguments": {"text": "b"}}));
        std::thread::sleep(std::time::Duration::from_millis(100));
        client.tell("notifications/cancelled", &json!({"requestId": id}));
    }
    // What else the client has to say is not held up.
    client.write("{");
    assert_eq!(client.next()["error"]["code"], -32700);
    assert_eq!(texts(&client.call("echo", &json!({"text": "c"}))), ["c"]);
    assert_eq!(client.notes().iter().filter(|note| note.starts_with("started")).count(), 2);
}

#[test]
fn a_server_that_does_not_read_any_more_is_started_again() {
    let mut client = Client::ready("plain", POLICY, &[]);
    assert_eq!(texts(&client.call("deaf", &json!({}))), ["no more"]);
    let first = client.call("echo", &json!({"text": "a"}));
    if first["isError"] == true {
        assert_eq!(texts(&client.call("echo", &json!({"text": "b"}))), ["b"], "{first}");
    }
    assert_eq!(client.notes().iter().filter(|note| note.starts_with("started")).count(), 2);
}
