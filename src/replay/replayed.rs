//! What comes of deciding a session again.

use std::collections::BTreeSet;

use serde::Serialize;

use super::compare::ReplayDifference;
use super::part::{DecisionPart, DecisionParts};
use super::tally::WorkTally;
use crate::engine::{Envelope, Event, LogHeader};
use crate::time::Instant;

/// What comes of deciding a session again.
#[derive(Debug)]
pub struct ReplayReport {
    /// How the session began.
    pub header: Option<LogHeader>,
    /// Digest of the policy that decided now.
    pub policy: String,
    /// Digests of the policies that decided then, each with the first event it decided about.
    pub by: Vec<(String, u64)>,
    /// Digests of those among them, besides `policy`, that are at hand: what they decided then they decide again, up to the first
    /// difference.
    pub again: BTreeSet<String>,
    /// Events in the log.
    pub events: u64,
    /// Events about which the same was decided.
    pub same: u64,
    /// What differed and was passed over, of what the same policy had decided.
    pub passed_over: PassedOver,
    /// How it ended.
    pub ending: ReplayEnding,
    /// Decisions after the first difference.
    pub left_out: u64,
    /// The last event, if nothing was decided about it: the run was broken off there.
    pub undecided: Option<u64>,
    /// What the decisions that were compared had asked for; of the first that differs, what it had.
    pub recorded: WorkTally,
    /// What they ask for now.
    pub replayed: WorkTally,
    /// The tools whose parameters were not written down: arguments of their calls are taken as they are.
    pub unchecked: BTreeSet<String>,
}

/// How it ended.
#[derive(Debug, PartialEq)]
pub enum ReplayEnding {
    /// The same is decided about every event.
    Same,
    /// Something else is decided.
    Diverges(Box<ReplayDivergence>),
}

/// The first event about which something else is decided.
#[derive(Debug, PartialEq)]
pub struct ReplayDivergence {
    /// Its number.
    pub seq: u64,
    /// When it was.
    pub at: Instant,
    /// The event.
    pub event: Event,
    /// Digest of the policy that decided about it then.
    pub policy: String,
    /// What differs.
    pub difference: ReplayDifference,
}

/// How many decisions differed in something that was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// In their reasons.
    pub because: u64,
    /// In how many attempts and turns there are said to be.
    pub bounds: u64,
    /// In texts for models and people.
    pub texts: u64,
    /// In waits and time limits.
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

    /// Whether the policies that decided then are all at hand: each decision is made again by the one that made it, up to the
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
