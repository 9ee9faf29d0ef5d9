//! Calls of several rounds, and clients without a handshake (the protocol's version 2026-07-28).

use serde_json::{Value, json};

use super::{Client, texts};

const ASKED: &str = "version: 1\ntools: {echo: {approval: always}}\n";

/// The parameters of a call of a client that can be asked by results, with these fields.
fn params(tool: &str, arguments: &Value, more: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// The answer to a question in a result.
fn answered(asked: &Value, action: &str) -> Value {
    json!({"requestState": asked["result"]["requestState"], "inputResponses": {"approval": {"action": action}}})
}

#[test]
fn without_a_handshake_the_person_is_asked_by_a_result() {
    let mut client = Client::start("plain", ASKED, &[]);
    let text = json!({"text": "a"});
    let mut call =
        |arguments: &Value, more: &Value| client.ask("tools/call", &params("echo", arguments, more));
    let asked = call(&text, &json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let question = &asked["result"]["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("\"text\": \"a\""), "{asked}");
    let other = call(&json!({"text": "b"}), &answered(&asked, "accept"));
    assert_eq!(other["error"]["code"], -32602, "the state is of another call: {other}");
    let taken = call(&text, &answered(&asked, "accept"));
    assert_eq!(texts(&taken["result"]), ["a"]);
    for state in [&asked["result"]["requestState"], &json!("unfazed-1")] {
        let more = json!({"requestState": state, "inputResponses": {"approval": {"action": "accept"}}});
        assert_eq!(call(&text, &more)["error"]["code"], -32602, "{state}");
    }
    for (action, why) in [("decline", "the user did not agree"), ("cancel", "nobody agreed")] {
        let asked = call(&text, &json!({}));
        let refused = call(&text, &answered(&asked, action));
        assert_eq!(refused["result"]["_meta"]["unfazed"]["class"], "permission_denied", "{refused}");
        assert!(texts(&refused["result"])[0].contains(why), "{refused}");
    }
    let calls = client.calls_of("echo");
    assert_eq!(calls.len(), 1);
    let fields: Vec<&String> = calls[0]["params"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["name", "arguments", "_meta"], "the state is the relay's own");
}

#[test]
fn without_a_handshake_a_client_that_cannot_ask_is_refused() {
    let mut client = Client::start("plain", ASKED, &[]);
    let mut params = params("echo", &json!({"text": "a"}), &json!({}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let refused = client.ask("tools/call", &params);
    assert_eq!(refused["result"]["_meta"]["unfazed"]["class"], "permission_denied", "{refused}");
}

#[test]
fn a_person_who_agrees_lets_a_call_that_failed_run_again_under_its_key() {
    let policy = "version: 1
tools: {send: {effect: non_idempotent, retry: {retry_on: {add: [execution_error]}}, on_uncertain_effect: {kind: ask}}}
";
    let mut client = Client::start("plain", policy, &[]);
    let text = json!({"text": "a"});
    let asked = client.ask("tools/call", &params("send", &text, &json!({})));
    let question = &asked["result"]["inputRequests"]["approval"]["params"]["message"];
    assert!(question.as_str().unwrap().contains("Run it again?"), "{asked}");
    let again = client.ask("tools/call", &params("send", &text, &answered(&asked, "accept")));
    let refused = client.ask("tools/call", &params("send", &text, &answered(&again, "decline")));
    assert_eq!(refused["result"]["_meta"]["unfazed"]["class"], "execution_error", "{refused}");
    let calls = client.calls_of("send");
    let keys: Vec<&Value> =
        calls.iter().map(|call| &call["params"]["_meta"]["unfazed/idempotencyKey"]).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

#[test]
fn the_rounds_of_a_call_are_one_call() {
    let mut client = Client::start("odd", "version: 1\n", &[]);
    let mut more = json!({});
    let mut results = Vec::new();
    for _ in 0..7 {
        let answer = client.ask("tools/call", &params("multi", &json!({}), &more))["result"].clone();
        more = json!({"requestState": answer["requestState"], "inputResponses": {"q": {"action": "accept"}}});
        results.push(answer);
    }
    assert_eq!(results[5]["inputRequests"]["q"]["params"]["message"], "step 5", "{results:?}");
    assert_eq!(texts(&results[6]), ["done"], "no repetition is counted");
    let again = client.ask("tools/call", &params("multi", &json!({}), &json!({})));
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    let keys: Vec<Value> = client
        .calls_of("multi")
        .iter()
        .map(|call| call["params"]["_meta"]["unfazed/idempotencyKey"].clone())
        .collect();
    assert!(keys[..7].iter().all(|key| *key == keys[0]) && keys[7] != keys[0], "{keys:?}");
}

#[test]
fn what_was_agreed_to_once_does_not_run_again_and_again() {
    let mut client = Client::start("odd", "version: 1\ntools: {multi: {approval: always}}\n", &[]);
    let mut call =
        |more: &Value| client.ask("tools/call", &params("multi", &json!({}), more))["result"].clone();
    let asked = call(&json!({}));
    let accept = json!({"approval": {"action": "accept"}});
    let begun = call(&json!({"requestState": asked["requestState"], "inputResponses": accept}));
    assert_eq!(begun["inputRequests"]["q"]["params"]["message"], "step 0", "{begun}");
    let round = json!({"requestState": begun["requestState"], "inputResponses": {"q": {"action": "accept"}}});
    let further = call(&round);
    assert_eq!(further["inputRequests"]["q"]["params"]["message"], "step 1", "{further}");
    for _ in 0..3 {
        let again = call(&round);
        assert_eq!(again["inputRequests"]["approval"]["method"], "elicitation/create", "{again}");
    }
    assert_eq!(client.calls_of("multi").len(), 2);
}

#[test]
fn a_call_does_not_wait_for_a_list_past_its_deadline() {
    let mut client = Client::ready("unlisted", "version: 1\nlimits: {deadline: 1s}\n", &[]);
    let result = client.call("echo", &json!({"text": "a"}));
    assert_eq!(result["_meta"]["unfazed"]["class"], "timeout", "{result}");
    assert!(texts(&result)[0].contains("did not list its tools within 1s"), "{result}");
    let because = &result["_meta"]["unfazed"]["because"][0];
    assert_eq!(
        (&because["rule"], &because["place"]),
        (&json!("retry.deadline"), &json!("p.yaml:2:20")),
        "{result}"
    );
}

#[test]
fn one_server_too_has_its_time_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    let script = super::server_script().display().to_string();
    let notes = folder.path().join("notes").display().to_string();
    let file = format!(
        "version: 1\nmcp:\n  mute: {{command: {}, start_timeout: 1s}}\n",
        json!(["python3", script, notes, "mute"])
    );
    std::fs::write(folder.path().join("servers.yaml"), file).unwrap();
    let mut client = Client::run(folder, &["mcp", "servers.yaml"]);
    let answer = client.ask("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("did not answer within 1s"), "{why}");
}
