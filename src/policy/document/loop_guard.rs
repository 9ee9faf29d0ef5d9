//! `tools.*.loop_guard:`: what is done about a model that repeats itself.

use crate::policy::form::{Block, Effective, Form};
use serde_json::json;

use super::retry::Failures;
use super::text::{Text, variables};
use crate::policy::decode::choice;
use crate::policy::merge::plain_leaf;

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
    pub count: F::Of<Repeats>,
    /// The same tool with the same arguments. The order of keys, white space, and calls that did not run make
    /// no difference.
    pub same_call: F::In<Stages<F>>,
    /// The same failure of the tool in a row, whatever the arguments.
    pub same_error: F::In<Stages<F>>,
    /// The same call with the same result; other calls may stand between.
    pub same_result: F::In<Stages<F>>,
    /// Two to five different calls again and again. Counted are the rounds.
    pub cycle: F::In<Stages<F>>,
    /// What the model is told.
    pub messages: F::In<LoopMessages<F>>,
}

/// At which count what is done.
#[derive(Clone, Debug, Block)]
pub struct Stages<F: Form = Effective> {
    /// From this count on the model is told with the results, or `never`.
    /// Checks: W0231.
    /// Example: `3`
    #[key(looser = More)]
    pub nudge: F::Of<Failures>,
    /// From this count on the call does not run, or `never`.
    /// Checks: W0231.
    /// Example: `5`
    #[key(looser = More)]
    pub block: F::Of<Failures>,
    /// From this count on the call does not run and the next turn is the last, or `never`.
    /// Checks: W0231.
    /// Example: `8`
    #[key(looser = More)]
    pub final_turn: F::Of<Failures>,
}

/// What the model is told when it repeats itself.
#[derive(Clone, Debug, Block)]
pub struct LoopMessages<F: Form = Effective> {
    /// Guidance with the results.
    /// Example: `{{ tool }} was called {{ count }} times like this. Go another way.`
    pub nudge: F::Of<Text<Repeated>>,
    /// The result of a call that did not run.
    /// Example: `{{ tool }} did not run: it was called {{ count }} times like this.`
    pub block: F::Of<Text<Repeated>>,
}

choice! {
    /// Which equal calls count together.
    #[derive(serde::Serialize, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum Repeats {
        /// Those that no other call stands between.
        InARow = "in_a_row",
        /// All among the last hundred calls.
        InAll = "in_all",
    }
}

plain_leaf! {
    Repeats => |value| json!(value), ordered;
}
