//! The client: so many requests at once, each on a connection that is kept as long as the server keeps it. It says as JSON how they
//! ended, and how long they took.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::BenchError;

/// What each client asks.
struct Load {
    address: String,
    path: String,
    body: Bytes,
    headers: Vec<(String, String)>,
    /// How many requests have begun.
    begun: AtomicUsize,
    most: usize,
    until: Instant,
}

/// How requests ended, and how long each took.
#[derive(Default)]
struct LoadResult {
    ends: BTreeMap<String, u64>,
    micros: Vec<u64>,
}

/// Asks: `ADDRESS PATH BODY AT_ONCE REQUESTS SECONDS HEADER…`, with the body in a file.
pub(crate) async fn run(arguments: &[&str]) -> Result<(), BenchError> {
    let [address, path, body, at_once, most, seconds, headers @ ..] = arguments else {
        return Err("load ADDRESS PATH BODY AT_ONCE REQUESTS SECONDS HEADER…".into());
    };
    let headers = headers.iter().filter_map(|header| header.split_once(": "));
    let since = Instant::now();
    let load = Arc::new(Load {
        address: (*address).to_owned(),
        path: (*path).to_owned(),
        body: std::fs::read(body)?.into(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        begun: AtomicUsize::new(0),
        most: most.parse()?,
        until: since + Duration::from_secs(seconds.parse()?),
    });
    let mut clients = JoinSet::new();
    for _ in 0..at_once.parse()? {
        clients.spawn(client(Arc::clone(&load)));
    }
    let mut all = LoadResult::default();
    while let Some(one) = clients.join_next().await {
        let LoadResult { ends, micros } = one?;
        ends.into_iter().for_each(|(end, count)| *all.ends.entry(end).or_default() += count);
        all.micros.extend(micros);
    }
    all.micros.sort_unstable();
    let part = |of: usize| all.micros.get(all.micros.len() * of / 100).copied().unwrap_or_default();
    let said =
        json!({"ends": all.ends, "p50": part(50), "p99": part(99), "seconds": since.elapsed().as_secs_f64()});
    println!("{said}");
    Ok(())
}

/// One client, which asks until all requests have begun or the time is over.
async fn client(load: Arc<Load>) -> LoadResult {
    let (mut result, mut connection) = (LoadResult::default(), None);
    while Instant::now() < load.until && load.begun.fetch_add(1, Ordering::Relaxed) < load.most {
        let since = Instant::now();
        let end = match tokio::time::timeout(Duration::from_secs(120), ask(&load, &mut connection)).await {
            Ok(Ok(end)) => end,
            // A connection that has failed is none.
            Ok(Err(error)) => {
                connection = None;
                format!("broken: {error}")
            }
            Err(_) => {
                connection = None;
                "hangs".to_owned()
            }
        };
        result.micros.push(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX));
        *result.ends.entry(end).or_default() += 1;
    }
    result
}

/// One request; its end.
async fn ask(load: &Load, connection: &mut Option<SendRequest<Full<Bytes>>>) -> Result<String, BenchError> {
    let mut kept = connection.take();
    if let Some(sender) = &mut kept {
        if sender.ready().await.is_err() {
            kept = None;
        }
    }
    let mut sender = match kept {
        Some(sender) => sender,
        None => connect(&load.address).await?,
    };
    let request =
        Request::post(&load.path).header(HOST, &load.address).header(CONTENT_TYPE, "application/json");
    let request = load.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let answer = sender.send_request(request.body(Full::new(load.body.clone()))?).await?;
    let (head, mut body) = answer.into_parts();
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Ok("cut".to_owned()) };
        read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    *connection = Some(sender);
    Ok(end_of(head.status.as_u16(), &read))
}

async fn connect(address: &str) -> Result<SendRequest<Full<Bytes>>, BenchError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether it is an answer, an error that says what it is, or the end of a stream that says so; anything else is `silent`.
fn end_of(status: u16, body: &[u8]) -> String {
    let has = |part: &[u8]| body.windows(part.len()).any(|window| window == part);
    if body.trim_ascii_start().starts_with(b"data:") {
        let end = match (has(b"data: [DONE]"), has(b"\"error\"")) {
            (true, _) => "answer",
            (false, true) => "cut",
            (false, false) => "silent",
        };
        return end.to_owned();
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match status {
        200 if body["choices"][0].is_object() => "answer".to_owned(),
        400.. if body["error"].is_object() => format!("error {status}"),
        _ => "silent".to_owned(),
    }
}
