//! The starts of calls under a pace: in no time do more start than the rate and its burst allow.

use std::collections::BTreeMap;

use unfazed::policy::PaceRate;
use unfazed::time::Instant;

/// When calls started, by tool or model.
#[derive(Default)]
pub(crate) struct Paces(BTreeMap<String, Vec<Instant>>);

impl Paces {
    /// Another call starts, of a tool or a model with a pool of its own.
    pub(crate) fn started(&mut self, name: &str, rate: PaceRate, now: Instant) {
        let starts = self.0.entry(name.to_owned()).or_default();
        starts.push(now);
        let (limit, per) = (u128::from(rate.limit.get()), u128::from(rate.per.0));
        for (before, begin) in starts.iter().enumerate() {
            let calls = (starts.len() - before) as u128;
            let allowed = u128::from(rate.burst.get()) + u128::from(now.since(*begin).0) * limit / per;
            assert!(calls <= allowed, "law 15: {calls} calls of {name} since {begin:?}, under {rate}");
        }
    }
}
