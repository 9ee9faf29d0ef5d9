//! What each key may use: how often it asks, and how much it spends in a period.
//!
//! A request is charged when it begins, with an estimate, and corrected when its tokens are known. One that begins below a limit is
//! answered whole, so a budget may be exceeded by what is in flight. Gateways that share count each request in one place when it
//! begins, and what it has used a little later.

mod charge;
mod key_use;
mod known_use;
mod ledger;
mod shared;

use std::collections::BTreeMap;

pub(super) use self::charge::KeyCharge;
pub(crate) use self::ledger::SpentRecord;
pub(super) use self::ledger::{KeyLedger, KeyStanding};
pub(super) use self::shared::SharedQuota;
use crate::policy::{Cost, PaceRate};
use crate::time::{Instant, Nanos};

/// How many bytes are taken for a token of a request, or of an answer, that its provider has not counted.
pub(super) const BYTES_OF_A_TOKEN: u64 = 4;

/// The limits of keys, by their names.
pub(crate) type KeyRules = BTreeMap<String, KeyRule>;

/// The limits of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRule {
    pub(crate) requests: Option<Placed<PaceRate>>,
    pub(crate) tokens: Option<Placed<PaceRate>>,
    pub(crate) budget: Option<KeyBudget>,
}

/// What a key may spend in each period.
#[derive(Clone, Debug)]
pub(crate) struct KeyBudget {
    pub(crate) per: Nanos,
    pub(crate) requests: Option<Placed<u64>>,
    pub(crate) tokens: Option<Placed<u64>>,
    pub(crate) cost: Option<Placed<Cost>>,
}

/// A value of the gateway's file, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    /// The file, the line and the column.
    pub(crate) place: String,
}

/// A key has used what it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRefusal {
    /// The limit: `pace.requests`, `budget.tokens`.
    pub(super) rule: &'static str,
    pub(super) value: String,
    pub(super) place: String,
    /// When it may ask again.
    pub(super) until: Instant,
    pub(super) is_budget: bool,
}

impl KeyRule {
    /// Whether it limits anything.
    pub(crate) const fn is_limited(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some() || self.budget.is_some()
    }
}

impl KeyBudget {
    /// When the period of that time begins. Periods are counted from 1970, in UTC: a day begins at midnight.
    const fn start(&self, now: Instant) -> Instant {
        match now.0.checked_rem(self.per.0) {
            Some(passed) => Instant(now.0.saturating_sub(passed)),
            None => now,
        }
    }

    /// When the next period begins.
    const fn end(&self, now: Instant) -> Instant {
        self.start(now).saturating_add(self.per)
    }
}
