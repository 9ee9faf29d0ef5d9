//! `subscriptions/listen` of a client without a handshake (the protocol's version 2026-07-28).

use serde_json::{Value, json};

use super::Client;
use super::several::{client_of, read_by};

fn modern(announces: bool) -> Value {
    json!({"tools": ["grow", "hush", "die"], "modern": true, "features": {"tools": {"listChanged": announces}}})
}

fn listen(client: &mut Client, id: &str) {
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true});
    client.send(&json!(id), "subscriptions/listen", &json!({ "notifications": wanted }));
}

/// What the next message is, and of which subscription.
fn next_of(client: &Client) -> (Value, Value) {
    let mut message = client.next();
    let kind = message["method"].take();
    let part = if kind.is_null() { &message["result"] } else { &message["params"] };
    (kind, part["_meta"]["io.modelcontextprotocol/subscriptionId"].clone())
}

#[test]
fn a_subscription_at_one_server_is_named_as_the_client_named_it() {
    let mut client = client_of(&[("red", modern(true))], "version: 1\n");
    let discovered = client.ask("server/discover", &json!({}));
    assert_eq!(discovered["result"]["capabilities"]["tools"], json!({"listChanged": true}));
    listen(&mut client, "listen-1");
    let ours = |kind: &str| (json!(kind), json!("listen-1"));
    assert_eq!(next_of(&client), ours("notifications/subscriptions/acknowledged"));
    client.send(&json!(1), "tools/call", &json!({"name": "grow", "arguments": {"tool": "new"}}));
    assert_eq!(next_of(&client), ours("notifications/tools/list_changed"));
    assert_eq!(client.next()["id"], 1);
    client.send(&json!(2), "tools/call", &json!({"name": "hush", "arguments": {}}));
    assert_eq!(next_of(&client), (Value::Null, json!("listen-1")), "it is over");
}

#[test]
fn a_subscription_at_several_servers_is_one() {
    let mut client = client_of(&[("red", modern(true)), ("blue", modern(true))], "version: 1\n");
    client.ask("server/discover", &json!({}));
    listen(&mut client, "listen-1");
    let granted = json!({
        "notifications": {"toolsListChanged": true},
        "_meta": {"io.modelcontextprotocol/subscriptionId": "listen-1"},
    });
    assert_eq!(client.next()["params"], granted, "no server announces prompts");
    for server in ["red", "blue"] {
        while read_by(&client, server, "subscriptions/listen").is_empty() {
            std::thread::yield_now();
        }
        let params = json!({"name": format!("{server}__grow"), "arguments": {"tool": "new"}});
        client.send(&json!(server), "tools/call", &params);
        assert_eq!(next_of(&client), (json!("notifications/tools/list_changed"), json!("listen-1")));
        assert_eq!(client.next()["id"], server);
    }
    client.call("red__hush", &json!({}));
    client.send(&json!(1), "tools/call", &json!({"name": "blue__hush", "arguments": {}}));
    let ended = client.answer_to(&json!("listen-1"));
    assert_eq!(ended["result"]["resultType"], "complete", "{ended}");

    listen(&mut client, "listen-2");
    while read_by(&client, "blue", "subscriptions/listen").len() < 2 {
        std::thread::yield_now();
    }
    client.send(&json!(2), "tools/call", &json!({"name": "blue__die", "arguments": {}}));
    let lost = client.answer_to(&json!("listen-2"));
    assert_eq!(lost["error"]["code"], -32603, "a client looks at everything again then: {lost}");
}

#[test]
fn what_no_server_says_is_not_announced_where_there_is_no_handshake() {
    for names in [&["red"][..], &["red", "blue"]] {
        let servers: Vec<_> = names.iter().map(|name| (*name, modern(false))).collect();
        let mut client = client_of(&servers, "version: 1\n");
        let discovered = client.ask("server/discover", &json!({}));
        assert_eq!(discovered["result"]["capabilities"]["tools"], json!({"listChanged": false}));
        if names.len() > 1 {
            listen(&mut client, "listen-1");
            assert_eq!(client.next()["error"]["code"], -32601);
        }
    }
}
