//! What a guard wants to know about arguments and errors.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::{EffectState, Failure, Waits};
use crate::policy::{Classified, ErrorClass, Policy};
use crate::session::RetryExhausted;
use crate::time::Nanos;

/// Arguments of a tool call.
pub trait Arguments {
    /// As JSON, to be held against the tool's schema; `None`: there is nothing to validate.
    fn as_json(&self) -> Option<&Value>;
}

/// An error of a guarded call.
pub trait Classify {
    /// Its class. `policy` has the tables that turn a provider's words into one.
    fn class(&self, policy: &Policy) -> ErrorClass;

    /// Its class, and whether the request itself is at fault: then the same bytes are not sent to the same target
    /// again.
    fn classified(&self, policy: &Policy) -> Classified {
        Classified::certain(self.class(policy))
    }

    /// What went wrong, for records and for the model.
    fn message(&self) -> String;

    /// The wait the other side asked for.
    fn retry_after(&self) -> Option<Nanos> {
        None
    }

    /// The waits that the other side asked for, by the place where it did.
    fn waits(&self) -> Waits {
        Waits { header: self.retry_after(), ..Waits::default() }
    }

    /// Whether the other side says that a retry can help.
    fn should_retry(&self) -> Option<bool> {
        None
    }

    /// The HTTP status of the other side, for records.
    fn status(&self) -> Option<u16> {
        None
    }

    /// How large the model's window is, in tokens, if the other side said so.
    fn window(&self) -> Option<u64> {
        None
    }

    /// How many characters of a streamed answer had come before a model call failed.
    fn received(&self) -> u64 {
        0
    }

    /// How far the call got before it failed.
    fn effect(&self) -> EffectState {
        EffectState::Unknown
    }
}

/// A guarded call that did not succeed. Boxed, so that the calls that do succeed hand back little more than their
/// value. As an [`Error`](std::error::Error) its source is the last error of the call.
#[derive(Debug)]
pub enum CallError<E> {
    /// It did not run. Of a tool: tell the model why and let it try again. Of a turn: the request is too large for every
    /// model.
    Refused(Box<Refusal>),
    /// No further attempt is made; the planner decides what is done instead.
    Exhausted(Box<GivenUp<E>>),
}

/// A call after which no further attempt is made.
#[derive(Debug)]
pub struct GivenUp<E> {
    /// Every attempt and its failure.
    pub exhausted: RetryExhausted,
    /// What the model is told.
    pub message: String,
    /// The last error itself; `None` if the last attempt timed out or did not run.
    pub last: Option<E>,
}

/// A call that did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why.
    pub class: ErrorClass,
    /// What the model is told.
    pub message: String,
    /// How long to wait before the model is asked again; usually zero.
    pub delay: Nanos,
    /// The next turn should be the last: the model has repeated itself too often.
    pub last_turn: bool,
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Exhausted(given_up) => given_up.exhausted.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Exhausted(given_up) => given_up.last.as_ref().map(|last| last as _),
        }
    }
}

impl Arguments for &Value {
    fn as_json(&self) -> Option<&Value> {
        Some(self)
    }
}

impl Arguments for Arc<Value> {
    fn as_json(&self) -> Option<&Value> {
        Some(self)
    }
}

impl Arguments for () {
    fn as_json(&self) -> Option<&Value> {
        None
    }
}

impl Classify for Failure {
    fn class(&self, policy: &Policy) -> ErrorClass {
        Self::classified(self, policy).class
    }

    fn classified(&self, policy: &Policy) -> Classified {
        Self::classified(self, policy)
    }

    fn message(&self) -> String {
        self.message.clone()
    }

    fn retry_after(&self) -> Option<Nanos> {
        self.retry_after.wait()
    }

    fn waits(&self) -> Waits {
        Self::waits(self)
    }

    fn should_retry(&self) -> Option<bool> {
        self.should_retry
    }

    fn status(&self) -> Option<u16> {
        self.status
    }

    fn window(&self) -> Option<u64> {
        self.limit()
    }

    fn received(&self) -> u64 {
        self.received
    }
}

impl Classify for ErrorClass {
    fn class(&self, _policy: &Policy) -> ErrorClass {
        *self
    }

    fn message(&self) -> String {
        self.name().to_owned()
    }
}

impl<M: fmt::Display> Classify for (ErrorClass, M) {
    fn class(&self, _policy: &Policy) -> ErrorClass {
        self.0
    }

    fn message(&self) -> String {
        self.1.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::session::StopReason;

    #[test]
    fn the_source_of_a_call_that_was_given_up_is_its_last_error() {
        let exhausted = RetryExhausted {
            action: "tool search".into(),
            reason: StopReason::Attempts,
            attempts: Vec::new(),
            retry_after: None,
        };
        let given_up = |last| GivenUp { exhausted: exhausted.clone(), message: String::new(), last };
        let broken = std::io::Error::other("broken pipe");
        let error = CallError::Exhausted(Box::new(given_up(Some(broken))));
        assert_eq!(error.source().unwrap().to_string(), "broken pipe");
        let timed_out: CallError<std::io::Error> = CallError::Exhausted(Box::new(given_up(None)));
        assert!(timed_out.source().is_none());
    }
}
