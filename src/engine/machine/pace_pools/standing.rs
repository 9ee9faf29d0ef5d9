//! How much of a pool's paces is left, for people.

use super::PacePools;
use crate::engine::pace_clock::PaceClock;
use crate::policy::PaceRate;
use crate::time::Instant;

/// A pool of calls that share a pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceStanding {
    /// Its name.
    pub pool: String,
    /// The end of the pause that a server asked for, or until which nothing is left of a limit.
    pub held_until: Option<Instant>,
    /// What holds its calls back because the provider fails; `None`: it does not.
    pub outage: Option<String>,
    /// The calls that wait for their turn.
    pub waiting: usize,
    /// Its rates.
    pub rates: Vec<RateStanding>,
}

/// One rate of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStanding {
    /// `requests` or `tokens`.
    pub unit: &'static str,
    /// How many of them there are in a period.
    pub rate: PaceRate,
    /// The units that may be taken now.
    pub free: u64,
    /// Whether answers of the provider state it.
    pub is_learned: bool,
}

impl PacePools {
    /// How a pool stands; `None`: it has no limit, and nothing waits.
    pub(in crate::engine) fn standing(&self, name: String, now: Instant) -> Option<PaceStanding> {
        let pool = self.pools.get(&name)?;
        let held_until = Some(pool.held_until.max(pool.learned.spent_until)).filter(|until| *until > now);
        let rate = |unit, clock: &Option<PaceClock>, is_learned| {
            let clock = clock.as_ref()?;
            Some(RateStanding { unit, rate: clock.rate(), free: clock.free(now), is_learned })
        };
        let rates = [
            rate("requests", &pool.requests, false),
            rate("tokens", &pool.tokens, false),
            rate("requests", &pool.learned.requests, true),
            rate("tokens", &pool.learned.tokens, true),
        ];
        let tried = pool.adaptive.standing(now);
        let tried = tried.map(|(rate, free)| RateStanding { unit: "requests", rate, free, is_learned: true });
        let rates: Vec<RateStanding> = rates.into_iter().flatten().chain(tried).collect();
        let (waiting, outage) = (pool.waiting.len(), pool.gate.text());
        let says_nothing = rates.is_empty() && waiting == 0 && held_until.is_none() && outage.is_none();
        (!says_nothing).then_some(PaceStanding { pool: name, held_until, outage, waiting, rates })
    }
}
