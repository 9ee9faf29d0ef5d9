//! A reduction of a conversation under way.

use serde::{Deserialize, Serialize};

use super::event::TurnMeasure;

/// A reduction under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reducing {
    /// The conversation as it is.
    pub(super) measure: TurnMeasure,
    /// How many tokens its messages had before the first step.
    pub(super) before: u64,
    /// The model whose window it is for.
    pub(super) target: usize,
    /// The step under way, from 0.
    pub(super) step: usize,
    /// Whether a provider has refused the conversation; if not, the turn begins after it.
    pub(super) refused: bool,
}
