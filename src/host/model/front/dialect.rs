//! The dialects that clients of the gateway speak.

use crate::host::Provider;

/// A dialect that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GatewayDialect {
    /// Chat completions of `OpenAI`, and of the many that copied them.
    Chat,
    /// Messages of Anthropic.
    Messages,
    /// Responses of `OpenAI`.
    Responses,
    /// `generateContent` of Gemini.
    Gemini,
}

impl GatewayDialect {
    /// The dialect of a provider; `None`: no client speaks it here.
    pub(crate) fn of(provider: &Provider) -> Option<Self> {
        match provider.name() {
            "openai" | "azure" => Some(Self::Chat),
            "anthropic" => Some(Self::Messages),
            "responses" => Some(Self::Responses),
            "gemini" => Some(Self::Gemini),
            _ => None,
        }
    }

    /// The word for it: that of its provider in agent files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "openai",
            Self::Messages => "anthropic",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
        }
    }
}
