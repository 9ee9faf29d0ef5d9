//! A reduction of a conversation in flight.

use serde::{Deserialize, Serialize};

use crate::engine::measure::TurnMeasure;

/// A reduction in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReductionInFlight {
    /// The present measure of the conversation.
    pub(super) measure: TurnMeasure,
    /// The tokens of the messages before the first step.
    pub(super) before: u64,
    /// The index of the model whose window is too small.
    pub(super) target: usize,
    /// The step in flight, from 0.
    pub(super) step: usize,
    /// Whether a provider refused the conversation; otherwise the turn begins after the reduction.
    pub(super) refused: bool,
}
