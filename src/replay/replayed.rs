//! The report of a replay.

use std::collections::BTreeSet;

use serde::Serialize;

use super::compare::ReplayDifference;
use super::part::{DecisionPart, DecisionParts};
use super::tally::WorkTally;
use crate::engine::{Envelope, Event, LogHeader};
use crate::time::Instant;

/// The report of a replay.
#[derive(Debug)]
pub struct ReplayReport {
    /// The header of the session.
    pub header: Option<LogHeader>,
    /// Digest of the replaying policy.
    pub policy: String,
    /// Digests of the recorded policies, each with the first event it decided about.
    pub by: Vec<(String, u64)>,
    /// Digests of the recorded policies other than `policy` that are available: they replay their own decisions, up
    /// to the first difference.
    pub again: BTreeSet<String>,
    /// Events in the log.
    pub events: u64,
    /// Events with identical decisions.
    pub same: u64,
    /// The ignored differences in decisions of the same policy.
    pub passed_over: PassedOver,
    /// How the replay ended.
    pub ending: ReplayEnding,
    /// Decisions after the first difference.
    pub left_out: u64,
    /// The last event, if the log contains no decision about it: the run was interrupted there.
    pub undecided: Option<u64>,
    /// The work in the compared recorded decisions, including the first that differs.
    pub recorded: WorkTally,
    /// The work in the replayed decisions.
    pub replayed: WorkTally,
    /// The tools whose parameters were not recorded: the arguments of their calls are not validated.
    pub unchecked: BTreeSet<String>,
}

/// How the replay ended.
#[derive(Debug, PartialEq)]
pub enum ReplayEnding {
    /// All decisions are identical.
    Same,
    /// A decision differs.
    Diverges(Box<ReplayDivergence>),
}

/// The first event with a different decision.
#[derive(Debug, PartialEq)]
pub struct ReplayDivergence {
    /// The number of the event.
    pub seq: u64,
    /// The time of the event.
    pub at: Instant,
    /// The event.
    pub event: Event,
    /// Digest of the recorded policy.
    pub policy: String,
    /// The difference.
    pub difference: ReplayDifference,
}

/// The numbers of decisions with ignored differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// In their reasons.
    pub because: u64,
    /// In the numbers of allowed attempts and turns.
    pub bounds: u64,
    /// In texts for models and people.
    pub texts: u64,
    /// In delays and time limits.
    pub times: u64,
}

impl PassedOver {
    pub(super) fn add(&mut self, parts: DecisionParts) {
        for part in parts.iter() {
            let count = match part {
                DecisionPart::Because => &mut self.because,
                DecisionPart::Bounds => &mut self.bounds,
                DecisionPart::Texts => &mut self.texts,
                DecisionPart::Times => &mut self.times,
            };
            *count = count.saturating_add(1);
        }
    }
}

impl ReplayReport {
    pub(super) fn new(policy: &str) -> Self {
        Self {
            header: None,
            policy: policy.to_owned(),
            by: Vec::new(),
            again: BTreeSet::new(),
            events: 0,
            same: 0,
            passed_over: PassedOver::default(),
            ending: ReplayEnding::Same,
            left_out: 0,
            undecided: None,
            recorded: WorkTally::default(),
            replayed: WorkTally::default(),
            unchecked: BTreeSet::new(),
        }
    }

    /// Whether all recorded policies are available, so that each decision is replayed by its own policy, up to the
    /// first difference.
    pub fn by_same(&self) -> bool {
        self.by.iter().all(|(policy, _)| *policy == self.policy || self.again.contains(policy))
    }

    /// The first difference.
    pub fn divergence(&self) -> Option<&ReplayDivergence> {
        match &self.ending {
            ReplayEnding::Same => None,
            ReplayEnding::Diverges(divergence) => Some(divergence),
        }
    }

    pub(super) const fn happened(&mut self, _: &Envelope) {
        self.events = self.events.saturating_add(1);
    }

    pub(super) fn decided(&mut self, policy: &str, seq: u64, at_hand: bool) {
        if at_hand && policy != self.policy {
            self.again.insert(policy.to_owned());
        }
        if self.by.last().is_none_or(|(last, _)| last != policy) {
            self.by.push((policy.to_owned(), seq));
        }
    }
}
