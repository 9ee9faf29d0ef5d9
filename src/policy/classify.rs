//! From what a provider or a tool reported to an error class, by a table that is data.

mod fold;
mod index;
mod row;
mod search;
mod status;
mod table;
mod unstated;

pub(crate) use fold::{folded, identifier, phrase};
pub use row::ErrorRow;
pub(crate) use row::written;
pub use status::StatusPattern;
pub use table::ErrorTable;

use super::{ErrorClass, Origin};
use crate::time::Nanos;

/// What is known of a failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureEvidence<'a> {
    /// The HTTP status.
    pub status: Option<u16>,
    /// The error code in the body.
    pub code: Option<&'a str>,
    /// The error type in the body, or the kind of a tool's error.
    pub kind: Option<&'a str>,
    /// The message.
    pub message: &'a str,
    /// The words of the body's detail fields.
    pub details: &'a [String],
    /// The provider, if the body names it.
    pub provider: Option<&'a str>,
}

/// The class of a failure, and the row that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifiedFailure {
    /// The class.
    pub class: ErrorClass,
    /// Whether the request itself is at fault: the same bytes will never work at the same place.
    pub request_at_fault: bool,
    /// How long to wait if the server does not say.
    pub wait: Option<Nanos>,
    /// The row of the table; `None` if no row matches, which the built-in table does not let happen, or if the
    /// class is certain without it.
    pub origin: Option<Origin>,
}

/// What is wrong with a row or a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ErrorTableError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl ClassifiedFailure {
    /// A class that needs no table.
    pub const fn certain(class: ErrorClass) -> Self {
        Self { class, request_at_fault: false, wait: None, origin: None }
    }
}

#[cfg(test)]
mod tests;
