//! Where sessions are kept: an append-only log for each, of one record a line.

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
pub use stream::{RecordStream, record_stream};

use crate::engine::{LogHeader, RecordError, RecordLine};
use crate::host::{BoxFuture, SharedState};

/// What a store is asked for.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Takes each line of a log that is opened.
pub type LineVisitor = Box<dyn FnMut(VerifiedLine<'_>) -> Result<(), RecordError> + Send>;

/// A place that keeps sessions. Its methods are called within a tokio runtime and do not block its threads.
pub trait Store: Send + Sync {
    /// What people call the place.
    fn place(&self) -> String;

    /// Where in it people find the session of that id, whether there is one or not.
    fn place_of(&self, id: &SessionId) -> String;

    /// Begins a session: its log has the line of the header, and nothing else.
    ///
    /// # Errors
    /// There is one of that id, or its log cannot be written.
    fn create<'a>(&'a self, id: &'a SessionId, header: &'a LogHeader)
    -> StoreFuture<'a, Box<dyn SessionLog>>;

    /// Opens a session to continue with it. A last record that was cut off is dropped.
    ///
    /// # Errors
    /// There is none of that id, somebody else has it open, or its log is damaged.
    fn open<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Box<dyn SessionLog>> {
        self.open_with(id, Box::new(|_| Ok(())))
    }

    /// Opens a session to continue with it, and shows `each` line of its log on the way. A line that it does not understand is
    /// damage, and so is one whose checksum does not match: [`VerifiedLine::parse`] says so. All lines are read before the log can be
    /// written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_with<'a>(&'a self, id: &'a SessionId, each: LineVisitor) -> StoreFuture<'a, Box<dyn SessionLog>>;

    /// The records of a session, the header first. A last record that was cut off is left out. [`record_stream`] makes a
    /// stream of an iterator.
    ///
    /// # Errors
    /// There is none of that id, or its log cannot be read. Damage is reported in its place.
    fn read<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, RecordStream>;

    /// All sessions, the one that was written last first. Their logs are not read.
    ///
    /// # Errors
    /// They cannot be looked at. A session that is damaged is no error.
    fn list(&self) -> StoreFuture<'_, SessionListing>;

    /// One session.
    ///
    /// # Errors
    /// There is none of that id, or it cannot be looked at.
    fn info<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, SessionInfo>;

    /// The sessions whose messages contain `text`, in capital letters or not. Those that cannot be read are left out.
    ///
    /// # Errors
    /// None of them can be looked at.
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

    /// Where hosts that use this place share breakers and budgets; `None`: it is no place of several hosts.
    fn shared_state(&self) -> Option<Arc<dyn SharedState>> {
        None
    }

    /// Gives a session a title. Its log is not touched.
    ///
    /// # Errors
    /// There is none of that id, or it cannot be written.
    fn rename<'a>(&'a self, id: &'a SessionId, title: &'a str) -> StoreFuture<'a, ()>;

    /// Deletes a session with all that belongs to it.
    ///
    /// # Errors
    /// There is none of that id, somebody has it open, or it cannot be deleted.
    fn delete<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, ()>;
}

/// The open log of one session. Nobody else can write to it until this is closed or dropped. A [`Recorder`] makes a journal of it, and
/// never drops a future of its methods before it has ended, but with the runtime.
pub trait SessionLog: Send {
    /// Where people find it.
    fn place(&self) -> String;

    /// Adds lines at the end: all of them or, after an error, none. [`VerifiedLine::parse`] verifies them before anything is
    /// added to the log again.
    ///
    /// # Errors
    /// They could not be written. What was in the log before is still in it, and whole.
    fn append(&mut self, lines: Vec<RecordLine>) -> StoreFuture<'_, ()>;

    /// A turn has ended: what was added may be made safe against a loss of power.
    ///
    /// # Errors
    /// The system reports that it could not.
    fn turn_ended(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Keeps the state that the next append leads to next to the log, and the one before it, so that a session can continue
    /// under another policy, which would have led elsewhere.
    ///
    /// # Errors
    /// It could not be written.
    fn keep_state(&mut self, _state: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The states that were kept last.
    fn kept_states(&mut self) -> BoxFuture<'_, Vec<Vec<u8>>> {
        Box::pin(ready(Vec::new()))
    }

    /// What is known of the session without its log; `None`: it is lost.
    fn meta(&mut self) -> BoxFuture<'_, Option<SessionMeta>> {
        Box::pin(ready(None))
    }

    /// Replaces what is known of the session without its log, but for a title that was given by hand.
    ///
    /// # Errors
    /// It could not be written.
    fn set_meta(&mut self, _meta: SessionMeta) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Lets others write to the session. What is dropped instead may be released a little later.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self);
        Box::pin(ready(()))
    }
}
