//! What tools say of a policy: explanations, bounds, comparisons, lints. It is asked of the engine, not worked out a
//! second time.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod call;
mod diff;
mod error_facts;
mod explain;
mod failure;
mod keys;
mod lint;
mod names;
mod opening;
#[cfg(feature = "host")]
mod written_values;

pub(crate) use call::explain_call;
pub use diff::PolicyComparison;
pub use explain::{
    CallFile, CostBounds, ErrorAction, ErrorExplanation, ModelBounds, PlacedRule, PolicyExplanation,
    RequestCure, RunBounds, ToolBounds, VerifierRuns, WorstCase,
};
pub(crate) use failure::explain_class;
pub use failure::explain_failure;
pub use keys::keys;
pub(crate) use lint::{KnownModel, KnownTool};
pub use lint::{KnownNames, LintOptions, NameCompleteness, ShortBudget};
pub use names::ComparedNames;
pub(crate) use opening::{explain_context, explain_history, explain_turn};
