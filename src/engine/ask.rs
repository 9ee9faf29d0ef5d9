//! Questions to people and to the planner, with their possible answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalQuestion {
    /// Whether the call may run.
    Run,
    /// Whether it may run again, though it may have had side effects before it failed.
    RunAgain,
}

/// What a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// It may.
    Approve,
    /// It may, and so may all further calls of the tool in this run.
    ApproveAll,
    /// It may not.
    Refuse,
    /// Nobody answered, or there is nobody to ask: the policy decides.
    None,
}

/// What is done when attempts are exhausted, as the policy or the planner says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannerDecision {
    /// The model is informed and continues.
    TellModel,
    /// One final turn, in which only the final report is allowed.
    FinalTurn,
    /// The run ends as failed.
    Fail,
}
