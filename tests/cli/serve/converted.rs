//! Clients of one dialect at models of another.

use serde_json::{Value, json};

use super::{Answer, CHAT, Gateway, MESSAGES, RESPONSES, Reply, Upstream, model, one, said};

/// An answer of Anthropic's messages that calls a tool.
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"look","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}"#;
/// The same as events, without the end.
const BEGUN: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look."}}

"#;
const ENDED: &str = r#"event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#;
const CHUNK: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hel\"}}]}\n\n";
const LAST_CHUNKS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n\
                           data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

/// A chat in which a tool was called.
fn chat(stream: bool) -> String {
    json!({
        "model": "main", "stream": stream, "seed": 4, "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [{"id": "functions.look:0", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "functions.look:0", "content": "seen"},
        ],
    })
    .to_string()
}

fn messages(stream: bool) -> String {
    json!({
        "model": "main", "stream": stream, "max_tokens": 9, "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": "hi"}],
    })
    .to_string()
}

/// A request of Responses in which a tool was called.
fn responses(stream: bool) -> String {
    json!({
        "model": "main", "stream": stream, "store": true, "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "functions.look:0", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "functions.look:0", "output": "seen"},
        ],
    })
    .to_string()
}

/// The data of the events of an answer.
fn events(got: &Answer) -> Vec<Value> {
    let data = got.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

#[tokio::test]
async fn a_chat_reaches_a_model_of_anthropic() {
    let upstream =
        Upstream::start([Reply::json(200, "", MESSAGE), Reply::events(&format!("{BEGUN}{ENDED}"))]);
    let gateway = Gateway::start(&one("anthropic", &upstream));
    let headers = [("anthropic-beta", "of-the-client"), ("x-request-id", "r1")];
    let got = gateway.post(CHAT, &headers, chat(false)).await;
    assert_eq!((got.status, got.told()), (200, ("1", "main", "")), "{got:?}");
    assert_eq!((got.header("x-unfazed-left-out"), got.header("content-type")), ("seed", "application/json"));
    let choice = got.json()["choices"][0].clone();
    let call =
        json!({"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}});
    assert_eq!(
        (&choice["message"]["tool_calls"], &choice["finish_reason"]),
        (&json!([call]), &json!("tool_calls"))
    );
    assert_eq!(got.json()["model"], "main");
    let sent: Value = serde_json::from_str(&upstream.bodies()[0]).unwrap();
    assert_eq!((&sent["model"], &sent["system"]), (&json!("real-main"), &json!("Be brief.")));
    assert_eq!(sent["messages"][2]["content"][0]["tool_use_id"], sent["messages"][1]["content"][0]["id"]);
    let seen = upstream.seen().remove(0);
    assert!(seen.starts_with("POST /v1/messages HTTP/1.1\r\n") && !seen.contains("of-the-client"), "{seen}");
    assert!(seen.contains("x-request-id: r1\r\n") && seen.contains("x-api-key: sk-upstream\r\n"), "{seen}");

    let got = gateway.post(CHAT, &[], chat(true)).await;
    assert_eq!((got.status, got.header("content-type")), (200, "text/event-stream"));
    let events = events(&got);
    assert_eq!(events[1]["choices"][0]["delta"]["content"], "I look.");
    let arguments = "/choices/0/delta/tool_calls/0/function/arguments";
    assert_eq!(events[2].pointer(arguments), Some(&json!("{\"a\":1}")));
    assert_eq!(events[3]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((&events[4]["usage"]["total_tokens"], &events[5]), (&json!(5), &json!("[DONE]")));
}

#[tokio::test]
async fn messages_reach_a_model_of_openai() {
    let upstream = Upstream::start([
        Reply::json(200, "", &said("hello")),
        Reply::events(&format!("{CHUNK}{LAST_CHUNKS}")),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let headers = [("anthropic-version", "2026-10-21")];
    let got = gateway.post(MESSAGES, &headers, messages(false)).await;
    assert_eq!(
        (got.status, got.told(), got.header("x-unfazed-left-out")),
        (200, ("1", "main", ""), "thinking")
    );
    assert_eq!(got.json()["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(
        (&got.json()["stop_reason"], &got.json()["usage"]["input_tokens"]),
        (&json!("end_turn"), &json!(3))
    );
    assert!(!upstream.seen()[0].contains("2026-10-21"));

    let got = gateway.post(MESSAGES, &headers, messages(true)).await;
    let kinds: Vec<Value> = events(&got).iter().map(|event| event["type"].clone()).collect();
    let delta = "content_block_delta";
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            delta,
            delta,
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[tokio::test]
async fn roles_parallel_calls_and_marks_for_a_cache_are_carried_over_or_named() {
    let chat = json!({
        "model": "main", "parallel_tool_calls": false, "prompt_cache_key": "k",
        "tools": [{"type": "function", "function": {"name": "look"}, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": "go"},
        ],
    });
    let messages = json!({
        "model": "main", "max_tokens": 9, "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "tools": [{"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "go"}],
    });
    let responses = json!({
        "model": "main", "parallel_tool_calls": false, "prompt_cache_key": "k",
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"}],
    });
    let marks = "messages.content.cache_control";
    let kept = |place: &'static str, value: Value| (place, value);
    for (path, request, api, left_out, sent) in [
        (
            CHAT,
            &chat,
            "anthropic",
            format!("{marks}, prompt_cache_key, tools.cache_control"),
            [
                kept("/tool_choice/disable_parallel_tool_use", json!(true)),
                kept("/system", json!("Be brief.")),
            ],
        ),
        (
            CHAT,
            &chat,
            "responses",
            format!("{marks}, tools.cache_control"),
            [kept("/parallel_tool_calls", json!(false)), kept("/prompt_cache_key", json!("k"))],
        ),
        (
            MESSAGES,
            &messages,
            "openai",
            "system.cache_control, tools.cache_control".into(),
            [kept("/parallel_tool_calls", json!(false)), kept("/messages/0/role", json!("system"))],
        ),
        (
            RESPONSES,
            &responses,
            "openai",
            String::new(),
            [kept("/parallel_tool_calls", json!(false)), kept("/prompt_cache_key", json!("k"))],
        ),
        (
            RESPONSES,
            &responses,
            "gemini",
            "prompt_cache_key, parallel_tool_calls".into(),
            [
                kept("/systemInstruction/parts/0/text", json!("Be brief.")),
                kept("/contents/0/parts/0/text", json!("go")),
            ],
        ),
    ] {
        // What the answer says is another test's.
        let upstream = Upstream::start([Reply::json(200, "", &answer(api))]);
        let gateway = Gateway::start(&one(api, &upstream));
        let got = gateway.post(path, &[], request.to_string()).await;
        assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, &*left_out), "{path} {api} {got:?}");
        let body: Value = serde_json::from_str(&upstream.bodies()[0]).unwrap();
        for (place, value) in sent {
            assert_eq!(body.pointer(place), Some(&value), "{path} {api} {body}");
        }
        assert!(!body.to_string().contains("cache_control"), "{body}");
    }
}

/// An answer of each dialect.
fn answer(api: &str) -> String {
    match api {
        "anthropic" => MESSAGE.to_owned(),
        "responses" => json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fine"}]},
        ]})
        .to_string(),
        "gemini" => {
            json!({"candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}]})
                .to_string()
        }
        _ => said("fine"),
    }
}

#[tokio::test]
async fn responses_reach_a_model_of_anthropic() {
    let upstream =
        Upstream::start([Reply::json(200, "", MESSAGE), Reply::events(&format!("{BEGUN}{ENDED}"))]);
    let gateway = Gateway::start(&one("anthropic", &upstream));
    let got = gateway.post(RESPONSES, &[("openai-beta", "of-the-client")], responses(false)).await;
    assert_eq!((got.status, got.told(), got.header("x-unfazed-left-out")), (200, ("1", "main", ""), "store"));
    let whole = got.json();
    assert_eq!(
        (&whole["status"], &whole["store"], &whole["model"]),
        (&json!("completed"), &json!(false), &json!("main"))
    );
    assert_eq!(whole["output"][0]["content"][0]["text"], "I look.");
    assert_eq!(
        (&whole["output"][1]["call_id"], &whole["usage"]["total_tokens"]),
        (&json!("toolu_1"), &json!(5))
    );
    let sent: Value = serde_json::from_str(&upstream.bodies()[0]).unwrap();
    assert_eq!((&sent["model"], &sent["system"]), (&json!("real-main"), &json!("Be brief.")));
    assert_eq!(sent["messages"][2]["content"][0]["tool_use_id"], sent["messages"][1]["content"][0]["id"]);
    assert!(!upstream.seen()[0].contains("of-the-client"));

    let got = gateway.post(RESPONSES, &[], responses(true)).await;
    assert_eq!((got.status, got.header("content-type")), (200, "text/event-stream"));
    let last = events(&got).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.completed"), &json!("completed"))
    );
    assert_eq!(last["response"]["output"][1]["arguments"], "{\"a\":1}");
}

#[tokio::test]
async fn geminis_clients_reach_a_model_of_openai() {
    let upstream = Upstream::start([
        Reply::json(200, "", &said("hello")),
        Reply::events(&format!("{CHUNK}{LAST_CHUNKS}")),
        Reply::cut(CHUNK),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"topK": 4, "maxOutputTokens": 9},
    });
    let headers = [("x-goog-api-client", "google-genai-sdk/3")];
    let got = gateway.post("/v1beta/models/main:generateContent", &headers, body.to_string()).await;
    let left_out = "generationConfig.topK";
    assert_eq!(
        (got.status, got.told(), got.header("x-unfazed-left-out")),
        (200, ("1", "main", ""), left_out)
    );
    let candidate = got.json()["candidates"][0].clone();
    assert_eq!(
        (&candidate["finishReason"], &candidate["content"]["parts"]),
        (&json!("STOP"), &json!([{"text": "hello"}]))
    );
    assert_eq!(
        (&got.json()["usageMetadata"]["totalTokenCount"], &got.json()["modelVersion"]),
        (&json!(5), &json!("main"))
    );
    let sent: Value = serde_json::from_str(&upstream.bodies()[0]).unwrap();
    assert_eq!((&sent["model"], &sent["max_tokens"]), (&json!("real-main"), &json!(9)));
    assert!(!upstream.seen()[0].contains("google-genai-sdk"), "{:?}", upstream.seen());

    let stream = "/v1beta/models/main:streamGenerateContent?alt=sse";
    let got = gateway.post(stream, &headers, body.to_string()).await;
    let texts = events(&got)
        .iter()
        .map(|event| event.pointer("/candidates/0/content/parts/0/text").cloned())
        .collect::<Vec<_>>();
    assert_eq!(
        (got.header("content-type"), texts),
        ("text/event-stream", vec![Some(json!("hel")), Some(json!("lo")), None])
    );
    let got = gateway.post(stream, &headers, body.to_string()).await;
    assert_eq!(events(&got).last().unwrap()["error"]["status"], "UNAVAILABLE");
    assert!(!got.body.contains("finishReason"), "{got:?}");
}

#[tokio::test]
async fn what_the_server_of_responses_keeps_is_refused_by_its_place() {
    let (upstream, other) = (Upstream::start([]), Upstream::start([Reply::json(503, "", "{}")]));
    let body =
        |route: &str| json!({"model": route, "input": "hi", "previous_response_id": "resp_1"}).to_string();
    let models = model("main", "openai", &upstream) + &model("spare", "responses", &other);
    let gateway = Gateway::start(&format!("models:\n{models}routes: {{main: main, mixed: [main, spare]}}\n"));
    let got = gateway.post(RESPONSES, &[], body("main")).await;
    let message = "`previous_response_id` cannot be converted for a model that speaks another dialect";
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (400, Some(message)));
    let got = gateway.post(RESPONSES, &[], body("mixed")).await;
    assert_eq!((got.told().1, upstream.seen().len()), ("spare", 0));
}

#[tokio::test]
async fn the_next_model_may_speak_another_dialect() {
    let busy = Reply::json(503, "", r#"{"error":{"message":"busy"}}"#);
    let main = Upstream::start([busy.clone(), busy.clone(), busy]);
    let spare = Upstream::start([Reply::json(200, "", MESSAGE)]);
    let models = model("main", "openai", &main) + &model("spare", "anthropic", &spare);
    let gateway = Gateway::start(&format!("models:\n{models}routes: {{main: [main, spare]}}\n"));
    let got = gateway.post(CHAT, &[], chat(false)).await;
    assert_eq!((got.status, got.told()), (200, ("4", "spare", "")));
    assert_eq!(got.json()["choices"][0]["message"]["content"], "I look.");
    // Who speaks the dialect gets every byte.
    assert_eq!(main.bodies()[0], chat(false).replace("\"main\"", "\"real-main\""));
}

#[tokio::test]
async fn what_only_one_model_understands_goes_to_that_one() {
    let busy = Reply::json(503, "", r#"{"error":{"message":"busy"}}"#);
    let (main, spare) = (Upstream::start([busy.clone(), busy.clone(), busy]), Upstream::start([]));
    let models = model("main", "openai", &main) + &model("spare", "anthropic", &spare);
    let file = format!("models:\n{models}routes: {{main: [spare, main], other: spare}}\n");
    let gateway = Gateway::start(&file);
    let body = |route: &str| {
        let content = json!([{"type": "file", "file": {"file_id": "file-1"}}]);
        json!({"model": route, "messages": [{"role": "user", "content": content}]}).to_string()
    };
    let got = gateway.post(CHAT, &[], body("main")).await;
    assert_eq!((got.status, got.told().1, spare.seen().len()), (503, "main", 0));
    let got = gateway.post(CHAT, &[], body("other")).await;
    let message =
        "`messages[0].content[0].file.file_id` cannot be converted for a model that speaks another dialect";
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (400, Some(message)));
    assert_eq!(got.json()["error"]["code"], "invalid_request");
}

#[tokio::test]
async fn what_one_other_dialect_can_say_goes_to_its_models() {
    let (main, spare) = (Upstream::start([]), Upstream::start([Reply::json(200, "", MESSAGE)]));
    let models = model("main", "openai", &main) + &model("spare", "anthropic", &spare);
    let file = format!("models:\n{models}routes: {{main: [main, spare], other: main}}\n");
    let gateway = Gateway::start(&file);
    let body = |route: &str| {
        let content = json!([{"type": "input_file", "file_url": "https://h/a.pdf"}]);
        json!({"model": route, "input": [{"role": "user", "content": content}]}).to_string()
    };
    let got = gateway.post(RESPONSES, &[], body("main")).await;
    assert_eq!((got.status, got.told().1, main.seen().len()), (200, "spare", 0));
    let sent: Value = serde_json::from_str(&spare.bodies()[0]).unwrap();
    let document = json!({"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}});
    assert_eq!(sent["messages"][0]["content"], json!([document]));
    let got = gateway.post(RESPONSES, &[], body("other")).await;
    let message =
        "`input[0].content[0].file_url` cannot be converted for a model that speaks another dialect";
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (400, Some(message)));
}

#[tokio::test]
async fn an_error_is_one_of_the_clients_dialect() {
    let denied = r#"{"type":"error","error":{"type":"authentication_error","message":"no such key"}}"#;
    let upstream = Upstream::start([Reply::json(401, "", denied)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(CHAT, &[], chat(false)).await;
    assert_eq!((got.status, got.header("x-should-retry")), (401, "false"));
    assert_eq!(got.header("x-unfazed-left-out"), "seed");
    let error = got.json()["error"].clone();
    assert_eq!(error["code"], "invalid_api_key");
    assert_eq!((&error["type"], &error["message"]), (&json!("authentication_error"), &json!("no such key")));
    assert!(got.json().get("type").is_none(), "{got:?}");
}

#[tokio::test]
async fn a_cut_is_never_an_end() {
    let upstream = Upstream::start([Reply::cut(BEGUN)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(CHAT, &[], chat(true)).await;
    assert!(got.body.contains("I look.") && !got.body.contains("[DONE]"), "{got:?}");
    assert!(!got.body.contains("\"finish_reason\":\""), "{got:?}");
    assert_eq!(events(&got).last().unwrap()["error"]["code"], "server_error");

    let upstream = Upstream::start([Reply::cut(CHUNK)]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], messages(true)).await;
    assert!(got.body.contains("hel") && !got.body.contains("message_stop"), "{got:?}");
    assert_eq!(events(&got).last().unwrap()["type"], "error");

    let upstream = Upstream::start([Reply::cut(BEGUN)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(RESPONSES, &[], responses(true)).await;
    let events = events(&got);
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("server_error")));
    assert_eq!(last["sequence_number"], events.len() - 1);
    assert!(!got.body.contains("output_text.done") && !got.body.contains("response.completed"), "{got:?}");
    // Nothing of a call is out before all of it has come, so the attempt is made again.
    let call = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"look\",\"arguments\":\"{\"}}]}}]}\n\n";
    let upstream = Upstream::start([Reply::cut(call), Reply::events(&format!("{CHUNK}{LAST_CHUNKS}"))]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], messages(true)).await;
    assert_eq!(got.told(), ("2", "main", ""));
    assert!(got.body.contains("message_stop") && !got.body.contains("look"), "{got:?}");
}

#[tokio::test]
async fn an_answer_comes_as_the_client_wants_it_however_the_model_sends_it() {
    let upstream = Upstream::start([Reply::json(200, "", MESSAGE)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(CHAT, &[], chat(true)).await;
    assert_eq!(
        (got.header("content-type"), events(&got).last()),
        ("text/event-stream", Some(&json!("[DONE]")))
    );
    let upstream = Upstream::start([Reply::events(&format!("{CHUNK}{LAST_CHUNKS}"))]);
    let got = Gateway::start(&one("openai", &upstream)).post(MESSAGES, &[], messages(false)).await;
    assert_eq!(
        (got.header("content-type"), &got.json()["content"][0]["text"]),
        ("application/json", &json!("hello"))
    );
}

/// The answer `hello` of each dialect: its address for a whole one and for a stream, the API, the request, and both forms of it.
fn hellos() -> [(&'static str, &'static str, &'static str, Value, String, String); 4] {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2}});
    let item = json!({"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "hello", "annotations": []}]});
    let response = json!({"id": "r", "object": "response", "status": "completed", "output": [item]});
    let candidate = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}]});
    let completed = json!({"type": "response.completed", "response": response});
    let user = json!([{"role": "user", "content": "hi"}]);
    let begun = BEGUN.replace("I look.", "hello");
    let ended = r#"data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

data: {"type":"message_stop"}

"#;
    let gemini = "/v1beta/models/main:";
    let whole = format!("{gemini}generateContent").leak();
    let stream = format!("{gemini}streamGenerateContent?alt=sse").leak();
    [
        (
            CHAT,
            CHAT,
            "openai",
            json!({"model": "main", "messages": user}),
            said("hello"),
            format!("{CHUNK}{LAST_CHUNKS}"),
        ),
        (
            MESSAGES,
            MESSAGES,
            "anthropic",
            json!({"model": "main", "max_tokens": 9, "messages": user}),
            message.to_string(),
            format!("{begun}{ended}"),
        ),
        (
            RESPONSES,
            RESPONSES,
            "responses",
            json!({"model": "main", "input": "hi"}),
            response.to_string(),
            format!("event: response.completed\ndata: {completed}\n\n"),
        ),
        (
            whole,
            stream,
            "gemini",
            json!({"contents": [{"parts": [{"text": "hi"}]}]}),
            candidate.to_string(),
            format!("data: {candidate}\n\n"),
        ),
    ]
}

#[tokio::test]
async fn the_same_dialect_in_the_other_form_is_no_empty_answer() {
    for (whole_path, stream_path, api, mut body, whole, stream) in hellos() {
        let upstream = Upstream::start([Reply::events(&stream), Reply::json(200, "", &whole)]);
        let gateway = Gateway::start(&one(api, &upstream));
        let got = gateway.post(whole_path, &[], body.to_string()).await;
        assert_eq!(
            (got.status, got.header("content-type"), got.told()),
            (200, "application/json", ("1", "main", "")),
            "{got:?}"
        );
        assert!(got.json().to_string().contains("\"hello\""), "{got:?}");
        if api != "gemini" {
            body["stream"] = true.into();
        }
        let got = gateway.post(stream_path, &[], body.to_string()).await;
        assert_eq!((got.status, got.header("content-type")), (200, "text/event-stream"), "{got:?}");
        assert!(!events(&got).is_empty() && got.body.contains("\"hello\""), "{got:?}");
    }
}

#[tokio::test]
async fn what_cannot_have_the_other_form_is_a_failure() {
    let upstream = Upstream::start([
        Reply::json(200, "", &said("hello")),
        Reply::events(&format!("{CHUNK}{LAST_CHUNKS}")),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let two =
        json!({"model": "main", "stream": true, "n": 1.5, "messages": [{"role": "user", "content": "hi"}]});
    let got = gateway.post(CHAT, &[], two.to_string()).await;
    assert_eq!(
        (got.status, got.told(), got.header("content-type")),
        (200, ("2", "main", ""), "text/event-stream"),
        "{got:?}"
    );
    assert_eq!(got.body, format!("{CHUNK}{LAST_CHUNKS}"));
}

#[tokio::test]
async fn a_stream_without_an_end_of_its_own_ends_with_an_error() {
    let end = |delta: &str| {
        let last = format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{delta},\"usage\":{{\"output_tokens\":2}}}}"
        );
        format!(
            "{BEGUN}data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n{last}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    // The client of another dialect cannot continue it, and a stream that does not say why it stops may be cut.
    for delta in [r#"{"stop_reason":"pause_turn"}"#, r#"{"stop_reason":null}"#, "{}"] {
        let upstream = Upstream::start([Reply::events(&end(delta))]);
        let gateway = Gateway::start(&one("anthropic", &upstream));
        let got = gateway.post(CHAT, &[], chat(true)).await;
        assert!(got.body.contains("I look.") && !got.body.contains("[DONE]"), "{delta} {got:?}");
        assert!(
            !got.body.contains("\"finish_reason\":\"") && events(&got).last().unwrap()["error"].is_object(),
            "{delta} {got:?}"
        );
        let got = gateway.post(RESPONSES, &[], responses(true)).await;
        assert_eq!(events(&got).last().unwrap()["type"], "error", "{delta} {got:?}");
    }
}

#[tokio::test]
async fn counts_of_tokens_are_not_converted() {
    let upstream = Upstream::start([]);
    let gateway = Gateway::start(&one("openai", &upstream));
    for (path, dialect) in
        [("/v1/messages/count_tokens", "anthropic"), ("/v1/responses/input_tokens", "responses")]
    {
        let got = gateway.post(path, &[], messages(false)).await;
        let message = got.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        let said = "and such requests are not converted; send them to /v1/chat/completions";
        assert_eq!(message, format!("the models of the route `main` do not speak `{dialect}`, {said}"));
        assert_eq!(got.status, 400);
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn who_speaks_the_dialect_keeps_its_own_code() {
    let code = "organization_spend_limit_exceeded";
    let failed = format!(
        "event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{{\"id\":\"r\",\"status\":\"failed\",\"output\":[],\"error\":{{\"code\":\"{code}\",\"message\":\"no more\"}}}}}}\n\n"
    );
    let upstream = Upstream::start([Reply::events(&failed)]);
    let gateway = Gateway::under(
        "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n",
        &one("responses", &upstream),
        &[],
    );
    let own = gateway.post(RESPONSES, &[], responses(true)).await;
    assert_eq!(
        (&own.json()["error"]["code"], &own.json()["error"]["message"]),
        (&json!(code), &json!("no more"))
    );
    // No word of another dialect reaches a client.
    let other = gateway.post(CHAT, &[], chat(true)).await;
    assert_ne!(other.json()["error"]["code"], code, "{other:?}");
}

#[tokio::test]
async fn parts_of_an_answer_that_no_client_gets_are_named() {
    let answer = |parts: &str| {
        let content = format!(r#"{{"role":"model","parts":[{parts}]}}"#);
        Reply::json(200, "", &format!(r#"{{"candidates":[{{"content":{content},"finishReason":"STOP"}}]}}"#))
    };
    let ran = r#"{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}"#;
    let upstream = Upstream::start([
        answer(&format!(r#"{{"text":"see"}},{ran}"#)),
        answer(r#"{"toolResponse":{"id":"a"}}"#),
    ]);
    let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n";
    let gateway = Gateway::under(policy, &one("gemini", &upstream), &[]);
    let got = gateway.chat().await;
    let names = "answer.codeExecutionResult, answer.executableCode";
    assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, names), "{got:?}");
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (502, ("1", "main", "model_error")), "{got:?}");
}
