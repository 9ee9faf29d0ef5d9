//! Failures as hosts report them: facts, not verdicts. The policy's tables turn them into classes.

use serde::{Deserialize, Serialize};

use crate::policy::{Effect, ErrorClass};
use crate::time::Nanos;

/// What is known about a failed model call or tool run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class, where the host knows it for certain (`timeout`, `network_error`, `cancelled`); else the
    /// policy's table decides from the facts below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's `type`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What the other side said, redacted and cut to a bounded size.
    pub message: String,
    /// What the other side said about waiting.
    #[serde(default, skip_serializing_if = "Hint::is_none")]
    pub retry_after: Hint,
}

/// What the other side said about waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// This long, in nanoseconds.
    Wait(Nanos),
    /// Something that cannot be used; why, for the log.
    Ignored(String),
}

/// How far a run of a tool got before it failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It certainly did not start.
    NotStarted,
    /// It started, and ended by itself.
    Started,
    /// It certainly did what it was asked.
    Committed,
    /// It may have acted; nobody knows.
    #[default]
    Unknown,
}

impl Failure {
    /// A failure whose class is certain.
    pub fn of(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class: Some(class), message: message.into(), ..Self::default() }
    }
}

impl Hint {
    /// Whether nothing was said.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Whether a tool that failed may run once more: it never started, or running twice does no harm.
pub const fn may_run_again(effect: Effect, state: EffectState) -> bool {
    match (effect, state) {
        (Effect::ReadOnly | Effect::Idempotent, _) | (_, EffectState::NotStarted) => true,
        (
            Effect::NonIdempotent | Effect::Unknown,
            EffectState::Started | EffectState::Committed | EffectState::Unknown,
        ) => false,
    }
}
