//! Where sessions are kept: an append-only log for each, of one record a line.

mod beside;
mod id;
mod jsonl;
mod list;
mod mend;
mod meta;
#[cfg(feature = "postgres")]
mod postgres;
mod read;
mod recorder;
mod resume;
mod scan;
mod search;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "postgres")]
pub use crate::host::Shared;
pub use id::{SessionId, SessionIdError};
pub use jsonl::{Fsync, JsonlStore};
pub use meta::{Listing, META_FORMAT, SessionInfo, SessionMeta, SessionStatus};
#[cfg(feature = "postgres")]
pub use postgres::{Migrated, PgConfig, PgStore};
pub use read::{ReadError, Records, read_log};
pub use recorder::Recorder;
pub use resume::{ResumeError, Resumed, resume};
pub use scan::{Line, LineKind};
pub use search::Query;

use crate::engine::{LogHeader, Record, RecordError, RecordRef};
use crate::host::{SharedState, file_error};

/// A place that keeps sessions.
pub trait Store: Send + Sync {
    /// What people call the place.
    fn place(&self) -> String;

    /// Where in it people find the session of that id, whether there is one or not.
    fn place_of(&self, id: &SessionId) -> PathBuf;

    /// Begins a session.
    ///
    /// # Errors
    /// There is one of that id, or its log cannot be written.
    fn create(&self, id: &SessionId, header: &LogHeader) -> Result<Box<dyn SessionLog>, StoreError>;

    /// Opens a session to go on with it. A last record that was cut off is dropped.
    ///
    /// # Errors
    /// There is none of that id, somebody else has it open, or its log is damaged.
    fn open(&self, id: &SessionId) -> Result<Box<dyn SessionLog>, StoreError> {
        self.open_with(id, &mut |_| Ok(()))
    }

    /// Opens a session to go on with it, and shows `each` line of its log on the way. A line that it does not understand is
    /// damage, and so is one whose checksum does not match: [`Line::parse`] says so. All lines are read before the log can be
    /// written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_with(
        &self,
        id: &SessionId,
        each: &mut dyn FnMut(Line<'_>) -> Result<(), RecordError>,
    ) -> Result<Box<dyn SessionLog>, StoreError>;

    /// The records of a session, the header first. A last record that was cut off is left out.
    ///
    /// # Errors
    /// There is none of that id, or its log cannot be read. Damage is reported in its place.
    fn read(
        &self,
        id: &SessionId,
    ) -> Result<Box<dyn Iterator<Item = Result<Record, StoreError>> + Send>, StoreError>;

    /// All sessions, the one that was written last first. Their logs are not read.
    ///
    /// # Errors
    /// They cannot be looked at. A session that is damaged is no error.
    fn list(&self) -> Result<Listing, StoreError>;

    /// One session.
    ///
    /// # Errors
    /// There is none of that id, or it cannot be looked at.
    fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError>;

    /// The sessions in whose messages `text` stands, in capital letters or not. Those that cannot be read are left out.
    ///
    /// # Errors
    /// None of them can be looked at.
    fn search(&self, sessions: &[SessionId], text: &str) -> Result<Vec<SessionId>, StoreError>;

    /// Where hosts that use this place share breakers and budgets; `None`: it is no place of several hosts.
    fn shared_state(&self) -> Option<Arc<dyn SharedState>> {
        None
    }

    /// Gives a session a title. Its log is not touched.
    ///
    /// # Errors
    /// There is none of that id, or it cannot be written.
    fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError>;

    /// Deletes a session with all that belongs to it.
    ///
    /// # Errors
    /// There is none of that id, somebody has it open, or it cannot be deleted.
    fn delete(&self, id: &SessionId) -> Result<(), StoreError>;
}

/// The open log of one session. Nobody else can write to it until this is dropped.
pub trait SessionLog: Send {
    /// Adds records at the end: all of them or, after an error, none. Each is the line that [`RecordRef::write_to`] makes,
    /// whose checksum [`Line::parse`] verifies before anything is added to the log again.
    ///
    /// # Errors
    /// They could not be written. What was in the log before is still in it, and whole.
    fn append(&mut self, records: &[RecordRef<'_>]) -> Result<(), StoreError>;

    /// A turn has ended: what was added may be made safe against a loss of power.
    ///
    /// # Errors
    /// The system reports that it could not.
    fn turn_ended(&mut self) -> Result<(), StoreError>;

    /// Where people find it.
    fn path(&self) -> &Path;

    /// Keeps the state that the next append leads to beside the log, and the one before it, so that a session can go on
    /// under another policy, which would have led elsewhere.
    ///
    /// # Errors
    /// It could not be written.
    fn keep_state(&mut self, _state: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The states that were kept last.
    fn kept_states(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// What is known of the session without its log; `None`: it is lost.
    fn meta(&self) -> Option<SessionMeta> {
        None
    }

    /// Replaces what is known of the session without its log, but for a title that was given by hand.
    ///
    /// # Errors
    /// It could not be written.
    fn set_meta(&mut self, _meta: &SessionMeta) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Why a session cannot be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else writes to it.
    #[error("session `{id}` is in use by another process; wait for it to end, or start a new session")]
    InUse {
        /// The session.
        id: SessionId,
    },
    /// It does not exist.
    #[error("there is no session `{id}`: `{}` does not exist", path.display())]
    NotFound {
        /// The session.
        id: SessionId,
        /// Where it would be.
        path: PathBuf,
    },
    /// It exists already.
    #[error("there is a session `{id}` already: `{}`; open it, or choose another id", path.display())]
    Exists {
        /// The session.
        id: SessionId,
        /// Where it is.
        path: PathBuf,
    },
    /// A file or folder cannot be opened, made or read.
    #[error("cannot {what} `{}`: {}", path.display(), file_error(source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Records could not be added.
    #[error("cannot write to session `{}`: {}; what it held before is kept", path.display(), file_error(source))]
    Write {
        /// The log.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A record cannot be written so that it could be read again.
    #[error("cannot write to session `{}`: {why}; what it held before is kept", path.display())]
    Unwritable {
        /// The log.
        path: PathBuf,
        /// What is wrong with the record.
        why: String,
    },
    /// Its log was deleted while it was open.
    #[error(
        "the log of the session was deleted while it was being written: `{}`; what it held is lost, and nothing more can be kept",
        path.display()
    )]
    Deleted {
        /// The log.
        path: PathBuf,
    },
    /// Somebody else moved or changed its log while it was open.
    #[error(
        "the log of the session {how} while it was being written: `{}`; nothing more is added to it", path.display()
    )]
    Changed {
        /// The log.
        path: PathBuf,
        /// What has happened to it.
        how: &'static str,
    },
    /// The address of a database cannot be read.
    #[error(
        "this is not the address of a PostgreSQL database; write `postgres://USER@HOST:PORT/DATABASE`, with special characters \
         of the password as in `%40`"
    )]
    Address,
    /// The tables of a database are not those of this program.
    #[error("{why}")]
    Schema {
        /// Which, where, and what to do.
        why: String,
    },
    /// A line of the log cannot be read.
    #[error("session `{}` is damaged at line {line}: {source}", path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// 1-based line.
        line: u64,
        /// What is wrong with it.
        source: RecordError,
    },
}
