//! How far a request has come.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{ContextReduced, Directive, DirectiveKind, Note, OrphanToolCallsPruned};

/// How far a request has come.
#[derive(Default)]
pub(super) struct CallProgress {
    attempts: AtomicU32,
    target: Mutex<String>,
    /// What was done about the conversation so far.
    repaired: Mutex<Option<OrphanToolCallsPruned>>,
    /// How it was reduced so far, by all steps together.
    reduced: Mutex<Option<ContextReduced>>,
}

impl CallProgress {
    /// Another attempt begins.
    pub(super) fn begin(&self, target: &str) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes what a directive says about the conversation.
    pub(super) fn take(&self, directive: &Directive) {
        match &directive.order {
            DirectiveKind::Note(Note::OrphanToolCallsPruned(repaired)) => {
                *self.repaired.lock().unwrap_or_else(PoisonError::into_inner) = Some(repaired.clone());
            }
            DirectiveKind::Note(Note::ContextReduced(step)) => {
                let mut reduced = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
                let mut all = step.clone();
                if let Some(before) = &*reduced {
                    all.tokens_before = before.tokens_before;
                    all.shortened = all.shortened.saturating_add(before.shortened);
                    all.left_out = all.left_out.saturating_add(before.left_out);
                }
                *reduced = Some(all);
            }
            _ => {}
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

    /// What was taken out of the conversation, such as `left_out=12; shortened=3; tokens_before=9000; tokens_after=4200`.
    pub(super) fn reduced(&self) -> Option<String> {
        let reduced = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
        let ContextReduced { left_out, shortened, tokens_before, tokens_after, .. } = reduced.as_ref()?;
        let tokens = [("tokens_before", tokens_before), ("tokens_after", tokens_after)];
        let counts = [("left_out", left_out), ("shortened", shortened)];
        let counts = counts.iter().filter(|(_, count)| **count > 0).chain(&tokens);
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
