//! A reduction of a conversation in flight.

use serde::{Deserialize, Serialize};

use crate::engine::measure::TurnMeasure;

/// A reduction in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReductionInFlight {
    /// The conversation as it is.
    pub(super) measure: TurnMeasure,
    /// How many tokens its messages had before the first step.
    pub(super) before: u64,
    /// The model whose window it is for.
    pub(super) target: usize,
    /// The step in flight, from 0.
    pub(super) step: usize,
    /// Whether a provider has refused the conversation; if not, the turn begins after it.
    pub(super) refused: bool,
}
