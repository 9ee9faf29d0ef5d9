//! What led to an error.

use core::error::Error;
use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

/// What led to an error, as its `source()` shows it: the error itself, or a text where there was none.
///
/// Errors that are cloned and compared share it: clones have the same cause, and two causes are equal if they say the same.
///
/// ```
/// use unfazed::ErrorCause;
/// let cause = ErrorCause::from("x".parse::<u8>().unwrap_err());
/// assert!(cause.downcast_ref::<std::num::ParseIntError>().is_some());
/// assert_eq!(ErrorCause::new("the disk is full").to_string(), "the disk is full");
/// ```
#[derive(Clone)]
pub struct ErrorCause(Arc<dyn Error + Send + Sync>);

impl ErrorCause {
    /// An error, or a text.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ErrorCause {
    fn from(error: E) -> Self {
        Self(Arc::new(error))
    }
}

// Not an error itself: the error below it is the one that `source()` returns and `downcast_ref` finds.
impl Deref for ErrorCause {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for ErrorCause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Eq for ErrorCause {}

impl fmt::Display for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
