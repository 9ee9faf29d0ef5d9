//! How far a request has come.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{ContextReduced, Directive, DirectiveKind, Note, OrphanToolCallsPruned};
use crate::policy::ErrorClass;

/// How far a request has come.
#[derive(Default)]
pub(super) struct CallProgress {
    attempts: AtomicU32,
    target: Mutex<String>,
    /// What was done about the conversation so far.
    repaired: Mutex<Option<OrphanToolCallsPruned>>,
    /// Whether the last attempt had the conversation as it came all the same.
    unchanged: AtomicBool,
    /// Whether the last attempt had a message of the user before what the model says first.
    opened: AtomicBool,
    /// How often something in the answer was repaired.
    mended: AtomicU32,
    /// What does not hold of an answer that passes all the same, and the place of the rule that lets it.
    passed: Mutex<Option<(ErrorClass, String)>>,
    /// How it was reduced so far, by all steps together.
    reduced: Mutex<Option<ContextReduced>>,
}

impl CallProgress {
    /// Another attempt begins.
    pub(super) fn begin(&self, target: &str) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        // What is said of an answer is about the one that passes.
        self.mended.store(0, Ordering::Relaxed);
        self.unchanged.store(false, Ordering::Relaxed);
        self.opened(false);
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether a message of the user was put before what the model says first.
    pub(super) fn opened(&self, opened: bool) {
        self.opened.store(opened, Ordering::Relaxed);
    }

    /// What was to be changed in the conversation is not sent.
    pub(super) fn unchanged(&self) {
        self.unchanged.store(true, Ordering::Relaxed);
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
            DirectiveKind::Note(Note::Repaired { .. } | Note::Renamed { .. }) => {
                self.mended.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// The answer passes, though it does not hold.
    pub(super) fn passes(&self, class: ErrorClass, place: String) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = Some((class, place));
    }

    /// What does not hold of an answer that passes all the same.
    pub(super) fn passed(&self) -> Option<(ErrorClass, String)> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was done about calls and results, and about the answer, such as `removed=1; inserted=2; answer=1`.
    pub(super) fn repaired(&self) -> Option<String> {
        let repaired = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        let told = repaired.as_ref().filter(|_| !self.unchanged.load(Ordering::Relaxed));
        let count = |of: fn(&OrphanToolCallsPruned) -> u64| told.map_or(0, of);
        let counts = [
            ("removed", count(|told| told.pruned_count.saturating_add(told.dropped_count))),
            ("inserted", count(|told| told.injected_count)),
            ("moved", count(|told| told.moved_count)),
            ("malformed", count(|told| told.malformed_count)),
            ("opened", u64::from(self.opened.load(Ordering::Relaxed))),
            ("answer", u64::from(self.mended.load(Ordering::Relaxed))),
        ];
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts = counts.map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join("; ");
        (told.is_some() || !counts.is_empty()).then_some(counts)
    }

    /// What was taken out of the conversation, such as `left_out=12; shortened=3; tokens_before=9000; tokens_after=4200`.
    pub(super) fn reduced(&self) -> Option<String> {
        let reduced = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
        let reduced = reduced.as_ref().filter(|_| !self.unchanged.load(Ordering::Relaxed));
        let ContextReduced { left_out, shortened, tokens_before, tokens_after, .. } = reduced?;
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
