//! Load that a service sheds, and clients that no run has.

use std::collections::VecDeque;

use super::limits::{ForeignFile, SheddingFile};
use crate::time::Nanos;

/// A whole, in millionths.
const WHOLE: u64 = 1_000_000;
/// The most calls of foreign clients that are made up for at once: more would have filled any limit.
const MOST_FOREIGN: u64 = 10_000;

/// The load of a service that sheds.
#[derive(Clone, Debug)]
pub(super) struct ServiceShedding {
    rule: SheddingFile,
    /// The calls of the last period, the oldest first.
    calls: VecDeque<Nanos>,
}

/// The calls of clients that no run has.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignCalls {
    rule: ForeignFile,
    made: u64,
}

impl ServiceShedding {
    pub(super) const fn new(rule: SheddingFile) -> Self {
        Self { rule, calls: VecDeque::new() }
    }

    /// Counts a call, and returns the share of calls that fail now, in millionths. `ended`: the time since an outage
    /// ended, if there was one.
    pub(super) fn call(&mut self, at: Nanos, ended: Option<Nanos>) -> u32 {
        let begin = at.saturating_sub(self.rule.per.0);
        while self.calls.front().is_some_and(|call| *call < begin) {
            self.calls.pop_front();
        }
        self.calls.push_back(at);
        let room = self.room(ended);
        let count = u64::try_from(self.calls.len()).unwrap_or(u64::MAX).saturating_mul(WHOLE);
        let above = u64::from(self.rule.above).saturating_mul(room);
        let all = u64::from(self.rule.all.value.get()).saturating_mul(room);
        let share = u128::from(count.saturating_sub(above)) * u128::from(WHOLE);
        let share = share.checked_div(all.saturating_sub(above).into()).unwrap_or(0);
        u32::try_from(share.min(WHOLE.into())).unwrap_or(u32::MAX)
    }

    /// The part of its room that a service has, in millionths: half of it just after an outage.
    fn room(&self, ended: Option<Nanos>) -> u64 {
        let Some(since) = ended.filter(|since| *since < self.rule.recovers) else { return WHOLE };
        let grown = u128::from(since.0) * u128::from(WHOLE / 2) / u128::from(self.rule.recovers.0.max(1));
        WHOLE / 2 + u64::try_from(grown).unwrap_or(WHOLE / 2)
    }
}

impl ForeignCalls {
    pub(super) const fn new(rule: ForeignFile) -> Self {
        Self { rule, made: 0 }
    }

    /// The times of the calls since the last time.
    pub(super) fn until(&mut self, at: Nanos) -> impl Iterator<Item = Nanos> + use<> {
        let (calls, per) = (u128::from(self.rule.calls.get()), u128::from(self.rule.per.0.0));
        let all = u64::try_from(u128::from(at.0) * calls / per).unwrap_or(u64::MAX);
        let first = self.made.max(all.saturating_sub(MOST_FOREIGN));
        self.made = all;
        (first..all)
            .map(move |call| Nanos(u64::try_from((u128::from(call) + 1) * per / calls).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NonZeroTime;
    use crate::policy::decode::Spanned;
    use crate::text::{SourceId, Span};

    const SECOND: Nanos = Nanos::from_secs(1);

    fn shedding(above: u32, all: u32) -> ServiceShedding {
        ServiceShedding::new(SheddingFile {
            above,
            all: Spanned { value: all.try_into().unwrap(), span: Span::new(SourceId(0), 0, 0) },
            per: NonZeroTime(Nanos::from_secs(10)),
            recovers: Nanos::from_secs(60),
        })
    }

    #[test]
    fn the_more_calls_the_more_of_them_fail_and_none_once_they_are_over() {
        let mut load = shedding(2, 4);
        let shares: Vec<u32> = (0..5).map(|_| load.call(SECOND, None)).collect();
        assert_eq!(shares, [0, 0, 500_000, 1_000_000, 1_000_000]);
        assert_eq!(load.call(Nanos::from_secs(12), None), 0);
    }

    #[test]
    fn after_an_outage_there_is_room_for_half_and_then_for_more() {
        let share = |ended| {
            let mut load = shedding(2, 6);
            (0..3).for_each(|_| _ = load.call(SECOND, ended));
            load.call(SECOND, ended)
        };
        assert_eq!(share(None), 500_000);
        assert_eq!(share(Some(Nanos::ZERO)), 1_000_000);
        assert_eq!(share(Some(Nanos::from_secs(30))), 833_333);
        assert_eq!(share(Some(Nanos::from_secs(60))), 500_000);
    }

    #[test]
    fn foreign_calls_come_evenly_and_each_once() {
        let rule = ForeignFile { calls: 6.try_into().unwrap(), per: NonZeroTime(Nanos::from_secs(60)) };
        let mut foreign = ForeignCalls::new(rule);
        let secs = |calls: &mut ForeignCalls, at| -> Vec<u64> {
            calls.until(Nanos::from_secs(at)).map(|at| at.0 / SECOND.0).collect()
        };
        assert_eq!(secs(&mut foreign, 25), [10, 20]);
        assert_eq!(secs(&mut foreign, 30), [30]);
        assert!(secs(&mut foreign, 39).is_empty());
        assert_eq!(secs(&mut foreign, 4_000_000).len(), 10_000);
    }
}
