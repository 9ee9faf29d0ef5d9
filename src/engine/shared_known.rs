//! What all hosts know of breakers, budgets, paces and outages that they share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breaker::CircuitBreaker;
use super::budget::BudgetLedger;
use super::provider_outages::ProviderOutages;
use super::shared_pace::SharedPace;

/// What all hosts know of breakers, budgets and paces that they share, with everything that has happened to them in this run, and what
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
    /// What calls have taken of paces, by the names of their pools.
    /// Example: `{"model main": {"requests": {"rate": {"limit": 50, "per": 60000000000, "burst": 50}, "released": 50, "at": 1763768419250000000, "taken": 51}}}`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) paces: BTreeMap<String, SharedPace>,
    /// Outages that have changed elsewhere.
    #[serde(default, skip_serializing_if = "ProviderOutages::is_empty")]
    pub(crate) outages: ProviderOutages,
}

impl SharedKnown {
    /// Whether the state is empty.
    pub fn is_empty(&self) -> bool {
        let Self { breakers, budgets, paces, outages } = self;
        breakers.is_empty() && budgets.is_empty() && paces.is_empty() && outages.is_empty()
    }
}
