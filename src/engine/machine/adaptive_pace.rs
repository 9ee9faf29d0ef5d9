//! The pace of a provider that states no limit, found from its refusals: additive increase, multiplicative decrease
//! (Chiu and Jain, "Analysis of the increase and decrease algorithms", 1989).
//!
//! Nothing is held back before the first refusal. All numbers are integers, and the remainder of each increase is kept.

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::engine::pace_clock::PaceClock;
use crate::policy::PaceRate;
use crate::time::{Instant, Nanos};

/// Rates are counted in thousandths of a request in a minute.
const PER: Nanos = Nanos::from_secs(60_000);
/// No rate is below one request a minute.
// The SDKs of AWS have 30 a minute (botocore, `retries/throttling.py`), which is above the small tiers of providers of models.
const LEAST: u32 = 1_000;
/// What is left of a rate after a refusal, in tenths: the factor of the SDKs of AWS (botocore, `throttling.py`, β of CUBIC).
const LEFT: u64 = 7;
/// The time in which a rate grows by that which it had before its decrease: a tenth in ten seconds.
// Measured with agents, a provider and its limit in virtual time, for seven shapes of load: a tenth needs 1.12 calls for each
// one that is needed, a twentieth is slower to use what there is, and a fifth needs 1.15. CUBIC with the constants of AWS
// needs up to 2.15: it grows within a second, and limits of providers of models last a minute.
const GROWS_IN: Nanos = Nanos::from_secs(100);
/// With each of so many minutes without a refusal the increase doubles: a limit that has risen is found within minutes.
const DOUBLINGS: u32 = 4;
const MINUTE: Nanos = Nanos::from_secs(60);
/// A pause between two answers counts no longer than this: nothing was learned in it.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(30);
/// A rate is forgotten after so long without a refusal, and without a call that waited for it.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(600);
/// What was sent lately is counted in slots of this length, of which there are twelve: a minute.
const SLOT: Nanos = Nanos::from_secs(5);
const SLOTS: u64 = 12;

/// The rate that is tried at a provider that refuses calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AdaptivePace {
    /// `None`: no refusal is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<PaceClock>,
    /// The rate before the last decrease, in thousandths of a request in a minute.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    before: u32,
    /// What the last increase left over, in such thousandths times nanoseconds; below `GROWS_IN`.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    rest: u64,
    /// When it was decreased.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    decreased_at: Instant,
    /// The last refusal.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    refused_at: Instant,
    /// When a call waited for it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    held_at: Instant,
    /// The last answer.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    answered_at: Instant,
    /// The calls of the last minute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<RecentCalls>,
}

/// The calls of a few seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RecentCalls {
    slot: u64,
    sent: u32,
    accepted: u32,
}

impl AdaptivePace {
    /// The clock of the rate, if there is one.
    pub(super) const fn clock_mut(&mut self) -> &mut Option<PaceClock> {
        &mut self.clock
    }

    /// Forgets a rate that has decided nothing for long.
    pub(super) fn forget_if_old(&mut self, now: Instant) {
        if self.clock.is_some() && now.since(self.refused_at.max(self.held_at)) >= FORGOTTEN_AFTER {
            self.clock = None;
        }
    }

    /// Records that a call is sent.
    pub(super) fn sent(&mut self, now: Instant) {
        self.count(1, 0, now);
    }

    /// Records that a call waits for the rate.
    pub(super) const fn held(&mut self, now: Instant) {
        self.held_at = now;
    }

    /// Records that a call was answered. `waited`: the pool holds calls back. `most`: the rates that are known to be the most.
    pub(super) fn answered(&mut self, waited: bool, most: impl Iterator<Item = PaceRate>, now: Instant) {
        self.count(0, 1, now);
        let pause = now.since(self.answered_at).min(LONGEST_PAUSE);
        self.answered_at = now;
        let Some(rate) = self.clock.as_ref().map(|clock| clock.rate().limit.get()) else { return };
        // A rate that nobody needs proves nothing (as in Netflix's concurrency limits): it would grow beyond the limit unseen.
        if !waited {
            return;
        }
        let minutes = now.since(self.refused_at).0.checked_div(MINUTE.0).unwrap_or_default();
        let doublings = u32::try_from(minutes).unwrap_or(u32::MAX).min(DOUBLINGS);
        let grown = u128::from(self.before).saturating_mul(pause.0.into());
        let grown = grown.saturating_mul(2_u128.saturating_pow(doublings)).saturating_add(self.rest.into());
        let (whole, rest) = (grown.checked_div(GROWS_IN.0.into()), grown.checked_rem(GROWS_IN.0.into()));
        self.rest = rest.and_then(|rest| u64::try_from(rest).ok()).unwrap_or_default();
        let whole = whole.and_then(|whole| u32::try_from(whole).ok()).unwrap_or(u32::MAX);
        let most = most.map(thousandths).min().unwrap_or(u32::MAX);
        self.follow(rate.saturating_add(whole).min(most), now);
    }

    /// Records that a call which began at `since` was refused by a limit. Returns whether the rate is decreased.
    pub(super) fn refused(&mut self, since: Instant, now: Instant) -> bool {
        self.refused_at = now;
        // Of many calls in flight all are refused, and say the same.
        if self.clock.is_some() && since <= self.decreased_at {
            return false;
        }
        let (sent, accepted) = self.last_minute(now);
        let rate = self.clock.as_ref().map_or(sent, |clock| clock.rate().limit.get());
        let left = u64::from(rate).saturating_mul(LEFT).checked_div(10).unwrap_or_default();
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        // As much as the provider has taken in the last minute it takes again, whatever its way of counting.
        self.follow(left.max(rate.min(accepted)), now);
        (self.before, self.rest, self.decreased_at) = (rate.max(LEAST), 0, now);
        true
    }

    /// The rate, for people: `7.3 requests in 1m`.
    pub(super) fn text(&self) -> Option<String> {
        let thousandths = self.clock.as_ref()?.rate().limit.get();
        let whole = thousandths.checked_div(1_000)?;
        let tenth = thousandths.checked_rem(1_000)?.checked_div(100)?;
        Some(format!("after refusals {whole}.{tenth} requests in {MINUTE} are tried"))
    }

    /// The rate in whole requests a minute, and how many may start now.
    pub(super) fn standing(&self, now: Instant) -> Option<(PaceRate, u64)> {
        let clock = self.clock.as_ref()?;
        let limit =
            clock.rate().limit.get().checked_div(1_000).and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let rate = PaceRate { limit, per: MINUTE, burst: NonZeroU32::MIN };
        Some((rate, clock.free(now)))
    }

    fn follow(&mut self, thousandths: u32, now: Instant) {
        let limit = NonZeroU32::new(thousandths.max(LEAST)).unwrap_or(NonZeroU32::MIN);
        // One by one: after a refusal a burst would be refused again.
        let rate = PaceRate { limit, per: PER, burst: NonZeroU32::MIN };
        if let Some(clock) = &mut self.clock {
            clock.follow(rate, now);
        } else {
            let mut clock = PaceClock::new(rate, now);
            clock.take(1, now);
            self.clock = Some(clock);
        }
    }

    /// The calls that were sent and taken within a minute, in thousandths.
    fn last_minute(&mut self, now: Instant) -> (u32, u32) {
        self.count(0, 0, now);
        let sums = self.recent.iter().fold((0_u32, 0_u32), |(sent, accepted), slot| {
            (sent.saturating_add(slot.sent), accepted.saturating_add(slot.accepted))
        });
        (sums.0.saturating_mul(1_000), sums.1.saturating_mul(1_000))
    }

    /// Counts calls of now; those of more than a minute ago are forgotten.
    fn count(&mut self, sent: u32, accepted: u32, now: Instant) {
        let slot = now.0.checked_div(SLOT.0).unwrap_or_default();
        self.recent.retain(|recent| recent.slot.saturating_add(SLOTS) > slot);
        match self.recent.iter_mut().find(|recent| recent.slot == slot) {
            Some(recent) => {
                recent.sent = recent.sent.saturating_add(sent);
                recent.accepted = recent.accepted.saturating_add(accepted);
            }
            None => self.recent.push(RecentCalls { slot, sent, accepted }),
        }
    }
}

/// A rate in thousandths of a request in a minute, rounded down.
fn thousandths(rate: PaceRate) -> u32 {
    let all = u128::from(rate.limit.get()).saturating_mul(PER.0.into());
    u32::try_from(all.checked_div(rate.per.0.into()).unwrap_or_default()).unwrap_or(u32::MAX)
}
