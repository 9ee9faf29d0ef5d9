//! How many tokens providers count for those the host counts: learned from what they report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One, in parts per million.
const ONE: u64 = 1_000_000;
/// What is learned lies between these: beyond, something else is wrong.
const LEAST: u64 = ONE / 4;
const MOST: u64 = ONE * 4;
/// A request of fewer tokens teaches nothing: what a provider puts around it weighs too much.
const SMALLEST: u64 = 256;

/// For each model, how many tokens its provider counts for a million of the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scales(BTreeMap<String, u64>);

impl Scales {
    /// A request that was counted as so many tokens was so many to the provider. The first report counts whole, each
    /// one after it for a quarter.
    pub fn learn(&mut self, target: &str, counted: u64, reported: u64) {
        if counted < SMALLEST || reported == 0 {
            return;
        }
        let seen = reported.saturating_mul(ONE).div_ceil(counted).clamp(LEAST, MOST);
        let known = match self.0.get(target) {
            Some(known) => known.saturating_mul(3).saturating_add(seen).div_ceil(4),
            None => seen,
        };
        self.0.insert(target.to_owned(), known);
    }

    /// How many tokens the provider of a model will count for so many of the host's.
    pub fn expected(&self, target: &str, counted: u64) -> u64 {
        match self.0.get(target) {
            Some(scale) => {
                let tokens = u128::from(counted).saturating_mul((*scale).into()).div_ceil(ONE.into());
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
            None => counted,
        }
    }

    /// How many of the host's tokens are no more than so many of the provider's.
    pub fn counted(&self, target: &str, expected: u64) -> u64 {
        let Some(scale) = self.0.get(target) else { return expected };
        let tokens = u128::from(expected).saturating_mul(ONE.into()).checked_div((*scale).into());
        tokens.map_or(expected, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// What was learned of a model, in parts per million.
    pub fn of(&self, target: &str) -> Option<u64> {
        self.0.get(target).copied()
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_report_counts_whole_and_the_next_for_a_quarter() {
        let mut scales = Scales::default();
        assert_eq!(scales.expected("main", 1000), 1000);
        scales.learn("main", 1000, 1200);
        assert_eq!((scales.of("main"), scales.expected("main", 1000)), (Some(1_200_000), 1200));
        scales.learn("main", 1000, 1600);
        assert_eq!(scales.expected("main", 1000), 1300);
        assert_eq!(scales.expected("spare", 1000), 1000);
    }

    #[test]
    fn what_is_too_small_or_says_nothing_teaches_nothing() {
        let mut scales = Scales::default();
        scales.learn("main", 255, 1000);
        scales.learn("main", 1000, 0);
        assert!(scales.is_empty());
    }

    #[test]
    fn what_cannot_be_is_bounded_both_ways() {
        let mut scales = Scales::default();
        scales.learn("large", 1000, u64::MAX);
        scales.learn("small", u64::MAX, 1);
        assert_eq!((scales.of("large"), scales.of("small")), (Some(MOST), Some(LEAST)));
        assert_eq!(scales.expected("large", u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn what_is_counted_back_is_never_more(expected in 0u64..1_000_000_000, reported in 1u64..10_000) {
            let mut scales = Scales::default();
            scales.learn("main", 1000, reported);
            let counted = scales.counted("main", expected);
            prop_assert!(scales.expected("main", counted) <= expected);
            prop_assert!(scales.expected("main", counted + 1) >= expected);
        }

        #[test]
        fn reports_of_the_same_scale_lead_to_it(reports in prop::collection::vec(256u64..1_000_000, 1..20)) {
            let mut scales = Scales::default();
            for counted in reports {
                scales.learn("main", counted, counted * 2);
            }
            prop_assert_eq!(scales.expected("main", 1_000), 2_000);
        }
    }
}
