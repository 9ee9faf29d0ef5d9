//! Providers, and proxies before them, that answer as none should: each answer ends as a whole one, as one error of the right class,
//! or as a cut that the client sees.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use async_compression::tokio::bufread::GzipEncoder;
use tokio::io::AsyncReadExt;

use super::{Answer, CHAT, Gateway, MESSAGES, Reply, Upstream, model, said};

/// The routes that begin with `slow` have little time.
const POLICY: &str = "version: 1
models:
  '*':
    retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms, jitter: none}}
  'slow*':
    retry: {max_attempts: 2, attempt_timeout: 600ms}
    timeouts: {first_token: 300ms, idle: 300ms}
";
const EVENTS: &str = "content-type: text/event-stream\r\n";
const JSON: &str = "content-type: application/json\r\n";
const DELTA: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is whole.
    Whole,
    /// It is given up after so many attempts: the status and the class.
    Failed(u16, &'static str, usize),
    /// A part of it is out, and then an error of that class.
    Cut(&'static str),
}

use Fate::{Cut, Failed, Whole};

/// An answer of a provider.
struct Case {
    name: &'static str,
    stream: bool,
    reply: Reply,
    fate: Fate,
}

fn case(name: &'static str, stream: bool, reply: Reply, fate: Fate) -> Case {
    Case { name, stream, reply, fate }
}

/// An answer with that status, these headers more, and that body, up to the end of the connection.
fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
    Reply::Raw([head.as_bytes(), body.as_ref()].concat())
}

fn ok(headers: &str, body: impl AsRef<[u8]>) -> Reply {
    answer("200 OK", headers, body)
}

/// The answer of which the head alone comes, and then nothing.
fn silent(headers: &str) -> Reply {
    Reply::Stays(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes())
}

/// Writes that until nobody reads it any more.
fn repeat(stream: &mut TcpStream, piece: &[u8]) {
    for _ in 0..1 << 22 {
        if stream.write_all(piece).is_err() {
            return;
        }
    }
}

fn headers_without_end(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
    repeat(stream, b"x-more: of them\r\n");
}

/// Many, and then nothing.
fn interim_alone(stream: &mut TcpStream) {
    let _ = stream.write_all(&b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10_000));
    while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
}

/// 100 MB, of which the status says enough.
fn large_error(stream: &mut TcpStream) {
    let head = "HTTP/1.1 500 X\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(br#"{"error":{"message":"it is long: "#);
    repeat(stream, &b"0123456789abcdef".repeat(1 << 12));
}

async fn gzipped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzipEncoder::new(text.as_bytes()).read_to_end(&mut bytes).await.unwrap();
    bytes
}

async fn codings() -> Vec<Case> {
    let (whole, stream) = (said("hello"), [DELTA, FINISH, DONE].concat());
    let (zipped, streamed) = (gzipped(&whole).await, gzipped(&stream).await);
    let coded = |kind: &str| format!("{kind}content-encoding: gzip\r\n");
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 9].to_vec();
    vec![
        case("gzip", false, ok(&coded(JSON), &zipped), Whole),
        case("a stream in gzip", true, ok(&coded(EVENTS), &streamed), Whole),
        case("gzip that does not say so", false, ok(JSON, &zipped), Whole),
        case("a stream in gzip that does not say so", true, ok(EVENTS, &streamed), Whole),
        case("what is called gzip and is not", false, ok(&coded(JSON), &whole), Whole),
        case("a stream that is called gzip and is not", true, ok(&coded(EVENTS), &stream), Whole),
        case("gzip that is cut", false, ok(&coded(JSON), cut(&zipped)), Failed(502, "network_error", 3)),
        case(
            "another coding",
            false,
            ok(&format!("{JSON}content-encoding: snappy\r\n"), &whole),
            Failed(502, "model_error", 3),
        ),
    ]
}

fn heads() -> Vec<Case> {
    let (whole, stream) = (said("hello"), [DELTA, FINISH, DONE].concat());
    let sized = |kind: &str, body: &str, more: isize| {
        let length = body.len().checked_add_signed(more).unwrap();
        ok(&format!("{kind}content-length: {length}\r\n"), body)
    };
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let after_interim = |reply: Reply| {
        let Reply::Raw(bytes) = reply else { unreachable!() };
        Reply::Raw([interim.as_bytes(), &bytes].concat())
    };
    let upgrade =
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n".to_vec();
    vec![
        case("slow: a head and then nothing", true, silent(EVENTS), Failed(504, "timeout", 2)),
        case("slow: the same, not streamed", false, silent(JSON), Failed(504, "timeout", 2)),
        case("slow: nothing at all", false, Reply::Stays(Vec::new()), Failed(504, "timeout", 2)),
        case(
            "headers without end",
            false,
            Reply::Plays(headers_without_end),
            Failed(502, "network_error", 3),
        ),
        case("interim answers", false, after_interim(ok(JSON, &whole)), Whole),
        case("interim answers before a stream", true, after_interim(ok(EVENTS, &stream)), Whole),
        case(
            "slow: interim answers and no other",
            false,
            Reply::Plays(interim_alone),
            Failed(504, "timeout", 2),
        ),
        case("another protocol", false, Reply::Raw(upgrade), Failed(502, "model_error", 3)),
        case("no content", false, answer("204 No Content", "", ""), Failed(502, "model_error", 3)),
        case(
            "no content, with some",
            false,
            answer("204 No Content", JSON, &whole),
            Failed(502, "model_error", 3),
        ),
        case("a reset", true, answer("205 Reset Content", "", ""), Failed(502, "model_error", 3)),
        case("nothing new", false, answer("304 Not Modified", "", ""), Failed(502, "not_found", 1)),
        case(
            "nothing new, with some",
            false,
            answer("304 Not Modified", JSON, &whole),
            Failed(502, "not_found", 1),
        ),
        case("a length that is too short", false, sized(JSON, &whole, -5), Failed(502, "network_error", 3)),
        case("a length that is too long", false, sized(JSON, &whole, 5), Failed(502, "network_error", 3)),
        case(
            "a stream with a length that is too short",
            true,
            sized(EVENTS, &stream, -40),
            Cut("network_error"),
        ),
        case("a stream with a length that is too long", true, sized(EVENTS, &stream, 5), Whole),
        case(
            "two lengths",
            false,
            ok(&format!("{JSON}content-length: 3\r\ncontent-length: 4\r\n"), &whole),
            Failed(502, "network_error", 3),
        ),
        case("a stream without a type", true, ok("", &stream), Whole),
        case("a stream that is called JSON", true, ok(JSON, &stream), Whole),
        case("a comment and then a stream without a type", true, ok("", format!(": hi\n\n{stream}")), Whole),
        case("a mark and then a stream without a type", true, ok("", format!("\u{feff}{stream}")), Whole),
        case("a stream that is called a page", true, ok("content-type: text/html\r\n", &stream), Whole),
        case("JSON that is called a page", false, ok("content-type: text/html\r\n", &whole), Whole),
        case(
            "a page",
            false,
            ok("content-type: text/html\r\n", "<html>Log in</html>"),
            Failed(502, "model_error", 3),
        ),
        case(
            "a page in the place of a stream",
            true,
            ok("content-type: text/html\r\n", "<html>Log in</html>"),
            Failed(502, "model_error", 3),
        ),
        case("an error of 100 MB", false, Reply::Plays(large_error), Failed(500, "model_error", 3)),
    ]
}

fn bodies() -> Vec<Case> {
    let whole = said("hello");
    let stream = [DELTA, FINISH, DONE].concat();
    let twice = whole.replacen('{', r#"{"id":"c0","object":"other","#, 1);
    let deep = |depth: usize| {
        let lists = "[".repeat(depth) + &"]".repeat(depth);
        whole.replacen('{', &format!("{{\"deep\":{lists},"), 1)
    };
    let bytes = |text: &str| text.replace("hello", "hello\u{1}").into_bytes();
    let invalid =
        |text: &str| bytes(text).into_iter().map(|b| if b == 1 { 0xff } else { b }).collect::<Vec<_>>();
    let large = format!("data: {{\"x\":\"{}\"}}\n\n", "x".repeat(33 << 20));
    let busy = r#"{"error":{"message":"it is overloaded","type":"overloaded_error","code":"overloaded"}}"#;
    let inside = format!("data: {busy}\n\n");
    let with = |end: &str| stream.replace('\n', end);
    vec![
        case("CRLF", true, ok(EVENTS, with("\r\n")), Whole),
        case("CR", true, ok(EVENTS, with("\r")), Whole),
        case("a mark", true, ok(EVENTS, format!("\u{feff}{stream}")), Whole),
        case("a mark before CRLF", true, ok(EVENTS, format!("\u{feff}{}", with("\r\n"))), Whole),
        case("a mark before JSON", false, ok(JSON, format!("\u{feff}{whole}")), Whole),
        case("fields twice", false, ok(JSON, twice), Whole),
        case("hundreds of lists", false, ok(JSON, deep(500)), Whole),
        case("a hundred thousand lists", false, ok(JSON, deep(100_000)), Whole),
        case("bytes that are no text", false, ok(JSON, invalid(&whole)), Failed(502, "model_error", 3)),
        case("a stream with bytes that are no text", true, ok(EVENTS, invalid(&stream)), Whole),
        case(
            "an event that is too large",
            true,
            ok(EVENTS, format!("{large}{stream}")),
            Failed(502, "model_error", 3),
        ),
        case(
            "one behind the first text",
            true,
            ok(EVENTS, [DELTA, &large, FINISH, DONE].concat()),
            Cut("model_error"),
        ),
        case("an error with status 200", false, ok(JSON, busy), Failed(503, "overloaded", 3)),
        case("the same as an event", true, ok(EVENTS, &inside), Failed(503, "overloaded", 3)),
        case("the same in the place of an event", true, ok(EVENTS, busy), Failed(503, "overloaded", 3)),
        case("the same, not announced", true, ok(JSON, busy), Failed(503, "overloaded", 3)),
        case(
            "the same behind the first text",
            true,
            ok(EVENTS, [DELTA, &inside].concat()),
            Cut("overloaded"),
        ),
        case("no end", true, ok(EVENTS, DELTA), Cut("network_error")),
        case("half an event", true, ok(EVENTS, [DELTA, "data: {\"cho"].concat()), Cut("network_error")),
        case("an end without its mark", true, ok(EVENTS, [DELTA, FINISH].concat()), Whole),
        case("a mark without an end", true, ok(EVENTS, [DELTA, DONE].concat()), Cut("network_error")),
        case("two ends", true, ok(EVENTS, [DELTA, FINISH, FINISH, DONE].concat()), Whole),
        case("two marks", true, ok(EVENTS, [DELTA, FINISH, DONE, DONE].concat()), Whole),
        case("a stream of nothing", true, ok(EVENTS, ""), Failed(502, "network_error", 3)),
        case("a body of nothing", false, ok(JSON, ""), Failed(502, "model_error", 3)),
        case("an answer called a stream", true, ok(EVENTS, &whole), Whole),
        case("an answer in the place of a stream", true, ok(JSON, &whole), Whole),
    ]
}

/// What has become of it; the rest is for people.
fn fate(got: &Answer, case: &Case, client: &str, attempts: usize) -> Result<Fate, String> {
    let class = got.header("x-unfazed-class");
    let (is_chat, stream) = (client == CHAT, case.stream);
    let expected = if let Cut(class) = case.fate { class } else { "" };
    if got.header("x-unfazed-attempts") != attempts.to_string() {
        return Err(format!("{attempts} attempts"));
    }
    if !class.is_empty() {
        let class = CLASSES.iter().find(|known| **known == class).ok_or("its class")?;
        let error =
            serde_json::from_str::<serde_json::Value>(&got.body).map_err(|error| error.to_string())?;
        let says = error["error"]["message"].as_str().is_some_and(|message| !message.is_empty());
        let is_one = says && got.header("x-should-retry") == "false" && got.header("location").is_empty();
        return is_one.then_some(Failed(got.status, class, attempts)).ok_or_else(|| "no error".to_owned());
    }
    if got.status != 200 || !got.body.contains("hello") {
        return Err("no answer".to_owned());
    }
    let data = || got.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let errors: Vec<serde_json::Value> = data()
        .filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok())
        .filter(|event| !event["error"].is_null())
        .collect();
    match &errors[..] {
        [] => {}
        [error] => {
            let is_last = data().next_back().is_some_and(|last| last.contains("\"error\""));
            let has_ended = ["[DONE]", "message_stop", "finish_reason\":\"", "stop_reason\":\""];
            if !stream || !is_last || has_ended.iter().any(|end| got.body.contains(end)) {
                return Err("no cut".to_owned());
            }
            let kind = if is_chat { &error["error"]["code"] } else { &error["error"]["type"] };
            // Both dialects have few words.
            let is_of = |class: &str| match class {
                // Its provider's own word.
                "overloaded" if is_chat => kind == "overloaded",
                "overloaded" => kind == "overloaded_error",
                _ => kind == if is_chat { "server_error" } else { "api_error" },
            };
            let class = [expected, "another"].into_iter().find(|class| is_of(class));
            return class.map(Cut).ok_or_else(|| format!("cut with {kind}"));
        }
        _ => return Err("many errors".to_owned()),
    }
    let is_streamed = got.body.contains("data:");
    let is_whole = match (is_chat, is_streamed) {
        (true, true) => got.body.contains("\"finish_reason\":\"stop\""),
        (true, false) => got.body.contains("\"choices\""),
        (false, true) => got.body.matches("\"type\":\"message_stop\"").count() == 1,
        (false, false) => got.body.contains("\"stop_reason\":\"end_turn\""),
    };
    is_whole.then_some(Whole).ok_or_else(|| "not whole".to_owned())
}

const CLASSES: [&str; 5] = ["network_error", "model_error", "timeout", "overloaded", "not_found"];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_provider_sends_it_has_one_fate() {
    let cases = [codings().await, heads(), bodies()].into_iter().flatten().collect::<Vec<_>>();
    let ups: Vec<Upstream> = cases.iter().map(|case| Upstream::start([case.reply.clone()])).collect();
    let names: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(place, case)| format!("{}{place}", if case.name.starts_with("slow") { "slow" } else { "c" }))
        .collect();
    let models: String = names.iter().zip(&ups).map(|(name, up)| model(name, "openai", up)).collect();
    let routes: Vec<String> = names.iter().map(|name| format!("{name}: {name}")).collect();
    let gateway =
        Gateway::under(POLICY, &format!("models:\n{models}routes: {{{}}}\n", routes.join(", ")), &[]);
    let mut wrong = Vec::new();
    for ((case, name), upstream) in cases.iter().zip(&names).zip(&ups) {
        for client in [CHAT, MESSAGES] {
            let before = upstream.seen().len();
            let ask = format!(
                r#"{{"model":"{name}","stream":{},"max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#,
                case.stream
            );
            let got = gateway.post(client, &[], ask).await;
            let found = fate(&got, case, client, upstream.seen().len() - before);
            if found != Ok(case.fate) {
                let body: String = got.body.chars().take(300).collect();
                wrong.push(format!(
                    "{} {client}: {found:?}, not {:?}: {} {:?} {body}",
                    case.name,
                    case.fate,
                    got.status,
                    got.told()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_redirect_leads_nowhere_and_takes_nothing_along() {
    let elsewhere = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let place = elsewhere.base_url();
    for status in [301, 302, 303, 307, 308] {
        let upstream =
            Upstream::start([answer(&format!("{status} Moved"), &format!("location: {place}\r\n"), "")]);
        let gateway = Gateway::start(&super::one("openai", &upstream));
        for client in [CHAT, MESSAGES] {
            let ask = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
            let got = gateway.post(client, &[], ask).await;
            assert_eq!(
                (got.status, got.told(), got.header("location")),
                (502, ("1", "main", "not_found"), "")
            );
            assert!(got.body.contains("redirects are not followed"), "{got:?}");
        }
        assert_eq!(upstream.seen().len(), 2);
    }
    assert!(elsewhere.seen().is_empty(), "{:?}", elsewhere.seen());
}

/// Answers one request and keeps the connection; the next one on it is read and not answered.
fn answers_once(stream: &mut TcpStream) {
    let body = said("hello");
    let head = format!("HTTP/1.1 200 OK\r\n{JSON}content-length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_read_on_a_kept_connection_is_an_attempt() {
    let upstream = Upstream::start([Reply::Plays(answers_once)]);
    let policy = POLICY.replace("max_attempts: 3", "max_attempts: 1");
    let gateway = Gateway::under(&policy, &super::one("openai", &upstream), &[]);
    assert_eq!(gateway.chat().await.told(), ("1", "main", ""));
    // The provider may have worked on it: only the policy sends it again.
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (502, ("1", "main", "network_error")));
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(gateway.chat().await.told(), ("1", "main", ""));
}

/// Answers one request, says nothing of the connection, and closes it.
fn answers_and_closes(stream: &mut TcpStream) {
    let body = said("hello");
    let head = format!("HTTP/1.1 200 OK\r\n{JSON}content-length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_has_closed_costs_no_request() {
    let upstream = Upstream::start([Reply::Plays(answers_and_closes)]);
    let gateway = Gateway::under(POLICY, &super::one("openai", &upstream), &[]);
    for asked in 1..=20 {
        assert_eq!(gateway.chat().await.status, 200);
        assert_eq!(upstream.seen().len(), asked, "none is worked on twice");
    }
}
