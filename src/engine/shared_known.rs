//! What all hosts know of breakers, budgets and outages that they share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breaker::CircuitBreaker;
use super::budget::BudgetLedger;
use super::provider_outages::ProviderOutages;

/// What all hosts know of breakers and budgets that they share, with everything that has happened to them in this run, and what
/// others have found of providers.
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
    /// Outages that have changed elsewhere.
    #[serde(default, skip_serializing_if = "ProviderOutages::is_empty")]
    pub(crate) outages: ProviderOutages,
}

impl SharedKnown {
    /// Whether the state is empty.
    pub fn is_empty(&self) -> bool {
        self.breakers.is_empty() && self.budgets.is_empty() && self.outages.is_empty()
    }
}
