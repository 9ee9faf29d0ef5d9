//! Stores of sessions: one append-only log per session, with one record per line.

mod beside;
mod contract;
mod error;
mod folder;
mod fsync;
mod id;
mod jsonl;
mod list;
mod lock;
mod log_file;
mod mend;
mod meta;
#[cfg(feature = "postgres")]
mod postgres;
mod read;
mod recorder;
mod resume;
mod scan;
mod search;
#[cfg(feature = "serve")]
mod spent_file;
mod stream;
mod writer;

use std::future::ready;
use std::sync::Arc;

use futures_util::StreamExt;

pub use contract::{ContractError, contract};
pub use error::{ReadError, StoreError};
pub use fsync::FsyncMode;
pub use id::{SessionId, SessionIdError};
pub use jsonl::JsonlStore;
pub(crate) use meta::META_FORMAT;
pub use meta::{SessionInfo, SessionListing, SessionMeta, SessionStatus};
#[cfg(feature = "postgres")]
pub use postgres::{MigrationReport, PgConfig, PgStore};
pub use read::{LogRecords, read_log};
pub use recorder::Recorder;
pub use resume::{ResumeError, ResumedSession, resume};
pub use scan::{LineKind, VerifiedLine};
pub(crate) use search::TextQuery;
#[cfg(feature = "serve")]
pub(crate) use spent_file::{SpentFile, SpentFileError};
pub use stream::{RecordStream, record_stream};

use crate::engine::{LogHeader, RecordError, RecordLine};
use crate::host::{BoxFuture, SharedState};

/// The future of a store's method.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Receives each line of a log that is opened.
pub type LineVisitor = Box<dyn FnMut(VerifiedLine<'_>) -> Result<(), RecordError> + Send>;

/// A store of sessions. Its methods are called within a tokio runtime and do not block its threads.
pub trait Store: Send + Sync {
    /// The name of the place, for people.
    fn place(&self) -> String;

    /// The place of the session with this id, whether it exists or not.
    fn place_of(&self, id: &SessionId) -> String;

    /// Begins a session: its log contains the line of the header only.
    ///
    /// # Errors
    /// A session with this id exists, or its log cannot be written.
    fn create<'a>(&'a self, id: &'a SessionId, header: &'a LogHeader)
    -> StoreFuture<'a, Box<dyn SessionLog>>;

    /// Opens a session to continue it. A last record that was cut off is removed.
    ///
    /// # Errors
    /// There is no session with this id, another process has it open, or its log is damaged.
    fn open<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Box<dyn SessionLog>> {
        self.open_with(id, Box::new(|_| Ok(())))
    }

    /// Opens a session to continue it, and passes each line of its log to `each`. A line that `each` cannot read
    /// counts as damage, and so does a wrong checksum, which [`VerifiedLine::parse`] detects. All lines are read
    /// before the log can be written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_with<'a>(&'a self, id: &'a SessionId, each: LineVisitor) -> StoreFuture<'a, Box<dyn SessionLog>>;

    /// The records of a session, the header first. A last record that was cut off is left out. [`record_stream`]
    /// makes a stream from an iterator.
    ///
    /// # Errors
    /// There is no session with this id, or its log cannot be read. Damage is reported at its place in the stream.
    fn read<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, RecordStream>;

    /// All sessions, the last written first. Their logs are not read.
    ///
    /// # Errors
    /// The sessions cannot be listed. A damaged session is no error.
    fn list(&self) -> StoreFuture<'_, SessionListing>;

    /// One session.
    ///
    /// # Errors
    /// There is no session with this id, or its metadata cannot be read.
    fn info<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, SessionInfo>;

    /// The sessions whose messages contain `text`, ignoring case. Unreadable sessions are left out.
    ///
    /// # Errors
    /// No session can be searched.
    fn search<'a>(&'a self, sessions: &'a [SessionId], text: &'a str) -> StoreFuture<'a, Vec<SessionId>> {
        Box::pin(async move {
            let query = TextQuery::new(text);
            let mut found = Vec::new();
            for id in sessions {
                let Ok(mut records) = self.read(id).await else { continue };
                while let Some(Ok(record)) = records.next().await {
                    if query.is_in_record(&record) {
                        found.push(id.clone());
                        break;
                    }
                }
            }
            Ok(found)
        })
    }

    /// The state that hosts of this store share; `None`: the store is not for several hosts.
    fn shared_state(&self) -> Option<Arc<dyn SharedState>> {
        None
    }

    /// Gives a session a title. Its log does not change.
    ///
    /// # Errors
    /// There is no session with this id, or the title cannot be written.
    fn rename<'a>(&'a self, id: &'a SessionId, title: &'a str) -> StoreFuture<'a, ()>;

    /// Deletes a session with all its data.
    ///
    /// # Errors
    /// There is no session with this id, a process has it open, or it cannot be deleted.
    fn delete<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, ()>;
}

/// The open log of one session. No other process can write to it until it is closed or dropped. A [`Recorder`] makes
/// a journal of it, and completes every future of its methods, unless the runtime ends.
pub trait SessionLog: Send {
    /// The place of the log, for people.
    fn place(&self) -> String;

    /// Appends lines: all of them or, after an error, none. [`VerifiedLine::parse`] verifies them when the log is
    /// opened again.
    ///
    /// # Errors
    /// The lines could not be written. Earlier lines are unchanged.
    fn append(&mut self, lines: Vec<RecordLine>) -> StoreFuture<'_, ()>;

    /// Handles the end of a turn: appended lines may be made safe against a loss of power.
    ///
    /// # Errors
    /// The system reports a failure.
    fn turn_ended(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Stores the state after the next append next to the log, together with the one before, so that a session can
    /// continue under another policy, whose replay would lead to another state.
    ///
    /// # Errors
    /// The state could not be written.
    fn keep_state(&mut self, _state: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The last stored states.
    fn kept_states(&mut self) -> BoxFuture<'_, Vec<Vec<u8>>> {
        Box::pin(ready(Vec::new()))
    }

    /// The stored metadata of the session; `None`: it is lost.
    fn meta(&mut self) -> BoxFuture<'_, Option<SessionMeta>> {
        Box::pin(ready(None))
    }

    /// Replaces the metadata of the session, except a title given by hand.
    ///
    /// # Errors
    /// The metadata could not be written.
    fn set_meta(&mut self, _meta: SessionMeta) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Lets other processes write to the session. A log that is dropped instead may be released a little later.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self);
        Box::pin(ready(()))
    }
}
