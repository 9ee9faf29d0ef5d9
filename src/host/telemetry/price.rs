//! What is known about a model in addition to how it is called, and what its tokens cost.

use crate::policy::Price;

/// What telemetry says about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Who serves it, by the names of OpenTelemetry's conventions where they have one: `openai`, `anthropic`.
    pub provider: String,
    /// Its name on the server.
    pub model: String,
    /// What its tokens cost, if that is known.
    pub price: Option<Price>,
}
