//! The capacity of a service: a token bucket that refills evenly.

use super::document::CapacityFile;
use crate::engine::{LimitUnit, ProviderLimit};
use crate::time::Nanos;

/// The state of a capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceCapacity {
    rule: CapacityFile,
    /// The time at which the bucket is full again, in fractions of a nanosecond: `calls` of them are one nanosecond.
    full_at: u128,
}

impl ServiceCapacity {
    pub(super) const fn new(rule: CapacityFile) -> Self {
        Self { rule, full_at: 0 }
    }

    /// Takes a call at a time from the start; or returns when a call is possible again, if the service reports it.
    pub(super) fn take(&mut self, at: Nanos) -> Result<(), Option<Nanos>> {
        let (calls, each) = (u128::from(self.rule.calls.get()), u128::from(self.rule.per.0.0));
        let now = u128::from(at.0) * calls;
        let full_at = self.full_at.max(now) + each;
        let room = now + each * calls;
        if full_at > room {
            let wait = u64::try_from((full_at - room).div_ceil(calls)).unwrap_or(u64::MAX);
            return Err(self.rule.retry_after.then_some(Nanos(wait)));
        }
        self.full_at = full_at;
        Ok(())
    }
}

impl ServiceCapacity {
    /// What the headers of an answer state, if the service has such headers.
    pub(super) fn stated(&self, at: Nanos) -> Option<ProviderLimit> {
        let (calls, each) = (u128::from(self.rule.calls.get()), u128::from(self.rule.per.0.0));
        let used = self.full_at.saturating_sub(u128::from(at.0) * calls);
        let count = |of: u128| u64::try_from(of).unwrap_or(u64::MAX);
        self.rule.headers.then(|| ProviderLimit {
            unit: LimitUnit::Requests,
            limit: count(calls),
            remaining: count(calls.saturating_sub(used.div_ceil(each))),
            per: Some(self.rule.per.0),
            reset: Some(Nanos(count(used.div_ceil(calls)))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NonZeroTime;

    fn capacity(calls: u32, per: u64) -> ServiceCapacity {
        let calls = calls.try_into().unwrap();
        ServiceCapacity::new(CapacityFile {
            calls,
            per: NonZeroTime(Nanos::from_secs(per)),
            retry_after: true,
            headers: true,
        })
    }

    #[test]
    fn so_many_calls_go_at_once_and_the_next_is_told_when_there_is_room() {
        let mut capacity = capacity(3, 60);
        let at = Nanos::from_secs(100);
        assert_eq!([0; 3].map(|_| capacity.take(at)), [Ok(()); 3]);
        assert_eq!(capacity.take(at), Err(Some(Nanos::from_secs(20))));
        assert_eq!(capacity.take(Nanos::from_secs(119)), Err(Some(Nanos::from_secs(1))));
        assert_eq!(capacity.take(Nanos::from_secs(120)), Ok(()));
    }

    #[test]
    fn the_headers_state_what_is_left() {
        let mut capacity = capacity(3, 60);
        let left = |capacity: &ServiceCapacity, at| {
            let stated = capacity.stated(Nanos::from_secs(at)).unwrap();
            (stated.remaining, stated.reset.unwrap())
        };
        assert_eq!(left(&capacity, 100), (3, Nanos::ZERO));
        assert_eq!([0; 3].map(|_| capacity.take(Nanos::from_secs(100))), [Ok(()); 3]);
        assert_eq!(left(&capacity, 100), (0, Nanos::from_secs(60)));
        assert_eq!(left(&capacity, 125), (1, Nanos::from_secs(35)));
    }

    #[test]
    fn in_the_long_run_there_are_as_many_as_it_says() {
        let mut capacity = capacity(7, 60);
        let taken = (0..6_000).filter(|tenth| capacity.take(Nanos::from_millis(tenth * 100)).is_ok()).count();
        // Ten minutes, and the initial content.
        assert_eq!(taken, 7 * 10 + 6);
    }
}
