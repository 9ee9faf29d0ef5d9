//! `history:`: what is done about a conversation that providers refuse.

use core::num::NonZeroU32;

use serde_json::json;

use super::text::{TemplateText, variables};
use crate::policy::decode::choice;
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;

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
    pub max_argument_chars: F::Of<NonZeroU32>,
    /// The message to the model.
    pub messages: F::In<HistoryMessages<F>>,
}

/// What the model learns about calls without a result.
#[derive(Clone, Debug, Block)]
pub struct HistoryMessages<F: Form = Effective> {
    /// Guidance after calls were taken out. Each of `calls` has a `tool` and its `arguments`.
    /// Example: `{% for call in calls %}{{ call.tool }} may have run. {% endfor %}Unknown.`
    pub pruned: F::Of<TemplateText<Pruned>>,
    /// The result of a call that had none.
    /// Example: `It is unknown what came of {{ tool }}. It may have run.`
    pub injected: F::Of<TemplateText<Unanswered>>,
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
        // As SwarmSDK does ("Orphan Tool Call Recovery").
        /// It is taken out, and the model learns of it.
        Prune = "prune",
        /// It gets a result, which says that its outcome is unknown.
        Inject = "inject",
    }
}

plain_leaf! {
    HistoryCheck => |value| json!(value);
    OrphanCalls => |value| json!(value);
}
