//! What keys have used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::key_use::{KeyUse, SpentAmounts};
use super::known_use::UnsharedUse;
use super::{KeyRefusal, KeyRule, KeyRules};
use crate::policy::Cost;
use crate::time::Instant;

/// What keys have used, and what they may use.
#[derive(Default)]
pub(in crate::host::gateway) struct KeyLedger {
    rules: KeyRules,
    used: BTreeMap<String, KeyUse>,
    /// Whether anything was spent since it was written down last.
    is_changed: bool,
    /// The keys that have used something since others learned of it last.
    untold: BTreeSet<String>,
}

/// What was spent by all keys, as it survives the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentRecord {
    /// The version of this form.
    version: u32,
    keys: BTreeMap<String, SpentAmounts>,
    /// Of a gateway that shares, which counts elsewhere: what the others may not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unshared: Option<UnsharedUse>,
}

/// How a key stands.
pub(in crate::host::gateway) struct KeyStanding<'a> {
    pub(in crate::host::gateway) key: &'a str,
    pub(in crate::host::gateway) rule: &'a KeyRule,
    /// The requests and the tokens that it may use at once.
    pub(in crate::host::gateway) free: [Option<u64>; 2],
    pub(in crate::host::gateway) spent: SpentAmounts,
    /// When the period of its budget ends.
    pub(in crate::host::gateway) ends: Option<Instant>,
}

impl SpentRecord {
    /// The version that is written, and read.
    pub(crate) const VERSION: u32 = 1;

    pub(super) fn of_unshared(unshared: UnsharedUse) -> Self {
        Self { unshared: Some(unshared), ..Self::default() }
    }
}

impl Default for SpentRecord {
    fn default() -> Self {
        Self { version: Self::VERSION, keys: BTreeMap::new(), unshared: None }
    }
}

impl KeyLedger {
    /// Takes other limits; what was used stays used.
    pub(in crate::host::gateway) fn set_rules(&mut self, rules: KeyRules) {
        self.rules = rules;
    }

    /// Takes what was spent before.
    pub(in crate::host::gateway) fn restore(&mut self, record: SpentRecord) {
        for (key, spent) in record.keys {
            self.used.entry(key).or_default().spent = spent;
        }
    }

    /// Takes what was used before, of which others may not have learned.
    pub(super) fn restore_untold(&mut self, key: String, used: KeyUse) {
        self.untold.insert(key.clone());
        self.used.insert(key, used);
    }

    /// Whether anything was used since the last time.
    pub(super) fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.is_changed)
    }

    /// What was spent, if it has changed since the last time.
    pub(in crate::host::gateway) fn changed(&mut self) -> Option<SpentRecord> {
        if !self.take_change() {
            return None;
        }
        let keys = self.used.iter().filter(|(_, used)| used.spent != SpentAmounts::default());
        let keys = keys.map(|(key, used)| (key.clone(), used.spent)).collect();
        Some(SpentRecord { keys, ..SpentRecord::default() })
    }

    /// The keys with limits.
    pub(super) fn limited(&self) -> impl Iterator<Item = &String> {
        self.rules.keys()
    }

    /// Those of them that have used something since others learned of it.
    pub(super) fn untold(&self) -> impl Iterator<Item = &String> {
        self.untold.iter().filter(|key| self.rules.contains_key(*key))
    }

    /// The limits of a key, and what it has used; `None`: it has no limit.
    pub(super) fn of(&self, key: &str) -> Option<(&KeyRule, KeyUse)> {
        Some((self.rules.get(key)?, self.used.get(key).cloned().unwrap_or_default()))
    }

    /// Replaces what a key has used, and keeps what it has used since it was `before`. `is_known`: others know of it.
    pub(super) fn replace(
        &mut self,
        key: &str,
        (before, all): (&KeyUse, &KeyUse),
        is_known: bool,
        now: Instant,
    ) {
        let used = self.used.entry(key.to_owned()).or_default();
        if is_known && used == before {
            self.untold.remove(key);
        } else {
            self.untold.insert(key.to_owned());
        }
        self.is_changed = true;
        *used = used.joined(before, all, now);
    }

    /// Takes what others have used of a key since all knew `known`.
    pub(super) fn join(&mut self, key: &str, known: &KeyUse, others: &KeyUse, now: Instant) {
        let used = self.used.entry(key.to_owned()).or_default();
        *used = used.joined(known, others, now);
    }

    /// A request of that key begins, which is estimated at so many tokens. Returns the period of its budget; `None`: the key has no
    /// limit.
    pub(in crate::host::gateway) fn begin(
        &mut self,
        key: &str,
        tokens: u64,
        now: Instant,
    ) -> Result<Option<Instant>, KeyRefusal> {
        let Some(rule) = self.rules.get(key) else { return Ok(None) };
        let since = self.used.entry(key.to_owned()).or_default().begin(rule, tokens, now)?;
        self.untold.insert(key.to_owned());
        self.is_changed |= rule.budget.is_some();
        Ok(Some(since))
    }

    /// One that began in that period has ended, and has used that.
    pub(in crate::host::gateway) fn end(
        &mut self,
        key: &str,
        (since, estimate): (Instant, u64),
        used: (u64, Cost),
        now: Instant,
    ) {
        let (Some(rule), Some(known)) = (self.rules.get(key), self.used.get_mut(key)) else { return };
        known.end(rule, (since, estimate), used, now);
        self.untold.insert(key.to_owned());
        self.is_changed |= rule.budget.is_some();
    }

    /// How the keys with limits stand.
    pub(in crate::host::gateway) fn standings(&mut self, now: Instant) -> Vec<KeyStanding<'_>> {
        let Self { rules, used, .. } = self;
        let standing = |(key, rule)| {
            let used: &mut KeyUse = used.entry(String::clone(key)).or_default();
            used.follow(rule, now);
            KeyStanding {
                key,
                rule,
                free: used.free(now),
                spent: used.spent,
                ends: rule.budget.as_ref().map(|budget| budget.end(now)),
            }
        };
        rules.iter().map(standing).collect()
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::super::{KeyBudget, Placed};
    use super::*;
    use crate::policy::PaceRate;
    use crate::time::Nanos;

    const DAY: Nanos = Nanos::from_secs(86_400);

    const fn secs(secs: u64) -> Instant {
        Instant(Nanos::from_secs(secs).0)
    }

    fn placed<T>(value: T) -> Placed<T> {
        Placed { value, place: "gateway.yaml:1:1".into() }
    }

    fn ledger(rule: KeyRule) -> KeyLedger {
        let mut ledger = KeyLedger::default();
        ledger.set_rules([("shop".to_owned(), rule)].into());
        ledger
    }

    fn budget(tokens: u64) -> KeyRule {
        let budget = KeyBudget {
            per: DAY,
            requests: None,
            tokens: Some(placed(tokens)),
            cost: Some(placed(Cost(500))),
        };
        KeyRule { budget: Some(budget), ..KeyRule::default() }
    }

    fn refused(ledger: &mut KeyLedger, now: Instant) -> Option<(&'static str, Instant)> {
        ledger.begin("shop", 10, now).err().map(|refusal| (refusal.rule, refusal.until))
    }

    #[test]
    fn a_budget_holds_for_its_period_and_for_what_is_in_flight() {
        let (mut ledger, day, now) = (ledger(budget(100)), secs(86_400 * 3), secs(86_400 * 3 + 5));
        for _ in 0..10 {
            assert_eq!(refused(&mut ledger, now), None);
        }
        let midnight = secs(86_400 * 4);
        assert_eq!(refused(&mut ledger, now), Some(("budget.tokens", midnight)));
        ledger.end("shop", (day, 10), (0, Cost(0)), now);
        assert_eq!(refused(&mut ledger, now), None, "one that used nothing gives its tokens back");
        for _ in 0..10 {
            ledger.end("shop", (day, 10), (1, Cost(50)), now);
        }
        assert_eq!(refused(&mut ledger, now), Some(("budget.cost", midnight)));
        assert_eq!(refused(&mut ledger, midnight), None);
        assert_eq!(ledger.begin("other", 1, now), Ok(None), "others have no limit");
        // What began yesterday counts whole for the day on which it ends.
        ledger.end("shop", (day, 10), (85, Cost(0)), midnight);
        assert_eq!(
            [refused(&mut ledger, midnight), refused(&mut ledger, midnight)].map(|refused| refused.is_some()),
            [false, true]
        );
    }

    #[test]
    fn what_was_spent_survives_and_other_limits_change_nothing_of_it() {
        let (mut before, now) = (ledger(budget(20)), secs(86_400 * 3 + 5));
        let day = before.begin("shop", 10, now).unwrap().unwrap();
        before.end("shop", (day, 10), (20, Cost(1)), now);
        let record = before.changed().unwrap();
        assert_eq!(before.changed(), None);
        let text = serde_json::to_string(&record).unwrap();
        let mut after = ledger(budget(20));
        after.restore(serde_json::from_str(&text).unwrap());
        assert_eq!(refused(&mut after, now).map(|(rule, _)| rule), Some("budget.tokens"));
        after.set_rules([("shop".to_owned(), budget(40))].into());
        assert_eq!(refused(&mut after, now), None);
    }

    #[test]
    fn a_pace_says_when_the_next_request_may_come() {
        let rate = |limit, per| {
            let limit = NonZeroU32::new(limit).unwrap();
            placed(PaceRate { limit, per: Nanos::from_secs(per), burst: limit })
        };
        let rule = KeyRule { requests: Some(rate(2, 10)), tokens: Some(rate(100, 100)), budget: None };
        let (mut ledger, now) = (ledger(rule), secs(1_000));
        assert_eq!([refused(&mut ledger, now), refused(&mut ledger, now)], [None, None]);
        assert_eq!(refused(&mut ledger, now), Some(("pace.requests", secs(1_005))));
        // Tokens that were not foreseen are a debt.
        ledger.end("shop", (Instant::default(), 10), (170, Cost(0)), now);
        assert_eq!(refused(&mut ledger, secs(1_010)), Some(("pace.tokens", secs(1_090))));
        assert_eq!(ledger.changed(), None, "a pace is not written down");
    }
}
