//! What a run knows of its tools, from one batch to the next.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Series;
use crate::engine::breaker::Breaker;
use crate::policy::BreakerScope;

/// Breakers and corrections of all tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ToolHealth {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::engine) breakers: BTreeMap<String, Breaker>,
    /// The attempts of the model at arguments that hold, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::engine) corrections: BTreeMap<String, Series>,
    /// The tools that models are not shown for now, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) hidden: Vec<String>,
    /// The tools all calls of which a person has agreed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(in crate::engine) agreed: BTreeSet<String>,
}

impl ToolHealth {
    /// What the next run of the session begins with: the breakers that last longer than a run.
    pub(in crate::engine) fn next_run(&self) -> Self {
        let stays = |scope| matches!(scope, BreakerScope::Session | BreakerScope::Shared);
        let breakers = self.breakers.iter().filter(|(_, breaker)| stays(breaker.scope()));
        let breakers = breakers.map(|(tool, breaker)| (tool.clone(), breaker.without_probes()));
        Self { breakers: breakers.collect(), ..Self::default() }
    }
}
