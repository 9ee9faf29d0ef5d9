//! How conversations with several servers begin.

use std::fs::{self, File};
use std::time::Instant;

use serde_json::json;

use super::several::{client_of, named, read_by, shelf};
use super::{Client, PATIENCE, texts};

/// Lets a server that waits do what it waits with.
fn go(client: &Client, server: &str) {
    fs::write(client.folder.path().join(format!("notes.{server}.go")), "").unwrap();
}

fn red_and_late_blue() -> Client {
    let blue = json!({"tools": ["write"], "waits": true, "features": {"prompts": {}}});
    client_of(&[("red", json!({"tools": ["read"]})), ("blue", blue)], "version: 1\n")
}

/// Where a line that begins like that is among what was noted.
fn place(client: &Client, note: &str) -> usize {
    let notes = client.notes();
    notes.iter().position(|noted| noted.starts_with(note)).unwrap_or_else(|| panic!("{note}: {notes:?}"))
}

#[test]
fn a_server_that_is_late_does_not_hold_up_the_others_and_is_announced_when_it_comes() {
    let mut client = red_and_late_blue();
    let hello = client.shake_hands(&json!({}));
    assert_eq!(hello["result"]["instructions"], "# red\n\nUse red.");
    assert_eq!(named(&client.ask("tools/list", &json!({})), "tools", "name"), ["red__read"]);
    assert_eq!(texts(&client.call("red__read", &json!({}))), ["red ran read"]);
    client.ask("logging/setLevel", &json!({"level": "info"}));
    go(&client, "blue");
    let announced = [client.next(), client.next()];
    assert_eq!(
        announced.map(|line| line["method"].clone()),
        ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
    );
    assert_eq!(named(&client.ask("tools/list", &json!({})), "tools", "name"), ["red__read", "write"]);
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
    // It was asked once, and learned what had been said to the others.
    assert_eq!(read_by(&client, "blue", "initialize").len(), 1);
    assert_eq!(read_by(&client, "blue", "notifications/cancelled").len(), 0);
    assert_eq!(read_by(&client, "blue", "logging/setLevel").len(), 1);
}

#[test]
fn a_confirmation_never_overtakes_its_handshake() {
    let mut client = red_and_late_blue();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    client.send(&json!("hello"), "initialize", &params);
    client.tell("notifications/initialized", &json!({}));
    client.send(&json!("call"), "tools/call", &json!({"name": "blue__write", "arguments": {}}));
    client.wait_for_note("blue {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"");
    client.wait_for_note("red {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"");
    go(&client, "blue");
    assert_eq!(texts(&client.answer_to(&json!("call"))["result"]), ["blue ran write"]);
    assert!(
        place(&client, "blue greets")
            < place(&client, "blue {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"")
    );
    let (initialized, listed) = (
        place(&client, "blue {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\""),
        place(&client, "blue {\"jsonrpc\":\"2.0\",\"id\":2"),
    );
    assert!(initialized < listed, "{:?}", client.notes());
}

#[test]
fn a_server_that_does_not_read_holds_up_nobody_else() {
    let red = json!({"tools": ["doze"], "prompts": ["plan"], "features": {"prompts": {}}});
    let mut client = client_of(&[("red", red), ("blue", json!({"tools": ["write"]}))], "version: 1\n");
    client.shake_hands(&json!({}));
    client.ask("prompts/list", &json!({}));
    client.send(&json!("doze"), "tools/call", &json!({"name": "doze", "arguments": {}}));
    while read_by(&client, "red", "tools/call").is_empty() {
        std::thread::yield_now();
    }
    // More than a pipe holds, and more than were kept for a server before its client waited too.
    for _ in 0..1000 {
        client.tell("notifications/roots/list_changed", &json!({"text": "x".repeat(1000)}));
    }
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
    go(&client, "red");
    assert_eq!(texts(&client.answer_to(&json!("doze"))["result"]), ["red ran doze"]);
    assert_eq!(client.ask("prompts/get", &json!({"name": "plan"}))["result"]["description"], "red plan");
    assert_eq!(read_by(&client, "red", "notifications/roots/list_changed").len(), 1000);
    assert_eq!(client.notes().iter().filter(|note| *note == "red started").count(), 1);
}

#[test]
fn a_server_that_was_left_out_of_a_list_is_named_once_and_announced_when_it_lists_again() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [("red", json!({"tools": ["read"]})), ("blue", json!({"tools": ["write"]}))]
        .map(|(name, has)| shelf(folder.path(), name, &has));
    fs::write(folder.path().join("s.yaml"), format!("version: 1\nmcp:\n{}", entries.concat())).unwrap();
    let mute = folder.path().join("notes.blue.mute");
    fs::write(&mute, "").unwrap();
    let mut command = crate::command::unfazed(folder.path(), &["mcp", "s.yaml"]);
    command.stderr(File::create(folder.path().join("stderr")).unwrap());
    let mut client = Client::of_command(folder, command);
    client.shake_hands(&json!({}));
    for _ in 0..3 {
        assert_eq!(named(&client.ask("tools/list", &json!({})), "tools", "name"), ["red__read"]);
    }
    fs::remove_file(mute).unwrap();
    client.send(&json!("level"), "logging/setLevel", &json!({"level": "info"}));
    // Any request but a list has it asked again, at most once a second.
    let until = Instant::now() + PATIENCE;
    while client.next()["method"] != "notifications/tools/list_changed" {
        assert!(Instant::now() < until, "it is not announced");
        client.send(&json!("level"), "logging/setLevel", &json!({"level": "info"}));
    }
    let listed = named(&client.ask("tools/list", &json!({})), "tools", "name");
    assert_eq!(listed, ["red__read", "write"]);
    let written = fs::read_to_string(client.folder.path().join("stderr")).unwrap();
    assert_eq!(written.matches("a server is left out of a list").count(), 1, "{written}");
}

#[test]
fn a_server_announces_that_its_tools_may_change_as_it_may_be_started_again() {
    let mut client = Client::start("odd", "version: 1\n", &[]);
    let answer = client.shake_hands(&json!({}));
    let announced = json!({"tools": {"listChanged": true}, "resources": {}});
    assert_eq!(answer["result"]["capabilities"], announced);
}

#[test]
fn a_client_that_falls_back_to_a_handshake_has_the_servers_that_needed_none() {
    let modern = |tool: &str| json!({"tools": [tool], "modern": true});
    let old = || json!({"tools": ["read"]});
    for (red, is_refused) in [(old(), true), (modern("read"), false)] {
        let mut client = client_of(&[("blue", modern("write")), ("red", red)], "version: 1\n");
        let discovered = client.ask("server/discover", &json!({}));
        assert_eq!(discovered["error"]["code"] == -32601, is_refused, "{discovered}");
        let hello = client.shake_hands(&json!({}));
        assert_eq!(hello["result"]["instructions"], "# blue\n\nUse blue.\n\n# red\n\nUse red.");
        assert_eq!(named(&client.ask("tools/list", &json!({})), "tools", "name"), ["write", "read"]);
        assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
        let starts =
            |server: &str| client.notes().iter().filter(|note| **note == format!("{server} started")).count();
        assert_eq!([starts("blue"), starts("red")], [2, if is_refused { 1 } else { 2 }]);
    }
}
