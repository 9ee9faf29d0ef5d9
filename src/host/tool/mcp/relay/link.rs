//! One connection to the server: lines go out in order, and requests are known until they are answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::event::{EndReason, LinkEvent};
use super::http;
use super::message;
use super::outgoing::{self, DueLines, OutgoingQueue, Unsent};
use super::requests::RequestTable;
use crate::host::ToolError;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::stdio::{ServerProcess, ServerProgram};
use crate::host::tool::mcp::{McpConfig, McpReach};

/// The longest wait for what is still to be written when the connection is closed.
const COURTESY: Duration = Duration::from_millis(500);

/// A connection.
pub(super) struct RelayLink {
    outgoing: OutgoingQueue,
    /// A handshake was sent.
    begun: AtomicBool,
    /// The client's confirmation of it was sent.
    confirmed: AtomicBool,
    /// The server was asked what it can do without a handshake, and has not refused.
    discovered: AtomicBool,
    closing: CancellationToken,
    /// The server does not read.
    unwritable: CancellationToken,
    side: ServerSide,
    asked: Mutex<RequestTable<AskedOfServer>>,
}

/// What the server is.
enum ServerSide {
    Process(ServerProcess),
    /// It is reached over HTTP.
    Http(EndReason),
}

/// Where the lines of the server come from.
pub(super) enum LinkLines {
    Pipe(BufReader<DuplexStream>),
    Events(mpsc::Receiver<LinkEvent>),
}

/// A request to the server.
pub(super) enum AskedOfServer {
    /// Of the client, which gets the answer under its own id.
    Client { id: String, what: ClientRequest },
    /// Of the relay, which gets the whole line, or why there is none. `of` is the id of the client's request that it is made for, if
    /// it is made for one alone.
    Relay { answer: oneshot::Sender<Result<String, ToolError>>, of: Option<String> },
}

/// A request of the client whose answer is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientRequest {
    Initialize,
    /// What the server can do, where there is no handshake (the protocol's version 2026-07-28).
    Discover,
    ListTools {
        /// Its page is the first.
        is_first: bool,
    },
    /// A subscription, where there is no handshake.
    Listen,
    Other,
}

/// A request of the relay. Dropped before its answer, it is taken back, and the server is informed.
pub(super) struct OwnRequest {
    link: Arc<RelayLink>,
    number: u64,
    answer: oneshot::Receiver<Result<String, ToolError>>,
    /// It may be taken back: a handshake may not (the specification, "Cancellation").
    is_revocable: bool,
}

impl RelayLink {
    /// Starts or reaches the server. The other end is where its lines come from.
    pub(super) fn start(config: &McpConfig) -> Result<(Self, LinkLines), LinkError> {
        let (outgoing, due) = outgoing::queue();
        let (closing, unwritable) = (CancellationToken::new(), CancellationToken::new());
        let (side, lines) = match &config.reach {
            McpReach::Process { command, working_dir, pass_env, env } => {
                let working_dir = working_dir.as_deref();
                let grace = config.grace.to_std();
                let program = ServerProgram { command, working_dir, pass_env, env, grace, relayed: true };
                let (process, lines, stdin) = ServerProcess::start(&program)?;
                tokio::spawn(write(stdin, due, closing.clone(), unwritable.clone()));
                (ServerSide::Process(process), LinkLines::Pipe(BufReader::new(lines)))
            }
            McpReach::Http { url, headers } => {
                let (why, lines) = http::start(url, headers, due, closing.clone())?;
                (ServerSide::Http(why), LinkLines::Events(lines))
            }
        };
        let [begun, confirmed, discovered] = [(); 3].map(|()| AtomicBool::new(false));
        let asked = Mutex::default();
        Ok((Self { outgoing, begun, confirmed, discovered, closing, unwritable, side, asked }, lines))
    }

    /// Sends a line, after those before it.
    pub(super) fn send(&self, line: String) -> Result<(), Unsent> {
        self.sent(self.outgoing.send(line))
    }

    /// Sends the answer to a request of the server, which a handshake does not hold back.
    pub(super) fn answer(&self, line: String) {
        // Who has ended waits for no answer.
        let _ = self.sent(self.outgoing.send_at_once(line));
    }

    /// Sends the client's confirmation of the handshake, once.
    pub(super) fn confirm(&self, line: String) {
        if !self.confirmed.swap(true, Ordering::AcqRel) {
            // Who has ended has no use for it.
            let _ = self.send(line);
        }
    }

    /// Ends when the server does not read any more.
    pub(super) async fn unwritable(&self) {
        self.unwritable.cancelled().await;
    }

    /// Passes a request of the client on under a number of the relay.
    pub(super) fn pass(
        &self,
        (id, what): (String, ClientRequest),
        line: impl FnOnce(u64) -> String,
    ) -> Result<(), Unsent> {
        let number = self.open_request(AskedOfServer::Client { id, what })?;
        let sent = self.send(line(number));
        // If the end of the connection came between, it has answered the request already.
        if sent.is_err() && self.asked().remove(number).is_none() { Ok(()) } else { sent }
    }

    /// Sends a request of the relay. `of` is the id of the client's request that it is made for.
    pub(super) fn ask(
        self: &Arc<Self>,
        of: Option<&str>,
        line: impl FnOnce(u64) -> String,
    ) -> Result<OwnRequest, Unsent> {
        let mut own = self.own_request(of)?;
        let sent = self.send(line(own.number));
        own.unless_unsent(sent)?;
        own.is_revocable = true;
        Ok(own)
    }

    /// Sends the request that begins the conversation. What is sent after it waits until [`RelayLink::open`].
    pub(super) fn begin(self: &Arc<Self>, line: impl FnOnce(u64) -> String) -> Result<OwnRequest, Unsent> {
        self.begun.store(true, Ordering::Release);
        let own = self.own_request(None)?;
        let sent = self.sent(self.outgoing.begin(line(own.number)));
        own.unless_unsent(sent)?;
        Ok(own)
    }

    /// Whether a handshake was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether the server was asked what it can do without a handshake, and has not refused.
    pub(super) fn is_discovered(&self) -> bool {
        self.discovered.load(Ordering::Acquire)
    }

    /// The server is asked that, or refuses.
    pub(super) fn discovers(&self, discovers: bool) {
        self.discovered.store(discovers, Ordering::Release);
    }

    /// Nothing goes over it any more. Whoever reads from it ends it.
    pub(super) fn give_up(&self) {
        self.unwritable.cancel();
    }

    /// The handshake is answered.
    pub(super) fn open(&self) {
        self.outgoing.open();
    }

    /// Whether no handshake is in flight.
    pub(super) fn is_open(&self) -> bool {
        self.outgoing.is_open()
    }

    /// Sends a request of the relay whose answer nobody waits for.
    pub(super) fn repeat(&self, line: impl FnOnce(u64) -> String) -> Result<(), Unsent> {
        let (answer, _) = oneshot::channel();
        let number = self.open_request(AskedOfServer::Relay { answer, of: None })?;
        self.send(line(number))
    }

    /// Why a line did not go out.
    pub(super) async fn why_unsent(&self, unsent: Unsent) -> String {
        match unsent {
            Unsent::Closed => self.why().await,
            Unsent::Full | Unsent::Stalled => {
                "the server does not read what it is sent, and too much waits for it".to_owned()
            }
        }
    }

    fn own_request(self: &Arc<Self>, of: Option<&str>) -> Result<OwnRequest, Unsent> {
        let (sender, answer) = oneshot::channel();
        let of = of.map(str::to_owned);
        let number = self.open_request(AskedOfServer::Relay { answer: sender, of })?;
        Ok(OwnRequest { link: Arc::clone(self), number, answer, is_revocable: false })
    }

    fn open_request(&self, request: AskedOfServer) -> Result<u64, Unsent> {
        let mut asked = self.asked();
        let unsent = if asked.is_closed() { Unsent::Closed } else { Unsent::Full };
        asked.open(request).ok_or(unsent)
    }

    fn sent(&self, sent: Result<(), Unsent>) -> Result<(), Unsent> {
        if sent == Err(Unsent::Stalled) {
            self.unwritable.cancel();
        }
        sent
    }

    /// The requests without an answer.
    pub(super) fn asked(&self) -> MutexGuard<'_, RequestTable<AskedOfServer>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests can go over it.
    pub(super) fn is_alive(&self) -> bool {
        let is_gone = match &self.side {
            ServerSide::Process(process) => process.is_gone(),
            ServerSide::Http(why) => why.lock().unwrap_or_else(PoisonError::into_inner).is_some(),
        };
        !is_gone && !self.unwritable.is_cancelled() && !self.asked().is_closed()
    }

    /// Why it has ended.
    pub(super) async fn why(&self) -> String {
        match &self.side {
            ServerSide::Process(process) => process.why().await,
            ServerSide::Http(why) => {
                let why = why.lock().unwrap_or_else(PoisonError::into_inner).clone();
                why.unwrap_or_else(|| "the connection to the server was closed".to_owned())
            }
        }
    }

    /// What the server wrote that was no message.
    pub(super) fn complaints(&self) -> String {
        match &self.side {
            ServerSide::Process(process) => process.complaints(),
            ServerSide::Http(_) => String::new(),
        }
    }

    /// Closes the connection. A server that is a process is ended if it does not end by itself.
    pub(super) async fn end(&self) {
        self.closing.cancel();
        if let ServerSide::Process(process) = &self.side {
            process.end().await;
        }
    }
}

impl LinkLines {
    /// What comes next; `None`: the connection has ended.
    pub(super) async fn next(&mut self) -> Option<LinkEvent> {
        match self {
            Self::Pipe(lines) => {
                let mut line = Vec::new();
                match lines.read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => None,
                    // One byte that is no UTF-8 is no reason to go without the rest of what the server says.
                    Ok(_) => Some(LinkEvent::Line(String::from_utf8_lossy(&line).into_owned())),
                }
            }
            Self::Events(events) => events.recv().await,
        }
    }
}

impl OwnRequest {
    /// The line that answers it, or why there is none.
    pub(super) async fn answer(mut self) -> Result<String, ToolError> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            // The end of the connection lets go of all of them.
            Err(_) => Err(ToolError::network(self.link.why().await)),
        }
    }

    fn unless_unsent(&self, sent: Result<(), Unsent>) -> Result<(), Unsent> {
        sent.inspect_err(|_| drop(self.link.asked().remove(self.number)))
    }
}

impl Drop for OwnRequest {
    fn drop(&mut self) {
        // What was answered is no more in the table.
        if self.link.asked().remove(self.number).is_some() && self.is_revocable {
            let line = message::cancelled(&self.number.to_string(), "it is not waited for any more");
            // A server that does not read what it is sent need not know.
            let _ = self.link.send(line);
        }
    }
}

/// Writes the lines that are due, until the connection is closed; what is due then is written still, if the server reads it.
async fn write(
    mut stdin: ChildStdin,
    mut due: DueLines,
    closing: CancellationToken,
    unwritable: CancellationToken,
) {
    let mut ends = false;
    while let Some(line) = next_due(&mut due, &closing, &mut ends).await {
        let written = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        let written = tokio::select! {
            biased;
            written = written => written.is_ok(),
            () = async { closing.cancelled().await; tokio::time::sleep(COURTESY).await } => false,
        };
        if !written {
            break;
        }
    }
    unwritable.cancel();
}

/// The next line to write; `None`: there is none, and the connection is closed.
async fn next_due(due: &mut DueLines, closing: &CancellationToken, ends: &mut bool) -> Option<String> {
    if !*ends {
        tokio::select! {
            biased;
            line = due.recv() => return line,
            () = closing.cancelled() => *ends = true,
        }
    }
    due.try_recv()
}
