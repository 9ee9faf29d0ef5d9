//! Errors of sessions and their logs.

use std::io;

use super::SessionId;
use crate::engine::{RecordError, RecordLineError};
use crate::host::file_error;

/// Why the rest of a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system cannot read the log.
    #[error("cannot read on after line {after}: {}", file_error(source))]
    Io {
        /// The last readable line, from 1.
        after: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("line {line}: {source}")]
    Damaged {
        /// The line, from 1.
        line: u64,
        /// The error in the line.
        source: RecordError,
    },
}

/// Why a session cannot be stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process writes to the session.
    #[error("session `{id}` is in use by another process; wait for it to end, or start a new session")]
    InUse {
        /// The session.
        id: SessionId,
    },
    /// The session does not exist.
    #[error("there is no session `{id}`: `{place}` does not exist")]
    NotFound {
        /// The session.
        id: SessionId,
        /// Where it would be stored.
        place: String,
    },
    /// The session already exists.
    #[error("there is a session `{id}` already: `{place}`; open it, or choose another id")]
    Exists {
        /// The session.
        id: SessionId,
        /// Where it is stored.
        place: String,
    },
    /// A file or folder cannot be opened, made or read.
    #[error("cannot {what} `{place}`: {}", file_error(source))]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file or folder.
        place: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Records could not be added.
    #[error("cannot write to session `{place}`: {}; what it held before is kept", file_error(source))]
    Write {
        /// The log.
        place: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A record cannot be written in a readable form.
    #[error("cannot write to session `{place}`: {source}; what it held before is kept")]
    Unwritable {
        /// The log.
        place: String,
        /// The error in the record.
        source: RecordLineError,
    },
    /// The log was deleted while it was open.
    #[error(
        "the log of the session was deleted while it was being written: `{place}`; what it held is lost, and nothing more can be kept"
    )]
    Deleted {
        /// The log.
        place: String,
    },
    /// Another process moved or changed the log while it was open.
    #[error(
        "the log of the session {how} while it was being written: `{place}`; nothing more is added to it"
    )]
    Changed {
        /// The log.
        place: String,
        /// The change.
        how: &'static str,
    },
    /// The address of a database is invalid.
    #[error(
        "this is not the address of a PostgreSQL database; write `postgres://USER@HOST:PORT/DATABASE`, with special characters \
         of the password as in `%40`"
    )]
    Address,
    /// The tables of a database have another version.
    #[error("{why}")]
    Schema {
        /// The versions, the place, and what to do.
        why: String,
    },
    /// A line of the log cannot be read.
    #[error("session `{place}` is damaged at line {line}: {source}")]
    Damaged {
        /// The log.
        place: String,
        /// The line, from 1.
        line: u64,
        /// The error in the line.
        source: RecordError,
    },
}

impl StoreError {
    /// An operation on a file or folder failed.
    pub(super) fn io(what: &'static str, place: impl std::fmt::Display, source: io::Error) -> Self {
        Self::Io { what, place: place.to_string(), source }
    }

    /// The log at this place cannot be read.
    pub(super) fn read(error: ReadError, place: impl std::fmt::Display) -> Self {
        match error {
            ReadError::Io { source, .. } => Self::io("read", place, source),
            ReadError::Damaged { line, source } => Self::Damaged { place: place.to_string(), line, source },
        }
    }
}
