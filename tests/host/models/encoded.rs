//! HTTP as servers speak it: bodies that are compressed, marked, or drip.

use async_compression::Level;
use async_compression::tokio::bufread::{
    BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use unfazed::engine::{CallTimeouts, Failure, ModelReply, WaitHint};
use unfazed::host::{HttpModel, Model, ModelConfig, ModelRequest, Provider};
use unfazed::policy::ErrorClass;
use unfazed::session::Message;
use unfazed::time::Nanos;

use super::{DELTA, END, LONG, anthropic, client, request};

const CODINGS: [&str; 6] = ["gzip", "deflate", "raw deflate", "br", "zstd", "zstd, gzip"];
const MARK: &str = "\u{feff}";
const JSON: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
const BLOCKS: &str = r#"{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}"#;

async fn encoded(body: &[u8], coding: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match coding {
        "gzip" => GzipEncoder::new(body).read_to_end(&mut bytes).await.unwrap(),
        "deflate" => ZlibEncoder::new(body).read_to_end(&mut bytes).await.unwrap(),
        "raw deflate" => DeflateEncoder::new(body).read_to_end(&mut bytes).await.unwrap(),
        "br" => BrotliEncoder::with_quality(body, Level::Fastest).read_to_end(&mut bytes).await.unwrap(),
        "zstd" => ZstdEncoder::new(body).read_to_end(&mut bytes).await.unwrap(),
        _ => {
            let mut inner = Vec::new();
            ZstdEncoder::new(body).read_to_end(&mut inner).await.unwrap();
            GzipEncoder::new(&inner[..]).read_to_end(&mut bytes).await.unwrap()
        }
    };
    bytes
}

/// The bytes of a response with that body, encoded.
async fn response(status: &str, kind: &str, coding: &str, body: &str) -> Vec<u8> {
    let name = coding.trim_start_matches("raw ");
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nretry-after: 3\r\ncontent-encoding: {name}\r\nconnection: close\r\n\r\n"
    )
    .into_bytes();
    bytes.extend(encoded(body.as_bytes(), coding).await);
    bytes
}

/// Calls a model behind a server that does that with its one connection; and what the request was.
async fn served<S: Future<Output = ()>>(
    model: impl FnOnce(&str) -> Box<dyn Model>,
    timeouts: CallTimeouts,
    timeout: Nanos,
    serve: impl FnOnce(TcpStream) -> S,
) -> (Result<ModelReply, Failure>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = model(&format!("http://{}", listener.local_addr().unwrap()));
    let messages = [Message::user("go")];
    let asked = request(&messages, timeout);
    let call = async {
        let result = model.call(ModelRequest { timeouts, ..asked }).await;
        drop(model);
        result
    };
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 8192];
        let read = socket.read(&mut buffer).await.unwrap();
        serve(socket).await;
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    };
    tokio::join!(call, server)
}

/// Sends these bytes, in so many pieces, and closes.
async fn send(mut socket: TcpStream, bytes: Vec<u8>, pieces: usize) {
    socket.set_nodelay(true).unwrap();
    for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
        if socket.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let _ = socket.shutdown().await;
    let mut rest = [0; 1024];
    while socket.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

async fn answered(
    anthropic_wire: bool,
    stream: bool,
    bytes: Vec<u8>,
    pieces: usize,
) -> Result<ModelReply, Failure> {
    let model = |base_url: &str| -> Box<dyn Model> {
        if anthropic_wire {
            Box::new(anthropic(base_url, stream))
        } else {
            Box::new(client(base_url, stream))
        }
    };
    let (result, asked) =
        served(model, CallTimeouts::default(), LONG, |socket| send(socket, bytes, pieces)).await;
    assert!(asked.to_ascii_lowercase().contains("accept-encoding: gzip, deflate, br, zstd\r\n"), "{asked}");
    result
}

#[tokio::test]
async fn an_answer_in_any_coding_is_read_whole_and_streamed_however_it_is_cut() {
    let events = format!("data: {DELTA}\n\ndata: {END}\n\ndata: [DONE]\n\n");
    for coding in CODINGS {
        for (stream, kind, body) in [(false, "application/json", JSON), (true, "text/event-stream", &events)]
        {
            for mark in ["", MARK] {
                let bytes = response("200 OK", kind, coding, &format!("{mark}{body}")).await;
                for pieces in [1, 2, 7, bytes.len()] {
                    let reply = answered(false, stream, bytes.clone(), pieces).await;
                    assert_eq!(reply.unwrap().text, "hi", "{coding} {kind} {pieces}");
                }
            }
        }
        let bytes = response("200 OK", "application/json", coding, BLOCKS).await;
        assert_eq!(answered(true, false, bytes, 3).await.unwrap().text, "hi", "{coding}");
    }
}

#[tokio::test]
async fn a_mark_before_an_answer_that_is_not_encoded_is_skipped() {
    let events = format!("data: {DELTA}\n\ndata: {END}\n\n");
    for (kind, body) in [("application/json", JSON), ("text/event-stream", &events), ("text/plain", &events)]
    {
        let bytes = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n{MARK}{body}").into_bytes();
        for pieces in [1, bytes.len()] {
            assert_eq!(answered(false, true, bytes.clone(), pieces).await.unwrap().text, "hi", "{kind}");
        }
    }
}

#[tokio::test]
async fn what_is_encoded_and_does_not_say_so_is_known_by_its_mark() {
    let events = format!("data: {DELTA}\n\ndata: {END}\n\ndata: [DONE]\n\n");
    for coding in ["gzip", "zstd"] {
        for (kind, body) in [("application/json", JSON), ("text/event-stream", &events)] {
            for said in ["", "content-encoding: identity\r\n"] {
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{said}connection: close\r\n\r\n");
                let bytes = [head.into_bytes(), encoded(body.as_bytes(), coding).await].concat();
                for pieces in [1, 3, bytes.len()] {
                    let reply = answered(false, true, bytes.clone(), pieces).await;
                    assert_eq!(reply.unwrap().text, "hi", "{coding} {kind} {said:?} {pieces}");
                }
            }
        }
        let head = b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\n\r\n";
        let body = encoded(br#"{"error":{"code":"insufficient_quota","message":"no money"}}"#, coding).await;
        let failure = answered(false, true, [head.to_vec(), body].concat(), 2).await.unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("insufficient_quota"), "{coding}");
        let zeros = encoded(" ".repeat(12 * 1024 * 1024).as_bytes(), coding).await;
        let bomb = [&b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"[..], &zeros].concat();
        let failure = answered(false, false, bomb, 1).await.unwrap_err();
        assert_eq!(failure.message, "the answer is larger than 8 MiB", "{coding}");
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_called_a_stream_is_read() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let lines = JSON.replace(',', ",\n  ").replace('{', "{\n  ");
    for body in [JSON.to_owned(), format!("{MARK}{JSON}\n"), format!("\r\n\r\n{lines}\n\n")] {
        let bytes = format!("{HEAD}{body}").into_bytes();
        for pieces in [1, 3, bytes.len()] {
            assert_eq!(answered(false, true, bytes.clone(), pieces).await.unwrap().text, "hi", "{body}");
        }
        // The connection stays open behind it.
        let model = |base_url: &str| -> Box<dyn Model> { Box::new(client(base_url, true)) };
        let stays = |mut socket: TcpStream| async move {
            socket.write_all(&bytes).await.unwrap();
            let mut rest = [0; 64];
            while socket.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        };
        let (reply, _) = served(model, CallTimeouts::default(), Nanos::from_secs(5), stays).await;
        assert_eq!(reply.unwrap().text, "hi", "{body}");
    }
    let bytes = format!("{HEAD}{BLOCKS}").into_bytes();
    assert_eq!(answered(true, true, bytes, 2).await.unwrap().text, "hi");
    let error = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
    for rest in ["", "\n", "\n\ndata: [DONE]\n\n"] {
        let bytes = format!("{HEAD}{error}{rest}").into_bytes();
        let failure = answered(false, true, bytes, 1).await.unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("rate_limit_exceeded"), "{rest:?}");
    }
}

#[tokio::test]
async fn an_error_in_any_coding_has_its_class_and_its_message() {
    let body = r#"{"error":{"code":"insufficient_quota","message":"no money"}}"#;
    for coding in CODINGS {
        for mark in ["", MARK] {
            let bytes =
                response("429 Too Many Requests", "application/json", coding, &format!("{mark}{body}")).await;
            let failure = answered(false, true, bytes, 2).await.unwrap_err();
            let found = (failure.status, failure.code.as_deref(), failure.message.as_str());
            assert_eq!(found, (Some(429), Some("insufficient_quota"), "no money"), "{coding}");
            assert_eq!(failure.retry_after, WaitHint::Wait(Nanos::from_secs(3)));
        }
    }
}

#[tokio::test]
async fn a_cut_in_what_is_encoded_is_never_taken_for_an_end() {
    let text = r#"{"choices":[{"index":0,"delta":{"content":"half of it"}}]}"#;
    let events = format!("data: {text}\n\ndata: {text}\n\ndata: {END}\n\ndata: [DONE]\n\n");
    for coding in CODINGS {
        let whole = response("200 OK", "text/event-stream", coding, &events).await;
        let head = whole.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        for end in (head..whole.len()).step_by(5) {
            match answered(false, true, whole[..end].to_vec(), 1).await {
                // Its reason to stop had come.
                Ok(reply) => assert_eq!(reply.text, "half of ithalf of it", "{coding} {end}"),
                Err(failure) => {
                    let class = failure.class;
                    let few = end - head < 4;
                    assert!(class == Some(ErrorClass::NetworkError) || few, "{coding} {end}: {failure:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_decoded_says_so() {
    let unknown = b"HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\n\r\n{}".to_vec();
    let failure = answered(false, false, unknown, 1).await.unwrap_err();
    let says = "the answer is encoded as `compress`, which was not asked for";
    assert_eq!((failure.class, failure.message.as_str()), (Some(ErrorClass::ModelError), says));
    let wrong =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\nconnection: close\r\n\r\n\xff\xff\xff\xff\xff\xff"
            .to_vec();
    let failure = answered(false, false, wrong, 1).await.unwrap_err();
    assert!(failure.message.starts_with("the answer cannot be decoded as its headers say"), "{failure:?}");
}

#[tokio::test]
async fn a_bomb_counts_by_what_it_becomes() {
    let zeros = " ".repeat(12 * 1024 * 1024);
    for coding in ["gzip", "br", "zstd", "zstd, gzip"] {
        let bytes = response("200 OK", "application/json", coding, &zeros).await;
        assert!(bytes.len() < 100_000, "{coding}: {}", bytes.len());
        let failure = answered(false, false, bytes, 1).await.unwrap_err();
        assert_eq!(failure.message, "the answer is larger than 8 MiB", "{coding}");
        let bytes = response("500 Internal Server Error", "text/plain", coding, &zeros).await;
        assert_eq!(answered(false, false, bytes, 1).await.unwrap_err().status, Some(500), "{coding}");
    }
}

/// Sends a byte every ten milliseconds, for ever.
async fn drip(mut socket: TcpStream, head: &str, text: &str) {
    socket.set_nodelay(true).unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    for byte in text.bytes().cycle() {
        if socket.write_all(&[byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_answer_that_drips_is_ended_by_the_time_of_the_whole() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let begun = format!("{HEAD}data: {DELTA}\n\n");
    let plain = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let idle = CallTimeouts { connect: None, first_token: Some(LONG), idle: Some(Nanos::from_millis(200)) };
    let timeout = Nanos::from_millis(600);
    for (stream, head, text) in [
        (true, begun.as_str(), "data: {\"choices\": [\n"),
        (true, begun.as_str(), ": a comment\n\n"),
        (true, HEAD, ": a comment\n\n"),
        (false, plain, " "),
        (
            true,
            "",
            "HTTP/1.1 200 OK\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        ),
    ] {
        let started = std::time::Instant::now();
        let model = |base_url: &str| -> Box<dyn Model> { Box::new(client(base_url, stream)) };
        let (result, _) = served(model, idle, timeout, |socket| drip(socket, head, text)).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.message, "no complete answer within 600ms", "{head}{text}");
        assert_eq!(failure.class, Some(ErrorClass::Timeout));
        assert!(started.elapsed() < std::time::Duration::from_secs(3));
    }
}

#[tokio::test]
async fn what_drips_behind_a_whole_answer_is_not_waited_for() {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {DELTA}\n\ndata: {END}\n\n");
    let started = std::time::Instant::now();
    let model = |base_url: &str| -> Box<dyn Model> { Box::new(client(base_url, true)) };
    let (result, _) =
        served(model, CallTimeouts::default(), LONG, |socket| drip(socket, &head, ": ping\n\n")).await;
    assert_eq!(result.unwrap().text, "hi");
    assert!(started.elapsed() < std::time::Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_header_of_the_user_says_what_is_accepted() {
    let model = |base_url: &str| -> Box<dyn Model> {
        let plain_headers = vec![("accept-encoding".to_owned(), "identity".to_owned())];
        Box::new(
            HttpModel::new(ModelConfig {
                base_url: base_url.into(),
                plain_headers,
                ..ModelConfig::new(Provider::OPENAI, "m")
            })
            .unwrap(),
        )
    };
    let bytes = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{JSON}").into_bytes();
    let (result, asked) = served(model, CallTimeouts::default(), LONG, |socket| send(socket, bytes, 1)).await;
    assert_eq!(result.unwrap().text, "hi");
    assert!(asked.contains("accept-encoding: identity\r\n"), "{asked}");
}
