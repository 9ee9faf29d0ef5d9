//! The results of proposals of a host that runs its own loop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::ids::ProposalId;
use crate::session::FinalReason;
use crate::time::Nanos;

/// The proposal, and the call in its list, that a directive is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalRef {
    /// The proposal.
    /// Example: `12`
    pub proposal: ProposalId,
    /// The place of the call in the list that was proposed, from 0; `None`: it is about no single call. The ids of calls
    /// are no substitute: models use them twice, even in one reply.
    /// Example: `0`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
}

/// The end of a proposal that was taken: there is exactly one for each, and nothing about the proposal follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettledProposal {
    /// The proposal.
    /// Example: `12`
    pub proposal: ProposalId,
    /// What came of it.
    #[serde(flatten)]
    pub result: ProposalResult,
    /// How long the host waits before its next call of a model, from now: a correction, or a provider, asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// The message to the model with its next request, outside the conversation.
    /// Example: `["Arguments are wrong: n is missing."]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// Why the next turn, or the one in flight, is the last: it allows only the final report. `None`: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_turn: Option<FinalReason>,
}

/// What came of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, unfazed_macros::Named)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ProposalResult {
    /// Every call has its result.
    Tools,
    /// A reply was taken; its calls may be proposed now.
    Reply {
        /// The model that gave it.
        /// Example: `main`
        target: String,
        /// The attempts it took at that model.
        /// Example: `2`
        attempts: u32,
    },
    /// No model gave a reply that could be taken.
    NoReply,
    /// The report was accepted.
    Accepted,
    /// The report was refused.
    Refused,
    /// The host withdrew it.
    Withdrawn,
    /// The run has ended before it did.
    Closed,
}

/// Why a proposal was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProposalFault {
    /// The run has not started.
    NotStarted,
    /// The run is over.
    RunOver,
    /// The interpreter runs the loop of turns in this run.
    InterpreterDrives,
    /// A report was accepted: the run ends as soon as everything else is settled.
    ReportAccepted,
    /// The final turn was taken, and no report is due.
    FinalTurnOver,
    /// The run has no such model.
    UnknownTarget,
    /// There is no such turn, or it is still open.
    UnknownTurn,
    /// There is no call in it.
    NoCalls,
    /// More calls than can be taken at once.
    TooManyCalls,
    /// More proposals are open than can be.
    TooManyOpen,
}
