//! The clock of a pace: how much a rate has released, and how much of that calls have taken.
//!
//! This is the generic cell rate algorithm as a virtual clock (Zhang, "Virtual Clock", SIGCOMM 1990): the clock counts
//! units of the rate instead of nanoseconds. So it can stop while a server asks for a pause, and change its speed with
//! the rate, and every waiting call keeps its place. All numbers are integers and the remainder of each division is
//! kept: governor rounds the time of a unit to a nanosecond, which drifts with rates of tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::PaceRate;
use crate::time::{Instant, Nanos};

/// A rate, with its use so far. Its units are requests or tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaceClock {
    rate: PaceRate,
    /// The units released until `at`.
    released: u64,
    /// The released part of the next unit, in units times nanoseconds; below `rate.per`.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    part: u64,
    /// The time up to which units were released; in the future while the clock stands still.
    at: Instant,
    /// The units that calls have taken. Below `released`: the rest may start at once.
    taken: u64,
}

impl PaceClock {
    /// A clock of which nothing was taken.
    pub fn new(rate: PaceRate, now: Instant) -> Self {
        let burst = u64::from(rate.burst.get());
        // Positions are counted from a full burst, so that none is negative.
        Self { rate, released: burst, part: 0, at: now, taken: burst }
    }

    /// Follows another rate from now on; what was taken stays taken.
    pub fn follow(&mut self, rate: PaceRate, now: Instant) {
        if self.rate == rate {
            return;
        }
        self.advance(now);
        // A part of a unit of another period means nothing; less than one unit is lost, so the rate is not exceeded.
        if self.rate.per != rate.per {
            self.part = 0;
        }
        self.rate = rate;
    }

    /// The time from which a call of so many units may start behind others that wait for `ahead` units.
    pub fn due(&mut self, ahead: u64, units: u64, now: Instant) -> Instant {
        self.advance(now);
        let burst = u64::from(self.rate.burst.get());
        // A call above the burst waits for a full one, and leaves a debt: it could never start otherwise.
        let needed = self.begin().saturating_add(ahead).saturating_add(units.min(burst));
        let position = needed.saturating_sub(burst);
        let Some(missing) = position.checked_sub(self.released).filter(|missing| *missing > 0) else {
            return self.at;
        };
        let (limit, per) = (u128::from(self.rate.limit.get()), u128::from(self.rate.per.0));
        let parts = u128::from(missing).saturating_mul(per).saturating_sub(self.part.into());
        let wait = u64::try_from(parts.div_ceil(limit)).unwrap_or(u64::MAX);
        self.at.saturating_add(Nanos(wait))
    }

    /// Takes units for a call that starts now.
    pub fn take(&mut self, units: u64, now: Instant) {
        self.advance(now);
        self.taken = self.begin().saturating_add(units);
    }

    /// Returns units that a call did not use.
    pub const fn give_back(&mut self, units: u64) {
        self.taken = self.taken.saturating_sub(units);
    }

    /// Follows a rate of which a server said, for a call that began at `since`, that so many units were left. Calls that
    /// began later have taken `later` of them. `is_latest`: no later call has been answered.
    // Others may use the limit, too, and tokens of a cache may not count: the server knows. What it said of an earlier call
    // only takes units away, as those that ended meanwhile are not in it.
    pub(in crate::engine) fn observe(
        &mut self,
        rate: PaceRate,
        (left, since): (u64, Instant),
        later: u64,
        is_latest: bool,
        now: Instant,
    ) {
        self.follow(rate, now);
        self.advance(now);
        let burst = u64::from(rate.burst.get());
        let passed = u128::from(now.since(since).0).saturating_mul(rate.limit.get().into());
        let refilled = passed.checked_div(rate.per.0.into()).unwrap_or_default();
        let left = left.saturating_add(u64::try_from(refilled).unwrap_or(u64::MAX)).min(burst);
        let spent = burst.saturating_sub(left.saturating_sub(later));
        let taken = self.released.saturating_add(spent);
        // During a pause the server knows nothing of it.
        if taken > self.begin() || (is_latest && taken < self.begin() && self.at <= now) {
            self.taken = taken;
            // How far the server's next unit is, it does not say.
            self.part = 0;
        }
    }

    /// The rate.
    pub(in crate::engine) const fn rate(&self) -> PaceRate {
        self.rate
    }

    /// The units that may be taken at once.
    pub fn free(&self, now: Instant) -> u64 {
        let mut clock = self.clone();
        clock.advance(now);
        let standing = clock.at > now;
        if standing {
            0
        } else {
            clock.released.saturating_add(clock.rate.burst.get().into()).saturating_sub(clock.begin())
        }
    }

    /// The most units that calls have taken and the rate has not released since: a burst, or more after a call above it.
    pub(in crate::engine) fn most_due(&self, now: Instant) -> u64 {
        let mut clock = self.clone();
        clock.advance(now);
        clock.begin().saturating_sub(clock.released).max(clock.rate.burst.get().into())
    }

    /// Whether it releases the same from now on.
    pub(in crate::engine) fn stands_as(&self, other: &Self, now: Instant) -> bool {
        let (mut own, mut other) = (self.clone(), other.clone());
        own.advance(now);
        other.advance(now);
        let debt = |clock: &Self| clock.begin().saturating_sub(clock.released);
        let next = |clock: &Self| (debt(clock), clock.part, clock.at, clock.rate);
        next(&own) == next(&other)
    }

    /// The time up to which it knows.
    #[cfg(feature = "serve")]
    pub(crate) const fn at(&self) -> Instant {
        self.at
    }

    /// The clock that others know, of which what was taken from `own` since all knew `known` is taken too.
    #[cfg(feature = "serve")]
    #[must_use]
    pub fn joined_by(&self, own: &Self, known: Option<&Self>, now: Instant) -> Self {
        let mut all = self.clone();
        all.advance(now);
        let taken = |clock: &Self| {
            let mut clock = clock.clone();
            clock.advance(now);
            clock.begin().saturating_sub(clock.released)
        };
        let (own, known) = (taken(own), known.map_or(0, taken));
        all.taken =
            all.begin().saturating_add(own.saturating_sub(known)).saturating_sub(known.saturating_sub(own));
        all
    }

    /// Stands still until then. Afterwards calls start one by one at the rate, without a burst.
    pub(in crate::engine) fn hold(&mut self, until: Instant, now: Instant) {
        self.advance(now);
        let burst = u64::from(self.rate.burst.get());
        // A hint is the time at which there is room for one call: a burst would be refused again.
        let spent = self.released.saturating_add(burst.saturating_sub(1));
        self.taken = self.taken.max(spent);
        self.at = self.at.max(until);
    }

    /// The position of the next unit: units that nobody took are not saved up beyond the burst.
    fn begin(&self) -> u64 {
        self.taken.max(self.released)
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.at);
        if passed.is_zero() {
            return;
        }
        let (limit, per) = (u128::from(self.rate.limit.get()), u128::from(self.rate.per.0));
        let parts = u128::from(passed.0).saturating_mul(limit).saturating_add(self.part.into());
        let units = parts.checked_div(per).unwrap_or_default();
        self.released = self.released.saturating_add(u64::try_from(units).unwrap_or(u64::MAX));
        self.part = u64::try_from(parts.checked_rem(per).unwrap_or_default()).unwrap_or_default();
        self.at = now;
        // A full burst saves up nothing, not even a part of a unit: the next one would come too early.
        if self.released >= self.taken {
            self.part = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    fn rate(limit: u32, per: Nanos, burst: u32) -> PaceRate {
        PaceRate { limit: NonZeroU32::new(limit).unwrap(), per, burst: NonZeroU32::new(burst).unwrap() }
    }

    const fn secs(secs: u64) -> Instant {
        Instant(Nanos::from_secs(secs).0)
    }

    /// Starts a call of so many units as early as it may.
    fn start(clock: &mut PaceClock, units: u64, now: Instant) -> Instant {
        let due = clock.due(0, units, now).max(now);
        clock.take(units, due);
        due
    }

    #[test]
    fn a_burst_starts_at_once_and_the_rest_at_the_rate() {
        let mut clock = PaceClock::new(rate(60, Nanos::from_secs(60), 3), secs(100));
        let starts: Vec<Instant> = (0..6).map(|_| start(&mut clock, 1, secs(100))).collect();
        assert_eq!(starts, [100, 100, 100, 101, 102, 103].map(secs));
        // A minute without calls does not save up more than the burst.
        let starts: Vec<Instant> = (0..5).map(|_| start(&mut clock, 1, secs(200))).collect();
        assert_eq!(starts, [200, 200, 200, 201, 202].map(secs));
    }

    #[test]
    fn those_ahead_have_their_units_first() {
        let mut clock = PaceClock::new(rate(1, Nanos::from_secs(1), 1), secs(0));
        clock.take(1, secs(0));
        assert_eq!([0, 1, 5].map(|ahead| clock.due(ahead, 1, secs(0))), [1, 2, 6].map(secs));
    }

    #[test]
    fn a_call_above_the_burst_waits_for_a_full_one_and_leaves_a_debt() {
        let mut clock = PaceClock::new(rate(10, Nanos::from_secs(10), 5), secs(0));
        assert_eq!(start(&mut clock, 12, secs(0)), secs(0));
        assert_eq!(start(&mut clock, 1, secs(0)), secs(8));
    }

    #[test]
    fn units_that_are_returned_can_be_taken_again() {
        let mut clock = PaceClock::new(rate(10, Nanos::from_secs(10), 10), secs(0));
        clock.take(10, secs(0));
        assert_eq!(clock.due(0, 4, secs(0)), secs(4));
        clock.give_back(3);
        assert_eq!(clock.due(0, 4, secs(0)), secs(1));
    }

    #[test]
    fn a_hold_stops_the_clock_and_no_burst_follows() {
        let mut clock = PaceClock::new(rate(1, Nanos::from_secs(1), 10), secs(0));
        clock.hold(secs(9), secs(2));
        let starts: Vec<Instant> = (0..3).map(|_| start(&mut clock, 1, secs(2))).collect();
        assert_eq!(starts, [9, 10, 11].map(secs));
        // A shorter hint shortens nothing.
        clock.hold(secs(10), secs(11));
        assert_eq!(clock.due(0, 1, secs(11)), secs(12));
    }

    #[test]
    fn what_a_server_says_is_left_holds_if_it_is_the_latest() {
        let minute = rate(60, Nanos::from_secs(60), 60);
        let mut clock = PaceClock::new(minute, secs(100));
        // Five were left ten seconds ago, ten were released since, and two calls that began later took one each.
        clock.observe(minute, (5, secs(90)), 2, true, secs(100));
        let starts: Vec<Instant> = (0..15).map(|_| start(&mut clock, 1, secs(100))).collect();
        assert!(starts[..13].iter().all(|at| *at == secs(100)), "{starts:?}");
        assert_eq!(starts[13..], [secs(101), secs(102)]);
        clock.observe(minute, (60, secs(100)), 0, false, secs(102));
        assert_eq!(start(&mut clock, 1, secs(102)), secs(103), "an earlier call's answer gives nothing back");
        clock.observe(minute, (60, secs(103)), 0, true, secs(103));
        assert_eq!(start(&mut clock, 1, secs(103)), secs(103));
        clock.hold(secs(200), secs(103));
        clock.observe(minute, (60, secs(103)), 0, true, secs(103));
        assert_eq!([0; 2].map(|_| start(&mut clock, 1, secs(103))), [200, 201].map(secs));
    }

    #[test]
    fn another_rate_keeps_what_was_taken() {
        let mut clock = PaceClock::new(rate(10, Nanos::from_secs(1), 1), secs(0));
        clock.take(1, secs(0));
        clock.follow(rate(1, Nanos::from_secs(60), 1), secs(0));
        assert_eq!(clock.due(0, 1, secs(0)), secs(60));
    }

    #[test]
    fn the_largest_numbers_neither_panic_nor_wrap() {
        let huge = rate(u32::MAX, Nanos(u64::MAX), u32::MAX);
        let mut clock = PaceClock::new(huge, Instant(u64::MAX));
        clock.take(u64::MAX, Instant(u64::MAX));
        assert_eq!(clock.due(u64::MAX, u64::MAX, Instant(u64::MAX)), Instant(u64::MAX));
        clock.give_back(u64::MAX);
        clock.hold(Instant(u64::MAX), Instant(0));
        clock.follow(rate(1, Nanos(1), 1), Instant(0));
        clock.observe(huge, (u64::MAX, Instant(0)), u64::MAX, true, Instant(u64::MAX));
    }

    proptest! {
        /// In every interval no more than the burst and the rate's share of it starts, however calls arrive, units are
        /// corrected by holds, and rates of tokens divide. Compared exactly, by cross-multiplication.
        #[test]
        fn the_rate_is_never_exceeded(
            limit in 1u32..2000, per in 1u64..100_000, burst in 1u32..50,
            calls in proptest::collection::vec((1u64..40, 0u64..5_000, prop::option::of(0u64..3_000)), 1..60),
        ) {
            let rule = rate(limit, Nanos(per), burst);
            let mut clock = PaceClock::new(rule, Instant(0));
            let (mut now, mut starts) = (Instant(0), Vec::new());
            for (units, pause, hold) in calls {
                now = now.saturating_add(Nanos(pause));
                if let Some(hold) = hold {
                    clock.hold(now.saturating_add(Nanos(hold)), now);
                }
                let units = units.min(burst.into());
                now = start(&mut clock, units, now);
                starts.push((now, units));
            }
            for (from, (begin, _)) in starts.iter().enumerate() {
                let mut sum = 0_u128;
                for (end, units) in &starts[from..] {
                    sum += u128::from(*units);
                    let allowed = u128::from(burst) * u128::from(per)
                        + u128::from(end.since(*begin).0) * u128::from(limit);
                    prop_assert!(sum * u128::from(per) <= allowed, "{sum} units from {begin:?} to {end:?}");
                }
            }
        }

        /// A call that waits until it is due may start then: nobody waits twice for the same units.
        #[test]
        fn a_due_time_holds(limit in 1u32..2000, per in 1u64..100_000, taken in 0u64..500) {
            let mut clock = PaceClock::new(rate(limit, Nanos(per), 7), Instant(3));
            clock.take(taken, Instant(3));
            let due = clock.due(0, 5, Instant(3));
            prop_assert!(clock.due(0, 5, due.max(Instant(3))) <= due.max(Instant(3)));
        }
    }
}
