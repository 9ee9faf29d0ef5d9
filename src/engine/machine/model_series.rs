//! The attempts of one turn at its models: which model is due, and which attempts failed.

use serde::{Deserialize, Serialize};

use super::super::because::because;
use super::super::directive::DecisionReason;
use super::super::retry::missed;
use super::super::targets::{AttemptDisposition, NextTarget, TargetRotation};
use super::run_parts::RunParts;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::machine::failed_call::FailedCall;
use crate::policy::{ErrorClass, Policy};
use crate::session::{AttemptRecord, RetryExhausted};
use crate::time::{Instant, Nanos};

/// The attempts of one turn at its models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelSeries {
    rotation: TargetRotation,
    /// The attempts; `None` while none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts: Option<AttemptSeries>,
    /// The turn in which a model was last called.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    called_in: u32,
    /// What the planner decides about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consulted: Option<Box<RetryExhausted>>,
}

/// Which model is due.
impl ModelSeries {
    /// The model that is due.
    pub(in crate::engine) fn target<'c>(&self, targets: &'c [String]) -> Option<&'c String> {
        targets.get(self.place())
    }

    /// Its place in the list of models.
    pub(in crate::engine) const fn place(&self) -> usize {
        self.rotation.current()
    }

    /// Whether another model than the one that is due can be asked in this turn.
    pub(in crate::engine) fn can_ask_instead(&self, place: usize) -> bool {
        place != self.place() && !self.rotation.is_left(place)
    }

    /// How many models in addition to the one that is due can still be asked.
    pub(in crate::engine) fn remaining(&self, targets: &[String]) -> usize {
        self.rotation.remaining(targets.len())
    }

    /// Before when a model is not called, while others are there.
    pub(in crate::engine) fn not_before(&self, place: usize) -> Instant {
        self.rotation.not_before(place)
    }

    /// Begins a turn, or begins it again: with the first model that does not rest and whose window is large enough.
    pub(in crate::engine) fn begin(&mut self, left: impl Fn(usize) -> bool, run: &RunParts<'_>) {
        let (policy, now, count) = (run.policy(), run.out.now, run.targets.len());
        let rests = |place: usize| {
            let target = run.targets.get(place);
            target.is_some_and(|target| run.models.rests(target, &policy.model(target), now))
        };
        // A turn that is begun again had its attempts: it continues where it stood, or repeating a turn would renew
        // them.
        if self.was_called_in(run.turn) {
            self.rotation.begin_again(&policy.turn().targets, count, rests, left);
        } else {
            self.rotation = TargetRotation::begin(count, rests, left);
        }
    }

    /// What comes after an attempt that failed.
    pub(in crate::engine) fn rotate(
        &mut self,
        fate: AttemptDisposition,
        failed: &FailedCall,
        run: &RunParts<'_>,
    ) -> NextTarget {
        let policy = run.policy();
        let (now, models, targets) = (run.out.now, &*run.models, run.targets);
        let waits = self.waits(run);
        let patient = |delay| {
            // All bounds at once: a wait has to fit into the turn and into the run.
            waits.iter().all(|(_, most, waited)| most.is_none_or(|most| waited.saturating_add(delay) <= most))
        };
        let rests = |place: usize| {
            targets.get(place).is_some_and(|target| models.rests(target, &policy.model(target), now))
        };
        let in_time = |place: usize, delay| {
            let model = targets.get(place).map(|target| policy.model(target));
            patient(delay)
                && model.is_some_and(|model| {
                    // Each model has a policy of its own, so a wait that is too long for one may fit another.
                    missed(&model.retry, failed.progress, failed.case.run_deadline, now, delay).is_none()
                })
        };
        self.rotation.failed(&policy.turn().targets, targets.len(), fate, rests, in_time, now)
    }

    /// Why a model is not waited for so long: with the waits before it that is more than a turn, or a run, may have.
    pub(in crate::engine) fn too_long(&self, delay: Nanos, run: &RunParts<'_>) -> Option<DecisionReason> {
        let turn = run.policy().turn();
        let (rule, _, waited) = self
            .waits(run)
            .into_iter()
            .find(|(_, most, waited)| most.is_some_and(|most| waited.saturating_add(delay) > most))?;
        let bound = if rule == "turn.run_delay" { &turn.run_delay } else { &turn.total_delay };
        Some(because(run.policy(), rule, bound, [format!("waited {} so far", waited.rounded())]))
    }

    /// The wait after the attempt that failed last is this one.
    pub(in crate::engine) fn wait(&mut self, delay: Nanos, run: &mut RunParts<'_>) {
        self.set_last_wait(delay);
        self.rotation.waits(delay);
        // Planned waits are counted when they are decided, so two of them cannot both use what is left.
        run.spending.waited = run.spending.waited.saturating_add(delay);
    }

    /// The bounds of waits for models: the rule, the most that it allows, and how long was waited so far.
    fn waits(&self, run: &RunParts<'_>) -> [(&'static str, Option<Nanos>, Nanos); 2] {
        let turn = run.policy().turn();
        [
            ("turn.total_delay", turn.total_delay.value.length(), self.rotation.waited()),
            ("turn.run_delay", turn.run_delay.value.length(), run.spending.waited),
        ]
    }
}

/// Its attempts.
impl ModelSeries {
    /// The attempts so far; `None` while none was made.
    pub(in crate::engine) const fn attempts(&self) -> Option<&AttemptSeries> {
        self.attempts.as_ref()
    }

    /// The attempts; they begin now if none was made.
    pub(in crate::engine) fn begun(&mut self, now: Instant) -> &mut AttemptSeries {
        self.attempts.get_or_insert_with(|| AttemptSeries::begin(now))
    }

    /// Ends the series: its attempts do not count for what comes after them. Returns the class of the last failure.
    pub(in crate::engine) fn end(&mut self) -> Option<ErrorClass> {
        self.attempts.take().and_then(|series| series.history.last().map(|record| record.error_type))
    }

    /// The attempt at the model that is due, from 1: without those of other models, where each has its own.
    pub(in crate::engine) fn attempt(&self) -> u32 {
        let attempt = self.attempts.as_ref().map_or(1, AttemptSeries::attempt);
        // Where models have attempts of their own, those at others must not use up the limit of this one.
        attempt.saturating_sub(self.rotation.beside()).max(1)
    }

    /// The last attempt at the model that is due that failed.
    pub(in crate::engine) fn last(&self) -> Option<&AttemptRecord> {
        let history = &self.attempts.as_ref()?.history;
        let own = |number: &usize| self.rotation.is_own(*number);
        (0..history.len()).rev().find(own).and_then(|number| history.get(number))
    }

    /// The attempts at the model that is due that failed.
    pub(in crate::engine) fn failed(&self) -> Vec<AttemptRecord> {
        let history = self.attempts.iter().flat_map(|series| &series.history).enumerate();
        let own = history.filter(|(number, _)| self.rotation.is_own(*number));
        // Renumbered, since people compare with the `max_attempts` of this model.
        (1..).zip(own).map(|(attempt, (_, record))| AttemptRecord { attempt, ..record.clone() }).collect()
    }

    /// Whether the model needs feedback about its reply, and got none in this turn.
    pub(in crate::engine) fn is_news(&self, class: ErrorClass, policy: &Policy) -> bool {
        let of_reply = match class {
            ErrorClass::EmptyResponse | ErrorClass::ReasoningOnly | ErrorClass::TextOnly => true,
            // Where a report is due, the hint asks for it instead of the long text. Elsewhere only a larger limit
            // would help.
            ErrorClass::TruncatedOutput => policy.output().is_some(),
            _ => false,
        };
        let history = self.attempts.iter().flat_map(|series| &series.history);
        // Written once in a turn: the same hint with each attempt would only make the request longer.
        of_reply && history.filter(|attempt| attempt.error_type == class).count() <= 1
    }

    /// The wait after the attempt that failed last was planned to be another one.
    pub(in crate::engine) fn set_last_wait(&mut self, delay: Nanos) {
        if let Some(last) = self.attempts.as_mut() {
            last.waits(delay);
        }
    }

    /// A model is called in that turn.
    pub(in crate::engine) const fn called_in(&mut self, turn: u32) {
        self.called_in = turn;
    }

    /// Whether a model was called in that turn.
    pub(in crate::engine) const fn was_called_in(&self, turn: u32) -> bool {
        self.called_in == turn
    }

    /// The planner is asked about these attempts.
    pub(in crate::engine) fn consult(&mut self, exhausted: RetryExhausted) {
        self.consulted = Some(Box::new(exhausted));
    }

    /// What the planner was asked about.
    pub(in crate::engine) fn take_consulted(&mut self) -> Option<RetryExhausted> {
        self.consulted.take().map(|exhausted| *exhausted)
    }
}
