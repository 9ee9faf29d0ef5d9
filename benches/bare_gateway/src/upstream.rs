//! A provider. What it does is in the name of the model: `good` answers, `slow` streams for seconds, and `faulty` fails in turn in
//! each way that there is, and answers in between.

use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response};
use serde_json::{Value, json};

use crate::{AnyBody, BenchError, whole};

/// How many pieces of content a stream has.
const CHUNKS: usize = 20;
const TEXT: &str = "Rain is likely in the afternoon, and the wind turns to the north-west before it does. ";

/// Requests so far, streams that are open, and the most of them at once.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A stream that is open.
struct OpenStream;

impl OpenStream {
    fn new() -> Self {
        MOST.fetch_max(OPEN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves.
pub(crate) async fn run() -> Result<(), BenchError> {
    crate::serve(answer).await
}

async fn answer(request: Request<Incoming>) -> Result<Response<AnyBody>, BenchError> {
    let path = request.uri().path().to_owned();
    if path == "/counts" {
        let [asked, open, most] = [&ASKED, &OPEN, &MOST].map(|count| count.load(Ordering::SeqCst));
        return said(200, &json!({"asked": asked, "open": open, "most": most}));
    }
    let body: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let turn = ASKED.fetch_add(1, Ordering::SeqCst);
    let is_stream = body["stream"] == true;
    if path.ends_with("/messages") {
        return said(200, &message());
    }
    match (body["model"].as_str().unwrap_or_default(), turn % 12) {
        ("faulty", 1 | 7) => {
            let mut refused =
                said(429, &json!({"error": {"message": "slow down", "type": "rate_limit_error"}}))?;
            refused.headers_mut().insert(RETRY_AFTER, "0".parse()?);
            Ok(refused)
        }
        ("faulty", 3) => said(500, &json!({"error": {"message": "it broke", "type": "server_error"}})),
        // The connection ends without an answer.
        ("faulty", 5) => Err("no answer".into()),
        ("faulty", 8) => future::pending().await,
        ("faulty", fault @ 9..) if is_stream => Ok(streamed(Duration::from_millis(1), Some(fault - 9))),
        ("faulty", 11) => said(200, &json!({"choices": []})),
        ("slow", _) => Ok(streamed(Duration::from_millis(400), None)),
        _ if is_stream => Ok(streamed(Duration::from_millis(1), None)),
        _ => said(200, &completion()),
    }
}

fn said(status: u16, body: &Value) -> Result<Response<AnyBody>, BenchError> {
    Ok(Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(whole(body.to_string()))?)
}

fn completion() -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "good",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT.repeat(8)}}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 150, "total_tokens": 350},
    })
}

fn message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "good", "stop_reason": "end_turn", "stop_sequence": null,
        "content": [{"type": "text", "text": TEXT.repeat(8)}], "usage": {"input_tokens": 200, "output_tokens": 150},
    })
}

/// A stream of pieces that come one by one. `cut`: it breaks off (0), says of an error (1), or stands still (2) after a half of them.
fn streamed(pause: Duration, cut: Option<usize>) -> Response<AnyBody> {
    let open = OpenStream::new();
    let pieces = stream::unfold((0, open), move |(index, open)| async move {
        if index > 0 && index <= CHUNKS {
            tokio::time::sleep(pause).await;
        }
        let piece = match (cut, index) {
            (Some(0), 10) => return Some((Err("cut".into()), (index, open))),
            (Some(1), 10) => {
                "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n".to_owned()
            }
            (Some(1), 11) => return None,
            (Some(2), 10) => future::pending().await,
            (_, CHUNKS) => chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n",
            (_, index) if index > CHUNKS => return None,
            _ => chunk(&json!({"content": TEXT}), None),
        };
        Some((Ok::<_, BenchError>(Frame::data(Bytes::from(piece))), (index + 1, open)))
    });
    let mut answer = Response::new(BodyExt::boxed_unsync(StreamBody::new(pieces)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

fn chunk(delta: &Value, end: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "good", "choices": [choice]});
    format!("data: {chunk}\n\n")
}
