//! How far a budget reaches.

use serde::{Deserialize, Serialize};

/// Whose work draws on a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// That of the run.
    #[default]
    Run,
    /// That of all runs of all hosts that share it.
    Shared,
}
