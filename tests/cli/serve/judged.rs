//! Answers with status 200 that a client can use, and those that it cannot.

use serde_json::json;

use super::{CHAT, Gateway, MESSAGES, POLICY, RESPONSES, Reply, Upstream, one, said};

const ASK: &str = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
const GENERATE: &str = "/v1beta/models/main:generateContent";
const GENERATE_STREAM: &str = "/v1beta/models/main:streamGenerateContent?alt=sse";
const CONTENTS: &str = r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#;

/// A chat whose call has these arguments.
fn calling(arguments: &str) -> String {
    let call = json!({"id": "a", "type": "function", "function": {"name": "look", "arguments": arguments}});
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]})
        .to_string()
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_none_whatever_its_tokens() {
    let silent = said("");
    let upstream = Upstream::start([Reply::json(200, "", &silent), Reply::json(200, "", &said("hi"))]);
    let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ASK).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*said("hi"), ("2", "main", "")));
    let silent = r#"{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
    let upstream = Upstream::start([Reply::json(200, "", silent)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(MESSAGES, &[], ASK).await;
    assert_eq!((got.status, &*got.body, got.header("x-unfazed-class")), (200, silent, "empty_response"));
}

#[tokio::test]
async fn a_message_that_does_not_say_why_it_stopped_may_be_cut() {
    for stop in ["", r#","stop_reason":null"#] {
        let cut = format!(r#"{{"type":"message","content":[{{"type":"text","text":"Hel"}}]{stop}}}"#);
        let upstream = Upstream::start([Reply::json(200, "", &cut)]);
        let got = Gateway::start(&one("anthropic", &upstream)).post(MESSAGES, &[], ASK).await;
        assert_eq!((got.status, got.told()), (502, ("3", "main", "network_error")));
    }
}

#[tokio::test]
async fn a_response_in_the_background_is_answered_by_how_it_stands() {
    for status in ["queued", "in_progress"] {
        let stands = json!({"id": "r", "object": "response", "status": status, "output": []}).to_string();
        let upstream = Upstream::start([Reply::json(200, "", &stands)]);
        let gateway = Gateway::start(&one("responses", &upstream));
        let got = gateway.post(RESPONSES, &[], r#"{"model":"main","input":"hi","background":true}"#).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*stands, ("1", "main", "")));
        let got = gateway.post(RESPONSES, &[], r#"{"model":"main","input":"hi"}"#).await;
        assert_eq!(got.status, 502, "nobody comes back for it");
    }
}

#[tokio::test]
async fn what_a_provider_refuses_with_status_200_reaches_the_client() {
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let upstream = Upstream::start([Reply::json(200, "", blocked)]);
    let got = Gateway::start(&one("gemini", &upstream)).post(GENERATE, &[], CONTENTS).await;
    assert_eq!((got.status, &*got.body, got.header("x-unfazed-class")), (200, blocked, "content_filter"));
    let events = format!("data: {blocked}\n\n");
    let upstream = Upstream::start([Reply::events(&events)]);
    let got = Gateway::start(&one("gemini", &upstream)).post(GENERATE_STREAM, &[], CONTENTS).await;
    assert_eq!((got.status, &*got.body, got.header("x-unfazed-class")), (200, &*events, "content_filter"));
    let malformed = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","index":0}]}"#;
    let upstream = Upstream::start([Reply::json(200, "", malformed)]);
    let got = Gateway::start(&one("gemini", &upstream)).post(GENERATE, &[], CONTENTS).await;
    assert_eq!((got.status, &*got.body), (200, malformed));
    assert_eq!(got.header("x-unfazed-class"), "malformed_tool_call");
    // An error is none, whatever its status.
    let error = r#"{"error":{"code":"content_filter","message":"no"}}"#;
    let upstream = Upstream::start([Reply::json(200, "", error)]);
    assert!(Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ASK).await.status >= 400);
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_tried_again() {
    let (broken, good) = (calling("look around"), calling("{}"));
    let upstream = Upstream::start([Reply::json(200, "", &broken), Reply::json(200, "", &good)]);
    let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ASK).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*good, ("2", "main", "")));
    // Once given up it passes: the client may read it otherwise.
    let upstream = Upstream::start([Reply::json(200, "", &broken)]);
    let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ASK).await;
    assert_eq!(
        (got.status, &*got.body, got.header("x-unfazed-class")),
        (200, &*broken, "malformed_tool_call")
    );
    // No other dialect can say it.
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], ASK).await;
    assert_eq!((got.status, got.header("x-unfazed-class")), (502, "malformed_tool_call"));
}

#[tokio::test]
async fn a_converted_stream_with_a_call_that_cannot_be_read_ends_with_an_error() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let called = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"look\",\"arguments\":\"look around\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let ask = ASK.replacen('{', "{\"stream\":true,", 1);
    let upstream = Upstream::start([Reply::events(&[text, called].concat())]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], ask.clone()).await;
    assert!(got.body.contains("Hel") && got.body.contains("event: error"), "{got:?}");
    assert!(!got.body.contains("tool_use") && !got.body.contains("message_stop"), "{got:?}");
    // Before anything is out it is tried again.
    let whole = called.replace("look around", "{}");
    let upstream = Upstream::start([Reply::events(called), Reply::events(&whole)]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], ask).await;
    assert!(got.header("x-unfazed-attempts") == "2" && got.body.contains("message_stop"), "{got:?}");
}

#[tokio::test]
async fn broken_arguments_are_repaired_where_the_policy_says_so() {
    let upstream = Upstream::start([Reply::json(200, "", &calling("{'a': 1,}"))]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], ASK).await;
    assert_eq!((got.status, &got.json()["content"][0]["input"]), (200, &json!({"a": 1})));
    let strict = format!("{POLICY}turn: {{repair_json: false}}\n");
    let got = Gateway::under(&strict, &one("openai", &upstream), &[]).post(MESSAGES, &[], ASK).await;
    assert_eq!((got.status, got.header("x-unfazed-class")), (502, "malformed_tool_call"));
}

#[tokio::test]
async fn json_that_few_readers_take_passes_as_it_is() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let odd = said("\\ud800 hi").replacen('{', &format!("{{\"x\":1e400,\"deep\":{deep},"), 1);
    let upstream = Upstream::start([Reply::json(200, "", &odd)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post(CHAT, &[], ASK).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*odd, ("1", "main", "")));
    let got = gateway.post(MESSAGES, &[], ASK.replace("hi", "\\udc00")).await;
    assert_eq!((got.status, &got.json()["content"][0]["text"]), (200, &"\u{fffd} hi".into()));
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ud800\"},\"x\":1e400,\"finish_reason\":\"stop\"}]}\n\n";
    let upstream = Upstream::start([Reply::events(event)]);
    let ask = ASK.replacen('{', "{\"stream\":true,", 1);
    let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ask).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, event, ("1", "main", "")));
}

#[tokio::test]
async fn an_answer_that_stops_behind_its_headers_is_idle() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n";
    let upstream = Upstream::start([Reply::Stays(head.to_vec())]);
    let policy = POLICY.replace("    retry:", "    timeouts: {idle: 100ms}\n    retry:");
    let got = Gateway::under(&policy, &one("openai", &upstream), &[]).post(CHAT, &[], ASK).await;
    assert_eq!((got.status, got.told()), (504, ("3", "main", "timeout")));
}
