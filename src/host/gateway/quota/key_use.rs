//! What one key has used.

use serde::{Deserialize, Serialize};

use super::{KeyRefusal, KeyRule, Placed};
use crate::engine::PaceClock;
use crate::policy::{Cost, PaceRate};
use crate::time::Instant;

/// What a key has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyUse {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests: Option<PaceClock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<PaceClock>,
    pub(super) spent: SpentAmounts,
}

/// What a key has spent in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentAmounts {
    /// When the period began, in nanoseconds since 1970.
    since: Instant,
    pub(crate) requests: u64,
    /// With the estimates of the requests in flight.
    pub(crate) tokens: u64,
    /// In picodollars.
    cost: u64,
}

impl KeyUse {
    /// A request begins, which is estimated at so many tokens. Returns the period of the budget.
    pub(super) fn begin(&mut self, rule: &KeyRule, tokens: u64, now: Instant) -> Result<Instant, KeyRefusal> {
        self.follow(rule, now);
        if let Some(refusal) = self.over_budget(rule, now).or_else(|| self.over_pace(rule, tokens, now)) {
            return Err(refusal);
        }
        for (clock, units) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
            if let Some(clock) = clock {
                clock.take(units, now);
            }
        }
        if rule.budget.is_some() {
            self.spent.requests = self.spent.requests.saturating_add(1);
            self.spent.tokens = self.spent.tokens.saturating_add(tokens);
        }
        Ok(self.spent.since)
    }

    /// One that began in that period has ended, and has used that.
    pub(super) fn end(
        &mut self,
        rule: &KeyRule,
        (since, estimate): (Instant, u64),
        (tokens, cost): (u64, Cost),
        now: Instant,
    ) {
        if let Some(clock) = &mut self.tokens {
            if tokens > estimate {
                clock.take(tokens.saturating_sub(estimate), now);
            } else {
                clock.give_back(estimate.saturating_sub(tokens));
            }
        }
        if rule.budget.is_none() {
            return;
        }
        self.follow(rule, now);
        // Of another period, or of a time without a budget, the estimate is not among what was spent.
        let reserved = if self.spent.since == since { estimate } else { 0 };
        self.spent.tokens = self.spent.tokens.saturating_sub(reserved).saturating_add(tokens);
        self.spent.cost = self.spent.cost.saturating_add(cost.0);
    }

    /// What all know: what is known to `others`, with what was used here since that was `known`.
    pub(super) fn joined(&self, known: &Self, others: &Self, now: Instant) -> Self {
        if known == others {
            return self.clone();
        }
        let clock = |own: &Option<PaceClock>, known: &Option<PaceClock>, others: &Option<PaceClock>| {
            let own = own.as_ref();
            match (own, others) {
                (Some(own), Some(others)) => Some(others.joined_by(own, known.as_ref(), now)),
                (own, others) => others.as_ref().or(own).cloned(),
            }
        };
        Self {
            requests: clock(&self.requests, &known.requests, &others.requests),
            tokens: clock(&self.tokens, &known.tokens, &others.tokens),
            spent: self.spent.joined(&known.spent, &others.spent),
        }
    }

    /// The latest time at which it was used: the clock of another gateway may be ahead.
    pub(super) fn latest(&self) -> Instant {
        let clocks = [&self.requests, &self.tokens].into_iter().flatten();
        clocks.map(PaceClock::at).max().unwrap_or_default()
    }

    /// The requests and the tokens that it may use at once.
    pub(super) fn free(&self, now: Instant) -> [Option<u64>; 2] {
        [&self.requests, &self.tokens].map(|clock| Some(clock.as_ref()?.free(now)))
    }

    /// Takes over the rates and the period of that time.
    pub(super) fn follow(&mut self, rule: &KeyRule, now: Instant) {
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
        let requests = (budget.requests.as_ref(), self.spent.requests, "budget.requests");
        let tokens = (budget.tokens.as_ref(), self.spent.tokens, "budget.tokens");
        for (limit, used, name) in [requests, tokens] {
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

impl SpentAmounts {
    pub(crate) const fn cost(&self) -> Cost {
        Cost(self.cost)
    }

    fn joined(&self, known: &Self, others: &Self) -> Self {
        // What was spent in a period that is over for the others counts no more.
        if self.since < others.since {
            return *others;
        }
        let of_now = |amounts: &Self| {
            if amounts.since == self.since { *amounts } else { Self { since: self.since, ..Self::default() } }
        };
        let (known, others) = (of_now(known), of_now(others));
        Self {
            since: self.since,
            requests: moved(others.requests, known.requests, self.requests),
            tokens: moved(others.tokens, known.tokens, self.tokens),
            cost: moved(others.cost, known.cost, self.cost),
        }
    }
}

/// An amount that is moved as far as another one was.
const fn moved(amount: u64, from: u64, to: u64) -> u64 {
    amount.saturating_add(to.saturating_sub(from)).saturating_sub(from.saturating_sub(to))
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::super::KeyBudget;
    use super::*;
    use crate::time::Nanos;

    const DAY: Nanos = Nanos::from_secs(86_400);

    fn rule(requests: u64, rate: u32) -> KeyRule {
        fn placed<T>(value: T) -> Placed<T> {
            Placed { value, place: "gateway.yaml:1:1".into() }
        }
        let limit = NonZeroU32::new(rate).unwrap();
        let rate = Some(placed(PaceRate { limit, per: Nanos(1_000), burst: limit }));
        let budget = KeyBudget { per: DAY, requests: Some(placed(requests)), tokens: None, cost: None };
        KeyRule { requests: rate.clone(), tokens: rate, budget: Some(budget) }
    }

    /// A gateway, and what it was told last.
    #[derive(Clone, Default)]
    struct Gateway {
        own: KeyUse,
        known: KeyUse,
        open: Vec<Instant>,
    }

    impl Gateway {
        fn meet(&mut self, all: &mut KeyUse, now: Instant) {
            *all = self.own.joined(&self.known, all, now.max(all.latest()));
        }

        fn told(&mut self, all: &KeyUse) {
            (self.own, self.known) = (all.clone(), all.clone());
        }
    }

    #[test]
    fn of_two_periods_the_later_one_counts() {
        let (rule, today) = (rule(9, 9), Instant(DAY.0));
        let (mut all, mut late) = (KeyUse::default(), KeyUse::default());
        late.begin(&rule, 1, Instant(5)).unwrap();
        all.begin(&rule, 1, today).unwrap();
        assert_eq!(late.joined(&KeyUse::default(), &all, today).spent, all.spent);
        let begins = all.joined(&late, &late, today);
        assert_eq!((begins.spent.since, begins.spent.requests), (today, 1));
    }

    proptest! {
        /// However requests begin and end at three gateways, none is lost, and no more begin than one gateway would let: neither
        /// of the budget nor, in any window, of the pace.
        #[test]
        fn many_gateways_count_as_one(
            acts in proptest::collection::vec((0usize..3, 0u8..4, 0u64..400, 0u64..9), 0..120),
            budget in 1u64..60, rate in 1u32..9,
        ) {
            let rule = rule(budget, rate);
            let (mut all, mut gateways) = (KeyUse::default(), vec![Gateway::default(); 3]);
            let (mut now, mut starts, mut tokens) = (Instant(DAY.0), Vec::new(), 0);
            for (gateway, act, pause, used) in acts {
                now = now.saturating_add(Nanos(pause));
                let gateway = &mut gateways[gateway];
                match act {
                    0 => if let Some(since) = gateway.open.pop() {
                        gateway.own.end(&rule, (since, 2), (used, Cost(used)), now);
                        tokens += used;
                    },
                    1 => {
                        gateway.meet(&mut all, now);
                        gateway.told(&all);
                    }
                    _ => {
                        gateway.meet(&mut all, now);
                        if let Ok(since) = all.begin(&rule, 2, now.max(all.latest())) {
                            gateway.open.push(since);
                            starts.push(now);
                        }
                        gateway.told(&all);
                    }
                }
            }
            let open: usize = gateways.iter().map(|gateway| gateway.open.len()).sum();
            for gateway in &mut gateways {
                gateway.meet(&mut all, now);
                gateway.told(&all);
            }
            let begun = starts.len() as u64;
            prop_assert!(begun <= budget);
            prop_assert_eq!((all.spent.requests, all.spent.tokens), (begun, tokens + 2 * open as u64));
            prop_assert_eq!(all.spent.cost, tokens);
            for (from, begin) in starts.iter().enumerate() {
                for (more, end) in starts[from..].iter().enumerate() {
                    let allowed = u64::from(rate) * 1_000 + end.since(*begin).0 * u64::from(rate);
                    prop_assert!((more as u64 + 1) * 1_000 <= allowed, "{more} more from {begin:?} to {end:?}");
                }
            }
        }
    }
}
