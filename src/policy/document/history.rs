//! `history:`: what is done about a conversation that providers refuse.

use crate::policy::form::{Block, Effective, Form};
use core::num::NonZeroU32;

use serde_json::json;

use super::text::{Text, variables};
use crate::policy::decode::choice;
use crate::policy::merge::plain_leaf;

variables! {
    /// What is known of calls that were taken out.
    Pruned = ["calls"];
    /// What is known of a call without a result.
    Unanswered = ["tool"];
}

/// What is done about a history that providers refuse: calls without a result, results without a call.
#[derive(Clone, Debug, Block)]
pub struct HistoryPolicy<F: Form = Effective> {
    /// When the history is repaired.
    pub check: F::Of<HistoryCheck>,
    /// What is done about a call without a result. It may have run, whichever is chosen.
    pub orphan_calls: F::Of<OrphanCalls>,
    /// The most characters of a text among the arguments of a call that the model is shown again.
    /// Example: `80`
    #[key(looser = Neither)]
    pub argument_chars: F::Of<NonZeroU32>,
    /// What the model is told.
    pub messages: F::In<HistoryMessages<F>>,
}

/// What the model is told about calls without a result.
#[derive(Clone, Debug, Block)]
pub struct HistoryMessages<F: Form = Effective> {
    /// Guidance after calls were taken out. Each of `calls` has a `tool` and its `arguments`.
    /// Example: `{% for call in calls %}{{ call.tool }} may have run. {% endfor %}Nobody knows.`
    pub pruned: F::Of<Text<Pruned>>,
    /// The result of a call that had none.
    /// Example: `Nobody knows what came of {{ tool }}. It may have run.`
    pub injected: F::Of<Text<Unanswered>>,
}

choice! {
    /// When the history is repaired.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HistoryCheck {
        /// Before a model is called, and after a provider has refused the history.
        BeforeCall = "before_call",
        /// Only after a provider has refused it.
        AfterError = "after_error",
        /// Not at all.
        Never = "never",
    }
}

choice! {
    /// What is done about a call without a result.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum OrphanCalls {
        /// It is taken out, and the model is told of it.
        Prune = "prune",
        /// It gets a result, which says that nobody knows what came of it.
        Inject = "inject",
    }
}

plain_leaf! {
    HistoryCheck => |value| json!(value);
    OrphanCalls => |value| json!(value);
}
