//! The search: many points on few seeds, the best of them on more, then their children, and the best of all with fewer keys.
//!
//! Successive halving (Jamieson and Talwalkar, 2016) with common random numbers: all candidates of a round are played with
//! the same seeds, and each round has fresh ones, so that no candidate wins by the luck of an earlier round.

use super::TuneError;
use super::candidate::{TuneCandidate, TunePoint, TuneSubject};
use super::measure::{PlayMeasure, PointMeasure};
use super::objective::{SOME, TuneLoss, TuneObjective};
use super::plays::{PlayLedger, TuneScenario};

/// How large a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SearchSize {
    /// The points of the first round.
    pub(crate) points: u32,
    /// The seeds of the last one.
    pub(crate) seeds: u32,
    pub(crate) seed: u64,
}

/// A candidate that was played with the seeds of the last round.
pub(crate) struct TunedPoint {
    pub(crate) point: TunePoint,
    /// In all scenarios together.
    pub(crate) measure: PointMeasure,
    /// In each.
    pub(crate) each: Vec<PointMeasure>,
    /// By scenario, then by seed.
    plays: Vec<Vec<PlayMeasure>>,
    policy: crate::policy::Policy,
}

/// What a search came to.
pub(crate) struct TuneResult {
    /// The policy as it is.
    pub(crate) base: TunedPoint,
    /// The best point; `None`: none is better than the policy as it is.
    pub(crate) chosen: Option<ChosenPoint>,
    /// Points of which none is worse in all figures than another, the best first.
    pub(crate) frontier: Vec<TunedPoint>,
    /// How many points were tried.
    pub(crate) tried: usize,
}

/// The point that a search recommends.
pub(crate) struct ChosenPoint {
    /// Its place in the frontier.
    pub(crate) at: usize,
    /// What each key that is set is worth: the measures without it.
    pub(crate) without: Vec<(usize, TunedPoint)>,
}

/// A search in progress.
pub(crate) struct TuneSearch<'s, 'a> {
    pub(crate) subject: &'s TuneSubject<'a>,
    pub(crate) scenarios: &'s [TuneScenario],
    pub(crate) objective: &'s TuneObjective,
    pub(crate) size: SearchSize,
}

/// The rounds in which children are tried.
const GENERATIONS: u32 = 4;
/// The best points that have children.
const PARENTS: usize = 8;
/// The points of the last round, and so of the frontier.
const MOST_SHOWN: usize = 8;
/// So many draws for a point are enough: where most contradict each other there are few.
const DRAWS: u32 = 20;
/// Seeds of one round are so far from those of the next.
const APART: u64 = 1_000;

impl SearchSize {
    /// About how many plays a search has: the rounds, the children of all generations, and the last round with its winner's
    /// keys left out one by one.
    pub(crate) fn plays(&self, scenarios: usize, keys: usize) -> usize {
        let (points, seeds) = (self.points as usize, self.seeds as usize);
        let halving = points + points.div_ceil(3) * 2 + points.div_ceil(9).max(PARENTS) * 4;
        let children = GENERATIONS as usize * (PARENTS + points / 3) * 2;
        scenarios * (halving + children + (2 * MOST_SHOWN + 1 + 2 * keys) * seeds)
    }
}

impl TuneSearch<'_, '_> {
    /// Searches.
    pub(crate) fn run(&self, plays: &mut PlayLedger<'_>) -> Result<TuneResult, TuneError> {
        let mut known: Vec<TunePoint> = Vec::new();
        let mut best = self.first(&mut known);
        for round in 0..3 {
            best = self.ranked(plays, best, &self.seeds(round, 1 << round))?;
            let left = best.len().div_ceil(3).max(PARENTS.min(best.len()));
            best.truncate(left);
        }
        let mut quiet = 0;
        for generation in 0..GENERATIONS {
            let winner = best.first().map(|best| best.point.clone());
            best.truncate(PARENTS);
            let children = self.children(&best, &mut known, generation);
            best.extend(children);
            best = self.ranked(plays, best, &self.seeds(3 + u64::from(generation), 2))?;
            let is_same = best.first().map(|best| &best.point) == winner.as_ref();
            quiet = if is_same { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        self.last(plays, best, known.len())
    }

    /// The points of the first round: the policy as it is, one change alone for each key's ends, and random ones.
    fn first(&self, known: &mut Vec<TunePoint>) -> Vec<TuneCandidate> {
        let mut all = vec![self.subject.unchanged()];
        known.push(all[0].point.clone());
        let most = usize::try_from(self.size.points).unwrap_or(usize::MAX).max(1);
        let draws = self.size.points.saturating_mul(DRAWS);
        let mut number = 0;
        while all.len() < most && number < draws {
            all.extend(self.untried(self.subject.random(self.size.seed, number), known));
            number += 1;
        }
        all
    }

    fn children(
        &self,
        parents: &[TuneCandidate],
        known: &mut Vec<TunePoint>,
        generation: u32,
    ) -> Vec<TuneCandidate> {
        let most = usize::try_from(self.size.points / 3).unwrap_or(usize::MAX).max(1);
        let mut children = Vec::new();
        for number in 0..self.size.points.saturating_mul(DRAWS) {
            if children.len() >= most || parents.is_empty() {
                break;
            }
            let parent =
                |number: u32| &parents[usize::try_from(number).unwrap_or_default() % parents.len()].point;
            // Of two neighbours in the ranking.
            let pair = [parent(number), parent(number + 1)];
            let child = self.subject.child(pair, self.size.seed.wrapping_add(generation.into()), number);
            children.extend(self.untried(child, known));
        }
        children
    }

    /// The candidate of a point that has not been tried yet.
    fn untried(&self, point: TunePoint, known: &mut Vec<TunePoint>) -> Option<TuneCandidate> {
        if known.contains(&point) {
            return None;
        }
        known.push(point.clone());
        self.subject.candidate(point)
    }

    fn seeds(&self, round: u64, count: u64) -> Vec<u64> {
        let first = self.size.seed.wrapping_add(round.wrapping_mul(APART));
        (0..count).map(|seed| first.wrapping_add(seed)).collect()
    }

    /// The candidates by what they lose with these seeds, the best first. Among equals the one with the fewest changes.
    fn ranked(
        &self,
        plays: &mut PlayLedger<'_>,
        candidates: Vec<TuneCandidate>,
        seeds: &[u64],
    ) -> Result<Vec<TuneCandidate>, TuneError> {
        let points = self.measured(plays, candidates, seeds)?;
        Ok(points
            .into_iter()
            .map(|point| TuneCandidate { point: point.point, policy: point.policy })
            .collect())
    }

    fn measured(
        &self,
        plays: &mut PlayLedger<'_>,
        candidates: Vec<TuneCandidate>,
        seeds: &[u64],
    ) -> Result<Vec<TunedPoint>, TuneError> {
        let policies: Vec<_> = candidates.iter().map(|candidate| &candidate.policy).collect();
        let played = plays.play(&policies, self.scenarios, seeds)?;
        let points = candidates.into_iter().zip(played);
        let mut points: Vec<TunedPoint> =
            points.map(|(candidate, plays)| TunedPoint::of(candidate, plays)).collect();
        let best = self.bests(&points);
        points.sort_by_cached_key(|point| {
            let changes = point.point.iter().flatten().count();
            (self.loss(point, &best), changes, point.point.clone())
        });
        Ok(points)
    }

    /// The best figures of all points in each scenario.
    fn bests(&self, points: &[TunedPoint]) -> Vec<PointMeasure> {
        let of = |scenario: usize| PointMeasure::best(points.iter().map(|point| point.each[scenario]));
        (0..self.scenarios.len()).map(of).collect()
    }

    fn loss(&self, point: &TunedPoint, bests: &[PointMeasure]) -> TuneLoss {
        let losses = point.each.iter().zip(bests).map(|(own, best)| self.objective.loss(own, best));
        TuneObjective::over(&losses.collect::<Vec<_>>())
    }

    /// The last round: the best points and the policy as it is, on all seeds; then the best one with fewer keys.
    fn last(
        &self,
        plays: &mut PlayLedger<'_>,
        mut best: Vec<TuneCandidate>,
        tried: usize,
    ) -> Result<TuneResult, TuneError> {
        let seeds = self.seeds(100, self.size.seeds.into());
        best.truncate(2 * MOST_SHOWN);
        best.retain(|candidate| candidate.point.iter().any(Option::is_some));
        best.push(self.subject.unchanged());
        let mut points = self.measured(plays, best, &seeds)?;
        let base = self.measured(plays, vec![self.subject.unchanged()], &seeds)?;
        let Some(base) = base.into_iter().next() else { return Err(TuneError::NoScenario) };
        self.simplify(plays, &mut points, &seeds)?;
        let frontier = Self::frontier(points, &base.measure);
        let better = frontier.first().is_some_and(|best| self.is_better(best, &base));
        let chosen = match frontier.first() {
            Some(point) if better => {
                Some(ChosenPoint { at: 0, without: self.without(plays, point, &seeds)? })
            }
            _ => None,
        };
        Ok(TuneResult { base, chosen, frontier, tried })
    }

    /// Takes keys out of the best point as long as nothing is lost by it.
    fn simplify(
        &self,
        plays: &mut PlayLedger<'_>,
        points: &mut Vec<TunedPoint>,
        seeds: &[u64],
    ) -> Result<(), TuneError> {
        while let Some(best) = points.first() {
            let set = best.point.iter().enumerate().filter(|(_, value)| value.is_some());
            let simpler = set.filter_map(|(key, _)| {
                let mut point = best.point.clone();
                point[key] = None;
                if points.iter().any(|known| known.point == point) {
                    None
                } else {
                    self.subject.candidate(point)
                }
            });
            let simpler = self.measured(plays, simpler.collect(), seeds)?;
            let bests = self.bests(points);
            let own = self.loss(best, &bests);
            let Some(found) =
                simpler.into_iter().find(|point| !own.is_clearly_below(self.loss(point, &bests)))
            else {
                break;
            };
            points.insert(0, found);
        }
        Ok(())
    }

    /// The best point without each of its keys.
    fn without(
        &self,
        plays: &mut PlayLedger<'_>,
        best: &TunedPoint,
        seeds: &[u64],
    ) -> Result<Vec<(usize, TunedPoint)>, TuneError> {
        let mut all = Vec::new();
        for key in (0..best.point.len()).filter(|key| best.point[*key].is_some()) {
            let mut point = best.point.clone();
            point[key] = None;
            let candidate = self.subject.candidate(point).into_iter().collect();
            all.extend(self.measured(plays, candidate, seeds)?.into_iter().map(|point| (key, point)));
        }
        Ok(all)
    }

    /// The policy as it is and a point, in a scenario that the search has not seen.
    pub(crate) fn compare(
        &self,
        plays: &mut PlayLedger<'_>,
        point: &TunedPoint,
        scenario: &TuneScenario,
    ) -> Result<[PointMeasure; 2], TuneError> {
        let seeds = self.seeds(100, self.size.seeds.into());
        let policies = [&self.subject.base, &point.policy];
        let played = plays.play(&policies, core::slice::from_ref(scenario), &seeds)?;
        let of = |at: usize| PointMeasure::of(&played[at].concat());
        Ok([of(0), of(1)])
    }

    /// The best point, and those that are better than each one before them, and than the policy as it is, in some figure. What
    /// differs by noise alone is no difference.
    fn frontier(points: Vec<TunedPoint>, base: &PointMeasure) -> Vec<TunedPoint> {
        let mut kept: Vec<TunedPoint> = Vec::new();
        for point in points.into_iter().filter(|point| point.point.iter().any(Option::is_some)) {
            let is_covered = |better: &PointMeasure| better.covers(&point.measure);
            let is_new = kept.is_empty()
                || !(is_covered(base) || kept.iter().any(|better| is_covered(&better.measure)));
            if kept.len() < MOST_SHOWN && is_new {
                kept.push(point);
            }
        }
        kept
    }

    /// Whether a point loses less than the policy as it is: in the mean of all seeds by more than noise, and by more than two
    /// standard errors of the difference, seed by seed.
    fn is_better(&self, point: &TunedPoint, base: &TunedPoint) -> bool {
        let differences: Vec<i128> = (0..self.size.seeds)
            .map(|seed| {
                let seed = usize::try_from(seed).unwrap_or_default();
                let (own, old) = (point.with_seed(seed), base.with_seed(seed));
                let each = own.iter().zip(&old).map(|(own, old)| {
                    let best = PointMeasure::best([*own, *old]);
                    let loss = |measure| i128::from(self.objective.loss(measure, &best));
                    loss(old) - loss(own)
                });
                each.sum::<i128>() / i128::try_from(own.len().max(1)).unwrap_or(1)
            })
            .collect();
        is_above_noise(&differences)
    }
}

impl TunedPoint {
    fn of(candidate: TuneCandidate, plays: Vec<Vec<PlayMeasure>>) -> Self {
        let all: Vec<PlayMeasure> = plays.iter().flatten().copied().collect();
        Self {
            point: candidate.point,
            policy: candidate.policy,
            measure: PointMeasure::of(&all),
            each: plays.iter().map(|plays| PointMeasure::of(plays)).collect(),
            plays,
        }
    }

    /// What it came to with one seed, in each scenario.
    fn with_seed(&self, seed: usize) -> Vec<PointMeasure> {
        self.plays.iter().map(|plays| PointMeasure::of(plays.get(seed..=seed).unwrap_or_default())).collect()
    }
}

/// Whether the mean of these is more than [`SOME`] and more than two standard errors above zero.
fn is_above_noise(differences: &[i128]) -> bool {
    let count = i128::try_from(differences.len()).unwrap_or_default();
    let sum: i128 = differences.iter().sum();
    if count == 0 || sum < count * i128::from(SOME) {
        return false;
    }
    // mean > 2 · sqrt(Σ(d - mean)² / (n · (n - 1))), squared; `spread` is Σ(d - mean)².
    let spread: i128 =
        differences.iter().map(|one| (one * count - sum).pow(2)).sum::<i128>() / (count * count);
    count == 1 || sum.pow(2) / count * (count - 1) > 4 * spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_if_it_is_more_than_chance() {
        let some = i128::from(SOME);
        assert!(is_above_noise(&[some * 2, some * 3, some * 2, some * 3]));
        assert!(!is_above_noise(&[some * 9, -some * 8, some * 9, -some * 8]), "two of four are worse");
        assert!(!is_above_noise(&[some / 2; 8]), "too little to be worth a change");
        assert!(!is_above_noise(&[]));
    }
}
