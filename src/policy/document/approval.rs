//! `approval`: whether a person is asked before a tool runs, and what it is when nobody answers.

use serde_json::json;

use super::lasting::NonZeroTime;
use crate::policy::TimeBound;
use crate::policy::decode::choice;
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;

/// Questions to people: before a tool runs (`tools.*.approval`), and about a run that may have had side effects
/// (`tools.*.on_uncertain_effect`).
/// Example: `{"timeout": "5m", "unanswered": "refuse"}`
#[derive(Clone, Debug, Block)]
pub struct ApprovalPolicy<F: Form = Effective> {
    /// How long an answer is waited for.
    /// Example: `5m`
    #[key(looser = More)]
    pub timeout: F::Of<NonZeroTime<TimeBound>>,
    /// What it is when nobody answers, or there is nobody to ask. For a run that may have had side effects: unknown.
    #[key(looser = More)]
    pub unanswered: F::Of<UnansweredMode>,
}

choice! {
    /// Whether a person is asked before a tool runs.
    #[derive(serde::Serialize, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum Approval {
        /// Nobody is asked.
        Never = "never",
        /// Before every call, unless the person agrees to all of them. A refusal is a result the model reads.
        Always = "always",
    }
}

choice! {
    // From tight to loose: `looser = More` compares by the order of the variants.
    /// What it is when nobody answers.
    #[derive(serde::Serialize, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum UnansweredMode {
        /// A no.
        Refuse = "refuse",
        /// A yes.
        Approve = "approve",
    }
}

plain_leaf! {
    Approval => |value| json!(value), ordered;
    UnansweredMode => |value| json!(value), ordered;
}
