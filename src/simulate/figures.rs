//! What a simulation comes to: how many runs went well, what that cost, and how it went over time.

use serde::Serialize;

use crate::engine::Outcome;
use crate::policy::ErrorClass;
use crate::session::{FailureReason, StopReason, Usage};
use crate::time::Nanos;

/// What a simulation comes to. Lengths of time are written as whole nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SimulationFigures {
    /// Runs that ended.
    pub runs: u64,
    /// Runs with an answer, and all their tool calls went well.
    pub complete: u64,
    /// Runs with an answer, though some of their tool calls did not go well.
    pub partial: u64,
    /// Runs without an answer.
    pub failed: u64,
    /// Why these failed, the most frequent first.
    pub(crate) ended_by: Vec<EndedBy>,
    /// Calls of models.
    pub model_calls: u64,
    /// Of these, the first for each step of a run, unless it is made in place of a step that failed: what it takes if
    /// nothing goes wrong.
    pub model_calls_needed: u64,
    /// Runs of tools.
    pub tool_runs: u64,
    /// Of these, the first for each call that is needed.
    pub tool_runs_needed: u64,
    /// Half of all turns took at most so long.
    pub turn_p50: Nanos,
    /// Of a hundred turns 99 took at most so long.
    pub turn_p99: Nanos,
    /// The time all agents together waited for another attempt.
    pub waiting: Nanos,
    /// The tokens that answers reported.
    pub tokens: Usage,
    /// Events that were decided about.
    pub steps: u64,
    /// What was decided about them: work that was asked for, and everything that was noted.
    pub decisions: u64,
    /// When the last run ended, from the start.
    pub ended: Nanos,
    /// What each model was asked for.
    pub(crate) models: Vec<ServiceLoad>,
    /// What each tool was asked for.
    pub(crate) tools: Vec<ServiceLoad>,
    /// How long a part of `over_time` is. It is longer if the last runs take long.
    pub part: Nanos,
    /// How it went, part by part.
    pub(crate) over_time: Vec<TimeShare>,
}

/// Why runs failed, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EndedBy {
    /// Why there was no answer; `None`: the run had no end.
    pub reason: Option<FailureReason>,
    /// Why no further attempt was made, if attempts had an end.
    pub stopped_by: Option<StopReason>,
    /// The class of the last error, if there was one.
    pub error_type: Option<ErrorClass>,
    /// How many runs ended so.
    pub runs: u64,
}

/// What a model or tool was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ServiceLoad {
    /// Its name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Of these, those that failed, that the policy cut off, or that were answered badly.
    pub failed: u64,
    /// Of those, the ones that were refused because they were too many.
    pub refused: u64,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TimeShare {
    /// Runs that ended in it.
    pub runs: u64,
    /// Of these, those with an answer and without a tool call that did not go well.
    pub complete: u64,
    /// Calls of models in it.
    pub model_calls: u64,
}

/// So many parts has the time in which agents begin runs.
const PARTS: u64 = 60;
/// There are no more parts than this: if the last runs take longer, all parts are made twice as long.
const MOST_PARTS: usize = 240;

/// Figures as they grow.
#[derive(Debug, Default)]
pub(super) struct FigureTally {
    pub(super) figures: SimulationFigures,
    turns: Vec<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    Complete,
    Partial,
    Failed,
}

impl SimulationFigures {
    /// The share of runs that were complete, in parts per million; `None` without any run.
    pub fn success_ppm(&self) -> Option<u64> {
        ppm(self.complete, self.runs)
    }

    /// The calls of models for each that was needed, in parts per million.
    pub fn amplification_ppm(&self) -> Option<u64> {
        ppm(self.model_calls, self.model_calls_needed)
    }

    /// The runs of tools for each that was needed, in parts per million.
    pub fn tool_amplification_ppm(&self) -> Option<u64> {
        ppm(self.tool_runs, self.tool_runs_needed)
    }
}

/// `some` of `all`, rounded to the nearest.
fn ppm(some: u64, all: u64) -> Option<u64> {
    let share = (u128::from(some) * 1_000_000 + u128::from(all / 2)).checked_div(all.into())?;
    u64::try_from(share).ok()
}

impl TimeShare {
    const fn plus(self, other: &Self) -> Self {
        Self {
            runs: self.runs.saturating_add(other.runs),
            complete: self.complete.saturating_add(other.complete),
            model_calls: self.model_calls.saturating_add(other.model_calls),
        }
    }
}

impl EndedBy {
    /// One run that ended without an answer; the outcome, if it had one.
    pub(super) fn of(outcome: Option<&Outcome>) -> Self {
        let (report, exhausted) = match outcome {
            Some(Outcome::Failed { exhausted, report }) => (Some(report), Some(exhausted)),
            Some(Outcome::Stopped { report, .. }) => (Some(report), None),
            Some(Outcome::Answered { .. } | Outcome::Reported { .. }) | None => (None, None),
        };
        let last = exhausted.and_then(|exhausted| exhausted.attempts.last());
        let class = report.and_then(|report| report.last_error_type);
        Self {
            reason: report.map(|report| report.reason),
            stopped_by: exhausted.map(|exhausted| exhausted.reason),
            error_type: last.map(|last| last.error_type).or(class),
            runs: 1,
        }
    }

    fn like(&self, other: &Self) -> bool {
        Self { runs: 0, ..*self } == Self { runs: 0, ..*other }
    }
}

impl FigureTally {
    pub(super) fn new(duration: Nanos) -> Self {
        let part = Nanos(duration.0.div_ceil(PARTS).max(1));
        Self { figures: SimulationFigures { part, ..SimulationFigures::default() }, turns: Vec::new() }
    }

    pub(super) fn model_called(&mut self, at: Nanos, needed: bool) {
        self.figures.model_calls = self.figures.model_calls.saturating_add(1);
        self.figures.model_calls_needed = self.figures.model_calls_needed.saturating_add(needed.into());
        let part = self.part(at);
        part.model_calls = part.model_calls.saturating_add(1);
    }

    pub(super) const fn tool_ran(&mut self, needed: bool) {
        self.figures.tool_runs = self.figures.tool_runs.saturating_add(1);
        self.figures.tool_runs_needed = self.figures.tool_runs_needed.saturating_add(needed as u64);
    }

    pub(super) const fn slept(&mut self, time: Nanos) {
        self.figures.waiting = self.figures.waiting.saturating_add(time);
    }

    pub(super) fn turn(&mut self, time: Nanos) {
        self.turns.push(time.0);
    }

    pub(super) fn run_ended(&mut self, at: Nanos, ended: RunEnd, tokens: Usage) {
        let figures = &mut self.figures;
        figures.runs = figures.runs.saturating_add(1);
        let of_kind = match ended {
            RunEnd::Complete => &mut figures.complete,
            RunEnd::Partial => &mut figures.partial,
            RunEnd::Failed => &mut figures.failed,
        };
        *of_kind = of_kind.saturating_add(1);
        figures.tokens = figures.tokens.plus(tokens);
        figures.ended = figures.ended.max(at);
        let part = self.part(at);
        part.runs = part.runs.saturating_add(1);
        part.complete = part.complete.saturating_add((ended == RunEnd::Complete).into());
    }

    /// A run has failed, and why.
    pub(super) fn run_failed(&mut self, why: EndedBy) {
        let known = &mut self.figures.ended_by;
        match known.iter_mut().find(|known| known.like(&why)) {
            Some(known) => known.runs = known.runs.saturating_add(why.runs),
            None => known.push(why),
        }
    }

    /// The figures, when all is over.
    pub(super) fn close(mut self, models: Vec<ServiceLoad>, tools: Vec<ServiceLoad>) -> SimulationFigures {
        self.turns.sort_unstable();
        self.figures.ended_by.sort_by_key(|why| core::cmp::Reverse(why.runs));
        self.figures.turn_p50 = rank(&self.turns, 50);
        self.figures.turn_p99 = rank(&self.turns, 99);
        SimulationFigures { models, tools, ..self.figures }
    }

    fn part(&mut self, at: Nanos) -> &mut TimeShare {
        let mut index = self.place(at);
        while index >= MOST_PARTS {
            self.coarsen();
            index = self.place(at);
        }
        let parts = &mut self.figures.over_time;
        if parts.len() <= index {
            parts.resize(index + 1, TimeShare::default());
        }
        &mut parts[index]
    }

    fn place(&self, at: Nanos) -> usize {
        usize::try_from(at.0 / self.figures.part.0.max(1)).unwrap_or(usize::MAX)
    }

    /// Makes one part of each two.
    fn coarsen(&mut self) {
        let SimulationFigures { part, over_time, .. } = &mut self.figures;
        *part = part.saturating_add(*part);
        let pairs = over_time.chunks(2).map(|pair| pair.iter().fold(TimeShare::default(), TimeShare::plus));
        *over_time = pairs.collect();
    }
}

/// The smallest of the times which so many of a hundred do not exceed.
fn rank(sorted: &[u64], percent: usize) -> Nanos {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    Nanos(sorted.get(place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_times_that_were() {
        let times: Vec<u64> = (1..=200).collect();
        assert_eq!((rank(&times, 50), rank(&times, 99)), (Nanos(100), Nanos(198)));
        assert_eq!((rank(&[7], 50), rank(&[7], 99), rank(&[], 99)), (Nanos(7), Nanos(7), Nanos(0)));
    }

    #[test]
    fn shares_are_rounded_to_the_nearest() {
        assert_eq!((ppm(2, 3), ppm(3, 2), ppm(0, 0)), (Some(666_667), Some(1_500_000), None));
    }
}
