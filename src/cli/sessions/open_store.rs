//! The sessions of a place, for commands that wait for each answer.

use std::sync::Arc;

use crate::engine::Record;
use crate::store::{
    FsyncMode, JsonlStore, RecordStream, SessionId, SessionInfo, SessionListing, Store, StoreError,
};
use futures_util::StreamExt;

use crate::cli::exit::CommandFailure;
use crate::cli::runtime::Waiting;

/// The sessions of a place.
#[derive(Clone)]
pub(in crate::cli) struct OpenStore {
    store: Arc<dyn Store>,
    waiting: Waiting,
}

/// The records of a session, in order.
pub(in crate::cli) struct SessionRecords {
    records: RecordStream,
    waiting: Waiting,
}

impl OpenStore {
    /// What `open` opens.
    pub(super) fn open<S: Store + 'static>(
        open: impl Future<Output = Result<S, CommandFailure>>,
    ) -> Result<Self, CommandFailure> {
        let waiting = Waiting::new()?;
        let store = waiting.wait(open)?;
        Ok(Self { store: Arc::new(store), waiting })
    }

    /// The sessions in that folder.
    pub(in crate::cli) fn folder(
        path: impl Into<std::path::PathBuf>,
        fsync: FsyncMode,
    ) -> Result<Self, CommandFailure> {
        Self::open(std::future::ready(Ok(JsonlStore::new(path, fsync))))
    }

    /// For who does not block.
    pub(in crate::cli) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(in crate::cli) fn place(&self) -> String {
        self.store.place()
    }

    pub(in crate::cli) fn place_of(&self, id: &SessionId) -> String {
        self.store.place_of(id)
    }

    pub(in crate::cli) fn list(&self) -> Result<SessionListing, StoreError> {
        self.waiting.wait(self.store.list())
    }

    pub(in crate::cli) fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        self.waiting.wait(self.store.info(id))
    }

    pub(in crate::cli) fn read(&self, id: &SessionId) -> Result<SessionRecords, StoreError> {
        let records = self.waiting.wait(self.store.read(id))?;
        Ok(SessionRecords { records, waiting: self.waiting.clone() })
    }

    pub(in crate::cli) fn search(
        &self,
        sessions: &[SessionId],
        text: &str,
    ) -> Result<Vec<SessionId>, StoreError> {
        self.waiting.wait(self.store.search(sessions, text))
    }

    pub(in crate::cli) fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        self.waiting.wait(self.store.rename(id, title))
    }

    pub(in crate::cli) fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.waiting.wait(self.store.delete(id))
    }
}

impl Iterator for SessionRecords {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { records, waiting } = self;
        waiting.wait(records.next())
    }
}
