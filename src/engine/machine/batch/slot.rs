//! One tool call of a reply, and where it stands.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::event::ToolOutcome;
use crate::engine::failure::{EffectState, Failure};
use crate::engine::machine::call_queue::Place;
use crate::engine::reason::Reason;
use crate::engine::result::RunFacts;
use crate::engine::state::{Part, Series};
use crate::policy::{CallOverride, ErrorClass, Problem};
use crate::session::RetryExhausted;
use crate::time::Instant;

/// One tool call of the batch under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Slot {
    pub(in crate::engine) call: String,
    pub(in crate::engine) tool: String,
    /// Shared, as a slot is copied more often than it is written.
    pub(in crate::engine) arguments: Arc<Value>,
    pub(in crate::engine) planner: Option<CallOverride>,
    pub(in crate::engine) series: Series,
    /// What is known of its last run.
    #[serde(default, skip_serializing_if = "RunFacts::is_empty")]
    pub(in crate::engine) ran: RunFacts,
    /// Its place among those that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) place: Option<Place>,
    /// What the attempt that failed last has left: the rules may have changed since, and not let it run again any more.
    #[serde(default = "not_started", skip_serializing_if = "EffectState::is_not_started")]
    pub(in crate::engine) left: EffectState,
    /// The rules have changed since it began, and a person is to be asked before it runs again.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) to_approve: bool,
    pub(in crate::engine) phase: SlotPhase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum SlotPhase {
    /// Running, or waiting for another attempt.
    UnderWay,
    /// Its arguments hold, and it waits for a place.
    Waiting,
    /// It has a place, and a person is to be asked about it, one question after the other.
    Unasked,
    /// A person is being asked about it.
    Asked,
    /// Failed, and it is being found out whether it has acted.
    Doubtful(Box<Doubt>),
    /// Answered, but the planner has still to decide what is done about it.
    WithPlanner(Box<RetryExhausted>),
    /// The final report, answered, while the planner decides what is done about it.
    ReportWithPlanner,
    /// An attempt ended; its turn to be looked at comes when the calls before it are settled.
    Ended(ToolOutcome, Instant),
    /// Refused before it ran; written down when its turn comes.
    Refused(Refusal),
    /// The arguments are wrong; counted when its turn comes.
    Invalid(Invalid),
    /// The final report, looked at when its turn comes.
    Report(String),
    /// The host needs it no more; answered when its turn comes.
    Withdrawn(Withdrawn),
    /// Answered.
    Settled,
}

/// How far a call had come when the host withdrew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum Withdrawn {
    /// Its tool has not run.
    NotStarted,
    /// Its tool was running, or had failed: it may have acted.
    Interrupted,
}

/// A run that failed and may have acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Doubt {
    pub(in crate::engine) failure: Failure,
    pub(in crate::engine) effect: EffectState,
    pub(in crate::engine) at: Instant,
}

/// A call that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Refusal {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
    pub(in crate::engine) because: Vec<Reason>,
}

/// Arguments that do not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Invalid {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) problems: Vec<Problem>,
}

impl SlotPhase {
    /// Whether the tool has run, or is running.
    pub(super) const fn has_begun(&self) -> bool {
        match self {
            Self::UnderWay | Self::Doubtful(_) | Self::Ended(..) => true,
            Self::Waiting
            | Self::Unasked
            | Self::Asked
            | Self::WithPlanner(_)
            | Self::ReportWithPlanner
            | Self::Refused(_)
            | Self::Invalid(_)
            | Self::Report(_)
            | Self::Withdrawn(_)
            | Self::Settled => false,
        }
    }
}

/// What older sessions do not say decides nothing.
const fn not_started() -> EffectState {
    EffectState::NotStarted
}

impl Part for Slot {}

impl Slot {
    /// A copy without the attempts so far, of which there may be many.
    pub(in crate::engine) fn without_history(&self) -> Self {
        let Series { started, slept, over, .. } = self.series;
        Self {
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Arc::clone(&self.arguments),
            planner: self.planner.clone(),
            series: Series { started, slept, history: Vec::new(), over },
            ran: self.ran.clone(),
            place: self.place,
            left: self.left,
            to_approve: self.to_approve,
            phase: self.phase.clone(),
        }
    }
}
