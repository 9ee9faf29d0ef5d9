//! What a tool says when it failed: the class, the message, and how far it got.

use crate::ErrorCause;
use crate::engine::{EffectState, Failure, ToolOutcome, WaitHint};
use crate::host::guard::ClassifyError;
use crate::policy::{ErrorClass, Policy};
use core::time::Duration;
use std::borrow::Cow;

/// The most bytes of a message that are passed on.
const MESSAGE_BYTES: usize = 8 * 1024;

/// A tool run that did not succeed.
///
/// Each constructor sets the effect its class usually means; [`ToolError::effect`] says otherwise.
///
/// ```
/// use unfazed::engine::EffectState;
/// use unfazed::host::ToolError;
/// let refused = ToolError::network("connection refused").effect(EffectState::NotStarted);
/// assert_eq!(refused.to_string(), "network_error: connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}: {message}")]
pub struct ToolError {
    class: ErrorClass,
    message: String,
    effect: EffectState,
    retry_after: WaitHint,
    source: Option<ErrorCause>,
}

impl ToolError {
    /// A failure of that class; how far the tool got is unknown.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            effect: EffectState::Unknown,
            retry_after: WaitHint::None,
            source: None,
        }
    }

    /// The tool ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::ExecutionError, message).effect(EffectState::Started)
    }

    /// The arguments cannot be used; nothing was done.
    pub fn invalid_args(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::InvalidArgs, message).effect(EffectState::NotStarted)
    }

    /// The tool cannot be reached or started; nothing was done.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::ToolUnavailable, message).effect(EffectState::NotStarted)
    }

    /// The system refused permission; nothing was done.
    pub fn permission_denied(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::PermissionDenied, message).effect(EffectState::NotStarted)
    }

    /// No answer within the time allowed; the tool may have had side effects.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Timeout, message)
    }

    /// The connection failed; the tool may have had side effects.
    pub fn network(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::NetworkError, message)
    }

    /// The run was stopped; the tool may have had side effects.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Cancelled, message)
    }

    /// How far the tool got.
    #[must_use]
    pub fn effect(self, effect: EffectState) -> Self {
        Self { effect, ..self }
    }

    /// What led to it, for whoever walks the chain of errors; the model reads the message alone.
    #[must_use]
    pub fn caused_by(self, cause: impl Into<ErrorCause>) -> Self {
        Self { source: Some(cause.into()), ..self }
    }

    /// The server asked to wait this long.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { retry_after: WaitHint::Wait(delay.into()), ..self }
    }
}

impl ClassifyError for ToolError {
    fn class(&self, _policy: &Policy) -> ErrorClass {
        self.class
    }

    fn message(&self) -> String {
        self.message.clone()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after.wait().map(Into::into)
    }

    fn certain(&self) -> Option<(ErrorClass, Cow<'static, str>)> {
        self.retry_after.wait().is_none().then(|| (self.class, self.message.clone().into()))
    }

    fn effect(&self) -> EffectState {
        self.effect
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> Self {
        let ToolError { class, mut message, effect, retry_after, source: _ } = error;
        if message.len() > MESSAGE_BYTES {
            let cut = (0..=MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(cut.unwrap_or_default());
            message.push('…');
        }
        Self::Failed { failure: Failure { retry_after, ..Failure::of(class, message) }, effect }
    }
}

impl From<Result<serde_json::Value, ToolError>> for ToolOutcome {
    fn from(result: Result<serde_json::Value, ToolError>) -> Self {
        match result {
            Ok(data) => Self::Ok { data },
            Err(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let ToolOutcome::Failed { failure, .. } = ToolError::failed("ü".repeat(10_000)).into() else {
            panic!("failed")
        };
        assert!(failure.message.len() <= MESSAGE_BYTES + '…'.len_utf8());
        assert!(failure.message.ends_with("ü…"));
    }
}
