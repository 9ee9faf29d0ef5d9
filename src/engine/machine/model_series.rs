//! The attempts of one turn: the current model, and the failed attempts.

use serde::{Deserialize, Serialize};

use super::super::because::because;
use super::super::directive::DecisionReason;
use super::super::retry::missed;
use super::super::targets::{AttemptDisposition, NextTarget, TargetRotation, passes_over};
use super::pace_pools::PaceTicket;
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
    /// The attempts; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts: Option<AttemptSeries>,
    /// The turn of the last model call.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    called_in: u32,
    /// The exhausted attempts that the planner decides about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consulted: Option<Box<RetryExhausted>>,
    /// The age of the turn under the pace of its models.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    ticket: PaceTicket,
}

/// Selection of the current model.
impl ModelSeries {
    /// The current model.
    pub(in crate::engine) fn target<'c>(&self, targets: &'c [String]) -> Option<&'c String> {
        targets.get(self.place())
    }

    /// The index of the current model.
    pub(in crate::engine) const fn place(&self) -> usize {
        self.rotation.current()
    }

    /// Whether another model than the current one can still be called in this turn.
    pub(in crate::engine) fn can_ask_instead(&self, place: usize) -> bool {
        place != self.place() && !self.rotation.is_left(place)
    }

    /// The number of other models that can still be called.
    pub(in crate::engine) fn remaining(&self, targets: &[String]) -> usize {
        self.rotation.remaining(targets.len())
    }

    /// The earliest time at which a model is called, while others are available.
    pub(in crate::engine) fn not_before(&self, place: usize) -> Instant {
        self.rotation.not_before(place)
    }

    /// Begins a turn, or begins it again, with the first model that is not in cooldown and whose window is large
    /// enough.
    pub(in crate::engine) fn begin(&mut self, left: impl Fn(usize) -> bool, run: &RunParts<'_>) {
        let (policy, now, count) = (run.policy(), run.out.now, run.targets.len());
        let rules = &policy.turn().targets;
        let rests = |place: usize| {
            let Some(target) = run.targets.get(place) else { return false };
            let model = policy.model(target);
            // A pause that another call was asked for is as long a wait as one after an own failure.
            run.models.rests(target, &model, now) || passes_over(rules, || run.pause_of(target, &model))
        };
        // A turn that begins again continues with its attempts; otherwise each repeat would renew them.
        if self.was_called_in(run.turn) {
            self.rotation.begin_again(&policy.turn().targets, count, rests, left);
        } else {
            self.rotation = TargetRotation::begin(count, rests, left);
            self.ticket = PaceTicket::default();
        }
    }

    /// Chooses the next attempt after a failed one.
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
            // All limits apply at once: a delay must fit into the turn and into the run.
            waits.iter().all(|(_, most, waited)| most.is_none_or(|most| waited.saturating_add(delay) <= most))
        };
        let rests = |place: usize| {
            targets.get(place).is_some_and(|target| models.rests(target, &policy.model(target), now))
        };
        let in_time = |place: usize, delay| {
            let model = targets.get(place).map(|target| policy.model(target));
            patient(delay)
                && model.is_some_and(|model| {
                    // Each model has its own policy, so a delay that is too long for one may fit another.
                    missed(&model.retry, failed.progress, failed.case.run_deadline, now, delay).is_none()
                })
        };
        let attempts = self.attempts.as_ref().map_or(0, |series| series.history.len());
        let counts = (attempts, targets.len());
        self.rotation.failed(&policy.turn().targets, counts, fate, rests, in_time, now)
    }

    /// Why a delay is not granted: with the delays before it, it exceeds the maximum for the turn or the run.
    pub(in crate::engine) fn too_long(&self, delay: Nanos, run: &RunParts<'_>) -> Option<DecisionReason> {
        let turn = run.policy().turn();
        let (rule, _, waited) = self
            .waits(run)
            .into_iter()
            .find(|(_, most, waited)| most.is_some_and(|most| waited.saturating_add(delay) > most))?;
        let bound = if rule == "turn.run_delay" { &turn.run_delay } else { &turn.total_delay };
        Some(because(run.policy(), rule, bound, [format!("waited {} so far", waited.rounded())]))
    }

    /// Sets the delay after the last failed attempt.
    pub(in crate::engine) fn wait(&mut self, delay: Nanos, run: &mut RunParts<'_>) {
        self.set_last_wait(delay);
        self.rotation.waits(delay);
        // Planned delays count when they are decided, so that two of them cannot both use the rest.
        run.spending.waited = run.spending.waited.saturating_add(delay);
    }

    /// The limits on delays for models: the rule, its maximum, and the time waited so far.
    fn waits(&self, run: &RunParts<'_>) -> [(&'static str, Option<Nanos>, Nanos); 2] {
        let turn = run.policy().turn();
        [
            ("turn.total_delay", turn.total_delay.value.length(), self.rotation.waited()),
            ("turn.run_delay", turn.run_delay.value.length(), run.spending.waited),
        ]
    }
}

/// The attempts.
impl ModelSeries {
    /// The attempts so far; `None` before the first.
    pub(in crate::engine) const fn attempts(&self) -> Option<&AttemptSeries> {
        self.attempts.as_ref()
    }

    /// The attempts; the series begins now if there was none.
    pub(in crate::engine) fn begun(&mut self, now: Instant) -> &mut AttemptSeries {
        self.attempts.get_or_insert_with(|| AttemptSeries::begin(now))
    }

    /// Ends the series: later attempts start from zero. Returns the class of the last failure.
    pub(in crate::engine) fn end(&mut self) -> Option<ErrorClass> {
        self.attempts.take().and_then(|series| series.history.last().map(|record| record.error_type))
    }

    /// The number of the attempt at the current model, from 1. Attempts at other models count only if they share a
    /// series.
    pub(in crate::engine) fn attempt(&self) -> u32 {
        let attempt = self.attempts.as_ref().map_or(1, AttemptSeries::attempt);
        // If each model has its own attempts, those at others must not use up this model's limit.
        attempt.saturating_sub(self.rotation.beside()).max(1)
    }

    /// The last failed attempt at the current model.
    pub(in crate::engine) fn last(&self) -> Option<&AttemptRecord> {
        let history = &self.attempts.as_ref()?.history;
        let own = |number: &usize| self.rotation.is_own(*number);
        (0..history.len()).rev().find(own).and_then(|number| history.get(number))
    }

    /// The failed attempts at the current model.
    pub(in crate::engine) fn failed(&self) -> Vec<AttemptRecord> {
        let history = self.attempts.iter().flat_map(|series| &series.history).enumerate();
        let own = history.filter(|(number, _)| self.rotation.is_own(*number));
        // Renumbered, because people compare the numbers with the `max_attempts` of this model.
        (1..).zip(own).map(|(attempt, (_, record))| AttemptRecord { attempt, ..record.clone() }).collect()
    }

    /// Whether the model needs feedback about its reply, and has not received it in this turn.
    pub(in crate::engine) fn is_news(&self, class: ErrorClass, policy: &Policy) -> bool {
        let of_reply = match class {
            ErrorClass::EmptyResponse | ErrorClass::ReasoningOnly | ErrorClass::TextOnly => true,
            // If a report is required, the hint asks for it instead of the long text. Otherwise only a larger limit
            // would help.
            ErrorClass::TruncatedOutput => policy.output().is_some(),
            _ => false,
        };
        let history = self.attempts.iter().flat_map(|series| &series.history);
        // Added once per turn: the same hint with each attempt would only lengthen the request.
        of_reply && history.filter(|attempt| attempt.error_type == class).count() <= 1
    }

    /// Replaces the planned delay after the last failed attempt.
    pub(in crate::engine) fn set_last_wait(&mut self, delay: Nanos) {
        if let Some(last) = self.attempts.as_mut() {
            last.waits(delay);
        }
    }

    /// The age of the turn under the pace of its models.
    pub(in crate::engine) const fn ticket(&mut self) -> &mut PaceTicket {
        &mut self.ticket
    }

    /// Records that a model is called in this turn.
    pub(in crate::engine) const fn called_in(&mut self, turn: u32) {
        self.called_in = turn;
    }

    /// Whether a model was called in this turn.
    pub(in crate::engine) const fn was_called_in(&self, turn: u32) -> bool {
        self.called_in == turn
    }

    /// Stores the exhausted attempts that the planner is asked about.
    pub(in crate::engine) fn consult(&mut self, exhausted: RetryExhausted) {
        self.consulted = Some(Box::new(exhausted));
    }

    /// Takes the exhausted attempts that the planner was asked about.
    pub(in crate::engine) fn take_consulted(&mut self) -> Option<RetryExhausted> {
        self.consulted.take().map(|exhausted| *exhausted)
    }
}
