//! What servers answer a call beside a plain result: errors of the protocol, failures with more than a text, wrapped texts.

use serde_json::{Value, json};

use super::{Client, texts};

const POLICY: &str = "version: 1
tools:
  receipt: {retry: {retry_on: {add: [execution_error, invalid_args]}}}
  wrapped: {result: {max: 1000 chars}}
  report: {result: {max: 1000 chars}}
";

#[test]
fn an_error_of_the_protocol_does_not_say_that_nothing_was_done() {
    let mut client = Client::ready("odd", POLICY, &[]);
    for (code, message) in
        [(-32600, "no back-channel"), (-32602, "no such account"), (-32700, "cannot be read")]
    {
        let result = client.call("receipt", &json!({"code": code, "message": message}));
        let about = &result["_meta"]["unfazed"];
        assert_eq!((&about["class"], &about["attempts"]), (&json!("execution_error"), &json!(1)), "{result}");
        assert!(!texts(&result)[0].contains("did not run"), "{result}");
    }
    assert_eq!(client.calls_of("receipt").len(), 3, "what may have acted does not run again");
    let message = "Invalid arguments for tool receipt: [...]";
    let refused = client.call("receipt", &json!({"code": -32602, "message": message}));
    assert_eq!(refused["_meta"]["unfazed"]["class"], "invalid_args", "{refused}");
}

#[test]
fn an_address_that_the_person_must_open_first_is_for_the_client() {
    let mut client = Client::ready("odd", POLICY, &[]);
    client.send(&json!(1), "tools/call", &json!({"name": "consent", "arguments": {}}));
    let answer = client.line();
    let error = r#""error": {"code": -32042, "message": "agree first", "data": {"elicitations": [{"mode": "url", "url": "https://example.org/consent", "elicitationId": "e1", "message": "Agree"}], "x": 1.5}}"#;
    assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":1,{}}}"#, error.replacen(": ", ":", 1)));
}

#[test]
fn a_failure_keeps_what_the_server_says_beside_its_text() {
    let mut client = Client::ready("odd", POLICY, &[]);
    let result = client.call("crash", &json!({}));
    assert!(texts(&result)[0].contains("the page is gone"), "{result}");
    let kinds: Vec<&Value> =
        result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource_link"]);
    assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(true), &json!({"code": 7})));
    assert_eq!(
        (&result["_meta"]["x/y"], &result["_meta"]["unfazed"]["class"]),
        (&json!(1), &json!("execution_error"))
    );
}

#[test]
fn a_failure_that_is_too_long_is_cut_and_read_in_full_as_a_resource() {
    let mut client = Client::ready("odd", POLICY, &[]);
    let result = client.call("crash", &json!({"bytes": 100_000}));
    assert!(texts(&result)[0].len() < 10_000, "{result}");
    let blocks = result["content"].as_array().unwrap();
    let (link, kinds): (&Value, Vec<&Value>) =
        (blocks.last().unwrap(), blocks.iter().map(|block| &block["type"]).collect());
    assert_eq!(kinds, ["text", "image", "resource_link", "resource_link"]);
    let read = client.ask("resources/read", &json!({"uri": link["uri"]}));
    let whole = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(whole.starts_with("the page is gone!") && whole.len() > 100_000, "{} bytes", whole.len());
}

#[test]
fn a_text_in_a_wrapper_is_cut_and_kept_as_text() {
    let mut client = Client::ready("odd", POLICY, &[]);
    let result = client.call("wrapped", &json!({}));
    assert!(texts(&result)[0].starts_with("a \"line\"\na \"line\"\n"), "{result}");
    let read = client.ask("resources/read", &json!({"uri": result["content"][1]["uri"]}));
    let kept = &read["result"]["contents"][0];
    assert_eq!(kept["text"], "a \"line\"\n".repeat(500));
    assert_eq!(kept["mimeType"], "text/plain");
}

#[test]
fn what_a_server_logs_is_no_answer_and_ends_nothing() {
    let mut client = Client::ready("odd", POLICY, &[]);
    assert_eq!(texts(&client.call("loud", &json!({}))), ["fine"]);
    assert_eq!(texts(&client.call("loud", &json!({}))), ["fine"]);
    let noted = std::fs::read_to_string(client.folder.path().join("notes")).unwrap();
    assert_eq!(noted.matches("started").count(), 1, "it was not started again");
}

#[test]
fn a_result_that_is_cut_keeps_its_files_and_links_and_all_of_its_text() {
    let mut client = Client::ready("odd", POLICY, &[]);
    let result = client.call("report", &json!({}));
    let kinds: Vec<&Value> =
        result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "resource", "resource_link", "resource_link"], "{result}");
    let result = client.call("report", &json!({"text": true}));
    assert!(texts(&result)[0].len() < 1500, "{result}");
    let read = client.ask("resources/read", &json!({"uri": result["content"][1]["uri"]}));
    let whole = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(whole.starts_with("a long story") && whole.ends_with("{\"rows\":2}"), "{whole}");
}

#[test]
fn a_call_that_has_acted_although_it_failed_is_no_error() {
    let policy = "version: 1
tools:
  die: {on_uncertain_effect: {kind: verify, tool: echo, arguments: {text: \"'yes'\"}, acted: \"result == 'yes'\"}}
";
    let mut client = Client::ready("odd", policy, &[]);
    let result = client.call("die", &json!({}));
    assert!(texts(&result)[0].contains("it has acted"), "{result}");
    let about = &result["_meta"]["unfazed"];
    assert_eq!((&result["isError"], &about["class"]), (&json!(false), &Value::Null), "{result}");
}
