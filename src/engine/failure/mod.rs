//! Failures as hosts report them: facts, not verdicts. The policy's tables turn them into classes.

mod body;
mod details;
mod inside;
pub(super) mod json;
mod plain;
mod python;
pub(super) mod sentence;
mod signs;
mod window;

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::provider_limit::ProviderLimit;
use crate::policy::{ClassifiedFailure, Effect, ErrorClass, FailureEvidence, Policy, WaitSource};
use crate::time::Nanos;

/// What is known about a failed model call or tool run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The class, where the host knows it for certain (`timeout`, `network_error`, `cancelled`); else the
    /// policy's table decides from the facts below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `429`
    pub status: Option<u16>,
    /// The provider's `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `rate_limit_exceeded`
    pub code: Option<String>,
    /// The provider's `type`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    /// Example: `requests`
    pub kind: Option<String>,
    /// What the server said, redacted and cut to a bounded size.
    /// Example: `slow down`
    pub message: String,
    /// What else the body tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<BodyFacts>>,
    /// What the server said about waiting.
    #[serde(default, skip_serializing_if = "WaitHint::is_none")]
    pub retry_after: WaitHint,
    /// Where it said so, if not in a header alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Box<WaitHints>>,
    /// `x-should-retry`: whether the server says that a retry can help.
    /// Example: `false`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// The limits that the headers of the answer state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ProviderLimit>,
    /// How many characters of a streamed answer had come before: text, reasoning and tool calls. Nothing of it is kept.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    /// Example: `120`
    pub received: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A certain class comes first; it is more reliable than the status.
        match (self.class, self.status) {
            (Some(class), _) => write!(f, "{class}: {}", self.message),
            (None, Some(status)) => write!(f, "status {status}: {}", self.message),
            (None, None) => f.write_str(&self.message),
        }
    }
}

impl core::error::Error for Failure {}

/// What the body of an error tells besides its code, its type and its message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyFacts {
    /// The part of the request that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `messages`
    pub param: Option<String>,
    /// The words of the detail fields, such as the name of the quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    /// Example: `["GenerateRequestsPerDayPerProjectPerModel"]`
    pub details: Vec<String>,
    /// The provider behind a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `anthropic`
    pub provider: Option<String>,
    /// How large the model's window is, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `200000`
    pub limit: Option<u64>,
    /// How large the request was, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Example: `209303`
    pub size: Option<u64>,
}

/// What the server said about waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitHint {
    /// Nothing.
    #[default]
    None,
    /// This long, in nanoseconds.
    /// Example: `{"wait": 3000000000}`
    Wait(Nanos),
    /// This long, in nanoseconds, and something else that cannot be used.
    /// Example: `{"partly": {"wait": 1000000000, "ignored": "retry-after-ms: `soon` is not a number of milliseconds"}}`
    Partly(Box<PartialHint>),
    /// Something that cannot be used; why, for the log.
    /// Example: `{"ignored": "`soon` is neither a number nor a date"}`
    Ignored(String),
}

/// A wait, and what else was said about waiting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartialHint {
    /// How long, in nanoseconds.
    pub wait: Nanos,
    /// What cannot be used; why, for the log.
    /// Example: `retry-after: soon`
    pub ignored: String,
}

/// What the server said about waiting, by the place where it said so; in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitHints {
    /// In `retry-after`, or one in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Nanos>,
    /// In a field of the body, or in its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Nanos>,
    /// As the end of a limit that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Nanos>,
}

impl WaitHints {
    /// The delay found at a source.
    pub(crate) const fn at(&self, source: WaitSource) -> Option<Nanos> {
        match source {
            WaitSource::Header => self.header,
            WaitSource::Body => self.body,
            WaitSource::Reset => self.reset,
            WaitSource::ShouldRetry | WaitSource::Row => None,
        }
    }
}

/// How far a run of a tool got before it failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It certainly did not start.
    NotStarted,
    /// It started, and ended by itself.
    Started,
    /// It certainly did what it was asked.
    Committed,
    /// It may have had side effects; that is unknown.
    #[default]
    Unknown,
}

impl EffectState {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) const fn is_not_started(&self) -> bool {
        matches!(self, Self::NotStarted)
    }
}

impl Failure {
    /// A failure whose class is certain.
    pub fn of(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class: Some(class), message: message.into(), ..Self::default() }
    }

    /// The message of a body that is not JSON: the text itself, or for HTML the title or the text without tags.
    pub fn plain_text(body: &str) -> String {
        plain::plain(body)
    }

    /// The facts that the policy's error table is matched against.
    pub fn evidence(&self) -> FailureEvidence<'_> {
        let facts = self.facts.as_deref();
        FailureEvidence {
            status: self.status,
            code: self.code.as_deref(),
            kind: self.kind.as_deref(),
            message: &self.message,
            details: facts.map(|facts| facts.details.as_slice()).unwrap_or_default(),
            provider: facts.and_then(|facts| facts.provider.as_deref()),
        }
    }

    /// The class of the failure: the certain one, or the result of the policy's error table.
    #[inline]
    pub fn classified(&self, policy: &Policy) -> ClassifiedFailure {
        // A host that observed a timeout knows the class. The table decides about everything else, so that a policy
        // can change it.
        self.class.map_or_else(|| policy.classify(&self.evidence()), ClassifiedFailure::certain)
    }

    /// The server delays, by source.
    pub fn waits(&self) -> WaitHints {
        // Most failures have a header only; the other sources are boxed, so that the usual failure stays small.
        let header = || WaitHints { header: self.retry_after.wait(), ..WaitHints::default() };
        self.waits.as_deref().copied().unwrap_or_else(header)
    }

    /// Whether the server sent advice about retries.
    pub(super) const fn advises(&self) -> bool {
        !self.retry_after.is_none() || self.waits.is_some() || self.should_retry.is_some()
    }

    /// The size of the model's context window in tokens, if the body contains it.
    pub fn limit(&self) -> Option<u64> {
        self.facts.as_ref()?.limit
    }

    /// The size of the request in tokens, if the body contains it.
    pub fn size(&self) -> Option<u64> {
        self.facts.as_ref()?.size
    }
}

impl WaitHint {
    /// Whether the server sent no delay.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The requested delay; `None`: there is none, or it cannot be used.
    pub const fn wait(&self) -> Option<Nanos> {
        match self {
            Self::Wait(wait) => Some(*wait),
            Self::Partly(partly) => Some(partly.wait),
            Self::None | Self::Ignored(_) => None,
        }
    }

    /// Why a part of the delay cannot be used; `None`: all of it can.
    pub fn ignored(&self) -> Option<&str> {
        match self {
            Self::Ignored(reason) => Some(reason),
            Self::Partly(partly) => Some(&partly.ignored),
            Self::None | Self::Wait(_) => None,
        }
    }
}

/// Whether a failed tool may run again: it never started, or a second run does no harm.
pub const fn may_run_again(effect: Effect, state: EffectState) -> bool {
    match (effect, state) {
        // A second run is safe in two cases: it does no harm, or the first run never started. "Interrupted" is
        // neither (composio#3654, agno#10366: a card was charged again).
        (Effect::ReadOnly | Effect::Idempotent, _) | (_, EffectState::NotStarted) => true,
        (
            Effect::NonIdempotent | Effect::Unknown,
            EffectState::Started | EffectState::Committed | EffectState::Unknown,
        ) => false,
    }
}
