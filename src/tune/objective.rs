//! The order in which figures count, and what a policy loses by them.

use super::measure::{PointMeasure, TunedFigure};

/// The figures that count, the most important first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TuneObjective(Vec<TunedFigure>);

/// What a policy loses to the best known one: less is better. The worst scenario counts before the mean of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TuneLoss {
    /// Of the worst scenario, in steps: what is closer together than a step is decided by the mean.
    worst: u64,
    mean: u64,
}

/// What a point of success, or a percent of another figure, counts by the rank of the figure. With the default order a lost
/// run costs more than what time or calls it may save, as in the measure that the built-in policy was compared by.
const WEIGHTS: [u64; 4] = [1_000, 100, 30, 10];
/// A step of the worst loss: half a point of the most important figure.
const STEP: u64 = 500_000;
/// What is lost beyond noise: a tenth of a point of the most important figure.
pub(crate) const SOME: u64 = 100_000;

impl TuneObjective {
    /// Of these figures; what is named twice counts where it is named first, and what is left out does not count.
    pub(crate) fn new(figures: &[TunedFigure]) -> Self {
        let mut order = Vec::new();
        for figure in figures {
            if !order.contains(figure) {
                order.push(*figure);
            }
        }
        Self(order)
    }

    /// What a measure loses to the best, in thousandths of a weight. A point of success is lost and won by chance.
    pub(crate) fn loss(&self, own: &PointMeasure, best: &PointMeasure) -> u64 {
        let weighed = self.0.iter().zip(WEIGHTS).map(|(figure, weight)| {
            let regret = own.regret(best, *figure);
            let chance = if *figure == TunedFigure::Success { figure.noise() } else { 0 };
            regret.saturating_sub(chance) * weight
        });
        weighed.sum()
    }

    /// The losses in all scenarios as one.
    pub(crate) fn over(losses: &[u64]) -> TuneLoss {
        let count = u64::try_from(losses.len()).unwrap_or(u64::MAX).max(1);
        let worst = losses.iter().max().copied().unwrap_or_default();
        TuneLoss { worst: worst / STEP, mean: losses.iter().sum::<u64>() / count }
    }
}

impl TuneLoss {
    /// Whether it is less by more than noise.
    pub(crate) const fn is_clearly_below(self, other: Self) -> bool {
        self.worst < other.worst || (self.worst == other.worst && self.mean + SOME <= other.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_scenario_counts_before_the_mean() {
        let even = TuneObjective::over(&[2_000_000, 2_000_000]);
        let uneven = TuneObjective::over(&[3_000_000, 0]);
        assert!(even < uneven && even.is_clearly_below(uneven));
        let closer = TuneObjective::over(&[2_100_000, 0]);
        assert!(closer < even, "within a step the mean decides");
    }

    #[test]
    fn a_second_point_of_success_outweighs_nine_percent_of_goodput() {
        let all = TuneObjective::new(&[TunedFigure::Success, TunedFigure::Goodput, TunedFigure::Success]);
        let best = PointMeasure { success: 1_000_000, goodput: 1_090, calls: 1, p99: 1 };
        let fails = PointMeasure { success: 980_000, ..best };
        let slow = PointMeasure { goodput: 1_000, ..best };
        assert!(all.loss(&fails, &best) > all.loss(&slow, &best));
        let lucky = PointMeasure { success: 990_000, ..best };
        assert_eq!(all.loss(&lucky, &best), 0, "one run in a hundred is chance");
        let only = TuneObjective::new(&[TunedFigure::Calls]);
        assert_eq!(only.loss(&fails, &best), 0);
    }
}
