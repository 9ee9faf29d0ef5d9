//! In which order models are asked, and what tells whether one can be.

use core::fmt;
use core::num::NonZeroU64;
use std::sync::Arc;

use super::ErrorClass;
use super::decode::choice;

/// Which models are passed over together when one of them was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CooldownScope {
    /// This one alone.
    Own,
    /// All that say the same name.
    Named(Arc<str>),
}

/// How many tokens a request and its reply may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextWindow {
    /// So many.
    Tokens(NonZeroU64),
    /// Not known; the model is asked whatever the size.
    Unknown,
}

impl fmt::Display for ContextWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

choice! {
    /// When the next model is asked.
    #[derive(serde::Serialize, unfazed_macros::Named)]
    #[serde(rename_all = "snake_case")]
    pub enum Advance {
        /// When the attempts at this one are exhausted, or no attempt at it makes sense.
        Exhausted = "exhausted",
        /// After `attempts` attempts at this one, or rather than waiting longer than `fallback_after`, round and round. Each
        /// has all its `max_attempts` to itself.
        Rotate = "rotate",
        /// After every attempt, round and round; the attempts at all of them count together.
        // ai-agent, "Round-Robin Selection": every attempt goes to the next target, and all of them count together.
        Attempt = "attempt",
        /// When no attempt at this one makes sense; the attempts at all of them count together.
        Skip = "skip",
    }
}

impl Advance {
    /// Whether the attempts at all models of a turn count together.
    pub const fn counts_together(self) -> bool {
        match self {
            Self::Exhausted | Self::Rotate => false,
            Self::Attempt | Self::Skip => true,
        }
    }

    /// Whether the next model continues with the attempts, the time and the waits of those before it.
    pub const fn is_one_series(self) -> bool {
        match self {
            Self::Exhausted => false,
            Self::Rotate | Self::Attempt | Self::Skip => true,
        }
    }

    /// Whether a failure that is tried again may be tried at another model.
    pub const fn goes_round(self) -> bool {
        match self {
            Self::Exhausted | Self::Skip => false,
            Self::Rotate | Self::Attempt => true,
        }
    }
}

impl ContextWindow {
    /// Whether a request of so many tokens leaves room for a reply of `reserve` tokens.
    pub const fn holds(self, tokens: u64, reserve: u32) -> bool {
        match self {
            // Request and reply share the window: "you requested 131134 tokens (122942 in the messages, 8192 in the
            // completion)".
            Self::Tokens(window) => tokens.saturating_add(reserve as u64) <= window.get(),
            Self::Unknown => true,
        }
    }
}

impl ErrorClass {
    /// Whether a failure of this class says something about the model or its provider, not about the request alone.
    pub const fn is_of_target(self) -> bool {
        match self {
            Self::Timeout
            | Self::PermissionDenied
            | Self::NetworkError
            | Self::RateLimit
            | Self::QuotaExceeded
            | Self::Overloaded
            | Self::AuthError
            | Self::NotFound
            | Self::ModelError => true,
            // Failures of the request or of the conversation would be the same at any model.
            Self::InvalidArgs
            | Self::ToolNotFound
            | Self::ToolUnavailable
            | Self::ExecutionError
            | Self::InvalidRequest
            | Self::ContextOverflow
            | Self::ContentFilter
            | Self::OrphanToolCall
            | Self::MalformedToolCall
            | Self::InvalidOutput
            | Self::TruncatedOutput
            | Self::EmptyResponse
            | Self::TextOnly
            | Self::ReasoningOnly
            | Self::ReducerError
            | Self::CircuitOpen
            | Self::RepeatedCall
            | Self::Cancelled => false,
        }
    }

    /// Whether a call of a model that failed so is followed by its correction: the model wrote what does not hold, and no server has
    /// to recover.
    pub(crate) const fn is_of_reply(self) -> bool {
        matches!(self, Self::InvalidOutput | Self::InvalidArgs | Self::ToolNotFound)
    }

    /// Whether a failure of this class says that the provider is down, not only that it refuses or cannot do something.
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::Timeout | Self::NetworkError | Self::Overloaded | Self::ModelError)
    }

    /// Whether the server asks for a pause: it works, but not now or not for so many.
    pub const fn is_a_limit(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded)
    }
}
