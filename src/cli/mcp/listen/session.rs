//! One client over HTTP: each line for it goes to the stream that waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::host::McpRelay;

/// How many lines are kept for a client that does not read them, or has no stream open.
const MOST_KEPT: usize = 256;
/// The longest that a client is waited for which does not read its stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client.
pub(super) struct HttpSession {
    relay: McpRelay,
    streams: Mutex<OpenStreams>,
}

/// Its streams.
struct OpenStreams {
    /// Those of its requests, by their ids, which are JSON.
    requests: HashMap<String, RequestStream>,
    /// The one for what belongs to no request.
    listener: Option<mpsc::Sender<String>>,
    /// What came when none was open.
    kept: VecDeque<String>,
    used: Instant,
    handshake: Handshake,
}

/// How far the handshake is.
enum Handshake {
    /// The request of that id, which is JSON, has no answer yet; `None`: it has not come.
    Open(Option<String>),
    Accepted,
    Refused,
}

/// The stream of a request.
struct RequestStream {
    lines: mpsc::Sender<String>,
    /// By which the client wants to know how far the request is, as JSON.
    token: Option<String>,
}

/// A request of that id is in flight.
pub(super) struct InFlight;

/// A request whose connection is open. Closed before the answer, it is taken back: without ids of events the client cannot ask
/// for the rest of its stream.
pub(super) struct OpenRequest {
    session: Arc<HttpSession>,
    id: String,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        // What is answered, or was taken back, has no stream.
        if self.session.streams().requests.remove(&self.id).is_none() {
            return;
        }
        // Where the process ends, all requests do.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (session, id) = (Arc::clone(&self.session), core::mem::take(&mut self.id));
        runtime.spawn(async move {
            let reason = "the client closed the connection";
            let line = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{reason}"}}}}"#
            );
            session.relay.take(&line).await;
        });
    }
}

/// What of a message says where it belongs.
#[derive(Deserialize)]
pub(super) struct MessageHead<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct HeadParams<'a> {
    #[serde(default, borrow, rename = "progressToken")]
    token: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "_meta")]
    meta: Option<HeadMeta<'a>>,
}

#[derive(Deserialize)]
struct HeadMeta<'a> {
    #[serde(default, borrow, rename = "progressToken")]
    token: Option<&'a RawValue>,
}

impl<'a> MessageHead<'a> {
    /// Of a message, if it is one.
    pub(super) fn of(line: &'a str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// The request that it takes back.
    fn cancels(&self) -> Option<&'a str> {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        self.method.as_ref().filter(|method| *method == "notifications/cancelled")?;
        let params: Cancelled<'a> = serde_json::from_str(self.params?.get()).ok()?;
        Some(params.id.get())
    }

    /// The token in its parameters, or in the `_meta` of them.
    fn token(&self) -> Option<&'a str> {
        let params: HeadParams<'a> = serde_json::from_str(self.params?.get()).ok()?;
        params.token.or(params.meta?.token).map(RawValue::get)
    }
}

impl HttpSession {
    /// A session of that relay, whose lines for the client come from `answers`.
    pub(super) fn begin(relay: McpRelay, answers: mpsc::Receiver<String>) -> Arc<Self> {
        let (requests, listener, kept) = (HashMap::new(), None, VecDeque::new());
        let handshake = Handshake::Open(None);
        let streams = Mutex::new(OpenStreams { requests, listener, kept, used: Instant::now(), handshake });
        let session = Arc::new(Self { relay, streams });
        tokio::spawn(Arc::clone(&session).route(answers));
        session
    }

    /// The lines of the stream that answers a message; `None`: it is no request.
    pub(super) fn expect(&self, head: &MessageHead<'_>) -> Result<Option<mpsc::Receiver<String>>, InFlight> {
        let Some(id) = head.id.filter(|_| head.method.is_some()) else { return Ok(None) };
        let (lines, coming) = mpsc::channel(MOST_KEPT);
        let token = head.token().map(str::to_owned);
        let mut streams = self.streams();
        if streams.requests.contains_key(id.get()) {
            return Err(InFlight);
        }
        if head.method.as_deref() == Some("initialize") && matches!(streams.handshake, Handshake::Open(None))
        {
            streams.handshake = Handshake::Open(Some(id.get().to_owned()));
        }
        streams.requests.insert(id.get().to_owned(), RequestStream { lines, token });
        Ok(Some(coming))
    }

    /// The request of that id, for as long as its connection is open.
    pub(super) fn gone_without(self: &Arc<Self>, id: &str) -> OpenRequest {
        OpenRequest { session: Arc::clone(self), id: id.to_owned() }
    }

    /// Takes a message.
    pub(super) async fn take(&self, line: &str, head: Option<&MessageHead<'_>>) {
        {
            let mut streams = self.streams();
            streams.used = Instant::now();
            // A request that is taken back has no answer.
            if let Some(id) = head.and_then(MessageHead::cancels) {
                streams.requests.remove(id);
            }
        }
        self.relay.take(line).await;
    }

    /// The stream for what belongs to no request. One that was open before ends.
    pub(super) fn listen(&self) -> mpsc::Receiver<String> {
        let (lines, coming) = mpsc::channel(MOST_KEPT);
        let mut streams = self.streams();
        for line in streams.kept.drain(..) {
            // There is room for all of them.
            let _ = lines.try_send(line);
        }
        streams.listener = Some(lines);
        coming
    }

    /// Whether its handshake was answered with an error: its client begins another session, if any.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.streams().handshake, Handshake::Refused)
    }

    /// Whether it has had no use for that long.
    pub(super) fn is_idle(&self, longest: Duration) -> bool {
        self.idle_since().is_some_and(|since| since.elapsed() > longest)
    }

    /// Since when it has had no use; `None`: a client waits for something.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let mut streams = self.streams();
        // Whoever has closed its stream does not wait for the answer.
        streams.requests.retain(|_, stream| !stream.lines.is_closed());
        let listens = streams.listener.as_ref().is_some_and(|listener| !listener.is_closed());
        if listens || !streams.requests.is_empty() {
            streams.used = Instant::now();
            return None;
        }
        Some(streams.used)
    }

    /// The client has gone.
    pub(super) async fn close(&self) {
        if let Err(error) = self.relay.close().await {
            tracing::error!(error = %error, "the session of a client is not whole");
        }
        let mut streams = self.streams();
        streams.requests.clear();
        streams.listener = None;
    }

    async fn route(self: Arc<Self>, mut answers: mpsc::Receiver<String>) {
        while let Some(line) = answers.recv().await {
            let stream = self.streams().stream_of(&line);
            match stream {
                // A client that does not read holds the server up, as over standard output.
                Some(stream) => drop(stream.send_timeout(line, PATIENCE).await),
                None => self.streams().keep(line),
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStreams {
    /// The stream that a line belongs to; `None`: none is open.
    fn stream_of(&mut self, line: &str) -> Option<mpsc::Sender<String>> {
        let head = MessageHead::of(line);
        if let Some((id, head)) =
            head.as_ref().and_then(|head| Some((head.id?, head))).filter(|(_, head)| head.method.is_none())
        {
            if matches!(&self.handshake, Handshake::Open(Some(open)) if open == id.get()) {
                self.handshake = if head.error.is_some() { Handshake::Refused } else { Handshake::Accepted };
            }
            return self.requests.remove(id.get()).map(|stream| stream.lines);
        }
        let token = head.filter(|head| head.id.is_none()).and_then(|head| head.token().map(str::to_owned));
        let of_request = token.and_then(|token| {
            self.requests
                .values()
                .find(|stream| stream.token.as_ref() == Some(&token) && !stream.lines.is_closed())
        });
        // A client need not have a stream for what belongs to no request: it comes with the answers then.
        let open = of_request
            .map(|stream| &stream.lines)
            .or_else(|| self.listener.as_ref().filter(|listener| !listener.is_closed()))
            .or_else(|| self.requests.values().map(|stream| &stream.lines).find(|lines| !lines.is_closed()));
        open.cloned()
    }

    /// Keeps a line for a client that has no stream open. An answer that nobody waits for is of no use.
    fn keep(&mut self, line: String) {
        if MessageHead::of(&line).is_some_and(|head| head.method.is_none()) {
            return;
        }
        self.kept.push_back(line);
        if self.kept.len() > MOST_KEPT {
            self.kept.pop_front();
        }
    }
}
