//! One record for each call of a model: how it went, what it cost, and what is done about it.

use core::time::Duration;

use serde::Serialize;

use crate::engine::RetryAction;
use crate::policy::Cost;
use crate::policy::ErrorClass;
use crate::session::{StopReason, Usage};
use crate::time::Nanos;

/// One call of a model, and what the policy makes of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelAttempt {
    /// The id of the run.
    pub correlation_id: String,
    /// The turn, from 1.
    pub turn: u32,
    /// The attempt within the turn, from 1.
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    pub max_attempts: Option<u32>,
    /// The model, by the name the policy's selectors match.
    pub target: String,
    /// Who serves it; empty if it is not known.
    pub provider: String,
    /// Its name on the server; empty if it is not known.
    pub model: String,
    /// Whether the call brought a reply the policy takes.
    pub status: AttemptStatus,
    /// How long the call took.
    pub latency_ms: u64,
    /// The same, exactly.
    #[serde(skip)]
    pub latency: Duration,
    /// Bytes of the request, if it went over a wire.
    #[serde(skip)]
    pub bytes_in: u64,
    /// Bytes of the answer that came, if it did.
    #[serde(skip)]
    pub bytes_out: u64,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorClass>,
    /// The HTTP status of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// What the server said; empty if nothing went wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Tokens of the request, if the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of the reply, if the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens that were read from a cache, if any were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens that were written into a cache, if any were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the reply that are reasoning, if any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// What it cost, if tokens and prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Cost>,
    /// What is done about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<RetryAction>,
    /// The wait before the next attempt.
    pub delay_ms: u64,
    /// The model that is asked next, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_target: Option<String>,
    /// Why no further attempt is made, if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<StopReason>,
}

/// How a call of a model went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, unfazed_macros::Named)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The reply is what was due.
    Success,
    /// The call failed.
    Failed,
    /// There is a reply, but not what was due.
    Rejected,
    /// The run ended before the call did.
    Cancelled,
}

impl ModelAttempt {
    /// There was a reply, but the policy does not take it.
    pub(super) fn reject(&mut self, class: ErrorClass) {
        if self.status == AttemptStatus::Success {
            self.status = AttemptStatus::Rejected;
            self.error_type = Some(class);
        }
    }

    /// The call failed: it brought no reply.
    pub(in crate::host) fn fail(&mut self, status: Option<u16>, message: String) {
        self.status = AttemptStatus::Failed;
        self.http_status = status;
        self.message = message;
    }

    /// The run, or whoever made the call, ended before it did.
    pub(in crate::host) const fn cancel(&mut self) {
        self.status = AttemptStatus::Cancelled;
        self.error_type = Some(ErrorClass::Cancelled);
    }

    /// The provider has counted these tokens.
    pub(in crate::host) fn used(&mut self, tokens: Usage) {
        self.input_tokens = Some(tokens.input);
        self.output_tokens = Some(tokens.output);
        self.cache_read_tokens = Some(tokens.cache_read).filter(|tokens| *tokens > 0);
        self.cache_write_tokens = Some(tokens.cache_write).filter(|tokens| *tokens > 0);
        self.reasoning_tokens = Some(tokens.reasoning).filter(|tokens| *tokens > 0);
    }

    /// This is done about a failure: after that wait, at that model.
    pub(in crate::host) fn then(&mut self, action: RetryAction, delay: Nanos, next: Option<String>) {
        self.action = Some(action);
        self.delay_ms = delay.millis();
        self.next_target = next;
    }

    /// The tokens, if they are known.
    pub(super) fn tokens(&self) -> Option<Usage> {
        Some(Usage {
            input: self.input_tokens?,
            output: self.output_tokens?,
            cache_read: self.cache_read_tokens.unwrap_or(0),
            cache_write: self.cache_write_tokens.unwrap_or(0),
            reasoning: self.reasoning_tokens.unwrap_or(0),
        })
    }

    /// Whether another attempt follows, at this model or another.
    pub(super) const fn is_followed(&self) -> bool {
        matches!(self.action, Some(RetryAction::Retry | RetryAction::SkipProvider))
    }

    /// The class as a label; empty if nothing went wrong.
    pub(super) fn error_name(&self) -> &'static str {
        self.error_type.map_or("", ErrorClass::name)
    }
}
