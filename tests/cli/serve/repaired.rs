//! Conversations that a provider would refuse, as it gets them.

use serde_json::{Value, json};

use super::{Answer, CHAT, Gateway, MESSAGES, POLICY, Reply, Upstream, model, one, said};

/// The refusal of `OpenAI`.
const NOT_ANSWERED: &str = r#"{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1","type":"invalid_request_error","param":"messages","code":null}}"#;
/// That of Anthropic.
const WITHOUT_RESULT: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message."}}"#;
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
const CHUNKS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A chat with a call that has no result.
fn orphaned(stream: bool) -> String {
    format!(
        r#"{{"model":"main", "stream":{stream},"messages":[{{"role":"user","content":"go","x":1e400}}, {{"role":"assistant","content":null,"tool_calls":[{{"id":"call_1","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]}},{{"role":"user","content":"and?"}}]}}"#
    )
}

/// The body of the last request.
fn last(upstream: &Upstream) -> Value {
    // No reader of values takes that number.
    serde_json::from_str(&upstream.bodies().last().unwrap().replace("1e400", "1")).unwrap()
}

fn repaired(answer: &Answer) -> (u16, &str, &str) {
    (answer.status, answer.header("x-unfazed-repaired"), answer.header("x-unfazed-attempts"))
}

#[tokio::test]
async fn a_call_without_a_result_gets_one_before_the_request_goes_out() {
    for stream in [false, true] {
        let answers = if stream { Reply::events(CHUNKS) } else { Reply::json(200, "", &said("hello")) };
        let upstream = Upstream::start([answers]);
        let gateway = Gateway::start(&one("openai", &upstream));
        let answer = gateway.post(CHAT, &[], orphaned(stream)).await;
        assert_eq!(repaired(&answer), (200, "inserted=1", "1"), "{answer:?}");
        let sent = upstream.bodies().pop().unwrap();
        let (start, end) =
            (orphaned(stream).replace("\"main\"", "\"real-main\""), r#",{"role":"user","content":"and?"}]}"#);
        let start = start.strip_suffix(end).unwrap();
        let put_in = sent.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).expect(&sent);
        let put_in: Value = serde_json::from_str(put_in.strip_prefix(',').unwrap()).unwrap();
        assert_eq!((&put_in["role"], &put_in["tool_call_id"]), (&json!("tool"), &json!("call_1")));
        assert!(put_in["content"].as_str().unwrap().contains("look"), "{put_in}");
        let status = gateway.get("/status.json", &[]).await.json();
        let decision = &status["decisions"][0];
        assert_eq!(
            (&decision["what"], &decision["because"][0]["rule"]),
            (&json!("repair"), &json!("history.check"))
        );
    }
}

#[tokio::test]
async fn a_conversation_that_needs_nothing_passes_byte_by_byte() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let result =
        r#"{"role":"tool","tool_call_id":"call_1", "content":"seen"},{"role":"user","content":"and?"}"#;
    let sound = orphaned(false).replace(r#"{"role":"user","content":"and?"}"#, result);
    let answer = gateway.post(CHAT, &[], sound.clone()).await;
    assert_eq!(repaired(&answer), (200, "", "1"));
    assert_eq!(upstream.bodies(), [sound.replace("\"main\"", "\"real-main\"")]);
}

#[tokio::test]
async fn a_refused_conversation_is_repaired_and_sent_again_once() {
    let policy = format!("{POLICY}history: {{check: after_error, orphan_calls: prune}}\n");
    for stream in [false, true] {
        let answers = if stream { Reply::events(CHUNKS) } else { Reply::json(200, "", &said("hello")) };
        let upstream = Upstream::start([Reply::json(400, "", NOT_ANSWERED), answers]);
        let gateway = Gateway::under(&policy, &one("openai", &upstream), &[]);
        let answer = gateway.post(CHAT, &[], orphaned(stream)).await;
        assert_eq!(repaired(&answer), (200, "removed=1", "2"), "{answer:?}");
        assert_eq!(upstream.bodies()[0], orphaned(stream).replace("\"main\"", "\"real-main\""));
        let messages = last(&upstream)["messages"].as_array().unwrap().clone();
        let said: Vec<&str> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(&said[..2], ["go", "and?"]);
        // What was taken out, the model is to know.
        assert!(said.len() == 3 && said[2].contains("look"), "{said:?}");
    }
    // A conversation without a fault is the client's own, and so is its refusal.
    let upstream = Upstream::start([Reply::json(400, "", NOT_ANSWERED)]);
    let gateway = Gateway::under(&policy, &one("openai", &upstream), &[]);
    let sound = r#"{"model":"main","messages":[{"role":"user","content":"go"}]}"#;
    let answer = gateway.post(CHAT, &[], sound).await;
    assert_eq!(repaired(&answer), (400, "", "1"));
    assert_eq!(answer.told().2, "orphan_tool_call");
}

#[tokio::test]
async fn nothing_is_repaired_where_the_policy_says_never() {
    let upstream = Upstream::start([Reply::json(400, "", NOT_ANSWERED)]);
    let policy = format!("{POLICY}history: {{check: never}}\n");
    let gateway = Gateway::under(&policy, &one("openai", &upstream), &[]);
    let answer = gateway.post(CHAT, &[], orphaned(false)).await;
    assert_eq!((repaired(&answer), &*answer.body), ((400, "", "1"), NOT_ANSWERED));
    assert_eq!(upstream.bodies(), [orphaned(false).replace("\"main\"", "\"real-main\"")]);
}

#[tokio::test]
async fn arguments_that_a_server_refuses_are_replaced_once_it_has() {
    let refusal = r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 13: syntax error while parsing value - invalid literal","type":"server_error"}}"#;
    let upstream = Upstream::start([Reply::json(500, "", refusal), Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let result = r#"{"role":"tool","tool_call_id":"call_1","content":"seen"}"#;
    let broken = orphaned(false).replace(r#"{"role":"user","content":"and?"}"#, result);
    let answer =
        gateway.post(CHAT, &[], broken.replace(r#""arguments":"{}""#, r#""arguments":"{\"a""#)).await;
    assert_eq!(repaired(&answer), (200, "malformed=1", "2"), "{answer:?}");
    let call = &last(&upstream)["messages"][1]["tool_calls"][0]["function"];
    assert_eq!(call["arguments"], r#"{"INVALID_JSON":"{\"a"}"#);
}

#[tokio::test]
async fn results_go_where_anthropic_wants_them() {
    let upstream = Upstream::start([Reply::json(400, "", WITHOUT_RESULT), Reply::json(200, "", MESSAGE)]);
    let policy = format!("{POLICY}history: {{check: after_error}}\n");
    let gateway = Gateway::under(&policy, &one("anthropic", &upstream), &[]);
    let body = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"look","input":{}}]},{"role":"user","content":"and?"}]}"#;
    let answer = gateway.post(MESSAGES, &[], body).await;
    assert_eq!(repaired(&answer), (200, "inserted=1", "2"), "{answer:?}");
    let next = last(&upstream)["messages"][2]["content"].clone();
    assert_eq!((&next[0]["type"], &next[0]["tool_use_id"]), (&json!("tool_result"), &json!("toolu_1")));
    assert_eq!(next[1], json!({"type": "text", "text": "and?"}));
}

#[tokio::test]
async fn a_converted_conversation_is_repaired_before() {
    let upstream = Upstream::start([Reply::json(200, "", MESSAGE)]);
    let file = format!("models:\n{}routes: {{main: main}}\n", model("main", "anthropic", &upstream));
    let gateway = Gateway::start(&file);
    let answer = gateway
        .post(
            CHAT,
            &[],
            orphaned(false).replace(r#","x":1e400"#, "").replace("\"main\"", "\"main\",\"max_tokens\":9"),
        )
        .await;
    assert_eq!(repaired(&answer), (200, "inserted=1", "1"), "{answer:?}");
    let next = last(&upstream)["messages"][2]["content"].clone();
    assert_eq!((&next[0]["type"], &next[1]["text"]), (&json!("tool_result"), &json!("and?")));
    // It may end with the call.
    let body = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}}]}]}"#;
    let answer = gateway.post(CHAT, &[], body).await;
    assert_eq!(repaired(&answer), (200, "inserted=1", "1"), "{answer:?}");
    assert_eq!(last(&upstream)["messages"][2]["content"][0]["type"], "tool_result");
    // Gemini's results need no id, and may answer nothing at all.
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":1}}}]}],"generationConfig":{"maxOutputTokens":9}}"#;
    let answer = gateway.post("/v1beta/models/main:generateContent", &[], body).await;
    assert_eq!(repaired(&answer), (200, "removed=1", "1"), "{answer:?}");
    assert!(!last(&upstream).to_string().contains("tool_result"));
}

#[tokio::test]
async fn what_is_sent_is_what_the_header_says() {
    let orphan =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"r"}]}"#;
    let body = |messages: &str| format!(r#"{{"model":"main","max_tokens":9,"messages":[{messages}]}}"#);
    let said = r#"{"role":"user","content":"go"},{"role":"assistant","content":"said"}"#;
    for (api, reply) in [("openai", super::said("hello")), ("anthropic", MESSAGE.to_owned())] {
        let upstream = Upstream::start([Reply::json(200, "", &reply)]);
        let gateway = Gateway::start(&one(api, &upstream));
        let answer = gateway.post(MESSAGES, &[], body(&format!("{said},{orphan}"))).await;
        assert_eq!(repaired(&answer), (200, "removed=1", "1"), "{answer:?}");
        let sent = last(&upstream);
        assert!(!sent.to_string().contains("toolu_1"), "{sent}");
        assert_eq!(sent["messages"].as_array().unwrap().last().unwrap()["role"], "assistant");
        // Nothing is left of this one.
        let answer = gateway.post(MESSAGES, &[], body(orphan)).await;
        assert_eq!((answer.status, answer.header("x-unfazed-repaired")), (400, ""), "{answer:?}");
        assert!(answer.body.contains("the conversation was repaired, and cannot be sent so"), "{answer:?}");
        assert_eq!(upstream.bodies().len(), 1);
    }
}
