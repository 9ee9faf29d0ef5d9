//! The documented overhead that providers add to a request, used until a provider has reported usage.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::measure::TurnMeasure;

/// The tokens that the provider of a model is documented to add to each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestOverhead {
    /// To every one.
    /// Example: `3`
    pub request: u64,
    /// To one that declares tools, besides.
    /// Example: `496`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub tools: u64,
}

impl RequestOverhead {
    /// The overhead of a request with or without tools.
    pub const fn of(self, tools: bool) -> u64 {
        if tools { self.request.saturating_add(self.tools) } else { self.request }
    }

    /// A measured request plus the overhead. The overhead is added to the tools, which reductions do not change.
    #[must_use]
    pub fn on(self, measure: TurnMeasure) -> TurnMeasure {
        // Added to the tools, because reductions remove messages and the overhead stays.
        let added = self.of(measure.tool_tokens > 0);
        TurnMeasure { tool_tokens: measure.tool_tokens.saturating_add(added), ..measure }
    }
}

/// The overheads of the models of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ModelOverheads(BTreeMap<String, RequestOverhead>);

impl From<BTreeMap<String, RequestOverhead>> for ModelOverheads {
    fn from(known: BTreeMap<String, RequestOverhead>) -> Self {
        Self(known)
    }
}

impl ModelOverheads {
    /// The overhead of a model; zero if unknown.
    pub(super) fn of(&self, target: &str) -> RequestOverhead {
        self.0.get(target).copied().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_cost_a_prompt_only_where_there_are_some() {
        let overhead = RequestOverhead { request: 3, tools: 496 };
        let measure = |tool_tokens| TurnMeasure { message_tokens: 10, tool_tokens, ..TurnMeasure::default() };
        assert_eq!((overhead.of(false), overhead.of(true)), (3, 499));
        assert_eq!(overhead.on(measure(0)), measure(3));
        assert_eq!(overhead.on(measure(40)), measure(539));
        assert_eq!(ModelOverheads::default().of("main"), RequestOverhead::default());
    }
}
