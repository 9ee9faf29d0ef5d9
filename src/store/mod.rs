//! Where sessions are kept: an append-only log for each, of one record a line.

mod id;
mod jsonl;
mod read;
mod recorder;

use std::path::{Path, PathBuf};

pub use id::{SessionId, SessionIdError};
pub use jsonl::{Fsync, JsonlStore};
pub use read::{ReadError, Records, read_log};
pub use recorder::Recorder;

use crate::engine::{LogHeader, Record, RecordError, RecordRef};

/// A place that keeps sessions.
pub trait Store: Send + Sync {
    /// Begins a session.
    ///
    /// # Errors
    /// There is one of that id, or its log cannot be written.
    fn create(&self, id: &SessionId, header: &LogHeader) -> Result<Box<dyn SessionLog>, StoreError>;

    /// Opens a session to go on with it. A last record that was cut off is dropped.
    ///
    /// # Errors
    /// There is none of that id, somebody else has it open, or its log is damaged.
    fn open(&self, id: &SessionId) -> Result<Box<dyn SessionLog>, StoreError>;

    /// The records of a session, the header first. A last record that was cut off is left out.
    ///
    /// # Errors
    /// There is none of that id, or its log cannot be read. Damage is reported in its place.
    fn read(
        &self,
        id: &SessionId,
    ) -> Result<Box<dyn Iterator<Item = Result<Record, StoreError>> + Send>, StoreError>;
}

/// The open log of one session. Nobody else can write to it until this is dropped.
pub trait SessionLog: Send {
    /// Adds records at the end: all of them or, after an error, none.
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
}

/// Why a session cannot be kept or read.
#[derive(Debug, thiserror::Error)]
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
    #[error("cannot {what} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Records could not be added.
    #[error("cannot write to session `{}`: {source}; what it held before is kept", path.display())]
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
