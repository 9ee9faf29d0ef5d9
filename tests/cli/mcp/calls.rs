//! Calls of tools: corrected, retried, refused, cut, agreed to, taken back, written down.

use serde_json::{Value, json};

use super::{Client, POLICY, texts};
use crate::command;

/// What the client learns about a decision.
fn decided(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["unfazed"]
}

#[test]
fn wrong_arguments_are_corrected_before_the_server_sees_them() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let result = client.call("echo", &json!({"text": 3}));
    let text = texts(&result)[0];
    assert!(text.contains("did not run") && text.contains("expected string, found number 3"), "{text}");
    assert_eq!(
        (&decided(&result)["class"], &decided(&result)["attempts"]),
        (&json!("invalid_args"), &json!(0))
    );
    assert_eq!(client.calls_of("echo"), [] as [Value; 0]);
    let unknown = client.call("ecko", &json!({}));
    assert!(texts(&unknown)[0].contains("There is no tool `ecko`"), "{unknown}");
    let odd = client.call("e\u{1b}[2J", &json!({}));
    assert!(texts(&odd)[0].contains("There is no tool `e\\u001b[2J`"), "{odd}");
}

#[test]
fn a_call_that_may_run_again_does_and_its_waits_are_progress() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let params = json!({"name": "flaky", "arguments": {"text": "a"}, "_meta": {"progressToken": "p"}});
    client.send(&json!(1), "tools/call", &params);
    let mut progress = Vec::new();
    let answer = loop {
        let message = client.next();
        if message["id"] == json!(1) {
            break message;
        }
        assert_eq!(message["params"]["progressToken"], "p");
        progress
            .push((message["params"]["progress"].as_f64().unwrap(), message["params"]["message"].clone()));
    };
    assert_eq!(texts(&answer["result"]), ["found"]);
    let numbers: Vec<f64> = progress.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [4.0, 5.0, 9.0, 10.0, 14.0]);
    assert_eq!(progress[1].1, "attempt 2 of 3 in 50ms, after execution_error");
    let calls = client.calls_of("flaky");
    let keys: Vec<&Value> =
        calls.iter().map(|call| &call["params"]["_meta"]["unfazed/idempotencyKey"]).collect();
    assert_eq!(calls.len(), 3);
    assert!(keys[0].is_string() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    client.call("flaky", &json!({"text": "b"}));
    assert_ne!(client.calls_of("flaky")[3]["params"]["_meta"]["unfazed/idempotencyKey"], *keys[0]);
}

#[test]
fn a_call_that_waits_for_its_turn_says_so() {
    let policy = "version: 1\ntools: {echo: {pace: {requests: {limit: 1, per: 2s}}}}\n";
    let mut client = Client::ready("plain", policy, &[]);
    for call in [1, 2] {
        let params =
            json!({"name": "echo", "arguments": {"text": "a"}, "_meta": {"progressToken": call.to_string()}});
        client.send(&json!(call), "tools/call", &params);
    }
    let (mut answered, mut waits) = (0, Vec::new());
    while answered < 2 {
        let message = client.next();
        if message["id"].is_number() {
            assert_ne!(message["result"]["isError"], json!(true), "{message}");
            answered += 1;
        } else if let Some(text) = message["params"]["message"].as_str() {
            waits.push((message["params"]["progressToken"].clone(), text.to_owned()));
        }
    }
    let [(token, text)] = &waits[..] else { panic!("{waits:?}") };
    // Both are in hand at once: either may be the first.
    assert!(["1", "2"].iter().any(|call| token == call), "{token}");
    assert!(text.starts_with("its turn in ") && text.ends_with("it is the next call of tool echo"), "{text}");
}

#[test]
fn what_may_have_acted_does_not_run_again_and_the_place_of_the_rule_is_known() {
    let policy =
        "version: 1\ntools:\n  send: {effect: non_idempotent, retry: {retry_on: {add: [execution_error]}}}\n";
    let mut client = Client::ready("plain", policy, &[]);
    let result = client.call("send", &json!({"text": "a"}));
    assert!(texts(&result)[0].contains("the line is bad"), "{result}");
    let expected = json!({
        "class": "execution_error", "attempts": 1, "because": [{"rule": "effect", "place": "p.yaml:3:18"}],
    });
    assert_eq!(decided(&result), &expected);
    assert_eq!(client.calls_of("send").len(), 1);
}

#[test]
fn a_result_that_is_too_long_is_cut_and_read_in_full_as_a_resource() {
    let mut client = Client::ready("plain", POLICY, &[]);
    let result = client.call("big", &json!({}));
    assert!(texts(&result)[0].len() < 1100 && texts(&result)[0].starts_with("0123456789"), "{result}");
    assert_eq!(result["_meta"], json!({"kept": 1}));
    let link = &result["content"][1];
    assert_eq!((&link["type"], &link["size"]), (&json!("resource_link"), &json!(200_000)));
    let read = client.ask("resources/read", &json!({"uri": link["uri"]}));
    assert_eq!(read["result"]["contents"][0]["text"], "0123456789".repeat(20_000));
    let missing = client.ask("resources/read", &json!({"uri": "unfazed://result/99"}));
    assert_eq!(missing["error"]["code"], -32002);

    let picture = client.call("picture", &json!({}));
    assert_eq!(picture["content"][1], json!({"type": "image", "data": "AAEC", "mimeType": "image/png"}));
    assert!(picture.get("structuredContent").is_none(), "{picture}");
    // Clients check it where a tool says that it has some.
    let table = client.call("table", &json!({}));
    assert_eq!(table["structuredContent"], json!({"n": 1.5}));
}

#[test]
fn who_repeats_itself_is_informed_and_then_refused() {
    let mut client = Client::ready("plain", "version: 1\n", &[]);
    let results: Vec<Value> = (0..6).map(|_| client.call("echo", &json!({"text": "a"}))).collect();
    assert_eq!(texts(&results[0]), ["a"]);
    assert!(texts(&results[2])[1].contains("was called 3 times with the same arguments"), "{}", results[2]);
    assert_eq!(decided(&results[5])["class"], "repeated_call");
    assert_eq!(texts(&client.call("echo", &json!({"text": "b"}))), ["b"]);
}

const ASKED: &str =
    "version: 1\nturn: {approval: {unanswered: approve}}\ntools: {echo: {approval: always}}\n";

/// Calls `echo` with a person who does that.
fn with_person(client: &mut Client, action: &str) -> Value {
    client.send(&json!(1), "tools/call", &json!({"name": "echo", "arguments": {"text": "a"}}));
    let asked = client.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert!(asked["params"]["message"].as_str().unwrap().contains("\"text\": \"a\""), "{asked}");
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}}).to_string());
    client.answer_to(&json!(1))["result"].clone()
}

#[test]
fn the_person_at_the_client_is_asked() {
    let mut client = Client::start("plain", ASKED, &[]);
    client.shake_hands(&json!({"elicitation": {}}));
    assert_eq!(texts(&with_person(&mut client, "accept")), ["a"]);
    assert_eq!(decided(&with_person(&mut client, "decline"))["class"], "permission_denied");
    assert_eq!(client.calls_of("echo").len(), 1);
}

#[test]
fn where_nobody_can_be_asked_the_call_is_refused() {
    let mut client = Client::ready("plain", ASKED, &[]);
    assert_eq!(decided(&client.call("echo", &json!({"text": "a"})))["class"], "permission_denied");
    let mut client = Client::ready("plain", ASKED, &["--approve", "yes"]);
    assert_eq!(texts(&client.call("echo", &json!({"text": "a"}))), ["a"]);
    let mut client = Client::start("plain", ASKED, &["--approve", "no"]);
    client.shake_hands(&json!({"elicitation": {}}));
    assert_eq!(decided(&client.call("echo", &json!({"text": "a"})))["class"], "permission_denied");
}

#[test]
fn a_call_that_is_taken_back_has_no_answer_and_the_server_learns_it() {
    let mut client = Client::ready("plain", POLICY, &[]);
    client.send(&json!(7), "tools/call", &json!({"name": "slow", "arguments": {}}));
    client.send(&json!(8), "tools/call", &json!({"name": "slow", "arguments": {"n": 2}}));
    let slow = || client.calls_of("slow");
    while slow().len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let number = slow().iter().find(|call| call["params"]["arguments"] == json!({})).unwrap()["id"].clone();
    client.tell("notifications/cancelled", &json!({"requestId": 7, "reason": "no need"}));
    client.send(&json!(9), "tools/call", &json!({"name": "echo", "arguments": {"text": "a"}}));
    assert_eq!(client.next()["id"], 9, "the other has no answer");
    let cancelled: Vec<Value> = client
        .read_by_server()
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["method"] == "notifications/cancelled")
        .collect();
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0]["params"]["requestId"], number);
}

#[test]
fn a_request_that_is_passed_on_is_taken_back_under_the_id_that_the_server_knows() {
    let mut client = Client::start("mute", POLICY, &[]);
    client.send(&json!("i"), "initialize", &json!({"protocolVersion": "1", "capabilities": {}}));
    client.wait_for_note("in  ");
    client.write(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i","reason":"slow"}}"#,
    );
    client.ask("ping", &json!({}));
    let read = client.read_by_server();
    assert_eq!(
        read[1],
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"slow"}}"#
    );
}

#[test]
fn many_calls_at_once_end_each_with_its_own_result() {
    let mut client = Client::ready("plain", POLICY, &[]);
    for number in 0..100 {
        let params = json!({"name": "echo", "arguments": {"text": format!("t{number}")}});
        client.send(&json!(number), "tools/call", &params);
    }
    for _ in 0..100 {
        let answer = client.next();
        assert_eq!(texts(&answer["result"]), [format!("t{}", answer["id"])]);
    }
}

#[test]
fn the_policy_is_read_again_between_calls() {
    let mut client = Client::ready("plain", "version: 1\n", &["--reload"]);
    assert_eq!(decided(&client.call("flaky", &json!({"text": "a"})))["attempts"], 1);
    std::fs::write(client.folder.path().join("p.yaml"), POLICY).unwrap();
    assert_eq!(texts(&client.call("flaky", &json!({"text": "b"}))), ["found"]);
    std::fs::write(client.folder.path().join("p.yaml"), "version: 1\ntools: {flaky: 7}\n").unwrap();
    assert_eq!(
        texts(&client.call("echo", &json!({"text": "the last good one holds"}))),
        ["the last good one holds"]
    );
}

#[test]
fn the_name_of_the_server_is_before_the_names_that_the_policy_knows() {
    let policy = "version: 1\ntools: {files__echo: {approval: always}}\n";
    let mut client = Client::ready("plain", policy, &["--name", "files"]);
    assert_eq!(decided(&client.call("echo", &json!({"text": "a"})))["class"], "permission_denied");
    let listed = client.ask("tools/list", &json!({}));
    assert!(
        listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"),
        "{listed}"
    );
}

#[test]
fn what_happened_is_a_session_that_is_decided_again() {
    let mut client = Client::ready("plain", POLICY, &["--sessions", "log"]);
    client.call("flaky", &json!({"text": "a"}));
    client.call("big", &json!({}));
    client.call("echo", &json!({"text": 3}));
    assert_eq!(client.end(), Some(0));
    let replay = |policy: &str| {
        let mut command = command::unfazed(client.folder.path(), &["replay", "latest", "--policy", policy]);
        command.env("UNFAZED_SESSIONS", "log").output().unwrap()
    };
    let same = replay("p.yaml");
    assert!(same.status.success(), "{same:?}");
    std::fs::write(client.folder.path().join("q.yaml"), POLICY.replace("max_attempts: 3", "max_attempts: 2"))
        .unwrap();
    let other = String::from_utf8(replay("q.yaml").stdout).unwrap();
    assert!(other.contains("retry.max_attempts = 2 (q.yaml:4:27, tool layer)"), "{other}");
}

#[test]
fn calls_reach_the_server_in_the_order_in_which_the_client_sent_them() {
    // With a breaker only so many run at once as may fail before it opens.
    let mut client = Client::ready("plain", "version: 1\ntools: {echo: {breaker: {failures: never}}}\n", &[]);
    for n in 0..40 {
        client.send(&json!(n), "tools/call", &json!({"name": "echo", "arguments": {"text": n.to_string()}}));
    }
    for _ in 0..40 {
        client.next();
    }
    let calls = client.calls_of("echo");
    let sent: Vec<&Value> = calls.iter().map(|call| &call["params"]["arguments"]["text"]).collect();
    let expected: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    assert_eq!(sent, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_result_that_says_it_is_an_error_is_one_without_content_too() {
    let policy = "version: 1
tools: {bare: {effect: read_only, retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 10ms, jitter: none}}}}
";
    let mut client = Client::ready("odd", policy, &[]);
    let result = client.call("bare", &json!({}));
    assert_eq!(result["_meta"]["unfazed"]["attempts"], 3, "{result}");
    assert_eq!(client.calls_of("bare").len(), 3);
}

#[test]
fn texts_name_tools_as_the_client_sees_them() {
    let policy = "version: 1\ntools: {'desk__echo': {approval: always}}\n";
    let mut client = Client::start("plain", policy, &["--name", "desk"]);
    client.shake_hands(&json!({"elicitation": {}}));
    let unknown = client.call("ecko", &json!({}));
    assert!(texts(&unknown)[0].contains("`echo`") && !unknown.to_string().contains("desk__"), "{unknown}");
    let failed = client.call("refuse", &json!({}));
    assert!(texts(&failed)[0].contains("`refuse`") && !texts(&failed)[0].contains("desk__"), "{failed}");
    client.send(&json!(1), "tools/call", &json!({"name": "echo", "arguments": {"text": "a"}}));
    let question = client.next();
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Run echo with"), "{message}");
}
