//! What keys have used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{KeyRefusal, KeyRule, KeyRules, Placed};
use crate::engine::PaceClock;
use crate::policy::{Cost, PaceRate};
use crate::time::Instant;

/// What keys have used, and what they may use.
#[derive(Default)]
pub(in crate::host::gateway) struct KeyLedger {
    rules: KeyRules,
    used: BTreeMap<String, KeyUse>,
    /// Whether anything was spent since it was written down last.
    is_changed: bool,
}

#[derive(Default)]
struct KeyUse {
    requests: Option<PaceClock>,
    tokens: Option<PaceClock>,
    /// The estimates of the requests in flight.
    reserved: u64,
    spent: SpentAmounts,
}

/// What a key has spent in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentAmounts {
    /// When the period began, in nanoseconds since 1970.
    since: Instant,
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    /// In picodollars.
    cost: u64,
}

/// What was spent by all keys, as it survives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentRecord {
    /// The version of this form.
    version: u32,
    keys: BTreeMap<String, SpentAmounts>,
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
    const VERSION: u32 = 1;

    /// Whether it is of this version.
    pub(crate) const fn is_known(&self) -> bool {
        self.version == Self::VERSION
    }
}

impl SpentAmounts {
    pub(crate) const fn cost(&self) -> Cost {
        Cost(self.cost)
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

    /// What was spent, if it has changed since the last time.
    pub(in crate::host::gateway) fn changed(&mut self) -> Option<SpentRecord> {
        if !core::mem::take(&mut self.is_changed) {
            return None;
        }
        let keys = self.used.iter().filter(|(_, used)| used.spent != SpentAmounts::default());
        let keys = keys.map(|(key, used)| (key.clone(), used.spent)).collect();
        Some(SpentRecord { version: SpentRecord::VERSION, keys })
    }

    /// A request of that key begins, which is estimated at so many tokens. `false`: the key has no limit.
    pub(in crate::host::gateway) fn begin(
        &mut self,
        key: &str,
        tokens: u64,
        now: Instant,
    ) -> Result<bool, KeyRefusal> {
        let Some(rule) = self.rules.get(key) else { return Ok(false) };
        let used = self.used.entry(key.to_owned()).or_default();
        used.follow(rule, now);
        if let Some(refusal) = used.over_budget(rule, now).or_else(|| used.over_pace(rule, tokens, now)) {
            return Err(refusal);
        }
        for (clock, units) in [(&mut used.requests, 1), (&mut used.tokens, tokens)] {
            if let Some(clock) = clock {
                clock.take(units, now);
            }
        }
        used.reserved = used.reserved.saturating_add(tokens);
        if rule.budget.is_some() {
            used.spent.requests = used.spent.requests.saturating_add(1);
            self.is_changed = true;
        }
        Ok(true)
    }

    /// It has ended, and has used that.
    pub(in crate::host::gateway) fn end(
        &mut self,
        key: &str,
        estimate: u64,
        (tokens, cost): (u64, Cost),
        now: Instant,
    ) {
        let Some(used) = self.used.get_mut(key) else { return };
        used.reserved = used.reserved.saturating_sub(estimate);
        if let Some(clock) = &mut used.tokens {
            if tokens > estimate {
                clock.take(tokens.saturating_sub(estimate), now);
            } else {
                clock.give_back(estimate.saturating_sub(tokens));
            }
        }
        let Some(rule) = self.rules.get(key).filter(|rule| rule.budget.is_some()) else { return };
        used.follow(rule, now);
        used.spent.tokens = used.spent.tokens.saturating_add(tokens);
        used.spent.cost = used.spent.cost.saturating_add(cost.0);
        self.is_changed = true;
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
                free: [&used.requests, &used.tokens].map(|clock| Some(clock.as_ref()?.free(now))),
                spent: used.spent,
                ends: rule.budget.as_ref().map(|budget| budget.end(now)),
            }
        };
        rules.iter().map(standing).collect()
    }
}

impl KeyUse {
    /// Takes over the rates and the period of that time.
    fn follow(&mut self, rule: &KeyRule, now: Instant) {
        for (clock, rate) in [(&mut self.requests, &rule.requests), (&mut self.tokens, &rule.tokens)] {
            match (clock.as_mut(), rate) {
                (_, None) => *clock = None,
                (Some(clock), Some(rate)) => clock.follow(rate.value, now),
                (None, Some(rate)) => *clock = Some(PaceClock::new(rate.value, now)),
            }
        }
        if let Some(budget) = &rule.budget {
            let start = budget.start(now);
            // A clock that is set back begins no period anew.
            if self.spent.since < start {
                self.spent = SpentAmounts { since: start, ..SpentAmounts::default() };
            }
        }
    }

    fn over_budget(&self, rule: &KeyRule, now: Instant) -> Option<KeyRefusal> {
        let budget = rule.budget.as_ref()?;
        let refusal = |rule, value: String, place: &str| KeyRefusal {
            rule,
            value: format!("{value} in {}", budget.per),
            place: place.to_owned(),
            until: budget.end(now),
            is_budget: true,
        };
        let tokens = self.spent.tokens.saturating_add(self.reserved);
        let requests = (budget.requests.as_ref(), self.spent.requests, "budget.requests");
        for (limit, used, name) in [requests, (budget.tokens.as_ref(), tokens, "budget.tokens")] {
            if let Some(Placed { value, place }) = limit.filter(|limit| used >= limit.value) {
                return Some(refusal(name, value.to_string(), place));
            }
        }
        let Placed { value, place } =
            budget.cost.as_ref().filter(|limit| self.spent.cost() >= limit.value)?;
        Some(refusal("budget.cost", format!("{value} USD"), place))
    }

    fn over_pace(&mut self, rule: &KeyRule, tokens: u64, now: Instant) -> Option<KeyRefusal> {
        let requests = (&mut self.requests, &rule.requests, 1, "pace.requests");
        let limits = [requests, (&mut self.tokens, &rule.tokens, tokens, "pace.tokens")];
        let late = limits.into_iter().filter_map(|(clock, rate, units, name)| {
            let until = clock.as_mut()?.due(0, units, now);
            (until > now).then_some((until, rate.as_ref()?, name))
        });
        let (until, rate, rule) = late.max_by_key(|(until, ..)| *until)?;
        let Placed { value, place }: &Placed<PaceRate> = rate;
        Some(KeyRefusal { rule, value: value.to_string(), place: place.clone(), until, is_budget: false })
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::super::KeyBudget;
    use super::*;
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
        let (mut ledger, now) = (ledger(budget(100)), secs(86_400 * 3 + 5));
        for _ in 0..10 {
            assert_eq!(refused(&mut ledger, now), None);
        }
        let midnight = secs(86_400 * 4);
        assert_eq!(refused(&mut ledger, now), Some(("budget.tokens", midnight)));
        ledger.end("shop", 10, (0, Cost(0)), now);
        assert_eq!(refused(&mut ledger, now), None, "one that used nothing gives its tokens back");
        for _ in 0..10 {
            ledger.end("shop", 10, (1, Cost(50)), now);
        }
        assert_eq!(refused(&mut ledger, now), Some(("budget.cost", midnight)));
        assert_eq!(refused(&mut ledger, midnight), None);
        assert_eq!(ledger.begin("other", 1, now), Ok(false), "others have no limit");
    }

    #[test]
    fn what_was_spent_survives_and_other_limits_change_nothing_of_it() {
        let (mut before, now) = (ledger(budget(20)), secs(86_400 * 3 + 5));
        assert_eq!(before.begin("shop", 10, now), Ok(true));
        before.end("shop", 10, (20, Cost(1)), now);
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
        ledger.end("shop", 10, (170, Cost(0)), now);
        assert_eq!(refused(&mut ledger, secs(1_010)), Some(("pace.tokens", secs(1_090))));
        assert_eq!(ledger.changed(), None, "a pace is not written down");
    }
}
