//! How the calls of one model went in the last minutes: so many points, whatever their number.

use std::collections::VecDeque;

use serde::Serialize;

use crate::host::{AttemptStatus, ModelAttempt};
use crate::time::{Instant, Nanos};

/// The time that a point is about.
pub(crate) const EVERY: Nanos = Nanos::from_secs(5);
/// The most points: those of five minutes.
const MOST: usize = 60;

/// The calls of one model in the last minutes.
#[derive(Default)]
pub(super) struct RecentCalls(VecDeque<CallPoint>);

/// The calls that ended within one [`EVERY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CallPoint {
    /// When it begins, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Calls with a reply that the policy takes.
    pub(crate) answered: u64,
    /// The others, but for those that were cancelled.
    pub(crate) failed: u64,
    /// The sum of the times that these calls took.
    pub(crate) total_ms: u64,
    /// The longest of them.
    pub(crate) longest_ms: u64,
    /// Tokens of requests and replies.
    pub(crate) tokens: u64,
}

/// A call that is over.
#[derive(Clone, Copy)]
pub(super) struct EndedCall {
    answered: bool,
    latency_ms: u64,
    tokens: u64,
}

impl EndedCall {
    /// `None`: it was cancelled, which says nothing of the model.
    pub(super) fn of(attempt: &ModelAttempt) -> Option<Self> {
        let answered = match attempt.status {
            AttemptStatus::Success => true,
            AttemptStatus::Failed | AttemptStatus::Rejected => false,
            AttemptStatus::Cancelled => return None,
        };
        let ModelAttempt { latency_ms, input_tokens, output_tokens, .. } = *attempt;
        let tokens = input_tokens.unwrap_or(0).saturating_add(output_tokens.unwrap_or(0));
        Some(Self { answered, latency_ms, tokens })
    }
}

impl RecentCalls {
    /// Adds a call that ends now.
    pub(super) fn add(&mut self, call: EndedCall, now: Instant) {
        let at_ms = start_of(now);
        if self.0.back().is_none_or(|point| point.at_ms < at_ms) {
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back(CallPoint { at_ms, ..CallPoint::default() });
        }
        let Some(point) = self.0.back_mut() else { return };
        let counter = if call.answered { &mut point.answered } else { &mut point.failed };
        *counter = counter.saturating_add(1);
        point.total_ms = point.total_ms.saturating_add(call.latency_ms);
        point.longest_ms = point.longest_ms.max(call.latency_ms);
        point.tokens = point.tokens.saturating_add(call.tokens);
    }

    /// The points that are not too old.
    pub(super) fn since(&self, now: Instant) -> Vec<CallPoint> {
        let span = EVERY.millis().saturating_mul(u64::try_from(MOST).unwrap_or(u64::MAX));
        let oldest = start_of(now).saturating_sub(span);
        self.0.iter().filter(|point| point.at_ms > oldest).cloned().collect()
    }
}

/// When the point of that time begins, in milliseconds.
fn start_of(now: Instant) -> u64 {
    let (now, every) = (now.since(Instant::default()).millis(), EVERY.millis());
    now.saturating_sub(now.checked_rem(every).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_points_than_those_of_five_minutes() {
        let mut calls = RecentCalls::default();
        for second in 0..3_600 {
            let call = EndedCall { answered: second % 10 > 0, latency_ms: 7, tokens: 2 };
            calls.add(call, Instant(Nanos::from_secs(1_000_000 + second).0));
        }
        let now = Instant(Nanos::from_secs(1_003_599).0);
        let points = calls.since(now);
        assert_eq!(points.len(), MOST);
        let last = CallPoint {
            at_ms: 1_003_595_000,
            answered: 5,
            failed: 0,
            total_ms: 35,
            longest_ms: 7,
            tokens: 10,
        };
        assert_eq!(points.last(), Some(&last));
        assert!(calls.since(now.saturating_add(Nanos::from_secs(600))).is_empty());
    }
}
