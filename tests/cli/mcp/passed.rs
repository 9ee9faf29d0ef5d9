//! What is none of the policy's business arrives as it was written.

use serde_json::{Value, json};

use super::{Client, POLICY};

/// A line with another id, which is written where the first one is.
fn with_id(line: &str, from: &str, to: &str) -> String {
    line.replacen(&format!("\"id\": {from}"), &format!("\"id\": {to}"), 1)
}

#[test]
fn messages_are_the_same_on_both_sides_but_for_their_ids() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let before = client.read_by_server().len();
    for (number, method) in
        ["prompts/list", "server/discover", "who/knows", "completion/complete"].iter().enumerate()
    {
        let line = format!(
            r#"{{"x":1.0,  "params" : {{"n":1e400,"_meta":{{"progressToken":"t"}},"a":"\u00e9"}}, "id": "own-{number}","method":"{method}", "jsonrpc":"2.0"}}"#
        );
        client.write(&line);
        let answered = client.line();
        let expected = format!(
            r#"{{ "later":[1.50,1e3], "id": "own-{number}","jsonrpc":"2.0","result" :{{"n":123456789012345678901234567890,"a":"\u00e9"}}}}"#
        );
        assert_eq!(answered, expected);
        assert_eq!(client.line(), r#"{"method":"notifications/new","jsonrpc":"2.0","params":{"x" : 1.0}}"#);
        let read = client.read_by_server();
        let read = read[before..].iter().rfind(|line| line.contains(method)).unwrap();
        let id: Value = serde_json::from_str::<Value>(&read.replace("1e400", "1")).unwrap()["id"].clone();
        assert!(id.is_u64(), "{read}");
        assert_eq!(with_id(read, &id.to_string(), &format!("\"own-{number}\"")), line);
    }
    let line = r#"{"jsonrpc":"2.0", "method":"notifications/roots/list_changed","new":[1.0]}"#;
    client.write(line);
    client.ask("ping", &json!({}));
    assert!(client.read_by_server().iter().any(|read| read == line));
}

#[test]
fn requests_of_the_server_reach_the_client_and_their_answers_the_server() {
    let mut client = Client::ready("plain", POLICY, &[]);
    client.send(&json!(1), "tools/call", &json!({"name": "ask", "arguments": {}}));
    let asked = client.next();
    assert_eq!(
        (&asked["method"], &asked["params"]),
        (&json!("sampling/createMessage"), &json!({"messages": []}))
    );
    // The ids of a client and those of a server never meet: this one is of the client's own requests too.
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "assistant"}}).to_string());
    let answer = client.answer_to(&json!(1));
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"role": "assistant"}"#);
}

#[test]
fn a_handshake_says_what_the_server_says_and_that_there_are_resources() {
    let mut client = Client::start("plain", POLICY, &[]);
    let answer = client.shake_hands(&json!({}));
    let result = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}, "resources": {}},
        "serverInfo": {"name": "flaky", "version": "1", "unknown": [1.0]},
    });
    assert_eq!(answer["result"], result);
    assert_eq!(client.ask("resources/list", &json!({}))["result"], json!({"resources": []}));
    assert_eq!(
        client.ask("resources/templates/list", &json!({}))["result"],
        json!({"resourceTemplates": []})
    );

    let mut client = Client::start("resources", POLICY, &[]);
    let answer = client.shake_hands(&json!({}));
    assert_eq!(answer["result"]["capabilities"]["resources"], json!({"subscribe": true}));
    assert_eq!(client.ask("resources/list", &json!({}))["result"]["a"], "é", "the list is the server's");
    assert_eq!(client.ask("resources/read", &json!({"uri": "file:///a"}))["result"]["a"], "é");
}

#[test]
fn half_a_surrogate_pair_is_passed_on() {
    let mut client = Client::ready("plain", POLICY, &[]);
    for (id, fails) in [(1, false), (2, true)] {
        client.send(&json!(id), "tools/call", &json!({"name": "half", "arguments": {"fails": fails}}));
    }
    let lines = [client.line(), client.line()];
    let of = |id: &str| lines.iter().find(|line| line.contains(&format!(r#""id":{id}"#))).unwrap();
    assert_eq!(
        of("1"),
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\ud800b"}],"isError":false}}"#
    );
    // A failure is the policy's.
    assert!(of("2").contains(r#""class":"execution_error""#), "{lines:?}");
}

#[test]
fn a_line_that_is_too_long_is_answered_under_its_id() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let padding = "x".repeat(64 << 20);
    client.write(&format!(r#"{{"jsonrpc":"2.0","id":"long","method":"ping","params":{{"x":"{padding}"}}}}"#));
    assert_eq!(client.answer_to(&json!("long"))["error"]["code"], -32600);
    client.write(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":"{padding}"}}}}"#));
    let answer = client.next();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
}

#[test]
fn results_that_the_policy_leaves_alone_are_the_servers() {
    let mut client = Client::ready("plain", POLICY, &[]);
    assert_eq!(client.call("task", &json!({})), json!({"task": {"taskId": "7", "status": "working"}}));
    let odd = client.call("new.kind", &json!({}));
    assert_eq!(odd, json!({"content": [{"type": "hologram", "data": "AAEC"}], "later": true}));
    let sent = &client.calls_of("task")[0]["params"];
    assert_eq!(sent.as_object().unwrap().keys().collect::<Vec<_>>(), ["name", "arguments", "_meta"]);
}

#[test]
fn no_call_reaches_the_server_without_the_policy() {
    let policy = "version: 1\ntools: {echo: {approval: always}}\n";
    let mut client = Client::ready("plain", policy, &["--approve", "no"]);
    let params = r#"{"name":"echo","arguments":{"text":"a"}}"#;
    for line in [
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{params}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{params}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{params}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools\u002fcall","params":{params}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools\/call","params":{params}}}"#),
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"other","Name":"echo"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","text":"b"}}}"#
            .to_owned(),
        format!("{{\"method\":\"notifications/x\",\"params\":\r{{\"id\":6,\"method\":\"tools/call\",\"params\":{params}}}\r}}"),
    ] {
        client.write(&line);
    }
    client.ask("ping", &json!({}));
    client.call("refuse", &json!({}));
    let read = client.read_by_server();
    let calls = read.iter().filter(|line| line.contains("tools/call") || line.contains("tools\\"));
    let calls: Vec<&String> = calls.filter(|line| !line.contains("notifications/x")).collect();
    assert_eq!(calls.len(), 1, "only `refuse` is called: {calls:?}");
    // A line break within a message is none of the protocol.
    assert!(read.iter().any(|line| line.contains("notifications/x") && line.contains("tools/call")));
}

#[test]
fn results_of_the_relay_are_complete_where_the_protocol_wants_it_said() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let refused = client.ask("tools/call", &json!({"name": "echo", "arguments": {}, "_meta": meta}));
    assert_eq!(refused["result"]["resultType"], "complete", "{refused}");
    client.call("big", &json!({}));
    let read = client.ask("resources/read", &json!({"uri": "unfazed://result/1", "_meta": meta}));
    assert_eq!(read["result"]["resultType"], "complete");
    assert_eq!(client.call("echo", &json!({})).get("resultType"), None);
}

#[test]
fn lines_that_are_no_messages_are_answered_and_the_next_one_is_read() {
    let mut client = Client::ready("plain", POLICY, &[]);
    for (line, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]"#, -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, -32600),
    ] {
        client.write(line);
        let answer = client.next();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}: {answer}"
        );
    }
    for (params, why) in [
        (json!([]), "`params` is not an object"),
        (json!({"arguments": {}}), "`params` has no `name` of a tool"),
        (json!({"name": "echo", "_meta": 1}), "`_meta` is not an object"),
    ] {
        let answer = client.ask("tools/call", &params);
        assert_eq!(answer["error"], json!({"code": -32602, "message": why}));
    }
    assert_eq!(texts(&mut client), "still here");
}

fn texts(client: &mut Client) -> String {
    client.call("echo", &json!({"text": "still here"}))["content"][0]["text"].as_str().unwrap().to_owned()
}
