//! A limit of a service: a bucket that becomes free evenly, or a number that begins anew with each period.

use core::num::NonZeroU32;

use super::document::CapacityFile;
use super::limits::{CallUse, CountedUnit, LimitFile, LimitWindow, RefusalHint};
use crate::engine::ProviderLimit;
use crate::policy::decode::Spanned;
use crate::time::Nanos;

/// The state of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceCapacity {
    unit: CountedUnit,
    rule: LimitFile,
    /// Whether its refusals ask for a wait.
    hints: bool,
    /// The time at which all of it is free again, in fractions of a nanosecond: `limit` of them are one nanosecond.
    full_at: u128,
    /// Of a fixed period: its number, and what was taken in it.
    taken: (u64, u64),
    /// The time up to which the room is promised to refused calls.
    promised: Nanos,
}

impl ServiceCapacity {
    pub(super) const fn new(unit: CountedUnit, rule: LimitFile) -> Self {
        Self { unit, rule, hints: true, full_at: 0, taken: (0, 0), promised: Nanos::ZERO }
    }

    /// The limit of requests that a capacity is.
    pub(super) const fn of(capacity: CapacityFile) -> Self {
        let CapacityFile { calls, per, retry_after, headers } = capacity;
        let rule = LimitFile { limit: calls, per, window: LimitWindow::Continuous, burst: None, headers };
        Self { hints: retry_after, ..Self::new(CountedUnit::Requests, rule) }
    }

    /// The wait until a call at a time from the start has room; zero: it has.
    pub(super) fn wait(&self, at: Nanos, used: CallUse) -> Nanos {
        let amount = self.unit.of(used);
        match self.rule.window {
            LimitWindow::Continuous => {
                let (now, each, room) = self.bucket(at);
                // What is larger than all of it goes alone.
                let needed = each * u128::from(amount.min(self.burst()));
                length((self.full_at.max(now) + needed).saturating_sub(room).div_ceil(self.limit()))
            }
            LimitWindow::Fixed => {
                let limit = u64::from(self.rule.limit.get());
                let over = self.taken_at(at).saturating_add(amount.min(limit)) > limit;
                if over { self.period_left(at) } else { Nanos::ZERO }
            }
        }
    }

    /// Takes what a call uses, whether there is room or not.
    pub(super) fn take(&mut self, at: Nanos, used: CallUse) {
        let amount = self.unit.of(used);
        match self.rule.window {
            LimitWindow::Continuous => {
                let (now, each, _) = self.bucket(at);
                self.full_at = self.full_at.max(now) + each * u128::from(amount);
            }
            LimitWindow::Fixed => {
                self.taken = (self.period(at), self.taken_at(at).saturating_add(amount));
            }
        }
    }

    /// Takes a refused call out of what is left of a limit of requests.
    pub(super) fn take_rest(&mut self, at: Nanos) {
        if self.unit == CountedUnit::Requests {
            let (_, _, room) = self.bucket(at);
            let before = self.full_at;
            self.take(at, CallUse::default());
            self.full_at = self.full_at.min(room.max(before));
        }
    }

    /// The wait that the refusal of a call asks for that has no room for so long.
    pub(super) fn hint(&mut self, kind: RefusalHint, at: Nanos, wait: Nanos, used: CallUse) -> Option<Nanos> {
        if !self.hints {
            return None;
        }
        match kind {
            RefusalHint::None => None,
            RefusalHint::Exact => Some(wait),
            RefusalHint::Reset => Some(wait.max(self.reset(at))),
            RefusalHint::Fair => {
                let next = at.saturating_add(wait).max(self.promised);
                let each = u128::from(self.rule.per.0.0) * u128::from(self.unit.of(used));
                self.promised = next.saturating_add(length(each.div_ceil(self.limit())));
                Some(next.saturating_sub(at))
            }
        }
    }

    /// What the headers of an answer state, if the service has such headers.
    pub(super) fn stated(&self, at: Nanos) -> Option<ProviderLimit> {
        let limit = u64::from(self.rule.limit.get());
        let left = match self.rule.window {
            LimitWindow::Continuous => {
                let (now, each, _) = self.bucket(at);
                let used = self.full_at.saturating_sub(now).div_ceil(each);
                self.burst().saturating_sub(u64::try_from(used).unwrap_or(u64::MAX))
            }
            LimitWindow::Fixed => limit.saturating_sub(self.taken_at(at)),
        };
        let unit = self.unit.stated().filter(|_| self.rule.headers)?;
        let (per, reset) = (Some(self.rule.per.0), Some(self.reset(at)));
        Some(ProviderLimit { unit, limit, remaining: left.min(limit), per, reset })
    }

    /// How long it takes until all of it is free.
    fn reset(&self, at: Nanos) -> Nanos {
        match self.rule.window {
            LimitWindow::Continuous => {
                length(self.full_at.saturating_sub(self.bucket(at).0).div_ceil(self.limit()))
            }
            LimitWindow::Fixed if self.taken_at(at) > 0 => self.period_left(at),
            LimitWindow::Fixed => Nanos::ZERO,
        }
    }

    /// The time, what one unit takes, and the latest time at which all may be free, in fractions of a nanosecond.
    fn bucket(&self, at: Nanos) -> (u128, u128, u128) {
        let (now, each) = (u128::from(at.0) * self.limit(), u128::from(self.rule.per.0.0));
        (now, each, now + each * u128::from(self.burst()))
    }

    const fn period(&self, at: Nanos) -> u64 {
        at.0 / self.rule.per.0.0
    }

    const fn period_left(&self, at: Nanos) -> Nanos {
        Nanos(self.rule.per.0.0 - at.0 % self.rule.per.0.0)
    }

    const fn taken_at(&self, at: Nanos) -> u64 {
        let (period, taken) = self.taken;
        if period == self.period(at) { taken } else { 0 }
    }

    fn limit(&self) -> u128 {
        self.rule.limit.get().into()
    }

    fn burst(&self) -> u64 {
        self.rule
            .burst
            .map_or(self.rule.limit, |Spanned { value, .. }: Spanned<NonZeroU32>| value)
            .get()
            .into()
    }
}

fn length(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NonZeroTime;

    const ONE: CallUse = CallUse { input: 0, output: 0 };

    fn capacity(calls: u32, per: u64) -> ServiceCapacity {
        let calls = calls.try_into().unwrap();
        let per = NonZeroTime(Nanos::from_secs(per));
        ServiceCapacity::of(CapacityFile { calls, per, retry_after: true, headers: true })
    }

    fn fixed(calls: u32, per: u64) -> ServiceCapacity {
        let mut fixed = capacity(calls, per);
        fixed.rule.window = LimitWindow::Fixed;
        fixed
    }

    /// Takes a call; or says how long it has to wait.
    fn take(capacity: &mut ServiceCapacity, at: Nanos) -> Result<(), Nanos> {
        let wait = capacity.wait(at, ONE);
        if !wait.is_zero() {
            return Err(wait);
        }
        capacity.take(at, ONE);
        Ok(())
    }

    #[test]
    fn so_many_calls_go_at_once_and_the_next_is_told_when_there_is_room() {
        let mut capacity = capacity(3, 60);
        let at = Nanos::from_secs(100);
        assert_eq!([0; 3].map(|_| take(&mut capacity, at)), [Ok(()); 3]);
        assert_eq!(take(&mut capacity, at), Err(Nanos::from_secs(20)));
        assert_eq!(take(&mut capacity, Nanos::from_secs(119)), Err(Nanos::from_secs(1)));
        assert_eq!(take(&mut capacity, Nanos::from_secs(120)), Ok(()));
    }

    #[test]
    fn a_fixed_period_begins_anew() {
        let mut fixed = fixed(3, 60);
        let at = Nanos::from_secs(100);
        assert_eq!([0; 3].map(|_| take(&mut fixed, at)), [Ok(()); 3]);
        assert_eq!(take(&mut fixed, at), Err(Nanos::from_secs(20)));
        let next = Nanos::from_secs(120);
        assert_eq!([0; 4].map(|_| take(&mut fixed, next).is_ok()), [true, true, true, false]);
    }

    #[test]
    fn the_headers_state_what_is_left() {
        let mut capacity = capacity(3, 60);
        let left = |capacity: &ServiceCapacity, at| {
            let stated = capacity.stated(Nanos::from_secs(at)).unwrap();
            (stated.remaining, stated.reset.unwrap())
        };
        assert_eq!(left(&capacity, 100), (3, Nanos::ZERO));
        assert_eq!([0; 3].map(|_| take(&mut capacity, Nanos::from_secs(100))), [Ok(()); 3]);
        assert_eq!(left(&capacity, 100), (0, Nanos::from_secs(60)));
        assert_eq!(left(&capacity, 125), (1, Nanos::from_secs(35)));
        let mut fixed = fixed(3, 60);
        fixed.take(Nanos::from_secs(70), ONE);
        assert_eq!(left(&fixed, 80), (2, Nanos::from_secs(40)));
        assert_eq!(left(&fixed, 120), (3, Nanos::ZERO));
    }

    #[test]
    fn in_the_long_run_there_are_as_many_as_it_says() {
        let ten_minutes = || (0..6_000).map(|tenth| Nanos::from_millis(tenth * 100));
        let mut even = capacity(7, 60);
        // Ten minutes, and the initial content.
        assert_eq!(ten_minutes().filter(|at| take(&mut even, *at).is_ok()).count(), 7 * 10 + 6);
        let mut fixed = fixed(7, 60);
        assert_eq!(ten_minutes().filter(|at| take(&mut fixed, *at).is_ok()).count(), 7 * 10);
    }

    #[test]
    fn tokens_are_taken_as_many_as_a_call_uses_and_a_large_call_goes_alone() {
        let rule = capacity(1_000, 60).rule;
        let mut tokens = ServiceCapacity::new(CountedUnit::Tokens, rule);
        let call = |input| CallUse { input, output: 100 };
        let at = Nanos::from_secs(60);
        assert_eq!(tokens.wait(at, call(900)), Nanos::ZERO);
        tokens.take(at, call(900));
        assert_eq!(tokens.wait(at, call(400)), Nanos::from_secs(30));
        assert_eq!(tokens.wait(at, call(5_000)), Nanos::from_secs(60));
        assert_eq!(ServiceCapacity::new(CountedUnit::InputTokens, rule).unit.of(call(900)), 900);
        assert_eq!(ServiceCapacity::new(CountedUnit::OutputTokens, rule).unit.of(call(900)), 100);
    }

    #[test]
    fn a_refused_call_that_counts_takes_what_has_become_free() {
        let mut capacity = capacity(3, 60);
        let at = |secs| Nanos::from_secs(secs);
        assert_eq!([0; 3].map(|_| take(&mut capacity, at(0))), [Ok(()); 3]);
        assert_eq!(take(&mut capacity, at(19)), Err(at(1)));
        capacity.take_rest(at(19));
        assert_eq!(take(&mut capacity, at(20)), Err(at(19)), "what was free at 19 s is used up");
        assert_eq!(take(&mut capacity, at(39)), Ok(()));
    }

    #[test]
    fn hints_are_for_one_call_for_each_in_its_turn_or_for_the_whole_limit() {
        let mut capacity = capacity(3, 60);
        let at = Nanos::ZERO;
        assert_eq!([0; 3].map(|_| take(&mut capacity, at)), [Ok(()); 3]);
        let wait = capacity.wait(at, ONE);
        let mut hints =
            |kind| [0; 2].map(|_| capacity.hint(kind, at, wait, ONE).map(|hint| hint.0 / 1_000_000_000));
        assert_eq!(hints(RefusalHint::Exact), [Some(20), Some(20)]);
        assert_eq!(hints(RefusalHint::Fair), [Some(20), Some(40)]);
        assert_eq!(hints(RefusalHint::Reset), [Some(60), Some(60)]);
        assert_eq!(hints(RefusalHint::None), [None, None]);
    }
}
