//! Token calibration: predicts the providers' counts from the host's, based on reported usage.
//!
//! A provider adds a fixed overhead to each request, and uses another tokenizer: its count is an offset and a ratio.
//! Both follow from the last reports. The ratio is the slope of a line through them, held near one while the reports
//! do not show otherwise: a single small report is mostly offset, a single large one mostly ratio, and reports of
//! different sizes separate the two. The offset makes the line meet the last report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::measure::TurnMeasure;

/// One, in parts per million.
const ONE: u64 = 1_000_000;
/// The limits of the ratio; beyond them there is another fault.
// An estimate by characters is seldom wrong by more than four times; a report beyond that compares two different
// requests.
const LEAST: u64 = ONE / 4;
const MOST: u64 = ONE * 4;
/// The maximum overhead of a request, in tokens.
// A larger difference is not overhead: something else was counted.
const LARGEST_OFFSET: u64 = 1 << 14;
/// The number of reports kept per model.
// Enough to fit a line, few enough to follow a change of the tokenizer or the tools within a session.
const KEPT: usize = 8;
/// The maximum size of a request; below it the sums cannot overflow.
const LARGEST: u64 = 1 << 36;

// A ridge regression (Hoerl and Kennard, 1970): with few reports the line stays near "as counted". The weights
// express the expectation that reports lie within 16 tokens of the line, the offset within 300 of zero, the ratio
// within a quarter of one.
const UNIT: i128 = 100_000;
/// (16 / 300)² of it.
const HELD_OFFSET: i128 = 284;
/// (16 / 0.25)².
const HELD_RATIO: i128 = 4096;

/// The calibration of each model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenCalibration(BTreeMap<String, TokenReports>);

/// The last reports of a model, newest last: the host's count, and the provider's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCalibration")]
struct TokenReports(Vec<(u64, u64)>);

/// The stored form in a session.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredCalibration {
    /// Only a ratio, as stored before offsets existed.
    Ratio(u64),
    Reports(Vec<(u64, u64)>),
}

impl From<StoredCalibration> for TokenReports {
    fn from(stored: StoredCalibration) -> Self {
        match stored {
            // Older sessions have only a ratio: one report of a million tokens is equivalent.
            StoredCalibration::Ratio(ppm) => Self(vec![(ONE, ppm.clamp(LEAST, MOST))]),
            StoredCalibration::Reports(mut reports) => {
                reports.drain(..reports.len().saturating_sub(KEPT));
                Self(reports.into_iter().map(|(counted, reported)| plausible(counted, reported)).collect())
            }
        }
    }
}

/// A report, limited to plausible values.
fn plausible(counted: u64, reported: u64) -> (u64, u64) {
    let counted = counted.clamp(1, LARGEST);
    let most = counted.saturating_mul(4).saturating_add(LARGEST_OFFSET);
    // An implausible report is moved to the limit, not dropped: its direction is still true.
    (counted, reported.clamp(counted.div_ceil(4), most))
}

impl TokenReports {
    /// The provider's tokens per million of the host's.
    // Integers only: floating point could differ between machines, and with it the state.
    fn ratio(&self) -> u64 {
        let sum = |part: fn(i128, i128) -> i128| {
            let each = self.0.iter().map(|(counted, reported)| {
                let (counted, reported) = (i128::from(*counted), i128::from(*reported));
                part(counted, reported.saturating_sub(counted))
            });
            each.fold(0_i128, i128::saturating_add)
        };
        let (sizes, more) = (sum(|size, _| size), sum(|_, more| more));
        let (squares, products) = (sum(|size, _| size.saturating_mul(size)), sum(i128::saturating_mul));
        let reports = i128::try_from(self.0.len()).unwrap_or_default();
        let reports = reports.saturating_mul(UNIT).saturating_add(HELD_OFFSET);
        let shared = |a: i128, b: i128| a.saturating_mul(b).saturating_mul(UNIT);
        let above = reports.saturating_mul(products).saturating_sub(shared(sizes, more));
        let squares = squares.saturating_add(HELD_RATIO);
        let below = reports.saturating_mul(squares).saturating_sub(shared(sizes, sizes));
        let slope = above.saturating_mul(ONE.into()).checked_div(below).unwrap_or_default();
        let ratio = slope.saturating_add(ONE.into()).clamp(LEAST.into(), MOST.into());
        u64::try_from(ratio).unwrap_or(ONE)
    }

    /// The overhead per request in the provider's count.
    fn offset(&self) -> i64 {
        // The line goes through the last report: the next request is mostly the same one with a little more.
        let Some((counted, reported)) = self.0.last() else { return 0 };
        let scaled = multiplied(*counted, self.ratio());
        let offset = i128::from(*reported).saturating_sub(scaled.into());
        i64::try_from(offset).unwrap_or_default()
    }
}

fn multiplied(tokens: u64, ppm: u64) -> u64 {
    // Rounded up: one token too many is refused, one token unused has no effect.
    let tokens = u128::from(tokens).saturating_mul(ppm.into()).div_ceil(ONE.into());
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

impl TokenCalibration {
    /// Records the provider's count of a request.
    pub fn learn(&mut self, target: &str, counted: u64, reported: u64) {
        // Servers that do not count send zero, and some leave out what was in a cache: a report below the least ratio
        // is one of something else, and fewer tokens than there are lead to requests that do not fit.
        if counted == 0 || reported == 0 || reported < counted.div_ceil(ONE / LEAST) {
            return;
        }
        let TokenReports(reports) = self.0.entry(target.to_owned()).or_default();
        if reports.len() >= KEPT {
            reports.remove(0);
        }
        reports.push(plausible(counted, reported));
    }

    /// Forgets what was reported of a model if a refusal shows that it was too little: the request does not fit into
    /// `limit` by the host's count, and would have by the reports.
    pub(super) fn refuted(&mut self, target: &str, counted: u64, limit: u64) {
        if counted >= limit && self.expected(target, counted) < limit {
            self.0.remove(target);
        }
    }

    /// Adjusts the reports when the known overhead in the host's counts changes from `before` to `now`.
    pub(super) fn rebase(&mut self, target: &str, before: u64, now: u64) {
        let Some(TokenReports(reports)) = self.0.get_mut(target).filter(|_| before != now) else { return };
        for (counted, reported) in reports {
            (*counted, *reported) = plausible(counted.saturating_sub(before).saturating_add(now), *reported);
        }
    }

    /// The expected count of the provider for a request, from the host's count.
    pub fn expected(&self, target: &str, counted: u64) -> u64 {
        self.0.get(target).map_or(counted, |reports| {
            multiplied(counted, reports.ratio()).saturating_add_signed(reports.offset())
        })
    }

    /// Like [`Self::expected`], for a part of a request: without the offset.
    pub fn part(&self, target: &str, counted: u64) -> u64 {
        self.0.get(target).map_or(counted, |reports| multiplied(counted, reports.ratio()))
    }

    /// A measured request in the provider's count; the offset is added to the tools, which reductions do not change.
    #[must_use]
    pub fn measured(&self, target: &str, measure: TurnMeasure) -> TurnMeasure {
        let offset = self.offset(target).unwrap_or(0);
        let tools = self.part(target, measure.tool_tokens);
        // A negative offset is taken from the tools first, and the rest from the messages.
        let lacking = if offset < 0 { offset.unsigned_abs().saturating_sub(tools) } else { 0 };
        TurnMeasure {
            message_tokens: self.part(target, measure.message_tokens).saturating_sub(lacking),
            tool_tokens: tools.saturating_add_signed(offset),
            ..measure
        }
    }

    /// The host's count that corresponds to the provider's count, for a part of a request.
    pub fn counted(&self, target: &str, expected: u64) -> u64 {
        let Some(ratio) = self.of(target) else { return expected };
        let tokens = u128::from(expected).saturating_mul(ONE.into()).checked_div(ratio.into());
        tokens.map_or(expected, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// The learned ratio of a model, in parts per million.
    pub fn of(&self, target: &str) -> Option<u64> {
        self.0.get(target).map(TokenReports::ratio)
    }

    /// The learned offset of a model: its provider's overhead per request.
    pub fn offset(&self, target: &str) -> Option<i64> {
        self.0.get(target).map(TokenReports::offset)
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn learned(reports: &[(u64, u64)]) -> TokenCalibration {
        let mut calibration = TokenCalibration::default();
        for (counted, reported) in reports {
            calibration.learn("main", *counted, *reported);
        }
        calibration
    }

    #[test]
    fn one_report_of_a_small_request_is_an_offset_and_of_a_large_one_a_ratio() {
        let small = learned(&[(20, 366)]);
        assert_eq!((small.expected("main", 20), small.expected("main", 120)), (366, 466));
        let large = learned(&[(100_000, 120_000)]);
        assert_eq!(large.expected("main", 100_000), 120_000);
        assert!(large.expected("main", 50_000).abs_diff(60_000) < 10, "{}", large.expected("main", 50_000));
        assert_eq!(large.expected("spare", 1000), 1000);
    }

    #[test]
    fn reports_of_different_sizes_tell_the_offset_from_the_ratio() {
        let calibration = learned(&[(500, 1050), (2000, 2850), (8000, 10_050)]);
        assert!(calibration.of("main").unwrap().abs_diff(1_200_000) < 5000, "{:?}", calibration.of("main"));
        assert!(calibration.offset("main").unwrap().abs_diff(450) < 50, "{:?}", calibration.offset("main"));
    }

    #[test]
    fn what_says_nothing_teaches_nothing() {
        assert!(learned(&[(0, 1000), (1000, 0)]).is_empty());
        // Of a request that is mostly in a cache, a server may count the rest alone.
        assert!(learned(&[(1000, 249), (40, 3), (u64::MAX, 1)]).is_empty());
        assert_eq!(learned(&[(1000, 250)]).expected("main", 1000), 250);
    }

    #[test]
    fn reports_that_a_refusal_refutes_are_forgotten() {
        let refuted = |counted, limit| {
            let mut calibration = learned(&[(10_000, 4000)]);
            calibration.refuted("main", counted, limit);
            calibration.is_empty()
        };
        assert!(refuted(10_000, 8000));
        // It would not have fitted by the reports either, or would have by both.
        assert!(!refuted(30_000, 8000) && !refuted(7000, 8000));
    }

    #[test]
    fn what_cannot_be_is_bounded_both_ways() {
        let (large, small) = (learned(&[(1000, u64::MAX)]), learned(&[(1 << 36, 1 << 34)]));
        assert_eq!(large.of("main"), Some(MOST));
        assert!(small.of("main").is_some_and(|ratio| ratio.abs_diff(LEAST) < 10), "{:?}", small.of("main"));
        assert_eq!(large.offset("main"), Some(1 << 14));
        assert_eq!(large.expected("main", u64::MAX), u64::MAX);
    }

    #[test]
    fn what_is_fixed_goes_with_the_tools() {
        let measure = TurnMeasure { message_tokens: 100, tool_tokens: 20, ..TurnMeasure::default() };
        let more = learned(&[(120, 420)]).measured("main", measure);
        assert_eq!(more.message_tokens + more.tool_tokens, 421);
        assert!(more.tool_tokens > 300);
        let less = learned(&[(120, 60)]).measured("main", measure);
        assert_eq!((less.tool_tokens, less.message_tokens), (0, 60));
    }

    #[test]
    fn what_was_learned_before_an_overhead_was_known_is_moved_along() {
        let mut calibration = learned(&[(100, 610), (200, 715)]);
        calibration.rebase("main", 0, 499);
        assert_eq!(calibration.expected("main", 200 + 499), 715);
        assert!(calibration.offset("main").unwrap().abs() < 60, "{:?}", calibration.offset("main"));
        calibration.rebase("main", 499, 0);
        assert_eq!(calibration, learned(&[(100, 610), (200, 715)]));
    }

    #[test]
    fn a_ratio_that_was_kept_without_an_offset_is_read() {
        let calibration: TokenCalibration = serde_json::from_value(json!({"main": 1_500_000})).unwrap();
        assert_eq!((calibration.of("main"), calibration.expected("main", 1000)), (Some(1_499_999), 1501));
        let again: TokenCalibration =
            serde_json::from_value(serde_json::to_value(&calibration).unwrap()).unwrap();
        assert_eq!(again, calibration);
    }

    proptest! {
        #[test]
        fn what_is_counted_back_is_never_more(expected in 0u64..1_000_000_000, reported in 1u64..10_000) {
            let calibration = learned(&[(1000, reported)]);
            let counted = calibration.counted("main", expected);
            prop_assert!(calibration.part("main", counted) <= expected);
            prop_assert!(calibration.part("main", counted + 1) >= expected);
        }

        #[test]
        fn the_last_report_is_met(reports in prop::collection::vec((1u64..1_000_000, 1u64..1_000_000), 1..20)) {
            let calibration = learned(&reports);
            let (counted, reported) = reports[reports.len() - 1];
            prop_assume!(reported >= counted.div_ceil(4));
            prop_assert_eq!(calibration.expected("main", counted), plausible(counted, reported).1);
        }

        #[test]
        fn reports_on_a_line_lead_to_it(
            offset in 0u64..1000, percent in 60u64..200, step in 300u64..3000, at in 0u64..9000,
        ) {
            let truth = |counted: u64| offset + counted * percent / 100;
            let reports: Vec<_> = (1..7).map(|n| (n * step, truth(n * step))).collect();
            let (found, truth) = (learned(&reports).expected("main", at), truth(at));
            prop_assert!(found.abs_diff(truth) <= 40 + truth / 20, "{} for {}", found, truth);
        }
    }
}
