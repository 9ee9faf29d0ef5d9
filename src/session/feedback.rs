//! Records of failures in the session, for prompts, planners and operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::ErrorClass;
use crate::time::{Instant, Nanos};

/// One retryable failure, as the session remembers it for the next attempt.
///
/// The eight fields and their meaning are those of the weakincentives error-handling specification. On the
/// last attempt nothing is scheduled any more: the delay is zero and the time is the time of the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryFeedback {
    /// What failed.
    pub source: FeedbackSource,
    /// The tool, if a tool call failed.
    /// Example: `lookup_price`
    pub tool_name: Option<String>,
    /// The attempt that failed, from 1.
    /// Example: `1`
    pub attempt: u32,
    /// The most attempts there are; `None`: unlimited.
    /// Example: `3`
    pub max_attempts: Option<u32>,
    /// The class of the failure.
    pub error_type: ErrorClass,
    /// What went wrong and what to change.
    /// Example: `item: 42 is not a string`
    pub message: String,
    /// When the next attempt may start, RFC 3339. Never shown to the model: prompts stay the same from run to run.
    /// Example: `2026-01-01T00:00:00.200Z`
    #[serde(with = "rfc3339")]
    #[schemars(with = "String", regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$"))]
    pub retry_scheduled_at: Instant,
    /// The wait before the next attempt, in seconds.
    /// Example: `1.5`
    #[serde(rename = "next_delay_seconds", with = "seconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub next_delay: Nanos,
}

/// The same with its fields sorted by name, as expressions return a map.
#[derive(Serialize)]
struct FeedbackInOrder<'f> {
    attempt: u32,
    error_type: ErrorClass,
    max_attempts: Option<u32>,
    message: &'f str,
    #[serde(rename = "next_delay_seconds", with = "seconds")]
    next_delay: Nanos,
    #[serde(with = "rfc3339")]
    retry_scheduled_at: Instant,
    source: FeedbackSource,
    tool_name: Option<&'f str>,
}

impl RetryFeedback {
    /// The value that an expression returns for it.
    pub(super) fn in_order(&self) -> impl Serialize {
        let Self { source, tool_name, attempt, max_attempts, error_type, message, .. } = self;
        FeedbackInOrder {
            attempt: *attempt,
            error_type: *error_type,
            max_attempts: *max_attempts,
            message,
            next_delay: self.next_delay,
            retry_scheduled_at: self.retry_scheduled_at,
            source: *source,
            tool_name: tool_name.as_deref(),
        }
    }
}

/// What a [`RetryFeedback`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackSource {
    /// A tool call.
    Tool,
    /// The final report.
    StructuredOutput,
}

impl FeedbackSource {
    /// The name in records.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::StructuredOutput => "structured_output",
        }
    }
}

/// A reducer that refused its update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReducerError {
    /// The reducer's name.
    /// Example: `count_searches`
    pub reducer: String,
    /// What it was given.
    /// Example: `{"tool": "lookup_price", "attempts": 2}`
    pub payload: Value,
    /// Why it failed.
    /// Example: `the check does not hold`
    pub message: String,
}

/// One attempt that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptRecord {
    /// The attempt, from 1.
    /// Example: `1`
    pub attempt: u32,
    /// The class of the failure.
    pub error_type: ErrorClass,
    /// What went wrong.
    /// Example: `connection reset`
    pub message: String,
    /// When it failed.
    pub at: Instant,
    /// The wait that followed, in nanoseconds; zero if none did.
    pub delay: Nanos,
}

/// The end of the attempts: everything a planner needs to decide what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{}", summary(.action, *.reason, .attempts))]
pub struct RetryExhausted {
    /// What was attempted: `tool lookup_price`, `model main`, `output`.
    /// Example: `tool lookup_price`
    pub action: String,
    /// Why no further attempt is made.
    pub reason: StopReason,
    /// Every attempt and its failure, in order.
    pub attempts: Vec<AttemptRecord>,
    /// What the server asked to wait, if it did and that was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Nanos>,
}

/// Why no further attempt is made: the first of these that applies, in this order.
///
/// Example: `attempts`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The work was stopped from outside.
    Cancelled,
    /// A part of the answer had been streamed, and the policy lets none follow it.
    AfterPartial,
    /// The class is in `never_retry`.
    NeverRetry,
    /// The class is not in `retry_on`, or there are no retries.
    NotRetryable,
    /// The tool may have had side effects and is not idempotent.
    MayHaveActed,
    /// The request itself is at fault: the same bytes will never work at this target.
    RequestAtFault,
    /// The server says that a retry cannot help.
    ShouldNotRetry,
    /// A reducer failed on this action.
    ReducerError,
    /// `max_attempts` are used up.
    Attempts,
    /// The next attempt would start after the deadline.
    Deadline,
    /// The circuit breaker is open.
    CircuitOpen,
    /// The retry budget has nothing left.
    Budget,
    /// The server asked for a longer wait than the policy allows.
    ServerDelay,
    /// `total_delay` would be exceeded.
    TotalDelay,
    /// There would be another attempt, but the policy is in shadow.
    Shadow,
    /// A budget of the run (`limits.run`) leaves nothing for another call of a model.
    RunBudget,
    /// The pace lets the call start too late.
    Pace,
}

impl StopReason {
    /// Whether attempts were made and used up, in contrast to a failure that is not retried.
    pub const fn used_up(self) -> bool {
        match self {
            Self::Attempts
            | Self::Deadline
            | Self::Budget
            | Self::ServerDelay
            | Self::TotalDelay
            | Self::Pace => true,
            Self::Cancelled
            | Self::AfterPartial
            | Self::NeverRetry
            | Self::NotRetryable
            | Self::MayHaveActed
            | Self::RequestAtFault
            | Self::ShouldNotRetry
            | Self::ReducerError
            | Self::CircuitOpen
            | Self::Shadow
            | Self::RunBudget => false,
        }
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::AfterPartial => "a part of the answer had been streamed",
            Self::NeverRetry => "never retried",
            Self::NotRetryable => "not retryable",
            Self::MayHaveActed => "it may have had side effects",
            Self::RequestAtFault => "the request itself is at fault",
            Self::ShouldNotRetry => "the server says that a retry cannot help",
            Self::ReducerError => "a reducer failed",
            Self::Attempts => "attempts exhausted",
            Self::Deadline => "deadline",
            Self::CircuitOpen => "circuit open",
            Self::ServerDelay => "the server asks for a longer wait than allowed",
            Self::Budget => "retry budget used up",
            Self::TotalDelay => "total delay used up",
            Self::Shadow => "decided in shadow only",
            Self::RunBudget => "budget of the run used up",
            Self::Pace => "the pace lets it start too late",
        }
    }
}

fn summary(action: &str, reason: StopReason, attempts: &[AttemptRecord]) -> String {
    let count = attempts.len();
    let plural = if count == 1 { "" } else { "s" };
    let last = attempts.last().map(|a| format!(": {}: {}", a.error_type, a.message)).unwrap_or_default();
    format!("{action} failed after {count} attempt{plural} ({}){last}", reason.name())
}

/// Times as RFC 3339 text in records.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for references")]
mod rfc3339 {
    use super::Instant;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.to_rfc3339())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        let text = String::deserialize(from)?;
        let at = humantime::parse_rfc3339(&text).map_err(de::Error::custom)?;
        // Times count from 1970, so an earlier one is refused and does not wrap.
        let since = at.duration_since(std::time::UNIX_EPOCH).map_err(de::Error::custom)?;
        Ok(Instant(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Delays as seconds in records.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for references")]
mod seconds {
    use super::Nanos;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(delay: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        // weakincentives has this field in seconds. People and prompts read it, and nothing is computed from it.
        to.serialize_f64(delay.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        let secs = f64::deserialize(from)?;
        core::time::Duration::try_from_secs_f64(secs).map(Nanos::from_std).map_err(de::Error::custom)
    }
}
