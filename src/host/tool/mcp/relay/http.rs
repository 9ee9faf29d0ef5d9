//! A server over HTTP (the specification's "Streamable HTTP"), as lines that go out and come in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::RequestId;
use secrecy::SecretString;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::event::{EndReason, LinkEvent};
use super::message::RpcMessage;
use super::outgoing::DueLines;
use crate::host::ToolError;
use crate::host::tool::mcp::answer::UndecodableAnswer;
use crate::host::tool::mcp::failure::{self, LinkError};
use crate::host::tool::mcp::http::{
    HttpAnswer, HttpClient, HttpError, MAX_ANSWER, PostedMessage, RequestSender,
};
use crate::host::tool::mcp::link::http_client;

/// How many lines wait for the relay.
const WAITING: usize = 256;
/// How often a stream that ends before its answer is asked for the rest of it.
const MOST_RESUMED: u32 = 5;
/// The wait before that, if the server does not say one.
const PAUSE: Duration = Duration::from_secs(1);
/// The least, for a stream that is asked for again and again.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a server that is to end a session.
const COURTESY: Duration = Duration::from_secs(1);
/// The longest wait for a server that takes a message without an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Why a request was refused that has not run.
const SESSION_OVER: &str = "the server has ended the session";
/// The header that all requests after the handshake have (the specification of 2025-06-18).
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The way to a server.
struct HttpSide {
    client: HttpClient,
    url: String,
    sender: Mutex<RequestSender>,
    lines: mpsc::Sender<LinkEvent>,
    closing: CancellationToken,
    /// Why the connection is of no use any more.
    why: EndReason,
}

/// What of the answer to a handshake the next requests say.
#[derive(Deserialize)]
struct InitializeResult {
    #[serde(rename = "protocolVersion")]
    version: String,
}

/// A request whose answer is awaited.
#[derive(Clone, Copy)]
struct AwaitedRequest {
    number: u64,
    /// The conversation begins with it.
    begins: bool,
}

/// Sends the lines that are due to the server. Returns where it says why it is not reached any more, and what comes from it.
pub(super) fn start(
    url: &str,
    headers: &[(String, SecretString)],
    due: DueLines,
    closing: CancellationToken,
) -> Result<(EndReason, mpsc::Receiver<LinkEvent>), LinkError> {
    let (client, headers) = http_client(url, headers, UndecodableAnswer::Pass)?;
    let (lines, coming) = mpsc::channel(WAITING);
    let why = EndReason::default();
    let sender = Mutex::new(RequestSender { headers, ..RequestSender::default() });
    let side = HttpSide { client, url: url.to_owned(), sender, lines, closing, why: Arc::clone(&why) };
    tokio::spawn(Arc::new(side).run(due));
    Ok((why, coming))
}

impl HttpSide {
    /// Sends what is due until the connection is closed. What is in flight then is dropped.
    async fn run(self: Arc<Self>, mut due: DueLines) {
        let mut in_flight = JoinSet::new();
        loop {
            let line = tokio::select! {
                biased;
                () = self.closing.cancelled() => break,
                line = due.recv() => line,
                Some(_) = in_flight.join_next() => continue,
            };
            let Some(line) = line else { break };
            match RpcMessage::parse(&line) {
                Ok(RpcMessage::Request { id, method, .. }) => {
                    let Ok(number) = id.get().parse() else { continue };
                    let awaited = AwaitedRequest { number, begins: method == "initialize" };
                    let discovers = method == "server/discover";
                    let request = Arc::clone(&self).ask(line.clone(), awaited, discovers);
                    if awaited.begins {
                        // The session begins with its answer, and all that follows is of the session.
                        self.unless_closing(request).await;
                    } else {
                        in_flight.spawn(request);
                    }
                }
                Ok(RpcMessage::Notification { method, .. }) if method == "notifications/initialized" => {
                    self.unless_closing(self.tell(&line)).await;
                    in_flight.spawn(Arc::clone(&self).listen());
                }
                _ => {
                    let side = Arc::clone(&self);
                    in_flight.spawn(async move { side.tell(&line).await });
                }
            }
        }
        // That calls were taken back the server is still to learn.
        let last = async {
            while let Some(line) = due.try_recv() {
                self.tell(&line).await;
            }
        };
        let _ = tokio::time::timeout(COURTESY, last).await;
        in_flight.shutdown().await;
        self.end_session().await;
    }

    async fn unless_closing(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            () = work => {}
        }
    }

    /// Posts what has no answer.
    async fn tell(&self, line: &str) {
        if tokio::time::timeout(TAKEN_WITHIN, self.post_unanswered(line)).await.is_err() {
            tracing::debug!("the server did not take a message in time");
        }
    }

    async fn post_unanswered(&self, line: &str) {
        let posted = PostedMessage { body: line.trim().as_bytes().to_vec(), asked: None, discovers: false };
        match self.client.post(&self.url, posted, self.sender(), MAX_ANSWER).await {
            Ok(HttpAnswer::Accepted) => {}
            Ok(HttpAnswer::Message(message, _)) => self.came(&message, None).await.unwrap_or_default(),
            Ok(HttpAnswer::Events(mut events, _)) => {
                while let Some(Ok(event)) = events.next().await {
                    if let Some(data) = event.data {
                        let _ = self.came(data.as_bytes(), None).await;
                    }
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Posts a request, and waits for its answer.
    async fn ask(self: Arc<Self>, line: String, awaited: AwaitedRequest, discovers: bool) {
        let asked = i64::try_from(awaited.number).ok().map(RequestId::Number);
        let posted = PostedMessage { body: line.trim().as_bytes().to_vec(), asked, discovers };
        let lost = match self.client.post(&self.url, posted, self.sender(), MAX_ANSWER).await {
            Ok(HttpAnswer::Accepted) => {
                Some(ToolError::network("the server took the request and gave no answer"))
            }
            Ok(HttpAnswer::Message(message, _)) if self.is_refused_session(&message, awaited) => {
                Some(ToolError::unavailable(SESSION_OVER))
            }
            Ok(HttpAnswer::Message(message, session)) => {
                self.begins(session);
                self.came(&message, Some(awaited)).await.is_none().then(no_answer)
            }
            Ok(HttpAnswer::Events(events, session)) => {
                self.begins(session);
                self.rest(events, awaited).await.err()
            }
            Err(error) => {
                self.failed(&error);
                Some(match error {
                    // It knows nothing of the session, and has done nothing.
                    HttpError::SessionExpired => ToolError::unavailable(SESSION_OVER),
                    error => failure::of_transport(&error),
                })
            }
        };
        if let Some(error) = lost {
            let _ = self.lines.send(LinkEvent::Lost(awaited.number, error)).await;
        }
    }

    /// What comes until the answer does. A stream that ends before is asked for the rest of it, if its events have ids.
    async fn rest(&self, mut events: EventStream, awaited: AwaitedRequest) -> Result<(), ToolError> {
        let (mut resumed, mut last) = (0, None);
        loop {
            let (mut pause, mut broken) = (PAUSE, None);
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        broken = Some(error);
                        break;
                    }
                };
                last = event.id.or(last);
                pause = event.retry.map_or(pause, Duration::from_millis);
                if let Some(data) = event.data
                    && self.came(data.as_bytes(), Some(awaited)).await.is_some()
                {
                    return Ok(());
                }
            }
            resumed += 1;
            let Some(last) = last.clone().filter(|_| resumed <= MOST_RESUMED) else {
                return Err(match broken {
                    Some(error) => no_answer().caused_by(error),
                    None => no_answer(),
                });
            };
            tokio::time::sleep(pause).await;
            let more = self.client.listen(&self.url, Some(last), self.sender(), MAX_ANSWER).await;
            events = more.map_err(|error| failure::of_transport(&error))?;
        }
    }

    /// What the server has to say that belongs to no request, for as long as it lets others listen.
    async fn listen(self: Arc<Self>) {
        let mut last = None;
        loop {
            let listening = self.client.listen(&self.url, last.clone(), self.sender(), MAX_ANSWER).await;
            let mut events = match listening {
                Ok(events) => events,
                // Not every server has such a stream, and what it refuses once it refuses again.
                Err(HttpError::Client(error)) if error.is_connect() || error.is_timeout() => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(_) => return,
            };
            let mut pause = PAUSE;
            while let Some(Ok(event)) = events.next().await {
                last = event.id.or(last);
                pause = event.retry.map_or(pause, Duration::from_millis);
                if let Some(data) = event.data {
                    let _ = self.came(data.as_bytes(), None).await;
                }
            }
            tokio::time::sleep(pause.max(LEAST_PAUSE)).await;
        }
    }

    /// A message has come. Returns something if it answers the request.
    async fn came(&self, message: &[u8], awaited: Option<AwaitedRequest>) -> Option<()> {
        let line = String::from_utf8_lossy(message).trim().replace(['\n', '\r'], " ");
        let mut is_answer = false;
        if let (Some(awaited), Ok(RpcMessage::Answer { id, outcome })) = (awaited, RpcMessage::parse(&line)) {
            is_answer = id.get().parse() == Ok(awaited.number);
            if let (true, true, Ok(result)) = (is_answer, awaited.begins, outcome) {
                self.speaks(serde_json::from_str(result.get()).ok());
            }
        }
        let _ = self.lines.send(LinkEvent::Line(line)).await;
        is_answer.then_some(())
    }

    /// A session has begun.
    fn begins(&self, session: Option<String>) {
        if let Some(session) = session {
            self.known().session.get_or_insert_with(|| session.into());
        }
    }

    /// The version that the handshake came to.
    fn speaks(&self, result: Option<InitializeResult>) {
        if let Some(version) = result.and_then(|result| HeaderValue::from_str(&result.version).ok()) {
            self.known().headers.insert(VERSION, version);
        }
    }

    /// A server that does not know its session any more, or cannot be reached, may be another one now: the next request begins
    /// with a handshake.
    fn failed(&self, error: &HttpError) {
        match error {
            HttpError::SessionExpired => self.ended(SESSION_OVER.to_owned()),
            HttpError::Client(error) if error.is_connect() => self.ended(failure::cause(error)),
            _ => {}
        }
    }

    /// Whether an answer says that there is no such session. The status of that is 404 (the specification, "Session
    /// Management"); servers that follow the example of the official kit in TypeScript answer 400 with an error of theirs.
    fn is_refused_session(&self, message: &[u8], awaited: AwaitedRequest) -> bool {
        #[derive(Deserialize)]
        struct SessionError {
            code: i64,
            message: String,
        }
        let line = String::from_utf8_lossy(message);
        let Ok(RpcMessage::Answer { outcome: Err(error), .. }) = RpcMessage::parse(&line) else {
            return false;
        };
        let refused = serde_json::from_str(error.get()).is_ok_and(|SessionError { code, message }| {
            code == -32000 && message.to_ascii_lowercase().contains("session")
        });
        let refused = refused && !awaited.begins && self.sender().session.is_some();
        if refused {
            self.ended(SESSION_OVER.to_owned());
        }
        refused
    }

    fn ended(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    async fn end_session(&self) {
        let sender = self.sender();
        if sender.session.is_some() {
            let ended = self.client.delete(&self.url, sender);
            // That a server does not know the session any more is as good.
            let _ = tokio::time::timeout(COURTESY, ended).await;
        }
    }

    /// What the next request says of whose it is.
    fn sender(&self) -> RequestSender {
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, RequestSender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a stream.
type EventStream = futures_util::stream::BoxStream<
    'static,
    Result<sse_stream::Sse, rmcp::transport::streamable_http_client::SseError>,
>;

fn no_answer() -> ToolError {
    ToolError::network(failure::CUT_OFF)
}
