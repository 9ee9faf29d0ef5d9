//! Why a session cannot be kept or read.

use std::io;

use super::SessionId;
use crate::engine::{RecordError, RecordLineError};
use crate::host::file_error;

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system cannot read it.
    #[error("cannot read on after line {after}: {}", file_error(source))]
    Io {
        /// The last line that could be read.
        after: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no record.
    #[error("line {line}: {source}")]
    Damaged {
        /// 1-based line.
        line: u64,
        /// What is wrong with it.
        source: RecordError,
    },
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
    #[error("there is no session `{id}`: `{place}` does not exist")]
    NotFound {
        /// The session.
        id: SessionId,
        /// Where it would be.
        place: String,
    },
    /// It exists already.
    #[error("there is a session `{id}` already: `{place}`; open it, or choose another id")]
    Exists {
        /// The session.
        id: SessionId,
        /// Where it is.
        place: String,
    },
    /// A file or folder cannot be opened, made or read.
    #[error("cannot {what} `{place}`: {}", file_error(source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// Records could not be added.
    #[error("cannot write to session `{place}`: {}; what it held before is kept", file_error(source))]
    Write {
        /// The log.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// A record cannot be written so that it could be read again.
    #[error("cannot write to session `{place}`: {source}; what it held before is kept")]
    Unwritable {
        /// The log.
        place: String,
        /// What is wrong with the record.
        source: RecordLineError,
    },
    /// Its log was deleted while it was open.
    #[error(
        "the log of the session was deleted while it was being written: `{place}`; what it held is lost, and nothing more can be kept"
    )]
    Deleted {
        /// The log.
        place: String,
    },
    /// Somebody else moved or changed its log while it was open.
    #[error(
        "the log of the session {how} while it was being written: `{place}`; nothing more is added to it"
    )]
    Changed {
        /// The log.
        place: String,
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
    #[error("session `{place}` is damaged at line {line}: {source}")]
    Damaged {
        /// The log.
        place: String,
        /// 1-based line.
        line: u64,
        /// What is wrong with it.
        source: RecordError,
    },
}

impl StoreError {
    /// Something cannot be done with a file or folder.
    pub(super) fn io(what: &'static str, place: impl std::fmt::Display, source: io::Error) -> Self {
        Self::Io { what, place: place.to_string(), source }
    }

    /// The log that is kept there cannot be read.
    pub(super) fn read(error: ReadError, place: impl std::fmt::Display) -> Self {
        match error {
            ReadError::Io { source, .. } => Self::io("read", place, source),
            ReadError::Damaged { line, source } => Self::Damaged { place: place.to_string(), line, source },
        }
    }
}
