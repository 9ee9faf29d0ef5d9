//! What one request is charged with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::BYTES_OF_A_TOKEN;
use super::ledger::KeyLedger;
use crate::host::clock::Clock;
use crate::policy::{Cost, Price};
use crate::session::Usage;
use crate::time::Instant;

/// The estimate of a request, until what it used is known. Dropped before, the estimate stays, if a model was called, and what has
/// gone out of the answer is added.
pub(in crate::host::gateway) struct KeyCharge {
    ledger: Arc<Mutex<KeyLedger>>,
    clock: Clock,
    key: String,
    /// The period of the budget in which it has begun.
    since: Instant,
    estimate: u64,
    /// What the tokens of the model cost that was called last; `None`: none was.
    called: Mutex<Option<Price>>,
    /// How many characters of the answer have gone out.
    relayed: AtomicU64,
    /// What it used, as far as it is known.
    used: Mutex<Option<(u64, Cost)>>,
    /// What answers took that were not passed on, each at the price of its model.
    spent: Mutex<(u64, Cost)>,
}

impl KeyCharge {
    pub(in crate::host::gateway) fn new(
        ledger: &Arc<Mutex<KeyLedger>>,
        clock: Clock,
        key: &str,
        (since, estimate): (Instant, u64),
    ) -> Self {
        let (ledger, key) = (Arc::clone(ledger), key.to_owned());
        let (called, used, spent) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { ledger, clock, key, since, estimate, called, relayed: AtomicU64::new(0), used, spent }
    }

    /// A model is called for it whose tokens cost that.
    pub(in crate::host::gateway) fn called(&self, price: Option<Price>) {
        *self.called.lock().unwrap_or_else(PoisonError::into_inner) = Some(price.unwrap_or_default());
    }

    /// So many characters of the answer go out, of which a provider may not say how many tokens they are.
    pub(in crate::host::gateway) fn relayed(&self, characters: u64) {
        self.relayed.fetch_add(characters, Ordering::Relaxed);
    }

    /// It was answered, and the provider has said what that took.
    pub(in crate::host::gateway) fn answered(&self, usage: Usage) {
        self.uses(self.charged(usage));
    }

    /// The model that was called last took that for an answer which is not passed on.
    pub(in crate::host::gateway) fn spent(&self, usage: Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = both(*spent, self.charged(usage));
    }

    /// No model has answered it.
    pub(in crate::host::gateway) fn unanswered(&self) {
        self.uses((0, Cost::default()));
    }

    fn uses(&self, used: (u64, Cost)) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
    }

    /// What those tokens are at the price of the model; nothing if none was called.
    fn charged(&self, usage: Usage) -> (u64, Cost) {
        let price = *self.called.lock().unwrap_or_else(PoisonError::into_inner);
        price.map(|price| (usage.total(), usage.cost(price))).unwrap_or_default()
    }
}

fn both(one: (u64, Cost), other: (u64, Cost)) -> (u64, Cost) {
    (one.0.saturating_add(other.0), one.1.plus(other.1))
}

impl Drop for KeyCharge {
    fn drop(&mut self) {
        let known = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let output = self.relayed.load(Ordering::Relaxed).div_ceil(BYTES_OF_A_TOKEN);
        let used =
            known.unwrap_or_else(|| self.charged(Usage { input: self.estimate, output, ..Usage::default() }));
        let used = both(used, *self.spent.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.end(&self.key, (self.since, self.estimate), used, self.clock.now());
    }
}
