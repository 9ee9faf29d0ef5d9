//! What a guard wants to know about arguments and errors.

use core::time::Duration;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::{DecisionReason, EffectState, Failure, WaitHint};
use crate::host::ProposalError;
use crate::policy::{ErrorClass, Policy};
use crate::session::RetryExhausted;

/// Arguments of a tool call.
pub trait CallArguments {
    /// As JSON, to be held against the tool's schema; `None`: there is nothing to validate.
    fn as_json(&self) -> Option<&Value>;
}

/// An error of a guarded call.
pub trait ClassifyError {
    /// Its class. `policy` has the tables that turn a provider's words into one.
    fn class(&self, policy: &Policy) -> ErrorClass;

    /// What went wrong, for records and for the model.
    fn message(&self) -> String;

    /// The wait the server asked for.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// All that is known of it, as the interpreter takes it: whoever knows more than the above says so here, as of the answer of a
    /// server that [`Failure::from_answer`] has read.
    fn failure(&self, policy: &Policy) -> Failure {
        let mut failure = Failure::of(self.class(policy), self.message());
        if let Some(wait) = self.retry_after() {
            failure.retry_after = WaitHint::Wait(wait.into());
        }
        failure
    }

    /// Its class and its message, if nothing else is known of it and no table of the policy is needed: all that
    /// [`failure`](Self::failure) would say. A call that is run again costs less with it.
    fn certain(&self) -> Option<(ErrorClass, Cow<'static, str>)> {
        None
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
    /// It did not run. Of a tool: tell the model why and let it try again. Of a turn: the run has ended before it.
    Refused(Box<CallRefused>),
    /// No further attempt is made; the planner decides what is done instead.
    Exhausted(Box<GivenUp<E>>),
    /// The run takes no call: its session cannot be [written](super::GuardConfig::record), or its report was accepted while other
    /// calls are in flight.
    Run(Box<ProposalError>),
}

impl<E> From<ProposalError> for CallError<E> {
    fn from(error: ProposalError) -> Self {
        Self::Run(Box::new(error))
    }
}

/// A call after which no further attempt is made.
#[derive(Debug)]
pub struct GivenUp<E> {
    /// Every attempt and its failure.
    pub exhausted: RetryExhausted,
    /// Why there is no further attempt: the rules that decided, each with the place it is written at.
    pub because: Vec<DecisionReason>,
    /// The message to the model.
    pub message: String,
    /// The last error itself; `None` if the last attempt timed out or did not run.
    pub last: Option<E>,
}

/// A call that did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallRefused {
    /// Why.
    pub class: ErrorClass,
    /// The message to the model.
    pub message: String,
    /// How long to wait before the model is asked again; usually zero.
    pub delay: Duration,
    /// The next turn should be the last: the model has repeated itself too often.
    pub final_turn: bool,
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Exhausted(given_up) => given_up.exhausted.fmt(f),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Exhausted(given_up) => given_up.last.as_ref().map(|last| last as _),
            Self::Run(error) => error.source(),
        }
    }
}

impl CallArguments for &Value {
    fn as_json(&self) -> Option<&Value> {
        Some(self)
    }
}

impl CallArguments for Arc<Value> {
    fn as_json(&self) -> Option<&Value> {
        Some(self)
    }
}

impl CallArguments for () {
    fn as_json(&self) -> Option<&Value> {
        None
    }
}

impl ClassifyError for Failure {
    fn class(&self, policy: &Policy) -> ErrorClass {
        Self::classified(self, policy).class
    }

    fn failure(&self, _policy: &Policy) -> Failure {
        self.clone()
    }

    fn message(&self) -> String {
        self.message.clone()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after.wait().map(Into::into)
    }
}

impl ClassifyError for ErrorClass {
    fn class(&self, _policy: &Policy) -> ErrorClass {
        *self
    }

    #[inline]
    fn message(&self) -> String {
        self.name().to_owned()
    }

    #[inline]
    fn certain(&self) -> Option<(ErrorClass, Cow<'static, str>)> {
        Some((*self, self.name().into()))
    }
}

impl<M: fmt::Display> ClassifyError for (ErrorClass, M) {
    fn class(&self, _policy: &Policy) -> ErrorClass {
        self.0
    }

    fn message(&self) -> String {
        self.1.to_string()
    }

    fn certain(&self) -> Option<(ErrorClass, Cow<'static, str>)> {
        Some((self.0, self.message().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::host::ToolError;
    use crate::session::StopReason;

    #[test]
    fn what_is_certain_of_an_error_is_all_of_its_failure() {
        fn same(error: &impl ClassifyError) {
            let certain = error.certain().map(|(class, message)| Failure::of(class, message));
            assert_eq!(certain, Some(error.failure(&Policy::builtin())));
        }
        same(&ErrorClass::RateLimit);
        same(&(ErrorClass::Timeout, 7));
        let error = ToolError::network("connection refused");
        same(&error);
        assert_eq!(error.retry_after(Duration::from_secs(1)).certain(), None, "the server asks for a wait");
    }

    #[test]
    fn the_source_of_a_call_that_was_given_up_is_its_last_error() {
        let exhausted = RetryExhausted {
            action: "tool search".into(),
            reason: StopReason::Attempts,
            attempts: Vec::new(),
            retry_after: None,
        };
        let given_up = |last| GivenUp {
            exhausted: exhausted.clone(),
            because: Vec::new(),
            message: String::new(),
            last,
        };
        let broken = std::io::Error::other("broken pipe");
        let error = CallError::Exhausted(Box::new(given_up(Some(broken))));
        assert_eq!(error.source().unwrap().to_string(), "broken pipe");
        let timed_out: CallError<std::io::Error> = CallError::Exhausted(Box::new(given_up(None)));
        assert!(timed_out.source().is_none());
    }
}
