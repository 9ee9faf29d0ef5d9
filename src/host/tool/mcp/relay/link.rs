//! One connection to the server: lines go out in order, and requests are known until they are answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::event::{EndReason, LinkEvent};
use super::http;
use super::message;
use super::requests::RequestTable;
use crate::host::ToolError;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::stdio::{ServerProcess, ServerProgram};
use crate::host::tool::mcp::{McpConfig, McpReach};

/// How many lines wait for a server that does not read. Whoever has more waits too.
const WAITING: usize = 256;

/// The longest that a server is waited for which does not read while so many wait.
const STALLED: Duration = Duration::from_secs(30);
/// The longest wait for what is still to be written when the connection is closed.
const COURTESY: Duration = Duration::from_millis(500);

/// A connection.
pub(super) struct RelayLink {
    outgoing: mpsc::Sender<String>,
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
    /// Of the relay, which gets the whole line, or why there is none.
    Relay(oneshot::Sender<Result<String, ToolError>>),
}

/// A request of the client whose answer is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientRequest {
    Initialize,
    ListTools,
    Other,
}

/// The connection has ended, before the request was sent.
#[derive(Debug)]
pub(super) struct LinkClosed;

/// A request of the relay. Dropped before its answer, it is taken back, and the server is informed.
pub(super) struct OwnRequest<'a> {
    link: &'a RelayLink,
    number: u64,
    answer: oneshot::Receiver<Result<String, ToolError>>,
    answered: bool,
}

impl RelayLink {
    /// Starts or reaches the server. The other end is where its lines come from.
    pub(super) fn start(config: &McpConfig) -> Result<(Self, LinkLines), LinkError> {
        let (outgoing, due) = mpsc::channel(WAITING);
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
        Ok((Self { outgoing, closing, unwritable, side, asked: Mutex::default() }, lines))
    }

    /// Sends a line, after those before it.
    pub(super) async fn send(&self, mut line: String) -> Result<(), LinkClosed> {
        end_line(&mut line);
        if self.outgoing.send_timeout(line, STALLED).await.is_ok() {
            return Ok(());
        }
        // A server that does not read is of no more use than one that has ended.
        self.unwritable.cancel();
        Err(LinkClosed)
    }

    /// Ends when the server does not read any more.
    pub(super) async fn unwritable(&self) {
        self.unwritable.cancelled().await;
    }

    /// Passes a request of the client on under a number of the relay.
    pub(super) async fn pass(
        &self,
        asked: (String, ClientRequest),
        line: impl FnOnce(u64) -> String,
    ) -> Result<(), LinkClosed> {
        let (id, what) = asked;
        let number = self.asked().open(AskedOfServer::Client { id, what }).ok_or(LinkClosed)?;
        let sent = self.send(line(number)).await;
        // If the end of the connection came between, it has answered the request already.
        if sent.is_err() && self.asked().remove(number).is_none() { Ok(()) } else { sent }
    }

    /// Sends a request of the relay.
    pub(super) async fn ask(&self, line: impl FnOnce(u64) -> String) -> Result<OwnRequest<'_>, LinkClosed> {
        let (sender, answer) = oneshot::channel();
        let number = self.asked().open(AskedOfServer::Relay(sender)).ok_or(LinkClosed)?;
        let mut own = OwnRequest { link: self, number, answer, answered: false };
        if let Err(closed) = self.send(line(number)).await {
            own.answered = true;
            self.asked().remove(number);
            return Err(closed);
        }
        Ok(own)
    }

    /// Sends a request of the relay whose answer nobody waits for.
    pub(super) async fn repeat(&self, line: impl FnOnce(u64) -> String) -> Result<(), LinkClosed> {
        let (sender, _) = oneshot::channel();
        let number = self.asked().open(AskedOfServer::Relay(sender)).ok_or(LinkClosed)?;
        self.send(line(number)).await
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
                let mut line = String::new();
                match lines.read_line(&mut line).await {
                    Ok(0) | Err(_) => None,
                    Ok(_) => Some(LinkEvent::Line(line)),
                }
            }
            Self::Events(events) => events.recv().await,
        }
    }
}

impl OwnRequest<'_> {
    /// The line that answers it, or why there is none.
    pub(super) async fn answer(mut self) -> Result<String, ToolError> {
        let answer = (&mut self.answer).await;
        self.answered = true;
        match answer {
            Ok(answer) => answer,
            // The end of the connection lets go of all of them.
            Err(_) => Err(ToolError::network(self.link.why().await)),
        }
    }
}

impl Drop for OwnRequest<'_> {
    fn drop(&mut self) {
        if self.answered || self.link.asked().remove(self.number).is_none() {
            return;
        }
        let mut line = message::cancelled(&self.number.to_string(), "it is not waited for any more");
        end_line(&mut line);
        // A server that does not read what it is sent need not know.
        let _ = self.link.outgoing.try_send(line);
    }
}

fn end_line(line: &mut String) {
    if !line.ends_with('\n') {
        line.push('\n');
    }
}

/// Writes the lines that are due, until the connection is closed; what is due then is written still, if the server reads it.
async fn write(
    mut stdin: ChildStdin,
    mut due: mpsc::Receiver<String>,
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
async fn next_due(
    due: &mut mpsc::Receiver<String>,
    closing: &CancellationToken,
    ends: &mut bool,
) -> Option<String> {
    if !*ends {
        tokio::select! {
            biased;
            line = due.recv() => return line,
            () = closing.cancelled() => *ends = true,
        }
    }
    due.try_recv().ok()
}
