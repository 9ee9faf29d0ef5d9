//! `tools.*.loop_guard:`: what is done about a model that repeats itself.

use serde_json::json;

use super::retry::FailureThreshold;
use super::text::{TemplateText, variables};
use crate::policy::decode::choice;
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;

variables! {
    /// What is known of a call that repeats itself.
    Repeated = ["tool", "count", "pattern", "length"];
}

/// What is done about a model that repeats itself.
#[derive(Clone, Debug, Block)]
pub struct LoopGuardPolicy<F: Form = Effective> {
    /// Whether calls of the tool are looked at. If not, they do not interrupt a row of others either: for tools
    /// that are asked again and again until something happens.
    /// Example: `false`
    #[key(looser = Less)]
    pub enabled: F::Of<bool>,
    /// Which equal calls count together.
    #[key(looser = Less)]
    pub count: F::Of<RepeatScope>,
    /// The same tool with the same arguments. The order of keys, white space, and calls that did not run make
    /// no difference.
    pub same_call: F::In<LoopStages<F>>,
    /// The same failure of the tool in a row, whatever the arguments.
    pub same_error: F::In<LoopStages<F>>,
    /// The same call with the same result; other calls may stand between.
    pub same_result: F::In<LoopStages<F>>,
    /// Two to five different calls again and again. Counted are the rounds.
    pub cycle: F::In<LoopStages<F>>,
    /// The message to the model.
    pub messages: F::In<LoopMessages<F>>,
}

/// At which count what is done.
#[derive(Clone, Debug, Block)]
pub struct LoopStages<F: Form = Effective> {
    /// From this count on the model is warned with the results, or `never`.
    /// Checks: W0231.
    /// Example: `3`
    #[key(looser = More)]
    pub nudge: F::Of<FailureThreshold>,
    /// From this count on the call does not run, or `never`.
    /// Checks: W0231.
    /// Example: `5`
    #[key(looser = More)]
    pub block: F::Of<FailureThreshold>,
    /// From this count on the call does not run and the next turn is the last, or `never`.
    /// Checks: W0231.
    /// Example: `8`
    #[key(looser = More)]
    pub final_turn: F::Of<FailureThreshold>,
}

/// What the model learns when it repeats itself.
#[derive(Clone, Debug, Block)]
pub struct LoopMessages<F: Form = Effective> {
    /// Guidance with the results.
    /// Example: `{{ tool }} was called {{ count }} times like this. Go another way.`
    pub nudge: F::Of<TemplateText<Repeated>>,
    /// The result of a call that did not run.
    /// Example: `{{ tool }} did not run: it was called {{ count }} times like this.`
    pub block: F::Of<TemplateText<Repeated>>,
}

choice! {
    /// Which equal calls count together.
    #[derive(serde::Serialize, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum RepeatScope {
        /// Those that no other call stands between.
        Consecutive = "consecutive",
        /// All among the last hundred calls.
        Cumulative = "cumulative",
    }
}

plain_leaf! {
    RepeatScope => |value| json!(value), ordered;
}
