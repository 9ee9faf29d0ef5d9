//! Writes a session on a task of its own, in the order in which it was recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::{SessionLog, SessionMeta, StoreError};
use crate::engine::RecordLine;
use crate::host::JournalError;

/// So many different problems with the files next to the log are kept.
const MOST_PROBLEMS: usize = 8;

/// What is written at once.
#[derive(Default)]
pub(super) struct LogEntry {
    pub(super) lines: Vec<RecordLine>,
    /// The state that the lines lead to.
    pub(super) state: Option<Vec<u8>>,
    /// What is known of the session then, if a turn ends.
    pub(super) meta: Option<SessionMeta>,
    pub(super) turn_ended: bool,
}

/// What the task is asked for.
pub(super) enum WriterCommand {
    Write(LogEntry),
    /// Whether all that came before is written.
    Confirm(oneshot::Sender<Result<(), JournalError>>),
}

/// What others know of the task.
#[derive(Debug, Default)]
pub(super) struct WriterProgress {
    /// How many entries are written.
    written: AtomicU64,
    /// Why the files next to the log could not be written.
    problems: Mutex<Vec<String>>,
}

pub(super) struct LogWriter {
    pub(super) log: Box<dyn SessionLog>,
    pub(super) progress: Arc<WriterProgress>,
}

impl WriterProgress {
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, result: Result<(), StoreError>) {
        let Err(error) = result else { return };
        tracing::warn!(error = %error, "a sidecar file of the session's log is not up to date");
        let problem = error.to_string();
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MOST_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }
}

impl LogWriter {
    /// Writes until the recorder is closed. After the first failure nothing more is written.
    pub(super) async fn run(mut self, mut commands: UnboundedReceiver<WriterCommand>) {
        let (mut failed, mut failure, mut held) = (false, None, None);
        loop {
            let command = match held.take() {
                Some(command) => command,
                None => match commands.recv().await {
                    Some(command) => command,
                    None => break,
                },
            };
            match command {
                WriterCommand::Write(mut entry) => {
                    let (count, next) = entry.join(&mut commands);
                    held = next;
                    if failed {
                        continue;
                    }
                    match self.write(entry).await {
                        Ok(()) => {
                            self.progress.written.fetch_add(count, Ordering::Release);
                        }
                        Err(error) => (failed, failure) = (true, Some(error)),
                    }
                }
                WriterCommand::Confirm(answer) => {
                    let result = match (failed, failure.take()) {
                        (false, _) => Ok(()),
                        (true, Some(error)) => Err(JournalError(Box::new(error))),
                        (true, None) => Err(JournalError("it could not be written before".into())),
                    };
                    // The receiver of the answer may be gone.
                    let _ = answer.send(result);
                }
            }
        }
        self.log.close().await;
    }

    async fn write(&mut self, entry: LogEntry) -> Result<(), StoreError> {
        let LogEntry { lines, state, meta, turn_ended } = entry;
        // The state is kept before the log names its hash: after a crash in between, no hash lacks its state. The
        // file only helps to resume under another policy, so a failed write does not end the run.
        if let Some(state) = state {
            self.progress.note(self.log.keep_state(state).await);
        }
        self.log.append(lines).await?;
        // It can be made from the log again, so a failed write does not end the run.
        if let Some(meta) = meta {
            self.progress.note(self.log.set_meta(meta).await);
        }
        if turn_ended { self.log.turn_ended().await } else { Ok(()) }
    }
}

impl LogEntry {
    /// Takes what was recorded meanwhile with it: an event and what was decided about it are one append then. Two states are
    /// not, as only the last two are kept. Returns how many entries it is, and what comes after it.
    fn join(&mut self, commands: &mut UnboundedReceiver<WriterCommand>) -> (u64, Option<WriterCommand>) {
        let mut count = 1;
        while self.state.is_none() {
            match commands.try_recv() {
                Ok(WriterCommand::Write(more)) => {
                    self.lines.extend(more.lines);
                    (self.state, self.meta, self.turn_ended) = (more.state, more.meta, more.turn_ended);
                    count += 1;
                }
                other => return (count, other.ok()),
            }
        }
        (count, None)
    }
}
