//! What all hosts know of breakers and budgets that they share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breaker::CircuitBreaker;
use super::budget::BudgetLedger;

/// What all hosts know of breakers and budgets that they share, with everything that has happened to them in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedKnown {
    /// Breakers, by the names of their tools.
    /// Example: `{"search": {"failures": 2, "phase": "closed"}}`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub breakers: BTreeMap<String, CircuitBreaker>,
    /// What is drawn on budgets, by the names they are kept under.
    /// Example: `{"shared tool search (500 tokens)": {"spent": 14, "capacity": 500}}`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) budgets: BTreeMap<String, BudgetLedger>,
}

impl SharedKnown {
    /// Whether the state is empty.
    pub fn is_empty(&self) -> bool {
        self.breakers.is_empty() && self.budgets.is_empty()
    }
}
