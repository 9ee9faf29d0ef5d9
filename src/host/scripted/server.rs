//! A scripted model behind a real HTTP server on loopback, which speaks the wire formats of providers.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use indexmap::IndexMap;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::chunks::AnswerChunks;
use super::connection::{BreakableListener, ConnectionBreaker};
use super::dialect::{Asked, CHAT, Dialect, not_a_request};
use super::render::{self, AnswerRendering};
use super::responses::StoredResponses;
use super::script::{ErrorReply, Script, ScriptFault, ScriptOutcome, ScriptReply, ScriptState};
use super::{anthropic, gemini, responses};
use crate::host::file_error;

const MAX_REQUEST: usize = 32 * 1024 * 1024;
/// How many requests are remembered, and how many bytes of them: those of a long run, each with the whole conversation,
/// would come to gigabytes.
const MAX_SEEN: usize = 1000;
const MAX_SEEN_BYTES: usize = 16 * 1024 * 1024;
/// How long answers in flight may take to end when the server is stopped.
const DRAIN: Duration = Duration::from_millis(500);

/// The formats that it speaks.
static DIALECTS: &[&Dialect] = &[
    &CHAT,
    &anthropic::MESSAGES,
    &responses::RESPONSES,
    &gemini::GEMINI,
    #[cfg(feature = "bedrock")]
    &super::converse::CONVERSE,
];

/// A scripted model behind a real HTTP server on loopback. Stops when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    task: Option<JoinHandle<()>>,
}

/// A request the server got.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The body.
    pub body: Value,
    /// The key, if one came along: a bearer token, `x-api-key` or `x-goog-api-key`.
    pub key: Option<SecretString>,
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Somebody else has the port.
    #[error("port {0} on 127.0.0.1 is in use; stop what uses it, or set the port to 0 for any free one")]
    PortInUse(u16),
    /// Another reason.
    #[error("no server can be opened on 127.0.0.1:{port}: {}", file_error(source))]
    Bind {
        /// The port that was asked for.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// Responses cannot be dated.
    #[error(
        "the clock of this machine shows a time before 1970 or after 9999; no HTTP response can be dated"
    )]
    Clock,
}

/// Whether a response can be dated at that time. `hyper` keeps the date of responses up to date in every case, and panics at
/// any other time.
fn can_be_dated(now: SystemTime) -> bool {
    // The end of the year 9999 (RFC 9110, section 5.6.7, has years of four digits), with a day to serve in.
    const END: u64 = 253_402_300_800 - 86_400;
    now.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.as_secs() < END)
}

/// The latest requests.
#[derive(Debug, Default)]
struct SeenRequests {
    /// Each with the size of its body.
    requests: VecDeque<(SeenRequest, usize)>,
    bytes: usize,
}

impl SeenRequests {
    fn remember(&mut self, request: SeenRequest, size: usize) {
        self.bytes += size;
        self.requests.push_back((request, size));
        // The latest one is kept whatever its size.
        while self.requests.len() > MAX_SEEN || (self.bytes > MAX_SEEN_BYTES && self.requests.len() > 1) {
            let Some((_, size)) = self.requests.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(size);
        }
    }
}

#[derive(Debug)]
struct ServerState {
    script: Arc<Script>,
    state: Mutex<ScriptState>,
    seen: Mutex<SeenRequests>,
    stored: Mutex<StoredResponses>,
    /// Ends waits and open streams.
    stop: CancellationToken,
    /// Breaks all connections.
    broken: CancellationToken,
}

impl ScriptedServer {
    /// Serves `script` on 127.0.0.1; port 0 is any free one. The server is ready when this returns.
    ///
    /// # Errors
    /// The port cannot be opened, or the clock is set to a time that no HTTP response can show.
    pub async fn start(script: impl Into<Arc<Script>>, port: u16) -> Result<Self, ServeError> {
        if !can_be_dated(SystemTime::now()) {
            return Err(ServeError::Clock);
        }
        let bind = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::PortInUse(port),
            _ => ServeError::Bind { port, source },
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let script = script.into();
        let shared = Arc::new(ServerState {
            state: Mutex::new(ScriptState::new(Arc::clone(&script))),
            script,
            seen: Mutex::default(),
            stored: Mutex::default(),
            stop: CancellationToken::new(),
            broken: CancellationToken::new(),
        });
        let paths =
            DIALECTS.iter().flat_map(|dialect| dialect.paths.iter().map(move |path| (*dialect, path)));
        let router = paths.fold(Router::new(), |router, (dialect, path)| {
            router.route(
                path,
                post(move |state, peer, uri, headers, body| serve(dialect, state, peer, uri, headers, body)),
            )
        });
        let router = router
            .route("/v1/models", get(models))
            .fallback(unknown)
            .layer(DefaultBodyLimit::max(MAX_REQUEST))
            .with_state(Arc::clone(&shared));
        let listener = BreakableListener::new(listener, shared.broken.clone());
        let stop = shared.stop.clone().cancelled_owned();
        let service = router.into_make_service_with_connect_info::<ConnectionBreaker>();
        let serving = axum::serve(listener, service).with_graceful_shutdown(stop);
        let serve = async move {
            if let Err(error) = serving.await {
                tracing::warn!(%error, "the scripted model's server ended");
            }
        };
        let task = tokio::spawn(serve.in_current_span());
        Ok(Self { address, shared, task: Some(task) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client sets as its base URL.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests it got: the latest thousand, as far as they have no more than 16 MiB together.
    pub fn requests(&self) -> Vec<SeenRequest> {
        lock(&self.shared.seen).requests.iter().map(|(request, _)| request.clone()).collect()
    }

    /// Stops: answers in flight end, hanging ones are broken off. Returns when nothing runs any more.
    pub async fn shutdown(mut self) {
        self.shared.stop.cancel();
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(DRAIN, &mut task).await.is_err()
        {
            self.shared.broken.cancel();
            // Every connection has ended with its stream, so this ends too.
            let _ = task.await;
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.broken.cancel();
    }
}

async fn models(State(shared): State<Arc<ServerState>>) -> Response {
    let model = json!({"id": shared.script.model, "object": "model", "created": 0, "owned_by": "script"});
    json_body(StatusCode::OK, json!({"object": "list", "data": [model]}).to_string())
}

async fn unknown() -> Response {
    let paths = DIALECTS.iter().flat_map(|dialect| dialect.paths);
    let known: Vec<String> = paths.map(|path| format!("POST {path}")).collect();
    let message = format!("unknown address; this server knows {}, GET /v1/models", known.join(", "));
    CHAT.error(&ErrorReply::new(404, "unknown_url", message))
}

async fn serve(
    dialect: &'static Dialect,
    State(shared): State<Arc<ServerState>>,
    ConnectInfo(ConnectionBreaker(breaker)): ConnectInfo<ConnectionBreaker>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let read = shared.read(&headers, &body).and_then(|body| lock(&shared.stored).whole(body));
    let asked = read.and_then(|body| Ok(((dialect.read)(&uri, &headers, &body)?, body)));
    match asked {
        Ok((asked, body)) => shared.answer(dialect, &asked, &body, &breaker).await,
        Err(refused) => dialect.error(&refused),
    }
}

impl Dialect {
    fn error(&self, error: &ErrorReply) -> Response {
        let Ok(status) = StatusCode::from_u16(error.status) else { return unsendable("status") };
        let class = error.kind.as_ref().or(error.code.as_ref()).filter(|class| !class.is_empty());
        let class = self.class_header.map(str::to_owned).zip(class.cloned());
        let headers = class.into_iter().chain(error.headers.clone()).collect();
        with_headers(json_body(status, (self.error_body)(error)), &headers)
    }
}

fn with_headers(mut response: Response, headers: &IndexMap<String, String>) -> Response {
    match render::header_map(headers) {
        Ok(headers) => {
            response.headers_mut().extend(headers);
            response
        }
        Err(name) => unsendable(&name),
    }
}

fn unsendable(what: &str) -> Response {
    json_body(
        StatusCode::INTERNAL_SERVER_ERROR,
        json!({"error": {"message": format!("the script's `{what}` cannot be sent over HTTP")}}).to_string(),
    )
}

/// How one request is answered.
#[derive(Clone, Copy)]
struct WireAnswer {
    dialect: &'static Dialect,
    stream: bool,
    include_usage: bool,
}

impl WireAnswer {
    async fn send(
        self,
        model: &str,
        reply: ScriptReply,
        stop: &CancellationToken,
        breaker: &CancellationToken,
    ) -> Response {
        let rendering = |answer| AnswerRendering { model, number: reply.number, answer };
        match reply.outcome {
            ScriptOutcome::Answer(answer) => self.whole(&rendering(&answer)),
            ScriptOutcome::Error(refusal) if self.stream && (200..300).contains(&refusal.status) => {
                self.stream_of(vec![(self.dialect.error_event)(&refusal)])
            }
            ScriptOutcome::Error(refusal) => self.dialect.error(&refusal),
            ScriptOutcome::Fault(ScriptFault::Close, _) => {
                breaker.cancel();
                StatusCode::NO_CONTENT.into_response()
            }
            ScriptOutcome::Fault(ScriptFault::Hang, _) => {
                stop.cancelled().await;
                breaker.cancel();
                StatusCode::NO_CONTENT.into_response()
            }
            ScriptOutcome::Fault(ScriptFault::BadJson, _) if self.stream => {
                self.stream_of(vec![(self.dialect.broken_event)()])
            }
            ScriptOutcome::Fault(ScriptFault::BadJson, _) => {
                json_body(StatusCode::OK, render::NOT_JSON.to_owned())
            }
            ScriptOutcome::Fault(fault, answer) => {
                let half = self.half(&rendering(&render::with_a_middle(answer)));
                self.broken(half, fault, stop)
            }
        }
    }

    fn whole(self, answer: &AnswerRendering<'_>) -> Response {
        let response = if self.stream {
            self.stream_of(self.chunks(answer).events)
        } else {
            json_body(StatusCode::OK, self.body(answer))
        };
        with_headers(response, &answer.answer.headers)
    }

    fn half(self, answer: &AnswerRendering<'_>) -> Vec<Bytes> {
        if self.stream {
            self.chunks(answer).half()
        } else {
            let body = Bytes::from(self.body(answer));
            vec![body.slice(..body.len() / 2)]
        }
    }

    fn body(self, answer: &AnswerRendering<'_>) -> String {
        (self.dialect.body)(answer)
    }

    fn stream_of(self, events: Vec<Bytes>) -> Response {
        let body = Body::from_stream(stream::iter(events.into_iter().map(Ok::<_, io::Error>)));
        ([(CONTENT_TYPE, self.dialect.stream_type)], body).into_response()
    }

    fn chunks(self, answer: &AnswerRendering<'_>) -> AnswerChunks {
        (self.dialect.chunks)(answer, self.include_usage)
    }

    /// Half an answer, and then what the fault says.
    fn broken(self, half: Vec<Bytes>, fault: ScriptFault, stop: &CancellationToken) -> Response {
        let half = stream::iter(half.into_iter().map(Ok::<_, io::Error>));
        let body = match fault {
            ScriptFault::Reset => {
                let reset = stream::iter([Err(io::ErrorKind::ConnectionReset.into())]);
                Body::from_stream(half.chain(reset))
            }
            ScriptFault::Stall => {
                let stop = stop.clone().cancelled_owned();
                Body::from_stream(half.chain(stream::pending()).take_until(Box::pin(stop)))
            }
            _ => Body::from_stream(half),
        };
        let kind = if self.stream { self.dialect.stream_type } else { "application/json" };
        ([(CONTENT_TYPE, kind)], body).into_response()
    }
}

impl ServerState {
    /// Reads the body of a request and remembers it.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Value, Box<ErrorReply>> {
        let read: Value = serde_json::from_slice(body).map_err(|error| not_a_request(&error))?;
        self.remember(read.clone(), body.len(), headers);
        Ok(read)
    }

    fn remember(&self, body: Value, size: usize, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let key =
            bearer.or_else(|| text("x-api-key")).or_else(|| text("x-goog-api-key")).map(SecretString::from);
        lock(&self.seen).remember(SeenRequest { body, key }, size);
    }

    /// Gives the next reply.
    async fn answer(
        &self,
        dialect: &'static Dialect,
        asked: &Asked,
        body: &Value,
        breaker: &CancellationToken,
    ) -> Response {
        let reply = lock(&self.state).next(&asked.facts);
        if let ScriptOutcome::Answer(answer) = &reply.outcome
            && dialect.paths == responses::RESPONSES.paths
        {
            let rendering = AnswerRendering { model: &self.script.model, number: reply.number, answer };
            let response: Value = serde_json::from_str(&(dialect.body)(&rendering)).unwrap_or_default();
            lock(&self.stored).keep(body, &response);
        }
        if !reply.delay.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(reply.delay.to_std()) => {}
                () = self.stop.cancelled() => {}
            }
        }
        let wire = WireAnswer { dialect, stream: asked.stream, include_usage: asked.include_usage };
        wire.send(&self.script.model, reply, &self.stop, breaker).await
    }
}

fn json_body(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_at_times_that_a_response_can_show() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(can_be_dated(at(0)) && can_be_dated(SystemTime::now()));
        assert!(!can_be_dated(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)));
        assert!(!can_be_dated(at(253_402_300_800)));
    }

    #[test]
    fn requests_are_remembered_by_number_and_by_size() {
        let request = || SeenRequest { body: Value::Null, key: None };
        let mut seen = SeenRequests::default();
        (0..3000).for_each(|_| seen.remember(request(), 10));
        assert_eq!((seen.requests.len(), seen.bytes), (MAX_SEEN, 10 * MAX_SEEN));
        (0..100).for_each(|_| seen.remember(request(), MAX_SEEN_BYTES / 4));
        assert_eq!((seen.requests.len(), seen.bytes), (4, MAX_SEEN_BYTES));
        seen.remember(request(), 2 * MAX_SEEN_BYTES);
        assert_eq!(seen.requests.len(), 1);
    }
}
