//! Models over real sockets on loopback: what a call returns, and what it makes of everything that goes wrong.

mod anthropic;
mod azure;
mod continued;
mod converse;
mod encoded;
mod gemini;
mod learned_forms;
mod long;
mod pairs;
mod partial;
mod renewed_keys;
mod responses;
mod shown;
mod timeouts;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use unfazed::engine::{
    CallTimeouts, Failure, FinishReason, LimitUnit, ModelReply, ProviderLimit, ToolChoice, ToolSpec, WaitHint,
};
use unfazed::host::scripted::{
    ErrorReply, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptFault, ScriptOutcome, ScriptedCall,
    ScriptedModel, ScriptedServer,
};
use unfazed::host::{AttachedFiles, ByteTraffic, HttpModel, Model, ModelConfig, ModelRequest, Provider};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, ToolCall, Usage};
use unfazed::time::Nanos;

/// The ways a script can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    InProcess,
    Http,
    Streamed,
    Anthropic,
    AnthropicStreamed,
    Responses,
    ResponsesStreamed,
    Gemini,
    GeminiStreamed,
    Converse,
    ConverseStreamed,
}

const WAYS: [Way; 11] = [
    Way::InProcess,
    Way::Http,
    Way::Streamed,
    Way::Anthropic,
    Way::AnthropicStreamed,
    Way::Responses,
    Way::ResponsesStreamed,
    Way::Gemini,
    Way::GeminiStreamed,
    Way::Converse,
    Way::ConverseStreamed,
];
/// Those on which the answer of a server comes in pieces.
const STREAMED: [Way; 5] = [
    Way::Streamed,
    Way::AnthropicStreamed,
    Way::ResponsesStreamed,
    Way::GeminiStreamed,
    Way::ConverseStreamed,
];
/// Those that speak the chat-completions format.
const CHAT: [Way; 3] = [Way::InProcess, Way::Http, Way::Streamed];
const LONG: Nanos = Nanos::from_secs(20);
const SHORT: Nanos = Nanos::from_millis(50);

fn request(messages: &[Message], timeout: Nanos) -> ModelRequest<'_> {
    ModelRequest {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output: None,
        timeout: Some(timeout.into()),
        timeouts: CallTimeouts::default(),
        streamed: None,
        traffic: ByteTraffic::default(),
        files: AttachedFiles::default(),
        cancel: CancellationToken::new(),
    }
}

fn client(base_url: &str, stream: bool) -> HttpModel {
    of(Provider::OPENAI, base_url, stream)
}

fn anthropic(base_url: &str, stream: bool) -> HttpModel {
    of(Provider::ANTHROPIC, base_url, stream)
}

fn responses(base_url: &str, stream: bool) -> HttpModel {
    of(Provider::RESPONSES, base_url, stream)
}

fn gemini(base_url: &str, stream: bool) -> HttpModel {
    of(Provider::GEMINI, base_url, stream)
}

/// Its key is sent as it is, so that nothing has to be signed. The paths of the API have no version.
fn converse(base_url: &str, stream: bool) -> HttpModel {
    let config = ModelConfig {
        base_url: base_url.trim_end_matches("/v1").into(),
        api_key: Some("key".into()),
        stream,
        ..ModelConfig::new(Provider::BEDROCK, "anthropic.claude-scripted-v1:0")
    };
    HttpModel::new(config).unwrap()
}

fn of(provider: &'static Provider, base_url: &str, stream: bool) -> HttpModel {
    let config = ModelConfig { base_url: base_url.into(), stream, ..ModelConfig::new(provider, "scripted") };
    HttpModel::new(config).unwrap()
}

impl Way {
    /// The model on that server; `None`: no server is needed.
    fn model(self, base_url: &str) -> Option<HttpModel> {
        Some(match self {
            Self::InProcess => return None,
            Self::Http => client(base_url, false),
            Self::Streamed => client(base_url, true),
            Self::Anthropic => anthropic(base_url, false),
            Self::AnthropicStreamed => anthropic(base_url, true),
            Self::Responses => responses(base_url, false),
            Self::ResponsesStreamed => responses(base_url, true),
            Self::Gemini => gemini(base_url, false),
            Self::GeminiStreamed => gemini(base_url, true),
            Self::Converse => converse(base_url, false),
            Self::ConverseStreamed => converse(base_url, true),
        })
    }
}

/// Asks once.
async fn ask(way: Way, script: Script, timeout: Nanos) -> Result<ModelReply, Failure> {
    let messages = [Message::user("go")];
    let request = request(&messages, timeout);
    ask_for(way, script, request).await
}

async fn ask_for(way: Way, script: Script, request: ModelRequest<'_>) -> Result<ModelReply, Failure> {
    let server = ScriptedServer::start(script.clone(), 0).await.unwrap();
    let result = match way.model(&server.base_url()) {
        Some(model) => model.call(request).await,
        None => ScriptedModel::new(script).call(request).await,
    };
    server.shutdown().await;
    result
}

fn script(entry: ScriptEntry) -> Script {
    Script::new("test.yaml", [entry])
}

fn rich_answer() -> ScriptAnswer {
    let call = |name: &str, arguments: &str, id: Option<&str>| ScriptedCall {
        name: name.into(),
        arguments: arguments.into(),
        id: id.map(str::to_owned),
    };
    let Value::Object(extra) = json!({"reasoning_content": "Let me think."}) else { unreachable!() };
    ScriptAnswer {
        text: "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. 🦊".into(),
        calls: vec![
            call("lookup_price", r#"{"item": 42, "note": "naïve \"quotes\""}"#, Some("mine")),
            call("final_report", r#"{"broken": "#, None),
            call("no_arguments", "", None),
        ],
        finish: None,
        usage: Some(Usage { input: 120, output: 20, ..Usage::default() }),
        extra,
        headers: [
            ("x-ratelimit-limit-requests".into(), "50".into()),
            ("x-ratelimit-remaining-requests".into(), "49".into()),
        ]
        .into(),
    }
}

#[tokio::test]
async fn an_answer_is_the_same_whole_streamed_and_in_process() {
    let call = |id: &str, name: &str, arguments: &str| {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
    };
    let answer = rich_answer();
    let expected = ModelReply {
        text: answer.text.clone(),
        calls: vec![
            call("mine", "lookup_price", r#"{"item": 42, "note": "naïve \"quotes\""}"#),
            call("call_1_2", "final_report", r#"{"broken": "#),
            call("call_1_3", "no_arguments", "{}"),
        ],
        finish: FinishReason::ToolCalls,
        usage: answer.usage,
        extra: answer.extra.clone(),
        limits: vec![ProviderLimit {
            unit: LimitUnit::Requests,
            limit: 50,
            remaining: 49,
            per: None,
            reset: None,
        }],
        ..ModelReply::default()
    };
    for way in CHAT {
        let entry = ScriptEntry::new(ScriptOutcome::Answer(answer.clone()));
        assert_eq!(ask(way, script(entry), LONG).await.unwrap(), expected, "{way:?}");
    }
}

#[tokio::test]
async fn every_fault_has_its_class() {
    let table = [
        (ScriptFault::Close, ErrorClass::NetworkError),
        (ScriptFault::Reset, ErrorClass::NetworkError),
        (ScriptFault::Truncate, ErrorClass::NetworkError),
        (ScriptFault::BadJson, ErrorClass::ModelError),
        (ScriptFault::Hang, ErrorClass::Timeout),
        (ScriptFault::Stall, ErrorClass::Timeout),
    ];
    for (fault, class) in table {
        for way in WAYS {
            let timeout = if class == ErrorClass::Timeout { SHORT } else { LONG };
            let answers = [ScriptAnswer::default(), rich_answer()];
            for answer in answers {
                let entry = ScriptEntry::new(ScriptOutcome::Fault(fault, answer));
                let failure = ask(way, script(entry), timeout).await.unwrap_err();
                assert_eq!(failure.class, Some(class), "{fault:?} {way:?} {failure:?}");
                assert!(!failure.message.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn an_error_status_brings_its_facts() {
    let error = ErrorReply {
        kind: Some("tokens".into()),
        ..ErrorReply::new(429, "rate_limit_exceeded", "slow down").header("retry-after", "2")
    };
    let expected = Failure {
        class: None,
        status: Some(429),
        code: Some("rate_limit_exceeded".into()),
        kind: Some("tokens".into()),
        message: "slow down".into(),
        retry_after: WaitHint::Wait(Nanos::from_secs(2)),
        ..Failure::default()
    };
    for way in CHAT {
        let failure =
            ask(way, script(ScriptEntry::new(ScriptOutcome::Error(error.clone()))), LONG).await.unwrap_err();
        assert_eq!(failure, expected, "{way:?}");
    }
}

#[tokio::test]
async fn an_error_inside_a_success_is_no_answer() {
    for way in CHAT {
        let entry = ScriptEntry::error(200, "insufficient_quota", "no money left");
        let failure = ask(way, script(entry), LONG).await.unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("insufficient_quota"), "{way:?}");
        assert_eq!(failure.message, "no money left", "{way:?}");
    }
}

#[tokio::test]
async fn a_script_that_runs_out_says_which() {
    for way in CHAT {
        let failure = ask(way, Script::new("examples/demo.yaml", []), LONG).await.unwrap_err();
        assert_eq!(failure.status, Some(500));
        assert_eq!(failure.code.as_deref(), Some("script_exhausted"));
        let says = "the script examples/demo.yaml has run out: no reply is left for request 1";
        assert_eq!(failure.message, says, "{way:?}");
    }
}

#[tokio::test]
async fn a_reply_is_matched_to_its_request() {
    let messages = [
        Message::user("go"),
        Message::Assistant {
            text: String::new(),
            calls: vec![ToolCall { id: "c1".into(), name: "look".into(), arguments: "{}".into() }],
            extra: Map::new(),
        },
        Message::Tool {
            call: "c1".into(),
            tool: "look".into(),
            text: "it costs 12.50".into(),
            error: false,
            handle: None,
        },
    ];
    let when = RequestMatcher {
        turn: Some(2),
        last_tool: Some("look".into()),
        contains: Some("12.50".into()),
        ..RequestMatcher::default()
    };
    let script = Script::new("s.yaml", [ScriptEntry::text("first").when(when), ScriptEntry::text("other")]);
    let server = ScriptedServer::start(script, 0).await.unwrap();
    let model = client(&server.base_url(), false);
    assert_eq!(model.call(request(&messages[..1], LONG)).await.unwrap().text, "other");
    assert_eq!(model.call(request(&messages, LONG)).await.unwrap().text, "first");
}

#[tokio::test]
async fn a_delayed_reply_comes_after_its_delay() {
    for way in WAYS {
        let slow = script(ScriptEntry::text("late").after(Duration::from_millis(30)));
        let started = std::time::Instant::now();
        assert_eq!(ask(way, slow, LONG).await.unwrap().text, "late");
        assert!(started.elapsed() >= Duration::from_millis(30), "{way:?}");
        let slow = script(ScriptEntry::text("late").after(Duration::from_secs(60)));
        let failure = ask(way, slow, SHORT).await.unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::Timeout), "{way:?}");
        assert_eq!(failure.message, "no complete answer within 50ms");
    }
}

#[tokio::test]
async fn the_request_is_what_the_format_asks_for() {
    let server = ScriptedServer::start(script(ScriptEntry::text("ok").times(2)), 0).await.unwrap();
    let tool = ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let messages = [Message::System { text: "Be brief.".into() }, Message::user("go")];
    let with_tool = || ModelRequest {
        tools: vec![&tool],
        tool_choice: ToolChoice::Tool("look".into()),
        ..request(&messages, LONG)
    };
    for stream in [false, true] {
        client(&server.base_url(), stream).call(with_tool()).await.unwrap();
    }
    let requests: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    insta::assert_json_snapshot!(requests);
}

#[tokio::test]
async fn the_key_is_sent_and_never_reported() {
    use secrecy::ExposeSecret;
    const KEY: &str = "sk-very-secret-0123456789";
    let echo = format!("Incorrect API key provided: {KEY}. It is {KEY}!");
    let error = ErrorReply {
        kind: Some(format!("bad {KEY}")),
        ..ErrorReply::new(401, KEY, &*echo).header("retry-after", KEY)
    };
    let text = ErrorReply { body: Some(echo.clone()), ..ErrorReply::new(403, "", "") };
    let entries = [
        ScriptEntry::new(ScriptOutcome::Error(error)),
        ScriptEntry::new(ScriptOutcome::Error(text)),
        ScriptEntry::error(200, KEY, &*echo),
    ];
    let server = ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap();
    let model = HttpModel::new(ModelConfig {
        base_url: format!("{}?key={KEY}", server.base_url()),
        api_key: Some(format!(" {KEY}\n").into()),
        ..ModelConfig::new(Provider::OPENAI, "m")
    })
    .unwrap();
    let messages = [Message::user("go")];
    for _ in 0..3 {
        let failure = model.call(request(&messages, LONG)).await.unwrap_err();
        assert!(failure.message.contains("[redacted]"), "{failure:?}");
        assert!(!format!("{failure:?}").contains("very-secret"), "{failure:?}");
    }
    assert!(!format!("{model:?}").contains("very-secret"));
    let seen = server.requests();
    assert_eq!(seen[0].key.as_ref().unwrap().expose_secret(), KEY);
    assert!(!format!("{seen:?}").contains("very-secret"));
    server.shutdown().await;
    let gone = model.call(request(&messages, LONG)).await.unwrap_err();
    assert!(!format!("{gone:?}").contains("very-secret"), "{gone:?}");
}

#[tokio::test]
async fn cancelling_ends_a_hanging_call_and_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = client(&format!("http://{}", listener.local_addr().unwrap()), false);
    let messages = [Message::user("go")];
    let request = request(&messages, LONG);
    let cancel = request.cancel.clone();
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        cancel.cancel();
        // The other end is closed: the rest of the request, if any, and then nothing.
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    let (result, ()) = tokio::join!(model.call(request), server);
    assert_eq!(result.unwrap_err(), Failure::of(ErrorClass::Cancelled, "the model call was cancelled"));
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_starts_sends_nothing() {
    let messages = [Message::user("go")];
    for way in WAYS {
        let server = ScriptedServer::start(script(ScriptEntry::text("x")), 0).await.unwrap();
        let request = request(&messages, LONG);
        request.cancel.cancel();
        let result = match way.model(&server.base_url()) {
            Some(model) => model.call(request).await,
            None => ScriptedModel::new(script(ScriptEntry::text("x"))).call(request).await,
        };
        assert_eq!(result.unwrap_err().class, Some(ErrorClass::Cancelled));
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn nobody_listening_is_a_network_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let messages = [Message::user("go")];
    let failure =
        client(&format!("http://{address}/v1"), false).call(request(&messages, LONG)).await.unwrap_err();
    assert_eq!(failure.class, Some(ErrorClass::NetworkError));
    assert!(failure.message.starts_with(&format!("cannot connect to {address}: ")), "{}", failure.message);
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let first = ScriptedServer::start(script(ScriptEntry::text("x")), 0).await.unwrap();
    let port = first.address().port();
    let error = ScriptedServer::start(script(ScriptEntry::text("x")), port).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "port {port} on 127.0.0.1 is in use; stop what uses it, or set the port to 0 for any free one"
        )
    );
}

#[tokio::test]
async fn stopping_the_server_breaks_off_what_hangs() {
    for fault in [ScriptFault::Hang, ScriptFault::Stall] {
        let server = ScriptedServer::start(script(ScriptEntry::fault(fault)), 0).await.unwrap();
        let model = client(&server.base_url(), true);
        let messages = [Message::user("go")];
        let stopping = async {
            while server.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            server.shutdown().await;
        };
        let (result, ()) = tokio::join!(model.call(request(&messages, LONG)), stopping);
        assert_eq!(result.unwrap_err().class, Some(ErrorClass::NetworkError), "{fault:?}");
    }
}

#[tokio::test]
async fn small_answers_do_not_stall() {
    let server = ScriptedServer::start(script(ScriptEntry::text("x").times(40)), 0).await.unwrap();
    let messages = [Message::user("go")];
    for stream in [false, true] {
        let model = client(&server.base_url(), stream);
        let started = std::time::Instant::now();
        for _ in 0..20 {
            model.call(request(&messages, LONG)).await.unwrap();
        }
        // A delayed acknowledgement costs 40 ms a request.
        assert!(started.elapsed() < Duration::from_millis(700), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_streamed_answer_leaves_its_connection_to_the_next_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = client(&format!("http://{}", listener.local_addr().unwrap()), true);
    let messages = [Message::user("go")];
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        for _ in 0..2 {
            assert!(socket.read(&mut buffer).await.unwrap() > 0);
            let body = format!("data: {DELTA}\n\ndata: {END}\n\ndata: [DONE]\n\n");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = format!("{head}{:x}\r\n{body}\r\n", body.len());
            socket.write_all(chunk.as_bytes()).await.unwrap();
            socket.write_all(b"0\r\n\r\n").await.unwrap();
        }
    };
    let calls = async {
        for _ in 0..2 {
            assert_eq!(model.call(request(&messages, LONG)).await.unwrap().text, "hi");
        }
    };
    tokio::join!(calls, server);
}

/// A server that reads one request, sends these bytes and closes.
async fn raw(response: Vec<u8>) -> Result<ModelReply, Failure> {
    raw_from(ModelConfig::new(Provider::OPENAI, "m"), response).await
}

/// The same, for a server that is known to be like that.
async fn raw_from(config: ModelConfig, response: Vec<u8>) -> Result<ModelReply, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let model = HttpModel::new(ModelConfig { base_url, stream: true, ..config }).unwrap();
    let messages = [Message::user("go")];
    let server = async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        // A client that has had enough closes early.
        let _ = socket.write_all(&response).await;
        let _ = socket.shutdown().await;
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    tokio::join!(model.call(request(&messages, LONG)), server).0
}

fn ok(kind: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n{body}").into_bytes()
}

const DELTA: &str = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
const END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn streams_of_real_servers_are_understood() {
    let bodies = [
        ("text/event-stream", format!("data: {DELTA}\n\ndata: {END}\n\ndata: [DONE]\n\n")),
        ("text/event-stream; charset=utf-8", format!(": ping\r\n\r\ndata:{DELTA}\r\n\r\ndata:{END}\r\n\r\n")),
        ("text/event-stream", format!("data: {DELTA}\n\ndata: {END}\n\ndata: [DONE]")),
        ("text/event-stream", format!("data: {DELTA}\n\ndata: {END}")),
        ("text/plain", format!("data: {DELTA}\n\ndata: {END}\n\n")),
        (
            "application/json",
            r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#.to_owned(),
        ),
    ];
    for (kind, body) in bodies {
        assert_eq!(raw(ok(kind, &body)).await.unwrap().text, "hi", "{body}");
    }
}

#[tokio::test]
async fn answers_that_are_none_are_failures() {
    let large = format!("data: {}", "x".repeat(9 * 1024 * 1024));
    let endless = "x".repeat(9 * 1024 * 1024);
    let table = [
        (
            ok("text/event-stream", ""),
            ErrorClass::NetworkError,
            "the stream of the answer ends before it has begun",
        ),
        (
            ok("text/event-stream", &format!("data: {DELTA}\n\ndata: {{\"choi")),
            ErrorClass::NetworkError,
            "the stream of the answer ends in the middle",
        ),
        (
            ok("text/event-stream", &large),
            ErrorClass::ModelError,
            "one event of the stream is larger than 8192 KiB",
        ),
        (ok("application/json", &endless), ErrorClass::ModelError, "the answer is larger than 8 MiB"),
        (
            ok("text/event-stream", &format!("data: {DELTA}\n\nevent: error\ndata: overloaded\n\n")),
            ErrorClass::Overloaded,
            "overloaded",
        ),
        (
            ok("text/html", "<html><title>Log in</title></html>"),
            ErrorClass::ModelError,
            "the answer is not JSON: Log in",
        ),
        (ok("application/json", ""), ErrorClass::ModelError, "the answer is empty"),
        (b"".to_vec(), ErrorClass::NetworkError, "broke before an answer came"),
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), ErrorClass::NetworkError, "broke before an answer came"),
    ];
    for (response, class, says) in table {
        let failure = raw(response).await.unwrap_err();
        assert_eq!(failure.classified(&Policy::builtin()).class, class, "{failure:?}");
        assert!(failure.message.contains(says), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let response =
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/v1\r\ncontent-length: 0\r\n\r\n";
    let failure = raw(response.to_vec()).await.unwrap_err();
    let class = failure.classified(&Policy::builtin()).class;
    assert_eq!((failure.status, class), (Some(307), ErrorClass::NotFound));
    assert!(failure.message.contains("redirects are not followed"), "{}", failure.message);
}
