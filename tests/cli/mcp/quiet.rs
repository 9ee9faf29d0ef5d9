//! Servers whose tools change without a word: what a client was shown last is what its calls are held against.

use serde_json::{Value, json};

use super::several::{client_of, named};
use super::{Client, texts};

/// The tools that the client is shown, on all pages.
fn listed(client: &mut Client) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.ask("tools/list", &params);
        names.extend(named(&page, "tools", "name"));
        match &page["result"]["nextCursor"] {
            Value::Null => return names,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
}

/// Has the server add a tool, or declare it otherwise, without saying so.
fn change(client: &mut Client, tool: &str, kind: &str) {
    let schema = json!({"type": "object", "properties": {"a": {"type": kind}}, "required": ["a"]});
    let grown = client.call("grow", &json!({"tool": tool, "schema": schema, "quietly": true}));
    assert_eq!(grown["isError"], Value::Null, "{grown}");
}

fn one_and_two() -> [Client; 2] {
    let red = || ("red", json!({"tools": ["grow", "read"]}));
    let blue = ("blue", json!({"tools": ["write"]}));
    [&[red()][..], &[red(), blue]].map(|servers| {
        let mut client = client_of(servers, "version: 1\n");
        client.shake_hands(&json!({}));
        client
    })
}

#[test]
fn a_tool_that_the_client_was_just_shown_is_called_as_it_was_shown() {
    for mut client in one_and_two() {
        assert!(!listed(&mut client).contains(&"query".to_owned()));
        change(&mut client, "query", "integer");
        assert!(listed(&mut client).contains(&"query".to_owned()));
        assert_eq!(texts(&client.call("query", &json!({"a": 7}))), ["red ran query"]);
        change(&mut client, "query", "array");
        listed(&mut client);
        assert_eq!(texts(&client.call("query", &json!({"a": [7]}))), ["red ran query"]);
        let wrong = client.call("query", &json!({"a": {}}));
        assert_eq!(wrong["_meta"]["unfazed"]["class"], "invalid_args", "{wrong}");
    }
}

#[test]
fn a_tool_that_nobody_has_listed_is_looked_for_before_it_is_refused() {
    for mut client in one_and_two() {
        listed(&mut client);
        change(&mut client, "query", "integer");
        for (name, class) in [("query", Value::Null), ("none", json!("tool_not_found"))] {
            let called = client.call(name, &json!({"a": 7}));
            assert_eq!(called["_meta"]["unfazed"]["class"], class, "{called}");
        }
    }
}

#[test]
fn a_tool_that_cannot_be_used_any_more_is_not_shown() {
    for mut client in one_and_two() {
        assert!(listed(&mut client).contains(&"read".to_owned()));
        change(&mut client, "read", "objekt");
        assert!(!listed(&mut client).contains(&"read".to_owned()));
    }
}
