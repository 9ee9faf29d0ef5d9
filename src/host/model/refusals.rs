//! What the refusals of a server have taught of the requests that it takes. Each converted request has a wire format of its
//! own: what one has learned, those that follow know too.

use std::sync::{Mutex, PoisonError};

use crate::engine::Failure;
use crate::host::model::wire::WireFormat;

/// The refusals that have taught something, with what each has taught, in words.
#[derive(Debug, Default)]
pub(super) struct ServerRefusals(Mutex<Vec<(String, Failure)>>);

impl ServerRefusals {
    /// Lets a format know all of them.
    pub(super) fn teach(&self, format: &dyn WireFormat) {
        for (_, refusal) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // One that is about an option which this request does not have teaches nothing here.
            let _ = format.learn(refusal);
        }
    }

    /// What a refusal teaches the format whose request was refused, in words; `None`: nothing new.
    pub(super) fn learn(&self, format: &dyn WireFormat, refusal: &Failure) -> Option<String> {
        let note = format.learn(refusal)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests in flight at the same time learn the same.
        if !known.iter().any(|(words, _)| *words == note) {
            known.push((note.clone(), refusal.clone()));
        }
        Some(note)
    }
}
