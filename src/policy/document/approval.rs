//! `approval`: whether a person is asked before a tool runs, and what it is when nobody answers.

use crate::policy::form::{Block, Effective, Form};
use serde_json::json;

use super::lasting::Lasting;
use crate::policy::Bound;
use crate::policy::decode::choice;
use crate::policy::merge::plain_leaf;

/// Questions to people: before a tool runs (`tools.*.approval`), and about a run that may have acted
/// (`tools.*.after_effect`).
/// Example: `{"timeout": "5m", "unanswered": "refuse"}`
#[derive(Clone, Debug, Block)]
pub struct ApprovalPolicy<F: Form = Effective> {
    /// How long an answer is waited for.
    /// Example: `5m`
    #[key(looser = More)]
    pub timeout: F::Of<Lasting<Bound>>,
    /// What it is when nobody answers, or there is nobody to ask. Of a run that may have acted nobody knows then.
    #[key(looser = More)]
    pub unanswered: F::Of<Unanswered>,
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
    /// What it is when nobody answers.
    #[derive(serde::Serialize, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum Unanswered {
        /// A no.
        Refuse = "refuse",
        /// A yes.
        Approve = "approve",
    }
}

plain_leaf! {
    Approval => |value| json!(value), ordered;
    Unanswered => |value| json!(value), ordered;
}
