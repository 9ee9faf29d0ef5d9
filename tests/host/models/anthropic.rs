//! Anthropic's messages over real sockets: what is sent, what comes back, and what goes back after that.

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use unfazed::engine::{Failure, FinishReason, ModelReply, ToolChoice, ToolSpec};
use unfazed::host::scripted::{ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedServer};
use unfazed::host::{HttpModel, Model, ModelConfig, ModelRequest, Provider};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, ToolCall, Usage};

use super::learned_forms::asked_of;
use super::pairs::thoughtful;
use super::{LONG, Way, anthropic, ask, request, script};

const BOTH: [Way; 2] = [Way::Anthropic, Way::AnthropicStreamed];

fn assistant(reply: &ModelReply) -> Message {
    let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() }
}

#[tokio::test]
async fn an_answer_is_the_same_whole_and_streamed() {
    let call = |id: &str, name: &str, arguments: &str| {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
    };
    let kept = json!([
        {"type": "thinking", "thinking": "First the price, then the rest.", "signature": "c2NyaXB0ZWQ="},
        {"type": "text", "chars": 14},
        {"type": "tool_use", "id": "call_1"},
        {"type": "tool_use", "id": "call_2"},
    ]);
    let expected = ModelReply {
        text: "Let me look. 🦊".into(),
        calls: vec![call("call_1", "look", r#"{"item":42}"#), call("call_2", "rest", "{}")],
        finish: FinishReason::ToolCalls,
        usage: Some(Usage { input: 500, output: 20, cache_read: 300, cache_write: 100, reasoning: 0 }),
        ..ModelReply::default()
    };
    for way in BOTH {
        let answer = ScriptAnswer { usage: expected.usage, ..thoughtful() };
        let entry = ScriptEntry::new(ScriptOutcome::Answer(answer));
        let mut reply = ask(way, script(entry), LONG).await.unwrap();
        let came = reply.extra.remove("thinking_anthropic").unwrap();
        assert_eq!((&reply, &came["items"]), (&expected, &kept), "{way:?}");
        // Who signed it: the model and its server.
        assert!(came["issuer"].as_str().unwrap().starts_with("127.0.0.1:"), "{came}");
    }
}

#[tokio::test]
async fn a_turn_that_the_server_pauses_is_continued() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let answer = |content: Value, stop: &str| {
        let usage = json!({"input_tokens": 5, "output_tokens": 2});
        json!({"type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage})
    };
    let paused: fn(&Value) -> Option<(u16, Value)> = |body| {
        let last = body["messages"].as_array().and_then(|messages| messages.last()).unwrap();
        let content = json!([
            {"type": "text", "text": "Let me see. "},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        ]);
        let usage = json!({"input_tokens": 5, "output_tokens": 2});
        let paused =
            json!({"type": "message", "content": content, "stop_reason": "pause_turn", "usage": usage});
        (last["role"] == "user").then_some((200, paused))
    };
    let config = ModelConfig::new(Provider::ANTHROPIC, "m");
    let (results, seen) = asked_of(paused, answer(json!([text("Found.")]), "end_turn"), config, 1).await;
    let reply = results[0].as_ref().unwrap();
    assert_eq!((reply.text.as_str(), &reply.finish), ("Let me see. Found.", &FinishReason::Stop));
    assert_eq!(reply.usage.unwrap(), Usage { input: 10, output: 4, ..Usage::default() });
    let back = seen[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(*back, json!({"role": "assistant", "content": [text("Let me see. "), search]}));
}

#[tokio::test]
async fn thinking_goes_back_first_and_untouched_with_all_results_in_one_message() {
    let server = ScriptedServer::start(
        Script::new(
            "s.yaml",
            [ScriptEntry::new(ScriptOutcome::Answer(thoughtful())), ScriptEntry::text("It costs 12.50.")],
        ),
        0,
    )
    .await
    .unwrap();
    let model = anthropic(&server.base_url(), true);
    let mut messages =
        vec![Message::System { text: "Be brief.".into() }, Message::user("What does it cost?")];
    let reply = model.call(request(&messages, LONG)).await.unwrap();
    messages.push(assistant(&reply));
    for (call, text, error) in [("call_1", "12.50", false), ("call_2", "no bed", true)] {
        messages.push(Message::Tool {
            call: call.into(),
            tool: "t".into(),
            text: text.into(),
            error,
            handle: None,
        });
    }
    messages.push(Message::User { text: "Answer now.".into(), guidance: Some("final_turn".into()) });
    assert_eq!(model.call(request(&messages, LONG)).await.unwrap().text, "It costs 12.50.");
    insta::assert_json_snapshot!(server.requests()[1].body);
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_provider() {
    let server = ScriptedServer::start(
        Script::new(
            "s.yaml",
            [ScriptEntry::new(ScriptOutcome::Answer(thoughtful())), ScriptEntry::text("Done.")],
        ),
        0,
    )
    .await
    .unwrap();
    let messages = [Message::user("go")];
    let reply = anthropic(&server.base_url(), false).call(request(&messages, LONG)).await.unwrap();
    let result = |call: &str| Message::Tool {
        call: call.into(),
        tool: "t".into(),
        text: "x".into(),
        error: false,
        handle: None,
    };
    let messages = [Message::user("go"), assistant(&reply), result("call_1"), result("call_2")];
    assert_eq!(
        super::client(&server.base_url(), false).call(request(&messages, LONG)).await.unwrap().text,
        "Done."
    );
    assert!(!server.requests()[1].body.to_string().contains("thinking_anthropic"));
}

#[tokio::test]
async fn the_request_is_what_the_api_asks_for() {
    let server = ScriptedServer::start(script(ScriptEntry::text("ok").times(2)), 0).await.unwrap();
    let tool = ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object", "properties": {"item": {"type": "integer"}}}),
        effect: None,
    };
    let messages = [Message::System { text: "Be brief.".into() }, Message::user("go")];
    let with_tool = || ModelRequest {
        tools: vec![&tool],
        tool_choice: ToolChoice::Tool("look".into()),
        ..request(&messages, LONG)
    };
    for stream in [false, true] {
        anthropic(&server.base_url(), stream).call(with_tool()).await.unwrap();
    }
    let requests: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    insta::assert_json_snapshot!(requests);
}

#[tokio::test]
async fn errors_of_the_api_have_their_class_by_status_and_in_the_stream() {
    let error = |status: u16, kind: &str, message: &str| {
        ScriptEntry::new(ScriptOutcome::Error(ErrorReply {
            kind: Some(kind.into()),
            code: None,
            ..ErrorReply::new(status, "", message)
        }))
    };
    let table = [
        (529, "overloaded_error", "Overloaded", ErrorClass::Overloaded),
        (429, "rate_limit_error", "slow down", ErrorClass::RateLimit),
        (401, "authentication_error", "invalid x-api-key", ErrorClass::AuthError),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 209303 tokens > 200000 maximum",
            ErrorClass::ContextOverflow,
        ),
        (500, "api_error", "Internal server error", ErrorClass::ModelError),
    ];
    let policy = Policy::builtin();
    for (status, kind, message, class) in table {
        for way in BOTH {
            // In a stream the status is that of a success; the body alone tells.
            for status in [status, 200] {
                let failure = ask(way, script(error(status, kind, message)), LONG).await.unwrap_err();
                assert_eq!(failure.kind.as_deref(), Some(kind), "{way:?} {failure:?}");
                assert_eq!(failure.classified(&policy).class, class, "{way:?} {status} {failure:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_key_is_sent_and_never_reported() {
    const KEY: &str = "sk-ant-very-secret-0123456789";
    let error = ErrorReply {
        kind: Some("authentication_error".into()),
        ..ErrorReply::new(401, KEY, format!("{KEY} is not known"))
    };
    let entries = [ScriptEntry::new(ScriptOutcome::Error(error)), ScriptEntry::error(200, KEY, KEY)];
    let server = ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap();
    let model = HttpModel::new(ModelConfig {
        base_url: server.base_url(),
        api_key: Some(format!("{KEY}\n").into()),
        ..ModelConfig::new(Provider::ANTHROPIC, "m")
    })
    .unwrap();
    let messages = [Message::user("go")];
    for _ in 0..2 {
        let failure = model.call(request(&messages, LONG)).await.unwrap_err();
        assert!(failure.message.contains("[redacted]"), "{failure:?}");
        assert!(!format!("{failure:?} {model:?}").contains("very-secret"), "{failure:?}");
    }
    let seen = server.requests();
    assert_eq!(seen[0].key.as_ref().unwrap().expose_secret(), KEY);
    assert!(!format!("{seen:?}").contains("very-secret"));
}

/// A server that reads one request, sends these bytes and closes.
async fn raw(response: Vec<u8>) -> (Result<ModelReply, Failure>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = anthropic(&format!("http://{}", listener.local_addr().unwrap()), true);
    let messages = [Message::user("go")];
    let server = async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 8192];
        let mut read = socket.read(&mut buffer).await.unwrap();
        while !buffer[..read].ends_with(b"}") {
            read += socket.read(&mut buffer[read..]).await.unwrap();
        }
        let _ = socket.write_all(&response).await;
        let _ = socket.shutdown().await;
        let request = String::from_utf8_lossy(&buffer[..read]).into_owned();
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        request
    };
    tokio::join!(model.call(request(&messages, LONG)), server)
}

fn stream(events: &[Value]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\r\ndata: {event}\r\n\r\n")
    };
    format!("{head}{}", events.iter().map(event).collect::<String>()).into_bytes()
}

fn begun() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}),
    ]
}

#[tokio::test]
async fn the_headers_name_the_version_and_the_path_is_right() {
    let mut events = begun();
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    );
    let (reply, request) = raw(stream(&events)).await;
    assert_eq!(reply.unwrap().text, "hello");
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nanthropic-version: 2023-06-01\r\n"), "{request}");
    assert!(!request.contains("x-api-key"), "{request}");
}

#[tokio::test]
async fn a_stream_that_does_not_end_as_it_should_is_a_failure() {
    let with = |more: Value| begun().into_iter().chain([more]).collect::<Vec<_>>();
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let ended = |reason: &str| {
        let mut events = with(json!({"type": "content_block_stop", "index": 0}));
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
        events
    };
    let stopped = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    let policy = Policy::builtin();
    for (events, class, received, says) in [
        (begun(), ErrorClass::NetworkError, 5, "the stream of the answer ends in the middle"),
        (with(stopped), ErrorClass::NetworkError, 5, "the stream of the answer ends in the middle"),
        (
            ended("error"),
            ErrorClass::ModelError,
            5,
            "the model stopped with `error` before the answer was whole",
        ),
        (with(overloaded.clone()), ErrorClass::Overloaded, 5, "Overloaded"),
        (vec![overloaded], ErrorClass::Overloaded, 0, "Overloaded"),
        (vec![], ErrorClass::NetworkError, 0, "the stream of the answer ends before it has begun"),
    ] {
        let failure = raw(stream(&events)).await.0.unwrap_err();
        let found = (failure.classified(&policy).class, failure.received, failure.message.as_str());
        assert_eq!(found, (class, received, says), "{events:?}");
    }
}
