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

pub use call::explain_call;
pub use diff::{DiffGroup, DiffRow, DiffSubject, DiffVerdict, PolicyComparison, SubjectKind};
pub use explain::{
    CallFile, CostBounds, DelayRow, DelayTable, EffectiveLimit, ErrorAction, ErrorExplanation,
    ExplainedValue, ModelBounds, PlacedRule, PolicyExplanation, RequestCure, RetryDelays, RunBounds,
    ToolBounds, UnknownKey, VerifierRuns, WorstCase,
};
pub use failure::{explain_class, explain_failure};
pub use keys::keys;
pub use lint::{KnownModel, KnownNames, KnownTool, LintOptions, NameCompleteness, ShortBudget};
pub use names::ComparedNames;
pub use opening::{explain_context, explain_history, explain_turn};
