//! What several hosts have found of providers that fail, brought together.
//!
//! Each host decides by its own state. Of what it was told last, of what the others know, and of its own state follows what has
//! changed here and what elsewhere; where both have changed, the later end counts.

use std::collections::BTreeMap;

use super::provider_outages::{OutageProbes, PoolOutage, ProviderOutages};
use super::state::State;
use crate::time::Instant;

impl State {
    /// The outages that hold calls of this run at `now`.
    pub fn outages(&self, now: Instant) -> ProviderOutages {
        let cooldowns = self.models.cooldowns().map(|(name, until)| (name.to_owned(), until)).collect();
        ProviderOutages { cooldowns, pools: self.pace.outages() }.at(now)
    }
}

impl ProviderOutages {
    /// What of it holds at that time.
    #[must_use]
    pub fn at(mut self, now: Instant) -> Self {
        // A cooldown without an end lasts as long as its run, which is that of one host.
        self.cooldowns.retain(|_, until| *until > now && *until < Instant::MAX);
        for pool in self.pools.values_mut() {
            pool.held_until = if pool.held_until > now { pool.held_until } else { Instant::default() };
        }
        self.pools.retain(|_, pool| *pool != PoolOutage::default());
        self
    }

    /// What all know: what `others` know, with what has changed here since all knew `known`.
    #[must_use]
    pub fn joined(&self, known: &Self, others: &Self) -> Self {
        let until = |own: Instant, known: Instant, others: Instant| {
            changed(own, &known, others).unwrap_or_else(|| own.max(others))
        };
        let pool = |own: PoolOutage, known: PoolOutage, others: PoolOutage| PoolOutage {
            held_until: own.held_until.max(others.held_until),
            probes: changed(own.probes, &known.probes, others.probes)
                .unwrap_or_else(|| later(own.probes, others.probes)),
        };
        Self {
            cooldowns: joined(&self.cooldowns, &known.cooldowns, &others.cooldowns, until),
            pools: joined(&self.pools, &known.pools, &others.pools, pool),
        }
    }

    /// What of it is not so in `own`.
    #[must_use]
    pub fn news_for(&self, own: &Self) -> Self {
        Self { cooldowns: news(&self.cooldowns, &own.cooldowns), pools: news(&self.pools, &own.pools) }
    }
}

/// The value on which both sides agree, or that one of them has changed.
fn changed<T: PartialEq>(own: T, known: &T, others: T) -> Option<T> {
    if own == *known || own == others {
        Some(others)
    } else if others == *known {
        Some(own)
    } else {
        None
    }
}

fn later(one: Option<OutageProbes>, other: Option<OutageProbes>) -> Option<OutageProbes> {
    [one, other].into_iter().flatten().max_by_key(|probes| probes.probe_at)
}

fn joined<T: Copy + Default + PartialEq>(
    own: &BTreeMap<String, T>,
    known: &BTreeMap<String, T>,
    others: &BTreeMap<String, T>,
    join: impl Fn(T, T, T) -> T,
) -> BTreeMap<String, T> {
    let of = |map: &BTreeMap<String, T>, name: &str| map.get(name).copied().unwrap_or_default();
    let value = |name: &String| (name.clone(), join(of(own, name), of(known, name), of(others, name)));
    let all = own.keys().chain(others.keys()).map(value);
    all.filter(|(_, value)| *value != T::default()).collect()
}

fn news<T: Copy + Default + PartialEq>(
    all: &BTreeMap<String, T>,
    own: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let differs = |name: &&String| all.get(*name) != own.get(*name);
    let value = |name: &String| (name.clone(), all.get(name).copied().unwrap_or_default());
    let mut names: Vec<&String> = all.keys().chain(own.keys()).filter(differs).collect();
    names.dedup();
    names.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;

    fn cooling(until: Option<u64>) -> ProviderOutages {
        let cooldowns = until.map(|until| ("model main".to_owned(), Instant(until)));
        ProviderOutages { cooldowns: cooldowns.into_iter().collect(), pools: BTreeMap::new() }
    }

    fn probed(probe_at: Option<u64>) -> ProviderOutages {
        let probes = |at| OutageProbes { failures: 3, probe_at: Instant(at), delay: Nanos(5), window: 1 };
        let pool =
            |at| ("model main".to_owned(), PoolOutage { probes: Some(probes(at)), ..PoolOutage::default() });
        ProviderOutages { cooldowns: BTreeMap::new(), pools: probe_at.map(pool).into_iter().collect() }
    }

    #[test]
    fn whoever_has_changed_something_is_followed_and_of_two_the_later_end_counts() {
        for of in [cooling, probed] {
            // Own, known, others, and what all know then.
            for (own, known, others, all) in [
                (Some(9), None, None, Some(9)),
                (None, None, Some(7), Some(7)),
                (None, Some(7), Some(7), None),
                (Some(7), Some(7), None, None),
                (Some(8), Some(7), Some(9), Some(9)),
                (None, Some(7), Some(9), Some(9)),
                (Some(9), Some(7), None, Some(9)),
                (None, Some(7), None, None),
            ] {
                assert_eq!(of(own).joined(&of(known), &of(others)), of(all), "{own:?} {known:?} {others:?}");
            }
        }
    }

    #[test]
    fn what_is_over_is_nobodys_news() {
        let (all, own) = (cooling(Some(7)), ProviderOutages::default());
        assert_eq!(all.news_for(&own), all);
        assert_eq!(own.news_for(&all), cooling(Some(0)));
        assert!(all.news_for(&all).is_empty());
        assert!(cooling(Some(7)).at(Instant(7)).is_empty());
        assert!(cooling(Some(u64::MAX)).at(Instant(7)).is_empty(), "it lasts as long as one run");
        assert_eq!(probed(Some(7)).at(Instant(9)), probed(Some(7)), "whoever calls next is the probe");
    }
}
