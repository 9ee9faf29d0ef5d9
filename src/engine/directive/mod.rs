//! Directives: the instructions of the interpreter to a host, each with its reasons.

mod ask;
mod note;
mod outcome;
mod proposal;
mod work;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ask::AskPerson;
pub use note::{Note, OrphanToolCallsPruned, RetryAction, TurnRetry};
pub use outcome::Outcome;
pub use proposal::{ProposalFault, ProposalRef, ProposalResult, SettledProposal};
pub use work::{CallModel, ConsultPlanner, PrepareTurn, RepairHistory, RunTool, ToolChoice, WaitWork, Work};

use crate::policy::LayerKind;
use crate::text::Place;

/// What the interpreter wants done after one event, in this order.
#[must_use = "every piece of work is to be answered by exactly one event"]
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Directives(pub Vec<Directive>);

/// One directive and why it is given.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Directive {
    /// What to do.
    #[serde(flatten)]
    pub order: DirectiveKind,
    /// Why: the rules that decided, each with the place it is written at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<DecisionReason>,
    /// The proposal it is about; `None`: the interpreter drives the run, or it is about the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<ProposalRef>,
}

/// Something to answer, or something to take note of.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DirectiveKind {
    /// Asks for work; to be answered by exactly one event.
    Work(Work),
    /// Asks for no answer.
    Note(Note),
}

/// One reason: a rule, the layer and place it is written at, and the facts it was held against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionReason {
    /// The path of the value in the effective policy: `retry.max_attempts`.
    /// Example: `retry.max_attempts`
    pub rule: String,
    /// The effective value.
    /// Example: `"3"`
    pub value: String,
    /// The kind of layer that set it.
    pub layer: LayerKind,
    /// The place in the file.
    pub place: Place,
    /// What it was held against: `attempt 3 of 3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    /// Example: `["attempt 3 of 3"]`
    pub facts: Vec<String>,
}
