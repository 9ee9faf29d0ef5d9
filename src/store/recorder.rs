//! Writes a run into a session.

use super::{SessionLog, SessionMeta, StoreError};
use crate::engine::{Directives, Envelope, Note, Order, RecordRef, State, Work};
use crate::host::{Journal, JournalError};

/// Of the 64 MiB of a record the rest is for what is written down beside a result.
const MOST_OF_A_RESULT: usize = 48 << 20;
/// So many different problems with the files beside the log are kept.
const MOST_PROBLEMS: usize = 8;

/// A journal that is the open log of a session.
pub struct Recorder {
    log: Box<dyn SessionLog>,
    /// What is known of the session without its log, as it should be by now.
    meta: Option<SessionMeta>,
    problems: Vec<String>,
}

impl core::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.log.path())
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// Writes into `log`.
    pub fn new(log: Box<dyn SessionLog>) -> Self {
        let meta = log.meta();
        Self { log, meta, problems: Vec::new() }
    }

    /// Where people find the session.
    pub fn path(&self) -> &std::path::Path {
        self.log.path()
    }

    /// Why the files beside the log could not be written, each reason once. The log is whole without them.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn problem(&mut self, error: &StoreError) {
        tracing::warn!(error = %error, "a file beside the session's log is not up to date");
        let problem = error.to_string();
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn add(&mut self, records: &[RecordRef<'_>]) -> Result<(), JournalError> {
        self.log.append(records).map_err(failed)
    }

    /// What is known without the log is written again when a run begins and at the end of each turn.
    fn keep_meta(&mut self) {
        let Some(meta) = &self.meta else { return };
        // The log has it all: this is no reason to stop a run.
        if let Err(error) = self.log.set_meta(meta) {
            self.problem(&error);
        }
    }

    fn note(&mut self, directives: &Directives, state: &State) {
        let Some(meta) = &mut self.meta else { return };
        (meta.turns, meta.tokens) = (state.turn, state.usage);
        for directive in &directives.0 {
            if let Order::Note(note) = &directive.order {
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
        self.add(&[RecordRef::Event(envelope)])?;
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
        let bytes = state.to_bytes();
        let (seq, hash) = (state.seq, state.digest());
        // Kept first: then the log names no state that is nowhere. The file only helps to resume under another policy, so a
        // run does not end for it.
        if let Err(error) = self.log.keep_state(&bytes) {
            self.problem(&error);
        }
        self.add(&[
            RecordRef::Directives { seq, policy, list: directives },
            RecordRef::State { seq, hash: &hash },
        ])?;
        self.note(directives, state);
        if directives.0.iter().any(|directive| ends_a_turn(&directive.order)) {
            self.keep_meta();
            self.log.turn_ended().map_err(failed)?;
        }
        Ok(())
    }
}

const fn ends_a_turn(order: &Order) -> bool {
    matches!(order, Order::Work(Work::PrepareTurn(_)) | Order::Note(Note::Finish { .. }))
}

fn failed(error: StoreError) -> JournalError {
    JournalError(Box::new(error))
}
