//! The error classes: what every failure of a tool call or a model turn is reduced to.

use core::fmt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meaning;

macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// What went wrong, in the vocabulary of policies.
        ///
        /// Provider bodies, tool results and transport errors are mapped to one of these by tables that are
        /// data; rules then speak of classes only.
        ///
        /// Example: `rate_limit`
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorClass { $($(#[doc = $doc])+ $variant,)+ }

        impl ErrorClass {
            /// Every class, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name policies use.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The class of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

classes! {
    /// The arguments of a tool call break the tool's schema or a validator.
    InvalidArgs = "invalid_args",
    /// The model called a tool that does not exist.
    ToolNotFound = "tool_not_found",
    /// The tool exists but cannot be reached or started.
    ToolUnavailable = "tool_unavailable",
    /// The tool ran and failed.
    ExecutionError = "execution_error",
    /// No answer within the time allowed.
    Timeout = "timeout",
    /// The system or the provider refused permission.
    PermissionDenied = "permission_denied",
    /// The connection failed: DNS, TLS, refused, reset.
    NetworkError = "network_error",
    /// Too many requests; waiting helps.
    RateLimit = "rate_limit",
    /// The quota or the money is gone; waiting does not help.
    QuotaExceeded = "quota_exceeded",
    /// The provider has no capacity right now.
    Overloaded = "overloaded",
    /// The key is missing, wrong or not allowed.
    AuthError = "auth_error",
    /// The model or the address does not exist.
    NotFound = "not_found",
    /// The provider refuses the request as it is; sending the same bytes again cannot help.
    InvalidRequest = "invalid_request",
    /// The provider failed in another way.
    ModelError = "model_error",
    /// The request is larger than the model's context window.
    ContextOverflow = "context_overflow",
    /// The provider's filter refused the content, or the model declined.
    ContentFilter = "content_filter",
    /// The history holds a tool call without a result, or a result without a call.
    OrphanToolCall = "orphan_tool_call",
    /// The model wrote a tool call that cannot be parsed.
    MalformedToolCall = "malformed_tool_call",
    /// The final report breaks its schema or a validator.
    InvalidOutput = "invalid_output",
    /// The reply was cut at the token limit.
    TruncatedOutput = "truncated_output",
    /// The reply holds neither text nor tool calls.
    EmptyResponse = "empty_response",
    /// Plain text came where a tool call or the final report was due.
    TextOnly = "text_only",
    /// The reply holds nothing but reasoning.
    ReasoningOnly = "reasoning_only",
    /// A reducer refused the update of the session.
    ReducerError = "reducer_error",
    /// The circuit breaker of the tool or target is open.
    CircuitOpen = "circuit_open",
    /// The model repeats itself, and the call was held back.
    RepeatedCall = "repeated_call",
    /// The user or the host stopped the work.
    Cancelled = "cancelled",
}

/// A name that is no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no class `{name}`{help}")]
pub struct UnknownClass {
    name: String,
    help: String,
}

/// A set of error classes; one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClassSet(u32);

impl ErrorClass {
    /// The class of that name, for people who type it.
    ///
    /// # Errors
    /// If there is none; says which one may be meant.
    pub fn parse(name: &str) -> Result<Self, UnknownClass> {
        Self::from_name(name).ok_or_else(|| {
            let classes: Vec<&str> = Self::ALL.iter().map(|class| class.name()).collect();
            let help = match (meaning::meant(name, &classes), meaning::word(name, &classes).as_slice()) {
                (Some((meant, _)), _) => format!(" (did you mean `{meant}`?)"),
                (None, []) => format!("; there are {}", Self::ALL.iter().copied().collect::<ClassSet>()),
                (None, several) => format!("; it covers several classes here: {}", several.join(", ")),
            };
            UnknownClass { name: name.to_owned(), help }
        })
    }

    const fn bit(self) -> u32 {
        // One bit for each class: a 33rd would need a wider set.
        1 << (self as u32)
    }
}

impl ClassSet {
    /// No class.
    pub const EMPTY: Self = Self(0);

    /// Whether `class` is in the set.
    pub const fn contains(self, class: ErrorClass) -> bool {
        self.0 & class.bit() != 0
    }

    /// The set with `class` in it.
    #[must_use]
    pub const fn with(self, class: ErrorClass) -> Self {
        Self(self.0 | class.bit())
    }

    /// The set without `class`.
    #[must_use]
    pub const fn without(self, class: ErrorClass) -> Self {
        Self(self.0 & !class.bit())
    }

    /// Everything in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The classes of the set, in the order of the reference.
    pub fn iter(self) -> impl Iterator<Item = ErrorClass> {
        ErrorClass::ALL.iter().copied().filter(move |class| self.contains(*class))
    }
}

impl FromIterator<ErrorClass> for ClassSet {
    fn from_iter<I: IntoIterator<Item = ErrorClass>>(classes: I) -> Self {
        classes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ClassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, class) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(class.name())?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for ClassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_bit_and_a_name_of_its_own() {
        let all: ClassSet = ErrorClass::ALL.iter().copied().collect();
        assert_eq!(all.iter().count(), ErrorClass::ALL.len());
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::from_name(class.name()), Some(*class));
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
            assert!(!all.without(*class).contains(*class));
        }
    }
}
