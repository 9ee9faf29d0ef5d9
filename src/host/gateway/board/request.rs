//! A request in flight: where it is, and what it waits for.

use serde::Serialize;

use super::decision::{Decision, DecisionKind, ShownReason};
use crate::engine::{DecisionReason, Directive, DirectiveKind, Note, RetryAction, TurnRetry, WaitWork, Work};
use crate::policy::ErrorClass;
use crate::time::Instant;

/// What is known of a request when it begins.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RequestFacts {
    /// The name of the client's key; empty: keys are not taken.
    pub(crate) client: String,
    /// The model that it asks for.
    pub(crate) model: String,
    /// The route that leads there.
    pub(crate) route: String,
    /// How the client speaks.
    pub(crate) dialect: &'static str,
    /// Whether it wants a stream.
    pub(crate) stream: bool,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest {
    pub(crate) facts: RequestFacts,
    pub(crate) since: Instant,
    /// The calls of models that have begun.
    pub(crate) attempts: u32,
    /// The model of the last one.
    pub(crate) target: Option<String>,
    /// When its phase began.
    pub(crate) phase_since: Instant,
    pub(crate) phase: RequestPhase,
    /// What is done about the failure that was reported last; its reasons follow.
    failed: Option<TurnRetry>,
    /// Why the conversation is looked at; what comes of it follows.
    changes: Vec<ShownReason>,
    /// Why the last answer is not passed on; what is done about it follows.
    refused: Vec<ShownReason>,
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestPhase {
    /// Its first decision.
    Start,
    /// The answer of its model.
    Answer,
    /// The rest of an answer that goes out already.
    Stream,
    /// The time of another attempt.
    Delay { until: Instant, error_type: &'static str, because: Vec<ShownReason> },
    /// Its turn among the calls of a pool.
    Pace { until: Instant, pool: String, because: Vec<ShownReason> },
}

impl OpenRequest {
    pub(super) const fn new(facts: RequestFacts, now: Instant) -> Self {
        let (attempts, target, phase) = (0, None, RequestPhase::Start);
        let changes = Vec::new();
        let refused = Vec::new();
        Self { facts, since: now, attempts, target, phase_since: now, phase, failed: None, changes, refused }
    }

    /// Its answer goes out from now on.
    pub(super) fn streams(&mut self, now: Instant) {
        self.enter(RequestPhase::Stream, now);
    }

    /// Takes a directive about it; returns the decision that it is, if it is one.
    pub(super) fn take(&mut self, directive: &Directive, id: u64, now: Instant) -> Option<Decision> {
        let because = || shown(&directive.because);
        match &directive.order {
            DirectiveKind::Work(Work::CallModel(call)) => {
                self.attempts = self.attempts.saturating_add(1);
                self.target = Some(call.target.clone());
                self.changes.clear();
                self.refused.clear();
                self.enter(RequestPhase::Answer, now);
                None
            }
            DirectiveKind::Work(Work::Wait(wait)) => self.waits(wait, because(), id, now),
            DirectiveKind::Note(Note::TurnRetry(retry)) => {
                // With a reason of its own it passes a model over, or asks again at once; otherwise its reasons come with what
                // is done.
                let is_at_once = retry.action == RetryAction::Retry && retry.backoff.is_zero();
                let is_skip = !is_at_once && !directive.because.is_empty();
                self.failed = Some(retry.clone());
                if is_skip {
                    return Some(self.decided(DecisionKind::Skip, because(), id, now));
                }
                let refused = core::mem::take(&mut self.refused);
                let because = if refused.is_empty() { because() } else { refused };
                is_at_once.then(|| self.decided(self.again(), because, id, now))
            }
            DirectiveKind::Work(Work::RepairHistory(_)) => {
                self.changes = because();
                None
            }
            DirectiveKind::Note(Note::OrphanToolCallsPruned(_)) => {
                let because = core::mem::take(&mut self.changes);
                Some(self.decided(DecisionKind::Repair, because, id, now))
            }
            DirectiveKind::Work(Work::ReduceContext(_)) => {
                // Why there is a reduction stands at its first step, which may come to nothing.
                if self.changes.is_empty() {
                    self.changes = because();
                }
                None
            }
            DirectiveKind::Note(Note::ContextReduced(reduced)) => {
                let because = core::mem::take(&mut self.changes);
                let target = reduced.target.clone();
                Some(Decision { target, ..self.decided(DecisionKind::Reduce, because, id, now) })
            }
            DirectiveKind::Note(Note::Repaired { .. } | Note::Renamed { .. }) => {
                Some(self.of_answer(DecisionKind::Mend, None, because(), (id, now)))
            }
            DirectiveKind::Note(Note::Exhausted { .. }) => {
                let next = self.failed.as_ref().and_then(|retry| retry.next_target.as_ref());
                let kind = if next.is_some() { DecisionKind::Fallback } else { DecisionKind::GiveUp };
                Some(self.decided(kind, because(), id, now))
            }
            _ => None,
        }
    }

    /// The answer is not what the request asks for, and by that rule another one may be wanted.
    pub(super) fn refuses(&mut self, because: &DecisionReason) {
        self.refused = vec![because.into()];
    }

    /// The answer passes, though it is not what the request asks for.
    pub(super) fn passes(
        &self,
        class: ErrorClass,
        because: &DecisionReason,
        (id, now): (u64, Instant),
    ) -> Decision {
        self.of_answer(DecisionKind::Pass, Some(class.name()), vec![because.into()], (id, now))
    }

    /// A decision about the answer of the model that was called last.
    fn of_answer(
        &self,
        what: DecisionKind,
        error_type: Option<&'static str>,
        because: Vec<ShownReason>,
        (id, now): (u64, Instant),
    ) -> Decision {
        let target = self.target.clone().unwrap_or_default();
        Decision { target, next: None, error_type, delay_ms: 0, ..self.decided(what, because, id, now) }
    }

    fn waits(
        &mut self,
        wait: &WaitWork,
        because: Vec<ShownReason>,
        id: u64,
        now: Instant,
    ) -> Option<Decision> {
        let (until, error_type) = (wait.until, wait.error_type.name());
        let Some(pool) = wait.pool.clone() else {
            // The wait of a fallback was reported with its reasons.
            let decision =
                (!because.is_empty()).then(|| self.decided(self.again(), because.clone(), id, now));
            self.enter(RequestPhase::Delay { until, error_type, because }, now);
            return decision;
        };
        let target = wait.subject.strip_prefix("model ").unwrap_or(&wait.subject).to_owned();
        self.failed = None;
        let decision = Decision {
            target,
            delay_ms: wait.delay.millis(),
            ..self.decided(DecisionKind::Pace, because.clone(), id, now)
        };
        self.enter(RequestPhase::Pace { until, pool, because }, now);
        Some(decision)
    }

    /// What another attempt is.
    fn again(&self) -> DecisionKind {
        let retry = self.failed.as_ref();
        let is_other =
            retry.is_some_and(|retry| retry.next_target.as_ref().is_some_and(|next| *next != retry.target));
        if is_other { DecisionKind::Fallback } else { DecisionKind::Retry }
    }

    fn enter(&mut self, phase: RequestPhase, now: Instant) {
        self.phase = phase;
        self.phase_since = now;
    }

    fn decided(&self, what: DecisionKind, because: Vec<ShownReason>, request: u64, now: Instant) -> Decision {
        let failed = self.failed.as_ref();
        let target = failed.map(|retry| retry.target.clone()).or_else(|| self.target.clone());
        Decision {
            at_ms: now.since(Instant::default()).millis(),
            times: 1,
            request: Some(request),
            client: self.facts.client.clone(),
            model: self.facts.model.clone(),
            what,
            next: failed
                .and_then(|retry| retry.next_target.clone())
                .filter(|next| target.as_ref() != Some(next)),
            target: target.unwrap_or_default(),
            error_type: failed.map(|retry| retry.error_type.name()),
            delay_ms: failed.map_or(0, |retry| retry.backoff.millis()),
            because,
        }
    }
}

fn shown(because: &[DecisionReason]) -> Vec<ShownReason> {
    because.iter().map(ShownReason::from).collect()
}
