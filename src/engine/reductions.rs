//! What is remembered of the reductions of a conversation.

use serde::{Deserialize, Serialize};

use super::event::TurnMeasure;
use super::failure::Failure;
use super::results_room::RoomForResults;
use crate::session::Reduction;

/// What is remembered of reductions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Reductions {
    /// How many reductions in a row gained nothing.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) in_vain: u32,
    /// Whether the conversation was reduced in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) asked: bool,
    /// The refusal, while the conversation is reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<Failure>,
    /// What is left out when there is a summary of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Box<Reduction>>,
    /// Who is asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summarizer: Option<Summarizer>,
    /// The conversation as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<TurnMeasure>,
    /// The room for the results of the calls under way; `None`: nobody shares it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<RoomForResults>,
}

/// The model that is asked for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summarizer {
    pub(super) target: String,
    /// The tokens of what it is asked, by the count of the host.
    pub(super) tokens: u64,
}

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

impl Reductions {
    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) const fn turn_begins(&mut self) {
        self.asked = false;
    }
}
