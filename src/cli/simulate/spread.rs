//! What several seeds came to: means, and how far they may be off.

use serde::Serialize;

use crate::simulate::SimulationFigures;

/// A mean over seeds, and two standard errors of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SeedMean {
    pub(super) mean: u64,
    /// The mean of all seeds lies within so much of it, nineteen times of twenty.
    pub(super) within: u64,
}

/// The figures of a policy over seeds: shares in millionths, goodput in thousandths, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SeedFigures {
    pub(super) seeds: u64,
    pub(super) success: SeedMean,
    pub(super) goodput: SeedMean,
    pub(super) amplification: SeedMean,
    pub(super) turn_p50: SeedMean,
    pub(super) turn_p99: SeedMean,
    /// The longest of all seeds.
    pub(super) longest_wait: u64,
}

impl SeedFigures {
    pub(super) fn of(all: &[SimulationFigures]) -> Self {
        let mean = |of: fn(&SimulationFigures) -> u64| SeedMean::of(&all.iter().map(of).collect::<Vec<_>>());
        Self {
            seeds: u64::try_from(all.len()).unwrap_or(u64::MAX),
            success: mean(|figures| figures.success_ppm().unwrap_or(0)),
            goodput: mean(|figures| figures.goodput().unwrap_or(0)),
            amplification: mean(|figures| figures.amplification_ppm().unwrap_or(0)),
            turn_p50: mean(|figures| figures.turn_p50.0),
            turn_p99: mean(|figures| figures.turn_p99.0),
            longest_wait: all.iter().map(|figures| figures.longest_wait.0).max().unwrap_or(0),
        }
    }
}

impl SeedMean {
    fn of(values: &[u64]) -> Self {
        let count = u128::try_from(values.len()).unwrap_or(u128::MAX);
        let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
        let mean = u64::try_from((sum + count / 2).checked_div(count).unwrap_or(0)).unwrap_or(u64::MAX);
        let squares: u128 = values.iter().map(|value| u128::from(value.abs_diff(mean)).pow(2)).sum();
        let variance = squares.checked_div(count * count.saturating_sub(1)).unwrap_or(0);
        Self { mean, within: u64::try_from(2 * variance.isqrt()).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_off_by_two_standard_errors() {
        // A deviation of 10 over 4 values: a standard error of 5.
        let values = [90, 90, 110, 110].map(|value| value * 1_000_000);
        let SeedMean { mean, within } = SeedMean::of(&values);
        assert_eq!((mean, within / 10_000), (100_000_000, 1_154));
        assert_eq!(SeedMean::of(&[7]), SeedMean { mean: 7, within: 0 });
        assert_eq!(SeedMean::of(&[]), SeedMean::default());
    }
}
