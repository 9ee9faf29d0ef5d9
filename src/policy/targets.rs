//! In which order models are asked, and what tells whether one can be.

use core::fmt;
use core::num::NonZeroU64;
use std::sync::Arc;

use super::{Advance, ErrorClass};

/// Which models are passed over together when one of them was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
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
    /// Nobody said; the model is asked whatever the size.
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

impl Advance {
    /// Its name in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Rotate => "rotate",
            Self::Attempt => "attempt",
            Self::Skip => "skip",
        }
    }

    /// Whether the attempts at all models of a turn count together.
    pub const fn counts_together(self) -> bool {
        match self {
            Self::Exhausted | Self::Rotate => false,
            Self::Attempt | Self::Skip => true,
        }
    }

    /// Whether the next model goes on with the attempts, the time and the waits of those before it.
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

    /// Whether the other side asks for a pause: it works, but not now or not for so many.
    pub const fn is_a_limit(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded)
    }
}
