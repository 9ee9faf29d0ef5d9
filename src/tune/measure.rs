//! What a policy came to in plays, and how one measure compares with another.

use serde::{Deserialize, Serialize};

use crate::simulate::SimulationFigures;

/// The figures of a play that are looked at. The time is in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlayMeasure {
    pub(crate) runs: u64,
    pub(crate) complete: u64,
    /// The end of the last run.
    pub(crate) ended: u64,
    pub(crate) calls: u64,
    pub(crate) needed: u64,
    /// The 99th percentile of the duration of turns.
    pub(crate) p99: u64,
}

/// What plays came to together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PointMeasure {
    /// Complete runs, in millionths of all.
    pub(crate) success: u64,
    /// Complete runs an hour, in thousandths.
    pub(crate) goodput: u64,
    /// Model calls for each one needed, in millionths.
    pub(crate) calls: u64,
    /// The longest of the 99th percentiles of the duration of turns, in nanoseconds.
    pub(crate) p99: u64,
}

/// A figure that policies are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum TunedFigure {
    /// The share of runs that end well.
    Success,
    /// Good answers an hour.
    Goodput,
    /// Model calls for each one needed.
    Calls,
    /// The 99th percentile of the duration of turns.
    P99,
}

/// An hour, in nanoseconds, for goodput in thousandths.
const HOUR: u128 = 3_600_000_000_000;
/// A ratio counts at most as if it were ten times worse: nothing is infinitely bad.
const MOST_RATIO: u64 = 1_000_000;

impl TunedFigure {
    /// A regret that is no more than chance: a point of success, 3 percent of another figure.
    pub(crate) const fn noise(self) -> u64 {
        match self {
            Self::Success => 1_000,
            Self::Goodput | Self::Calls | Self::P99 => 3_000,
        }
    }
}

impl From<&SimulationFigures> for PlayMeasure {
    fn from(figures: &SimulationFigures) -> Self {
        Self {
            runs: figures.runs,
            complete: figures.complete,
            ended: figures.ended.0,
            calls: figures.model_calls,
            needed: figures.model_calls_needed,
            p99: figures.turn_p99.0,
        }
    }
}

impl PointMeasure {
    /// What these plays came to.
    pub(crate) fn of(plays: &[PlayMeasure]) -> Self {
        let sum = |of: fn(&PlayMeasure) -> u64| plays.iter().map(|play| u128::from(of(play))).sum::<u128>();
        let (complete, calls) = (sum(|play| play.complete), sum(|play| play.calls));
        Self {
            success: ratio(complete * 1_000_000, sum(|play| play.runs)),
            goodput: ratio(complete * HOUR * 1_000, sum(|play| play.ended)),
            calls: ratio(calls * 1_000_000, sum(|play| play.needed)),
            p99: plays.iter().map(|play| play.p99).max().unwrap_or_default(),
        }
    }

    /// How much worse it is than the best, in thousandths of a point of success or of a percent of another figure.
    pub(crate) fn regret(&self, best: &Self, figure: TunedFigure) -> u64 {
        match figure {
            TunedFigure::Success => best.success.saturating_sub(self.success) / 10,
            TunedFigure::Goodput => over(best.goodput, self.goodput),
            TunedFigure::Calls => over(self.calls, best.calls),
            TunedFigure::P99 => over(self.p99, best.p99),
        }
    }

    /// Whether it is as good as another in every figure, but for noise.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let all = [TunedFigure::Success, TunedFigure::Goodput, TunedFigure::Calls, TunedFigure::P99];
        all.into_iter().all(|figure| self.regret(other, figure) <= figure.noise())
    }

    /// The best figure of each kind.
    pub(crate) fn best(all: impl IntoIterator<Item = Self>) -> Self {
        let least = Self { success: 0, goodput: 0, calls: u64::MAX, p99: u64::MAX };
        all.into_iter().fold(least, |best, one| Self {
            success: best.success.max(one.success),
            goodput: best.goodput.max(one.goodput),
            calls: best.calls.min(one.calls),
            p99: best.p99.min(one.p99),
        })
    }
}

/// By how much one number is more than the other, in thousandths of a percent.
fn over(more: u64, less: u64) -> u64 {
    let above = u128::from(more.saturating_sub(less)) * 100_000;
    let share = above.checked_div(u128::from(less)).unwrap_or(if above == 0 { 0 } else { u128::MAX });
    u64::try_from(share).unwrap_or(u64::MAX).min(MOST_RATIO)
}

fn ratio(some: u128, all: u128) -> u64 {
    u64::try_from(some.checked_div(all).unwrap_or_default()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_is_of_all_plays_together() {
        let play =
            PlayMeasure { runs: 10, complete: 9, ended: 3_600_000_000_000, calls: 30, needed: 20, p99: 5 };
        let other = PlayMeasure { complete: 5, p99: 9, ..play };
        let measure = PointMeasure { success: 700_000, goodput: 7_000, calls: 1_500_000, p99: 9 };
        assert_eq!(PointMeasure::of(&[play, other]), measure);
        assert_eq!(PointMeasure::of(&[]), PointMeasure::default());
    }

    #[test]
    fn regret_is_in_thousandths_of_points_and_percents() {
        let best = PointMeasure { success: 1_000_000, goodput: 1_100, calls: 1_000_000, p99: 4 };
        let own = PointMeasure { success: 990_000, goodput: 1_000, calls: 1_050_000, p99: 4 };
        let all = [TunedFigure::Success, TunedFigure::Goodput, TunedFigure::Calls, TunedFigure::P99];
        assert_eq!(all.map(|figure| own.regret(&best, figure)), [1_000, 10_000, 5_000, 0]);
        let nothing = PointMeasure { goodput: 0, ..own };
        assert_eq!(nothing.regret(&best, TunedFigure::Goodput), MOST_RATIO);
    }
}
