//! Several servers behind one.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Client, texts};

/// An entry of a file of servers.
pub(super) fn shelf(folder: &Path, name: &str, has: &Value) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mcp/shelf.py").display().to_string();
    let notes = folder.join("notes").display().to_string();
    let command = json!(["python3", script, name, notes, has.to_string()]);
    format!("  {name}: {{command: {command}, start_timeout: 20s}}\n")
}

/// A client of servers of these names, each with what it has.
pub(super) fn client_of(servers: &[(&str, Value)], policy: &str) -> Client {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.yaml"), policy).unwrap();
    let entries: String = servers.iter().map(|(name, has)| shelf(folder.path(), name, has)).collect();
    fs::write(folder.path().join("s.yaml"), format!("version: 1\npolicy: p.yaml\nmcp:\n{entries}")).unwrap();
    Client::run(folder, &["mcp", "s.yaml"])
}

const POLICY: &str = "version: 1\n";

fn two() -> Client {
    let all = json!({"resources": {}, "prompts": {}, "logging": {}});
    client_of(
        &[
            (
                "red",
                json!({
                    "tools": ["read", "both", "ask", "grow", "die"], "prompts": ["plan", "both"],
                    "resources": ["file:///red", "file:///both"], "features": all, "version": "2025-06-18",
                }),
            ),
            (
                "blue",
                json!({
                    "tools": ["write", "both", "ask"], "prompts": ["both", "paint"], "hidden": ["file:///hidden"],
                    "resources": ["file:///blue", "file:///both"], "templates": ["db://{table}/{row}"],
                    "features": {"resources": {"subscribe": true}, "prompts": {}, "completions": {}, "tasks": {}},
                }),
            ),
        ],
        POLICY,
    )
}

pub(super) fn named(list: &Value, key: &str, field: &str) -> Vec<String> {
    let items = list["result"][key].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// The lines with that method that a server has read.
pub(super) fn read_by(client: &Client, server: &str, method: &str) -> Vec<Value> {
    let notes = client.notes();
    let lines = notes.iter().filter_map(|note| note.strip_prefix(server)?.strip_prefix(' '));
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["method"] == method)
        .collect()
}

#[test]
fn a_client_sees_one_server_that_has_what_all_have() {
    let mut client = two();
    let hello = client.shake_hands(&json!({}));
    assert_eq!(
        hello["result"],
        json!({
            "protocolVersion": "2025-06-18", "serverInfo": {"name": "unfazed", "version": env!("CARGO_PKG_VERSION")},
            "instructions": "# red\n\nUse red.\n\n# blue\n\nUse blue.",
            "capabilities": {
                "tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "logging": {},
                "completions": {}, "tasks": {},
            },
        })
    );
    let tools = client.ask("tools/list", &json!({}));
    assert_eq!(
        named(&tools, "tools", "name"),
        ["read", "red__both", "red__ask", "grow", "die", "write", "blue__both", "blue__ask"]
    );
    let prompts = client.ask("prompts/list", &json!({}));
    assert_eq!(named(&prompts, "prompts", "name"), ["plan", "red__both", "blue__both", "paint"]);
    let resources = client.ask("resources/list", &json!({}));
    assert_eq!(named(&resources, "resources", "uri"), ["file:///red", "file:///both", "file:///blue"]);
    let templates = client.ask("resources/templates/list", &json!({}));
    assert_eq!(named(&templates, "resourceTemplates", "uriTemplate"), ["db://{table}/{row}"]);
}

#[test]
fn each_request_reaches_the_server_whose_it_is() {
    let mut client = two();
    client.shake_hands(&json!({}));
    for (tool, said) in [
        ("write", "blue ran write"),
        ("red__both", "red ran both"),
        ("blue__both", "blue ran both"),
        ("red__read", "red ran read"),
    ] {
        assert_eq!(texts(&client.call(tool, &json!({}))), [said]);
    }
    let both = client.call("both", &json!({}));
    assert!(texts(&both)[0].ends_with("by its whole name: `red__both`, `blue__both`."), "{both}");
    for (prompt, said) in [("paint", "blue paint"), ("red__both", "red both"), ("blue__plan", "blue plan")] {
        assert_eq!(client.ask("prompts/get", &json!({"name": prompt}))["result"]["description"], said);
    }
    assert!(
        client.ask("prompts/get", &json!({"name": "none"}))["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`none`")
    );
    // What no server has listed is asked for in their order.
    for (uri, of) in [("file:///hidden", "blue"), ("file:///red", "red"), ("db://t/7", "blue")] {
        assert_eq!(
            client.ask("resources/read", &json!({"uri": uri}))["result"]["contents"][0]["text"],
            of,
            "{uri}"
        );
    }
    let nowhere = client.ask("resources/read", &json!({"uri": "unfazed://result/9"}));
    assert_eq!(nowhere["error"]["code"], -32002);
    client.ask("resources/list", &json!({}));
    assert_eq!(client.ask("resources/subscribe", &json!({"uri": "file:///blue"}))["result"], json!({}));
    assert_eq!(
        (
            read_by(&client, "red", "resources/subscribe").len(),
            read_by(&client, "blue", "resources/subscribe").len()
        ),
        (0, 1)
    );
    let of =
        json!({"ref": {"type": "ref/prompt", "name": "blue__both"}, "argument": {"name": "a", "value": "b"}});
    let completed = client.ask("completion/complete", &of);
    assert_eq!(
        completed["result"]["params"]["ref"],
        json!({"type": "ref/prompt", "name": "both"}),
        "{completed}"
    );
    assert_eq!(client.ask("logging/setLevel", &json!({"level": "info"}))["result"], json!({}));
    assert_eq!(read_by(&client, "red", "logging/setLevel").len(), 1);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    assert_eq!(client.ask("tasks/list", &json!({}))["result"]["of"], "blue", "it alone announces tasks");
    assert_eq!(client.ask("who/knows", &json!({}))["error"]["code"], -32601);
}

#[test]
fn a_policy_knows_tools_by_their_servers() {
    let policy = "version: 1\ntools: {red__read: {approval: always}}\n";
    let mut client =
        client_of(&[("red", json!({"tools": ["read"]})), ("blue", json!({"tools": ["write"]}))], policy);
    client.shake_hands(&json!({}));
    let refused = client.call("read", &json!({}));
    assert_eq!(
        (&refused["isError"], read_by(&client, "red", "tools/call").len()),
        (&json!(true), 0),
        "{refused}"
    );
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
}

#[test]
fn names_that_are_too_long_with_their_prefix_are_cut() {
    let long = "x".repeat(62);
    let has = json!({"tools": [long]});
    let mut client = client_of(&[("red", has.clone()), ("blue", has)], POLICY);
    client.shake_hands(&json!({}));
    let names = named(&client.ask("tools/list", &json!({})), "tools", "name");
    assert!(names.iter().all(|name| name.len() == 64) && names[0] != names[1], "{names:?}");
    for (name, server) in names.iter().zip(["red", "blue"]) {
        assert_eq!(texts(&client.call(name, &json!({}))), [format!("{server} ran {long}")]);
    }
}

#[test]
fn what_servers_ask_reaches_the_client_and_each_gets_its_own_answer() {
    let mut client = two();
    client.shake_hands(&json!({}));
    for (id, tool) in [(1, "red__ask"), (2, "blue__ask")] {
        client.send(&json!(id), "tools/call", &json!({"name": tool, "arguments": {}}));
    }
    let asked = [client.next(), client.next()];
    assert_ne!(asked[0]["id"], asked[1]["id"]);
    for question in asked.iter().rev() {
        let result = json!({"for": question["params"]["from"]});
        client.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    }
    let mut said =
        [client.next(), client.next()].map(|answer| answer["result"]["content"][0]["text"].to_string());
    said.sort();
    assert_eq!(
        said.map(|text| text.replace(['"', '\\'], "")),
        ["blue got {for: blue}", "red got {for: red}"]
    );
}

#[test]
fn a_name_that_was_shown_never_becomes_anothers() {
    let mut client = two();
    client.shake_hands(&json!({}));
    client.ask("tools/list", &json!({}));
    client.call("grow", &json!({"tool": "write"}));
    let tools = named(&client.ask("tools/list", &json!({})), "tools", "name");
    assert!(tools.contains(&"write".to_owned()) && tools.contains(&"red__write".to_owned()), "{tools:?}");
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
    assert_eq!(texts(&client.call("red__write", &json!({}))), ["red ran write"]);
}

#[test]
fn a_server_that_cannot_start_is_left_out_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [
        ("red", json!({"tools": ["read"]})),
        ("blue", json!({"tools": ["write"], "features": {"prompts": {}}})),
    ]
    .map(|(name, has)| shelf(folder.path(), name, &has));
    fs::write(folder.path().join("s.yaml"), format!("version: 1\nmcp:\n{}", entries.concat())).unwrap();
    let lock = folder.path().join("notes.blue");
    fs::write(&lock, "").unwrap();
    let mut client = Client::run(folder, &["mcp", "s.yaml"]);
    let hello = client.shake_hands(&json!({}));
    assert_eq!(hello["result"]["instructions"], "# red\n\nUse red.");
    // The other one may have a tool of that name, too, and a client may keep permissions by name.
    let list = client.ask("tools/list", &json!({"cursor": null}));
    assert_eq!(named(&list, "tools", "name"), ["red__read"]);
    assert_eq!(texts(&client.call("red__read", &json!({}))), ["red ran read"]);
    let short = client.call("read", &json!({}));
    assert!(texts(&short)[0].ends_with("by its whole name: `red__read`."), "{short}");
    let missing = client.call("write", &json!({}));
    assert_eq!(missing["_meta"]["unfazed"]["class"], "tool_unavailable", "{missing}");
    fs::remove_file(lock).unwrap();
    client.send(&json!("list"), "tools/list", &json!({}));
    // The client learns that there are others now: it is shown them, or else informed.
    loop {
        let message = client.next();
        let shown = message["result"]["tools"].as_array().map_or(0, Vec::len);
        if shown == 2 || message["method"] == "notifications/tools/list_changed" {
            break;
        }
        client.send(&json!("again"), "tools/list", &json!({}));
    }
    while named(&client.ask("tools/list", &json!({})), "tools", "name") != ["red__read", "write"] {}
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
}

#[test]
fn who_waits_for_a_server_that_hangs_waits_for_one_start() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [("red", json!({"tools": ["read"]})), ("blue", json!({"hangs": true}))]
        .map(|(name, has)| shelf(folder.path(), name, &has));
    let entries =
        entries.map(|entry| if entry.contains("hangs") { entry.replace("20s", "1s") } else { entry });
    fs::write(folder.path().join("s.yaml"), format!("version: 1\nmcp:\n{}", entries.concat())).unwrap();
    let mut client = Client::run(folder, &["mcp", "s.yaml"]);
    client.shake_hands(&json!({}));
    for number in 0..8 {
        client.send(&json!(format!("list {number}")), "tools/list", &json!({}));
    }
    let missing = client.call("blue__write", &json!({}));
    assert_eq!(missing["_meta"]["unfazed"]["class"], "tool_unavailable", "{missing}");
    let notes = client.notes();
    let starts = notes.iter().filter(|note| *note == "blue started").count();
    assert!((2..=3).contains(&starts), "{starts}");
}

#[test]
fn a_server_that_ends_is_started_again_while_the_other_is_used() {
    let mut client = two();
    client.shake_hands(&json!({}));
    let died = client.call("die", &json!({}));
    assert_eq!(died["_meta"]["unfazed"]["class"], "network_error", "{died}");
    assert_eq!(texts(&client.call("write", &json!({}))), ["blue ran write"]);
    assert_eq!(texts(&client.call("read", &json!({}))), ["red ran read"]);
    assert_eq!(
        (read_by(&client, "red", "initialize").len(), read_by(&client, "blue", "initialize").len()),
        (2, 1)
    );
}

#[test]
fn a_file_with_one_server_is_that_server() {
    let mut client = client_of(
        &[("red", json!({"tools": ["read"]}))],
        "version: 1\ntools: {red__read: {approval: always}}\n",
    );
    let hello = client.shake_hands(&json!({}));
    assert_eq!(hello["result"]["serverInfo"]["name"], "red");
    assert_eq!(client.call("read", &json!({}))["isError"], true);
    let unknown = client.ask("who/knows", &json!({}));
    assert_eq!(unknown["error"]["message"], "red does not know who/knows");
}

#[test]
fn rules_that_no_tool_of_the_servers_can_have_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "version: 1\ntools: {\"delete*\": {approval: always}, \"*drop*\": {approval: always}}\n";
    fs::write(folder.path().join("p.yaml"), rules).unwrap();
    fs::write(folder.path().join("s.yaml"), "version: 1\npolicy: p.yaml\nmcp: {a: {command: [x]}}\n")
        .unwrap();
    let output = crate::command::unfazed(folder.path(), &["mcp", "s.yaml"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`delete*` matches no tool") && said.contains("write `a__delete*`"), "{said}");
    assert!(!said.contains("`*drop*`"), "{said}");
}

#[test]
fn what_is_wrong_with_a_file_is_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str| {
        fs::write(folder.path().join("s.yaml"), text).unwrap();
        let output = crate::command::unfazed(folder.path(), &["mcp", "s.yaml"]).output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    let alike = refused("version: 1\nmcp: {a: {command: [x]}, a__b: {command: [x]}}\n");
    assert!(alike.contains("the tools of `a` and `a__b` cannot be told apart"), "{alike}");
    assert!(alike.contains("s.yaml:2:26"), "{alike}");
    assert!(refused("version: 1\nmcp: {a: {}}\n").contains("nothing says how MCP server `a` is reached"));
    assert!(
        refused("version: 1\ntask: x\nmodels: {m: {api: scripted, script: s.yaml}}\n").contains("script")
    );
    fs::write(folder.path().join("s.yaml"), "version: 1\nmcp: {a: {command: [x]}}\n").unwrap();
    let checked = crate::command::unfazed(folder.path(), &["check", "s.yaml"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let run = crate::command::unfazed(folder.path(), &["run", "s.yaml", "--task", "x"]).output().unwrap();
    assert!(String::from_utf8_lossy(&run.stderr).contains("the agent has no model"), "{run:?}");
}
