//! Forms of requests that few clients send, and some that none should: each has one answer, and none brings in a second request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::{CHAT, Gateway, Reply, Upstream, one, said};

const ASK: &str = r#"{"model":"main"}"#;
const PATIENCE: Duration = Duration::from_secs(20);

/// A request whose head has these lines more, and that body.
fn post(target: &str, lines: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n{body}")
}

/// All that is answered until the connection ends.
fn answered(gateway: &Gateway, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may have answered and closed before all is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it hangs");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The statuses of the answers.
fn statuses(answer: &str) -> Vec<&str> {
    answer
        .split("HTTP/1.1 ")
        .chain(answer.split("HTTP/1.0 ").skip(1))
        .skip(1)
        .map(|rest| &rest[..3])
        .collect()
}

#[tokio::test]
async fn each_form_of_a_request_has_one_answer() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let (sized, chunked) = ("content-length: 16\r\n", "transfer-encoding: chunked\r\n");
    let chunks = &*format!("10\r\n{ASK}\r\n0\r\n\r\n");
    let with = |line: &str| post(CHAT, &format!("{line}\r\n{sized}"), ASK);
    let coded = |line: &str, body: &str| post(CHAT, &format!("{line}\r\n"), body);
    let at = |target: &str| post(target, sized, ASK);
    let inner = format!("0\r\n\r\nPOST {CHAT} HTTP/1.1\r\nhost: localhost\r\n{sized}\r\n{ASK}");
    let rows: &[(&str, String, &[&str])] = &[
        ("an absolute address", at(&format!("http://localhost{CHAT}")), &["200"]),
        ("another host in the address", at(&format!("http://evil.example{CHAT}")), &["400"]),
        ("two codings", coded("transfer-encoding: gzip, chunked", chunks), &["400"]),
        (
            "two lines of codings",
            coded("transfer-encoding: gzip\r\ntransfer-encoding: chunked", chunks),
            &["400"],
        ),
        ("a coding twice", coded("transfer-encoding: chunked, chunked", chunks), &["400"]),
        ("another coding", coded("transfer-encoding: gzip", ASK), &["400"]),
        ("a coding that looks like one", coded("transfer-encoding: xchunked", chunks), &["400"]),
        ("chunks", coded("transfer-encoding: Chunked", chunks), &["200"]),
        (
            "chunks before HTTP/1.1",
            coded("transfer-encoding: chunked", chunks).replace("1.1", "1.0"),
            &["400"],
        ),
        ("trailers", post(CHAT, chunked, &format!("10\r\n{ASK}\r\n0\r\nx: y\r\n\r\n")), &["200"]),
        ("an extension", post(CHAT, chunked, &format!("10;a=b\r\n{ASK}\r\n0\r\n\r\n")), &["200"]),
        ("a chunk without end", post(CHAT, chunked, "ffffffffffffffffff\r\nx"), &["400"]),
        ("a negative chunk", post(CHAT, chunked, "-1\r\nx\r\n"), &["400"]),
        ("a length and chunks", post(CHAT, &format!("{chunked}{sized}"), chunks), &["200"]),
        ("a request behind chunks", post(CHAT, &format!("content-length: 9\r\n{chunked}"), &inner), &["400"]),
        ("two lengths", with("content-length: 3"), &["400"]),
        ("a list of lengths", coded("content-length: 16, 16", ASK), &["400"]),
        ("a length with a sign", coded("content-length: +16", ASK), &["400"]),
        ("a folded header", with("x-a: b\r\n c"), &["400"]),
        ("a bare CR", with("x-a: b\rc"), &["400"]),
        ("bare LF", at(CHAT).replace("\r\n", "\n"), &["200"]),
        ("a name with a space", with("x a: b"), &["400"]),
        ("a space before the colon", with("x-a : b"), &["400"]),
        ("gzip", with("content-encoding: gzip"), &["415"]),
        ("no coding", with("content-encoding: identity"), &["200"]),
        ("100-continue", with("expect: 100-continue"), &["100", "200"]),
        ("HTTP/1.0", at(CHAT).replace("1.1", "1.0"), &["200"]),
        ("HTTP/2.0", at(CHAT).replace("1.1", "2.0"), &["400"]),
        ("HTTP/2 without a word", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), &[]),
        ("an upgrade", with("upgrade: h2c"), &["200"]),
        ("no host", at(CHAT).replace("host: localhost\r\n", ""), &["400"]),
        ("a long address", at(&format!("/v1/{}", "a".repeat(50_000))), &["404"]),
        ("a longer one", at(&format!("/v1/{}", "a".repeat(100_000))), &["414"]),
        ("an escaped slash", at("/v1%2Fchat/completions"), &["404"]),
        ("a second slash", at("//v1/chat/completions"), &["404"]),
        ("a slash at the end", at(&format!("{CHAT}/")), &["404"]),
        ("dots", at("/v1/models/../chat/completions"), &["404"]),
        ("escaped dots", at("/v1/models/%2e%2e%2fchat:generateContent"), &["404"]),
        ("two requests", at(CHAT).replace("connection: close\r\n", "") + &at(CHAT), &["200", "200"]),
    ];
    for (name, request, expected) in rows {
        let before = upstream.seen().len();
        let answer = answered(&gateway, request.as_bytes());
        assert_eq!(&statuses(&answer), expected, "{name}: {answer}");
        let relayed = expected.iter().filter(|status| **status == "200").count();
        assert_eq!(upstream.seen().len() - before, relayed, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_no_more_gets_its_answer() {
    let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let Reply::Sends(streamed) = Reply::events(events) else { unreachable!() };
    let Reply::Sends(whole) = Reply::json(200, "", &said("hi")) else { unreachable!() };
    for (reply, last, ask) in [
        (whole, said("hi"), r#"{"model":"main"}"#),
        (streamed, "data: [DONE]\n\n\r\n0\r\n\r\n".to_owned(), r#"{"model":"main","stream":true}"#),
    ] {
        let upstream = Upstream::start([Reply::Waits(reply)]);
        let gateway = Gateway::start(&one("openai", &upstream));
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = ask.len();
        write!(stream, "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{ask}")
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // It is asked whether it listens, and then the provider answers.
        let mut probe = [0; 25];
        stream.read_exact(&mut probe).unwrap();
        assert_eq!(&probe, b"HTTP/1.1 100 Continue\r\n\r\n");
        upstream.go();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("connection: close"),
            "{answer}"
        );
        assert!(answer.ends_with(&last), "{answer}");
    }
}

/// The status of the answer that has come while the request is still open.
fn status_of(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_has_come() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let begun = |lines: &str| {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        write!(stream, "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n").unwrap();
        stream
    };
    // Nothing of it has come, and nothing will.
    for lines in ["content-length: 100000000\r\n", "content-length: 100000000\r\nexpect: 100-continue\r\n"] {
        assert_eq!(status_of(&mut begun(lines)), "HTTP/1.1 413");
    }
    // Nobody knows how much there will be.
    let mut chunked = begun("transfer-encoding: chunked\r\n");
    let chunk = [b"100000\r\n", &*vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..33 {
        let _ = chunked.write_all(&chunk);
    }
    assert_eq!(status_of(&mut chunked), "HTTP/1.1 413");
    // Who sends all of it first, has the answer too.
    let whole = vec![b' '; 100_000_000];
    let got = gateway.post(CHAT, &[], whole).await;
    assert_eq!((got.status, got.header("connection")), (413, "close"));
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_whole() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let sized = post(CHAT, "content-length: 16\r\n", ASK);
    let chunks = ASK.chars().fold(String::new(), |chunks, one| chunks + "1\r\n" + &one.to_string() + "\r\n");
    let chunked = post(CHAT, "transfer-encoding: chunked\r\n", &format!("{chunks}0\r\n\r\n"));
    for request in [sized, chunked] {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in request.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        assert_eq!(status_of(&mut stream), "HTTP/1.1 200");
    }
    assert!(upstream.bodies().iter().all(|body| body.contains("real-main")), "{:?}", upstream.bodies());
}
