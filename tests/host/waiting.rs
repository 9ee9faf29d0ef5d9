//! Stores and logs for tests that wait for each answer.

use std::ops::Deref;
use std::sync::LazyLock;

use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};
use unfazed::engine::{LogHeader, Record, RecordLine};
use unfazed::store::{
    LineVisitor, Recorder, SessionId, SessionInfo, SessionListing, SessionLog, SessionMeta, Store, StoreError,
};

/// Waits on a runtime that works on meanwhile.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    RUNTIME.block_on(work)
}

/// A store.
pub(crate) struct Waited<S>(pub(crate) S);

/// An open log; others can write to the session once it is dropped.
pub(crate) struct WaitedLog(Option<Box<dyn SessionLog>>);

impl<S: Deref<Target: Store>> Deref for Waited<S> {
    type Target = S::Target;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S: Deref<Target: Store>> Waited<S> {
    pub(crate) fn create(&self, id: &SessionId, header: &LogHeader) -> Result<WaitedLog, StoreError> {
        wait(self.0.create(id, header)).map(WaitedLog::new)
    }

    pub(crate) fn open(&self, id: &SessionId) -> Result<WaitedLog, StoreError> {
        wait(self.0.open(id)).map(WaitedLog::new)
    }

    pub(crate) fn open_with(&self, id: &SessionId, each: LineVisitor) -> Result<WaitedLog, StoreError> {
        wait(self.0.open_with(id, each)).map(WaitedLog::new)
    }

    pub(crate) fn read(
        &self,
        id: &SessionId,
    ) -> Result<std::vec::IntoIter<Result<Record, StoreError>>, StoreError> {
        wait(async { Ok(self.0.read(id).await?.collect::<Vec<_>>().await.into_iter()) })
    }

    pub(crate) fn list(&self) -> Result<SessionListing, StoreError> {
        wait(self.0.list())
    }

    pub(crate) fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        wait(self.0.info(id))
    }

    pub(crate) fn search(&self, sessions: &[SessionId], text: &str) -> Result<Vec<SessionId>, StoreError> {
        wait(self.0.search(sessions, text))
    }

    pub(crate) fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        wait(self.0.rename(id, title))
    }

    pub(crate) fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        wait(self.0.delete(id))
    }
}

impl WaitedLog {
    pub(crate) fn new(log: Box<dyn SessionLog>) -> Self {
        Self(Some(log))
    }

    fn log(&mut self) -> &mut dyn SessionLog {
        &mut **self.0.as_mut().unwrap()
    }

    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let lines = records.iter().map(|record| RecordLine::new(record.as_ref()).unwrap()).collect();
        wait(self.log().append(lines))
    }

    pub(crate) fn turn_ended(&mut self) -> Result<(), StoreError> {
        wait(self.log().turn_ended())
    }

    pub(crate) fn keep_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        wait(self.log().keep_state(state.to_vec()))
    }

    pub(crate) fn kept_states(&mut self) -> Vec<Vec<u8>> {
        wait(self.log().kept_states())
    }

    pub(crate) fn meta(&mut self) -> Option<SessionMeta> {
        wait(self.log().meta())
    }

    pub(crate) fn set_meta(&mut self, meta: &SessionMeta) -> Result<(), StoreError> {
        wait(self.log().set_meta(meta.clone()))
    }

    pub(crate) fn into_inner(mut self) -> Box<dyn SessionLog> {
        self.0.take().unwrap()
    }

    /// A recorder whose task has its own threads.
    pub(crate) fn record(self) -> Recorder {
        wait(Recorder::new(self.into_inner()))
    }
}

impl Drop for WaitedLog {
    fn drop(&mut self) {
        if let Some(log) = self.0.take() {
            wait(log.close());
        }
    }
}
