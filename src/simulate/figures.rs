//! The figures of a simulation: success, cost, and development over time.

use serde::Serialize;

use crate::engine::Outcome;
use crate::policy::ErrorClass;
use crate::session::{FailureReason, StopReason, Usage};
use crate::time::Nanos;

/// The figures of a simulation. Durations are written as whole nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SimulationFigures {
    /// Runs that ended.
    pub runs: u64,
    /// Runs with an answer in which all tool calls succeeded.
    pub complete: u64,
    /// Runs with an answer in which some tool calls did not succeed.
    pub partial: u64,
    /// Runs without an answer.
    pub failed: u64,
    /// The reasons of the failed runs, the most frequent first.
    pub(crate) ended_by: Vec<EndedBy>,
    /// Model calls.
    pub model_calls: u64,
    /// The model calls needed without failures: the first for each step of a run, unless it replaces a failed step.
    pub model_calls_needed: u64,
    /// Runs of tools.
    pub tool_runs: u64,
    /// The tool runs needed without failures: the first for each required call.
    pub tool_runs_needed: u64,
    /// The median duration of turns.
    pub turn_p50: Nanos,
    /// The 99th percentile of the duration of turns.
    pub turn_p99: Nanos,
    /// The total time that agents waited for another attempt.
    pub waiting: Nanos,
    /// The longest total time that a run waited for other attempts.
    pub longest_wait: Nanos,
    /// The reported tokens.
    pub tokens: Usage,
    /// The number of events decided about.
    pub steps: u64,
    /// The number of decisions: requested work and notes.
    pub decisions: u64,
    /// The end of the last run, from the start.
    pub ended: Nanos,
    /// The load of each model.
    pub(crate) models: Vec<ServiceLoad>,
    /// The load of each tool.
    pub(crate) tools: Vec<ServiceLoad>,
    /// The length of a part of `over_time`. It is longer if the last runs take long.
    pub part: Nanos,
    /// The figures of each part of the time.
    pub(crate) over_time: Vec<TimeShare>,
}

/// A reason for failed runs, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EndedBy {
    /// Why there was no answer; `None`: the run was endless.
    pub reason: Option<FailureReason>,
    /// Why no further attempt was made, if attempts ended.
    pub stopped_by: Option<StopReason>,
    /// The class of the last error, if there was one.
    pub error_type: Option<ErrorClass>,
    /// The number of runs with this end.
    pub runs: u64,
}

/// The load of a model or tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ServiceLoad {
    /// Its name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed, exceeded a limit of the policy, or had a faulty reply.
    pub failed: u64,
    /// Failed calls that were refused because of the capacity.
    pub refused: u64,
}

/// The figures of a part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TimeShare {
    /// Runs that ended in it.
    pub runs: u64,
    /// The complete ones among these runs.
    pub complete: u64,
    /// Model calls in it.
    pub model_calls: u64,
}

/// The number of parts of the time in which agents begin runs.
const PARTS: u64 = 60;
/// The maximum number of parts: if the last runs take longer, the length of all parts is doubled.
const MOST_PARTS: usize = 240;

/// Figures during the simulation.
#[derive(Debug, Default)]
pub(super) struct FigureTally {
    pub(super) figures: SimulationFigures,
    turns: Vec<u64>,
}

/// The end of a run.
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

    /// Complete runs an hour, in thousandths; `None`: no time passed.
    pub fn goodput(&self) -> Option<u64> {
        const HOUR: u128 = 3_600_000_000_000;
        let an_hour = (u128::from(self.complete) * HOUR * 1_000).checked_div(self.ended.0.into())?;
        u64::try_from(an_hour).ok()
    }

    /// The number of model calls per needed call, in parts per million.
    pub fn amplification_ppm(&self) -> Option<u64> {
        ppm(self.model_calls, self.model_calls_needed)
    }

    /// The number of tool runs per needed run, in parts per million.
    pub fn tool_amplification_ppm(&self) -> Option<u64> {
        ppm(self.tool_runs, self.tool_runs_needed)
    }
}

/// The ratio of `some` to `all` in parts per million, rounded to the nearest.
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
    /// A run that ended without an answer; the outcome, if it had one.
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

    /// What a run has waited in all.
    pub(super) fn run_waited(&mut self, time: Nanos) {
        self.figures.longest_wait = self.figures.longest_wait.max(time);
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

    /// Counts a failed run with its reason.
    pub(super) fn run_failed(&mut self, why: EndedBy) {
        let known = &mut self.figures.ended_by;
        match known.iter_mut().find(|known| known.like(&why)) {
            Some(known) => known.runs = known.runs.saturating_add(why.runs),
            None => known.push(why),
        }
    }

    /// The final figures.
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

    /// Merges each two parts into one.
    fn coarsen(&mut self) {
        let SimulationFigures { part, over_time, .. } = &mut self.figures;
        *part = part.saturating_add(*part);
        let pairs = over_time.chunks(2).map(|pair| pair.iter().fold(TimeShare::default(), TimeShare::plus));
        *over_time = pairs.collect();
    }
}

/// The percentile of sorted times.
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
