//! Records a run in a session.

use std::future::ready;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::writer::{LogEntry, LogWriter, WriterCommand, WriterProgress};
use super::{SessionLog, SessionMeta, StoreError};
use crate::engine::{DirectiveKind, Directives, Envelope, Note, RecordLine, RecordRef, State, Work};
use crate::host::{BoxFuture, Journal, JournalError};

/// The maximum size of a stored result in bytes; the rest of the 64 MiB of a record is for the other fields.
const MOST_OF_A_RESULT: usize = 48 << 20;

/// A journal in the open log of a session. A task of the tokio runtime in which the recorder was made writes it.
#[derive(Debug)]
pub struct Recorder {
    commands: UnboundedSender<WriterCommand>,
    writer: JoinHandle<()>,
    progress: Arc<WriterProgress>,
    /// The number of entries sent to the task.
    sent: u64,
    place: String,
    /// The present metadata of the session.
    meta: Option<SessionMeta>,
}

impl Recorder {
    /// A recorder that writes into `log`.
    pub async fn new(mut log: Box<dyn SessionLog>) -> Self {
        let (place, meta) = (log.place(), log.meta().await);
        let (commands, receiver) = unbounded_channel();
        let progress = Arc::<WriterProgress>::default();
        let writer = LogWriter { log, progress: Arc::clone(&progress) };
        let writer = tokio::spawn(writer.run(receiver));
        Self { commands, writer, progress, sent: 0, place, meta }
    }

    /// The place of the session, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Why sidecar files could not be written, each reason once. The log is complete without them.
    pub fn problems(&self) -> Vec<String> {
        self.progress.problems()
    }

    /// Waits until everything is written, or cannot be, and releases the session. Returns the
    /// [`problems`](Self::problems). A recorder that is dropped instead is closed a little later, if the runtime
    /// still runs.
    pub async fn close(self) -> Vec<String> {
        drop(self.commands);
        // A task that has panicked has closed the log.
        let _ = self.writer.await;
        self.progress.problems()
    }

    fn line(&self, record: RecordRef<'_>) -> Result<RecordLine, JournalError> {
        RecordLine::new(record).map_err(|source| {
            JournalError(Box::new(StoreError::Unwritable { place: self.place.clone(), source }))
        })
    }

    fn send(&mut self, entry: LogEntry) {
        self.sent += 1;
        // Without the task no write is confirmed.
        let _ = self.commands.send(WriterCommand::Write(entry));
    }

    fn note(&mut self, directives: &Directives, state: &State) {
        let Some(meta) = &mut self.meta else { return };
        (meta.turns, meta.tokens) = (state.turn, state.usage);
        for directive in &directives.0 {
            if let DirectiveKind::Note(note) = &directive.order {
                meta.decided(note);
            }
        }
    }
}

impl Journal for Recorder {
    fn most_of_a_result(&self) -> Option<usize> {
        Some(MOST_OF_A_RESULT)
    }

    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        let line = self.line(RecordRef::Event(envelope))?;
        self.send(LogEntry { lines: vec![line], ..LogEntry::default() });
        if let Some(meta) = &mut self.meta {
            meta.happened(envelope);
        }
        Ok(())
    }

    fn directives(
        &mut self,
        policy: &str,
        directives: &Directives,
        state: &State,
    ) -> Result<(), JournalError> {
        let (seq, hash) = (state.seq, state.digest());
        let lines = vec![
            self.line(RecordRef::Directives { seq, policy, list: directives })?,
            self.line(RecordRef::State { seq, hash: &hash })?,
        ];
        self.note(directives, state);
        let turn_ended = directives.0.iter().any(|directive| ends_a_turn(&directive.order));
        // Written once per turn, not per event: it only serves lists, and the log contains the same.
        let meta = self.meta.clone().filter(|_| turn_ended);
        self.send(LogEntry { lines, state: Some(state.to_bytes()), meta, turn_ended });
        Ok(())
    }

    fn written(&mut self) -> Option<BoxFuture<'static, Result<(), JournalError>>> {
        if self.progress.written() == self.sent {
            return None;
        }
        let (answer, confirmed) = oneshot::channel();
        let ended = || Err(JournalError("the runtime that writes it has ended".into()));
        if self.commands.send(WriterCommand::Confirm(answer)).is_err() {
            return Some(Box::pin(ready(ended())));
        }
        Some(Box::pin(async move { confirmed.await.unwrap_or_else(|_| ended()) }))
    }
}

const fn ends_a_turn(order: &DirectiveKind) -> bool {
    matches!(order, DirectiveKind::Work(Work::PrepareTurn(_)) | DirectiveKind::Note(Note::Finish { .. }))
}
