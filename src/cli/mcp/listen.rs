//! `--listen`: clients over HTTP (the specification's "Streamable HTTP"), each with a session and a server of its own.

mod access;
mod session;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::routing::method_routing::MethodRouter;
use futures_util::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(super) use self::access::AccessRules;
use self::session::{HttpSession, InFlight, MessageHead, OpenRequest};
use super::RelayMaker;
use crate::cli::http::{
    self, BodyRefusal, BodyRoom, MOST_HELD, TlsServer, check_head, close_refused, read_body,
};
use crate::host::McpRelay;

/// The most clients at once: each has a server.
const MOST_SESSIONS: usize = 256;
/// The most bytes of a message.
const MOST_MESSAGE: usize = 16 << 20;
/// How long a message may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How long a client without a stream is remembered.
const IDLE: Duration = Duration::from_secs(3600);
/// How long a client without a stream is remembered where there are too many.
const GIVES_WAY: Duration = Duration::from_secs(60);
/// How often that is looked at.
const SWEEP: Duration = Duration::from_secs(60);
/// Where clients send their messages.
const PATH: &str = "/mcp";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// The versions of the protocol that pass over HTTP. Later ones have no session.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The clients.
struct RelayServer {
    maker: RelayMaker,
    access: AccessRules,
    sessions: Mutex<HashMap<String, Arc<HttpSession>>>,
    room: BodyRoom,
}

/// Serves clients at that address until `stop` fires.
pub(super) async fn serve(
    maker: RelayMaker,
    access: AccessRules,
    listener: TcpListener,
    tls: Option<Arc<TlsServer>>,
    stop: CancellationToken,
) {
    let server =
        Arc::new(RelayServer { maker, access, sessions: Mutex::default(), room: BodyRoom::new(MOST_HELD) });
    let methods: MethodRouter<Arc<RelayServer>> = axum::routing::post(post)
        .get(listen)
        .delete(end)
        .fallback(|| async { StatusCode::METHOD_NOT_ALLOWED });
    let router = Router::new()
        .route(PATH, methods)
        .fallback(any(|| async { (StatusCode::NOT_FOUND, "clients send their messages to /mcp\n") }))
        .layer(axum::middleware::from_fn(checked))
        .layer(axum::middleware::map_response(close_refused))
        .with_state(Arc::clone(&server));
    let sweeping = tokio::spawn(sweep(Arc::clone(&server)));
    // Streams of clients are open until their sessions end, which is what is done after `stop`.
    tokio::select! {
        () = http::serve(listener, tls, router, CancellationToken::new(), Duration::ZERO) => {}
        () = stop.cancelled() => {}
    }
    sweeping.abort();
    let sessions: Vec<Arc<HttpSession>> = server.sessions().drain().map(|(_, session)| session).collect();
    futures_util::future::join_all(sessions.iter().map(|session| session.close())).await;
}

/// Where clients send their messages.
pub(super) fn url(address: SocketAddr, is_secured: bool) -> String {
    format!("{}://{address}{PATH}", http::scheme(is_secured))
}

impl RelayServer {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that a request names.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<HttpSession>, Response> {
        check_version(headers)?;
        let Some(id) = headers.get(SESSION).and_then(|id| id.to_str().ok()) else {
            return Err(refusal(StatusCode::BAD_REQUEST, "the request names no session (`Mcp-Session-Id`)"));
        };
        // Of 404 the client makes a new session (the specification, "Session Management").
        let known = self.sessions().get(id).cloned();
        known.ok_or_else(|| refusal(StatusCode::NOT_FOUND, "there is no such session"))
    }

    /// Takes a message, and answers it with the stream of what comes of it.
    async fn take(&self, headers: &HeaderMap, line: &str) -> Result<Response, Response> {
        let head = MessageHead::of(line);
        let begins = head.as_ref().is_some_and(|head| head.method.as_deref() == Some("initialize"));
        check_version(headers)?;
        let (id, session) = if begins {
            self.begin().await.map(|(id, session)| (Some(id), session))?
        } else {
            (None, self.session(headers)?)
        };
        let answers = match head.as_ref().map(|head| session.expect(head)) {
            Some(Err(InFlight)) => {
                return Err(refusal(StatusCode::BAD_REQUEST, "a request of that id is in flight"));
            }
            Some(Ok(answers)) => answers,
            None => None,
        };
        session.take(line, head.as_ref()).await;
        let mut response = match (answers, head.and_then(|head| head.id)) {
            (Some(answers), Some(id)) => events(answers, Some(session.gone_without(id.get()))),
            _ => StatusCode::ACCEPTED.into_response(),
        };
        if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    /// Ends the sessions whose handshake was refused, and where there are too many, the one that was not used for the longest time:
    /// its client may have gone without a word.
    fn make_room(&self) {
        let mut sessions = self.sessions();
        let mut gone: Vec<String> =
            sessions.iter().filter(|(_, session)| session.is_refused()).map(|(id, _)| id.clone()).collect();
        if sessions.len() >= MOST_SESSIONS && gone.is_empty() {
            let idle = sessions.iter().filter_map(|(id, session)| Some((session.idle_since()?, id.clone())));
            gone.extend(idle.filter(|(since, _)| since.elapsed() > GIVES_WAY).min().map(|(_, id)| id));
        }
        for session in gone.iter().filter_map(|id| sessions.remove(id)) {
            tokio::spawn(async move { session.close().await });
        }
    }

    /// A session begins.
    async fn begin(&self) -> Result<(String, Arc<HttpSession>), Response> {
        self.make_room();
        if self.sessions().len() >= MOST_SESSIONS {
            return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions"));
        }
        let begun = self.maker.relay().await;
        let (relay, answers) = begun.map_err(|error| {
            tracing::error!(error = %error, "a client cannot be served");
            refusal(StatusCode::BAD_GATEWAY, &error.to_string())
        })?;
        let (id, session) = (crate::host::new_uuid().to_string(), HttpSession::begin(relay, answers));
        self.sessions().insert(id.clone(), Arc::clone(&session));
        Ok((id, session))
    }
}

/// Refuses what may be read otherwise by whatever stands before the server.
async fn checked(request: Request, next: Next) -> Response {
    match check_head(&request) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => refusal(status, why),
    }
}

async fn post(State(server): State<Arc<RelayServer>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // Nothing is read of whoever may not.
    if let Err(refused) = server.access.check(&head.headers) {
        return refused;
    }
    let (body, _held) = match read_body(body, MOST_MESSAGE, BODY_WITHIN, &server.room).await {
        Ok(body) => body,
        Err(refused) => {
            let (most, within) = (MOST_MESSAGE >> 20, BODY_WITHIN.as_secs());
            let why = match refused {
                BodyRefusal::NoRoom => "the messages in flight leave no room for this one".to_owned(),
                _ => format!("a message has at most {most} MiB, and comes whole within {within} s"),
            };
            return refusal(refused.status(), &why);
        }
    };
    let Ok(line) = std::str::from_utf8(&body) else {
        return refusal(StatusCode::BAD_REQUEST, "the message is not UTF-8 text");
    };
    // Lines of a message are no lines of the protocol.
    let line = line.replace(['\n', '\r'], " ");
    if let Some(fault) = McpRelay::fault(&line) {
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        return (StatusCode::BAD_REQUEST, json, fault).into_response();
    }
    match server.take(&head.headers, &line).await {
        Ok(response) | Err(response) => response,
    }
}

/// What belongs to no request, as it comes.
async fn listen(State(server): State<Arc<RelayServer>>, headers: HeaderMap) -> Response {
    let session = server.access.check(&headers).and_then(|()| server.session(&headers));
    match session {
        Ok(session) => events(session.listen(), None),
        Err(refused) => refused,
    }
}

/// The client has no more use for its session.
async fn end(State(server): State<Arc<RelayServer>>, headers: HeaderMap) -> Response {
    if let Err(refused) = server.access.check(&headers).and_then(|()| server.session(&headers).map(drop)) {
        return refused;
    }
    let id = headers.get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let session = server.sessions().remove(id);
    if let Some(session) = session {
        session.close().await;
    }
    StatusCode::NO_CONTENT.into_response()
}

/// Ends the sessions of clients that have gone without a word.
async fn sweep(server: Arc<RelayServer>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let idle: Vec<Arc<HttpSession>> = {
            let mut sessions = server.sessions();
            let ids: Vec<String> = sessions
                .iter()
                .filter(|(_, session)| session.is_idle(IDLE))
                .map(|(id, _)| id.clone())
                .collect();
            ids.iter().filter_map(|id| sessions.remove(id)).collect()
        };
        for session in idle {
            session.close().await;
        }
    }
}

/// Whether the version that a request names passes here; what names none is of 2025-03-26 (the specification, "Protocol Version
/// Header").
fn check_version(headers: &HeaderMap) -> Result<(), Response> {
    let Some(version) = headers.get(VERSION) else { return Ok(()) };
    if VERSIONS.iter().any(|known| version == known) {
        return Ok(());
    }
    let why = format!("the version of the protocol is none of {}", VERSIONS.join(", "));
    Err(refusal(StatusCode::BAD_REQUEST, &why))
}

/// Lines as events, until there are no more. `request`: whose they are; closed before, it is taken back.
fn events(lines: mpsc::Receiver<String>, request: Option<OpenRequest>) -> Response {
    Sse::new(stream(lines, request)).keep_alive(KeepAlive::default()).into_response()
}

fn stream(
    lines: mpsc::Receiver<String>,
    request: Option<OpenRequest>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    futures_util::stream::unfold((lines, request), |(mut lines, request)| async move {
        let line = lines.recv().await?;
        Some((Ok(Event::default().event("message").data(line)), (lines, request)))
    })
}

/// A refusal in the words of the protocol.
fn refusal(status: StatusCode, why: &str) -> Response {
    let body =
        serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": why } });
    (status, axum::Json(body)).into_response()
}
