//! A server that is a process: its messages on standard output, what it complains of on standard error.
//!
//! A keeper task holds the process and its group from the start to the end, however that comes: nothing of it is left
//! when the keeper is done, or dropped.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::answer::{self, ReadLine};
use super::failure::LinkError;
use crate::host::file_error;
use crate::host::tool::process::capture::{CaptureTail, drain};
use crate::host::tool::process::forever;
use crate::host::tool::process::group::{GracePeriods, ProcessGroup, signal_of};

/// The longest message a server may send.
const MOST_MESSAGE: usize = 8 * 1024 * 1024;
/// The most bytes of standard error that are kept: the last ones.
const STDERR_BYTES: usize = 4 * 1024;
/// The most bytes of a line that is no message that are kept.
const NOISE_BYTES: usize = 200;
/// How much is kept of a message that is too long: enough to see whose answer it is.
const HEAD_BYTES: usize = 4 * 1024;
/// The largest buffer that is kept for the next line.
const BUFFER_BYTES: usize = 256 * 1024;
/// How long a server that closed its output has to end, so that its exit can be reported.
const LINGER: Duration = Duration::from_millis(250);

/// A command that is a server.
#[derive(Clone)]
pub(super) struct ServerProgram<'a> {
    pub(super) command: &'a [String],
    pub(super) working_dir: Option<&'a Path>,
    pub(super) pass_env: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    /// How long its processes have, once asked to end, before they are killed.
    pub(super) grace: Duration,
    /// What it writes is passed on by somebody who need not decode it, and who goes without a message that is too long.
    pub(super) relayed: bool,
}

/// A server process.
pub(super) struct ServerProcess {
    said: Arc<Mutex<ServerFacts>>,
    quit: CancellationToken,
    gone: CancellationToken,
    keeper: AbortHandle,
}

/// What is known of a server in addition to its messages.
struct ServerFacts {
    stderr: CaptureTail,
    /// How many lines were no messages, and the beginning of the first.
    noise: (u64, String),
    /// How it ended.
    end: Option<String>,
}

impl ServerProcess {
    /// Starts the server, and gives its two ends of the conversation.
    pub(super) fn start(program: &ServerProgram<'_>) -> Result<(Self, DuplexStream, ChildStdin), LinkError> {
        let shown = program.command.first().map_or("", String::as_str);
        let mut child = command(program)
            .ok_or_else(|| "there is no command".to_owned())?
            .spawn()
            .map_err(|error| LinkError::of(not_started(program, shown, &error), error))?;
        let patience = GracePeriods { grace: program.grace, linger: LINGER };
        let group = ProcessGroup::of(&child, patience);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{shown}` has no standard input or output").into());
        };
        let said =
            ServerFacts { stderr: CaptureTail::new(STDERR_BYTES), noise: (0, String::new()), end: None };
        let said = Arc::new(Mutex::new(said));
        let (quit, gone) = (CancellationToken::new(), CancellationToken::new());
        let (near, far) = tokio::io::duplex(64 * 1024);
        let keeper = ProcessSupervisor {
            said: Arc::clone(&said),
            quit: quit.clone(),
            gone: gone.clone(),
            shown: shown.to_owned(),
            relayed: program.relayed,
        };
        let keeper = tokio::spawn(keeper.keep(child, group, stdout, far, program.grace)).abort_handle();
        Ok((Self { said, quit, gone, keeper }, near, stdin))
    }

    /// Whether nothing is left of it.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits until nothing is left of it: its input must be closed by now. What does not end by itself is ended.
    pub(super) async fn end(&self) {
        self.quit.cancel();
        self.gone.cancelled().await;
    }

    /// How it ended, if it does so now, and the last it complained of.
    pub(super) async fn why(&self) -> String {
        for _ in 0..100 {
            if self.said().end.is_some() {
                break;
            }
            tokio::time::sleep(LINGER / 50).await;
        }
        let said = self.said();
        let end = said.end.clone().unwrap_or_else(|| "the server closed the connection".to_owned());
        drop(said);
        end + &self.complaints()
    }

    /// What it wrote that was no message.
    pub(super) fn complaints(&self) -> String {
        let said = self.said();
        let mut text = match &said.noise {
            (0, _) => String::new(),
            (1, first) => format!("; it wrote a line that is no message: {first}"),
            (lines, first) => format!("; it wrote {lines} lines that are no messages, the first: {first}"),
        };
        let stderr = said.stderr.text();
        if !stderr.is_empty() {
            text.push_str("\nits standard error:\n");
            text.push_str(&stderr);
        }
        text
    }

    fn said(&self) -> MutexGuard<'_, ServerFacts> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody waits any more: the keeper is dropped, and its group with it, which kills it.
impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// What the task that holds the process works with.
struct ProcessSupervisor {
    said: Arc<Mutex<ServerFacts>>,
    quit: CancellationToken,
    gone: CancellationToken,
    shown: String,
    relayed: bool,
}

impl ProcessSupervisor {
    async fn keep(
        self,
        mut child: Child,
        mut group: ProcessGroup,
        stdout: ChildStdout,
        far: DuplexStream,
        grace: Duration,
    ) {
        let stderr = child.stderr.take();
        let messages = self.pass_on(stdout, far).fuse();
        let complaints = drain(stderr, |bytes| {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).stderr.push(bytes);
        });
        let mut messages = std::pin::pin!(messages);
        let mut complaints = std::pin::pin!(complaints.fuse());
        let end = loop {
            tokio::select! {
                biased;
                status = child.wait() => break Some(status),
                () = self.quit.cancelled() => {
                    // Its input is closed: a server that knows its manners ends by itself.
                    let pipes = async { tokio::join!(messages.as_mut(), complaints.as_mut()) };
                    let ended = async {
                        tokio::select! {
                            status = child.wait() => status,
                            never = forever(pipes) => match never {},
                        }
                    };
                    break tokio::time::timeout(grace, ended).await.ok();
                }
                complaint = messages.as_mut() => {
                    if let Some(complaint) = complaint {
                        self.ended(complaint);
                        break None;
                    }
                    break tokio::time::timeout(LINGER, child.wait()).await.ok();
                }
                () = complaints.as_mut() => {}
            }
        };
        if let Some(status) = end {
            self.ended(self.told(status));
        }
        let mut pipes = std::pin::pin!(
            async {
                tokio::join!(rest(messages.as_mut()), rest(complaints.as_mut()));
            }
            .fuse()
        );
        group.settle(pipes.as_mut()).await;
        group.end(&mut child, pipes.as_mut()).await;
        self.ended("it closed its output and was ended".to_owned());
        self.gone.cancel();
    }

    /// Passes messages on and leaves out what is none. Ends with a complaint if the server cannot be listened to.
    async fn pass_on(&self, stdout: ChildStdout, mut far: DuplexStream) -> Option<String> {
        let mut lines = BoundedLines::new(stdout);
        loop {
            match lines.next().await {
                ServerLine::Whole(line) => {
                    let read = match answer::read(line) {
                        ReadLine::Undecodable(_) if self.relayed => ReadLine::Message,
                        read => read,
                    };
                    match read {
                        // Elsewhere a line may be why the message that follows it is no answer.
                        ReadLine::Message if self.relayed => self.is_sound(),
                        ReadLine::Message => {}
                        _ => self.noise(line),
                    }
                    let passed = match &read {
                        ReadLine::Message => line,
                        ReadLine::Instead(other) | ReadLine::Undecodable(other) => other,
                        ReadLine::Nameless(error) => &answer::error_line(None, error),
                        ReadLine::Batch(ids) => &answer::instead_of_batch(ids),
                        ReadLine::Unanswerable => {
                            return Some("it sent an answer that cannot be read and was ended".to_owned());
                        }
                        ReadLine::Noise => continue,
                    };
                    if far.write_all(passed).await.is_err() {
                        return None;
                    }
                }
                ServerLine::TooLong(beginning) => {
                    let read = if self.relayed {
                        answer::too_long(beginning, MOST_MESSAGE)
                    } else {
                        ReadLine::Unanswerable
                    };
                    match read {
                        ReadLine::Instead(other) if far.write_all(&other).await.is_ok() => {}
                        ReadLine::Instead(_) => return None,
                        ReadLine::Noise => self.noise(beginning),
                        _ => {
                            let message =
                                format!("it sent a message longer than {MOST_MESSAGE} bytes and was ended");
                            return Some(message);
                        }
                    }
                }
                ServerLine::End => return None,
            }
        }
    }

    /// A server that writes messages again does not fail by what it wrote before.
    fn is_sound(&self) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).noise = (0, String::new());
    }

    fn noise(&self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.noise.0 = said.noise.0.saturating_add(1);
        if said.noise.0 == 1 {
            let first = String::from_utf8_lossy(&line[..line.len().min(NOISE_BYTES)]);
            first.trim().clone_into(&mut said.noise.1);
        }
    }

    fn told(&self, status: io::Result<std::process::ExitStatus>) -> String {
        match status {
            Ok(status) => match status.code() {
                Some(code) => format!("`{}` exited with code {code}", self.shown),
                None => format!("`{}` was killed by {}", self.shown, signal_of(status)),
            },
            Err(error) => format!("how `{}` ended is not known: {}", self.shown, file_error(&error)),
        }
    }

    /// The first reason is the one that counts.
    fn ended(&self, how: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.end.get_or_insert(how);
    }
}

/// What is left of a future that may have ended.
async fn rest<T, F: futures_util::future::FusedFuture<Output = T>>(mut work: std::pin::Pin<&mut F>) {
    if !work.is_terminated() {
        work.as_mut().await;
    }
}

/// Lines of bounded length.
struct BoundedLines<R> {
    pipe: BufReader<R>,
    line: Vec<u8>,
}

enum ServerLine<'a> {
    /// A line with its end.
    Whole(&'a [u8]),
    /// The beginning of one that has more bytes than a message may have.
    TooLong(&'a [u8]),
    End,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    fn new(pipe: R) -> Self {
        Self { pipe: BufReader::new(pipe), line: Vec::new() }
    }

    async fn next(&mut self) -> ServerLine<'_> {
        self.line.clear();
        if self.line.capacity() > BUFFER_BYTES {
            self.line = Vec::new();
        }
        let mut is_long = false;
        loop {
            let Ok(piece) = self.pipe.fill_buf().await else { return ServerLine::End };
            if piece.is_empty() {
                // A last line without an end is cut off: no message.
                return ServerLine::End;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |at| at.saturating_add(1));
            self.line.extend_from_slice(&piece[..taken]);
            self.pipe.consume(taken);
            // What does not begin like a message is not kept whole.
            if self.line.len() > MOST_MESSAGE {
                is_long |= answer::begins_a_message(&self.line);
                self.line.truncate(if is_long { HEAD_BYTES } else { NOISE_BYTES });
            }
            if end.is_some() && is_long {
                self.line.truncate(HEAD_BYTES);
                return ServerLine::TooLong(&self.line);
            }
            if end.is_some() {
                return ServerLine::Whole(&self.line);
            }
        }
    }
}

fn command(program: &ServerProgram<'_>) -> Option<Command> {
    let (first, arguments) = program.command.split_first()?;
    let path = Path::new(first);
    let path = match program.working_dir {
        // A path with a folder in it is meant from the working directory, on every system.
        Some(dir) if path.is_relative() && path.components().count() > 1 => {
            let path = dir.join(path);
            std::path::absolute(&path).unwrap_or(path)
        }
        _ => PathBuf::from(path),
    };
    let mut command = Command::new(path);
    command.args(arguments).env_clear();
    if let Some(dir) = program.working_dir {
        command.current_dir(dir);
    }
    for name in program.pass_env {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(program.env);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    Some(command)
}

fn not_started(program: &ServerProgram<'_>, shown: &str, error: &io::Error) -> String {
    match program.working_dir {
        Some(dir) if !dir.is_dir() => format!("its working directory {} does not exist", dir.display()),
        _ => format!("`{shown}` cannot be started: {}", file_error(error)),
    }
}
