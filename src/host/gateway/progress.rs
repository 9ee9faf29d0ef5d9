//! How far a request has come.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{Directive, DirectiveKind, Note, OrphanToolCallsPruned};

/// How far a request has come.
#[derive(Default)]
pub(super) struct CallProgress {
    attempts: AtomicU32,
    target: Mutex<String>,
    /// What was done about the conversation so far.
    repaired: Mutex<Option<OrphanToolCallsPruned>>,
}

impl CallProgress {
    /// Another attempt begins.
    pub(super) fn begin(&self, target: &str) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes what a directive says about the conversation.
    pub(super) fn take(&self, directive: &Directive) {
        if let DirectiveKind::Note(Note::OrphanToolCallsPruned(repaired)) = &directive.order {
            *self.repaired.lock().unwrap_or_else(PoisonError::into_inner) = Some(repaired.clone());
        }
    }

    /// What was done about calls and results, such as `removed=1; inserted=2`.
    pub(super) fn repaired(&self) -> Option<String> {
        let repaired = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        let told = repaired.as_ref()?;
        let counts = [
            ("removed", told.pruned_count.saturating_add(told.dropped_count)),
            ("inserted", told.injected_count),
            ("moved", told.moved_count),
            ("malformed", told.malformed_count),
        ];
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        Some(counts.map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join("; "))
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
