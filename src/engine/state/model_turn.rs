//! What a turn remembers of its model: its attempts, the models that are left, and what was repaired or reduced.

use serde::{Deserialize, Serialize};

use super::Series;
use crate::engine::event::FinishReason;
use crate::engine::failure::Failure;
use crate::engine::reductions::Reductions;
use crate::engine::targets::Rotation;
use crate::policy::ErrorClass;

/// The calls of models in a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelTurn {
    pub(in crate::engine) rotation: Rotation,
    /// The attempts; `None` while none was made.
    pub(in crate::engine) series: Option<Series>,
    /// The tokens of the turn, as the host counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) counted: Option<u64>,
    /// The turn in which a model was last called.
    pub(in crate::engine) asked_turn: u32,
    /// What the model reads with the attempts of this turn only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) guidance: Vec<Guidance>,
    /// How the last reply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) last_finish: Option<FinishReason>,
    /// Whether the history was looked at in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) history_asked: bool,
    /// The refusal, while it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) history_refusal: Option<Failure>,
    /// What is remembered of reductions.
    #[serde(default, skip_serializing_if = "Reductions::is_empty")]
    pub(in crate::engine) reductions: Reductions,
}

/// What the model reads about a kind of mistake in its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Guidance {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
}
