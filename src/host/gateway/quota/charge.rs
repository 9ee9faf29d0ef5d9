//! What one request is charged with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::ledger::KeyLedger;
use crate::host::clock::Clock;
use crate::policy::{Cost, Price};
use crate::session::Usage;
use crate::time::Instant;

/// The estimate of a request, until what it used is known. Dropped before, the estimate stays, if a model was called.
pub(in crate::host::gateway) struct KeyCharge {
    ledger: Arc<Mutex<KeyLedger>>,
    clock: Clock,
    key: String,
    /// The period of the budget in which it has begun.
    since: Instant,
    estimate: u64,
    was_called: AtomicBool,
    /// What it used, as far as it is known.
    used: Mutex<Option<(u64, Cost)>>,
}

impl KeyCharge {
    pub(in crate::host::gateway) fn new(
        ledger: &Arc<Mutex<KeyLedger>>,
        clock: Clock,
        key: &str,
        (since, estimate): (Instant, u64),
    ) -> Self {
        let (ledger, key) = (Arc::clone(ledger), key.to_owned());
        Self {
            ledger,
            clock,
            key,
            since,
            estimate,
            was_called: AtomicBool::new(false),
            used: Mutex::default(),
        }
    }

    /// A model is called for it.
    pub(in crate::host::gateway) fn called(&self) {
        self.was_called.store(true, Ordering::Relaxed);
    }

    /// It was answered; a provider may not say what that took.
    pub(in crate::host::gateway) fn answered(&self, usage: Option<Usage>, price: Option<Price>) {
        let usage = usage.unwrap_or(Usage { input: self.estimate, ..Usage::default() });
        self.uses(usage.total(), price.map(|price| usage.cost(price)).unwrap_or_default());
    }

    /// No model has answered it.
    pub(in crate::host::gateway) fn unanswered(&self) {
        self.uses(0, Cost::default());
    }

    fn uses(&self, tokens: u64, cost: Cost) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some((tokens, cost));
    }
}

impl Drop for KeyCharge {
    fn drop(&mut self) {
        let known = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let estimate = if self.was_called.load(Ordering::Relaxed) { self.estimate } else { 0 };
        let used = known.unwrap_or((estimate, Cost::default()));
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.end(&self.key, (self.since, self.estimate), used, self.clock.now());
    }
}
