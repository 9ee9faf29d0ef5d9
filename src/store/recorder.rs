//! Writes a run into a session.

use super::{SessionLog, StoreError};
use crate::engine::{Directives, Envelope, Note, Order, RecordRef, State, Work};
use crate::host::{Journal, JournalError};

/// A journal that is the open log of a session.
pub struct Recorder {
    log: Box<dyn SessionLog>,
}

impl Recorder {
    /// Writes into `log`.
    pub fn new(log: Box<dyn SessionLog>) -> Self {
        Self { log }
    }

    /// Where people find the session.
    pub fn path(&self) -> &std::path::Path {
        self.log.path()
    }

    fn add(&mut self, records: &[RecordRef<'_>]) -> Result<(), JournalError> {
        self.log.append(records).map_err(failed)
    }
}

impl Journal for Recorder {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        self.add(&[RecordRef::Event(envelope)])
    }

    fn directives(
        &mut self,
        policy: &str,
        directives: &Directives,
        state: &State,
    ) -> Result<(), JournalError> {
        let (seq, hash) = (state.seq, state.digest());
        self.add(&[
            RecordRef::Directives { seq, policy, list: directives },
            RecordRef::State { seq, hash: &hash },
        ])?;
        if directives.0.iter().any(|directive| ends_a_turn(&directive.order)) {
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
