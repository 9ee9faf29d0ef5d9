//! How far a request has come.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// How far a request has come.
#[derive(Default)]
pub(super) struct CallProgress {
    attempts: AtomicU32,
    target: Mutex<String>,
}

impl CallProgress {
    /// Another attempt begins.
    pub(super) fn begin(&self, target: &str) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How many attempts have begun.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// The model of the last one.
    pub(super) fn target(&self) -> String {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
