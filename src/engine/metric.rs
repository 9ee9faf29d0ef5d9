//! What is counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// `validation_retry_total`, `reducer_error_total`, `retry_delay_seconds`, `retry_attempts`.
    pub name: MetricName,
    /// What it is about.
    /// Example: `tool lookup_price`
    pub subject: String,
    /// The count, the attempts, or nanoseconds of delay.
    /// Example: `3`
    pub value: u64,
}

/// The metrics there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MetricName {
    /// Counter: retryable failures of validation.
    ValidationRetryTotal,
    /// Counter: reducers that failed.
    ReducerErrorTotal,
    /// Counter: ends of attempts for which the retry budget is the reason.
    BudgetExhaustedTotal,
    /// Counter: what was done about models that repeat themselves.
    LoopGuardTotal,
    /// Counter: reductions of the conversation, by their step.
    ContextReductionTotal,
    /// Histogram: delays before a next attempt; the value is in nanoseconds, shown in seconds.
    RetryDelaySeconds,
    /// Histogram: attempts that a call, turn or report took in the end.
    RetryAttempts,
}

impl MetricName {
    /// The name it is exported by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ValidationRetryTotal => "validation_retry_total",
            Self::ReducerErrorTotal => "reducer_error_total",
            Self::BudgetExhaustedTotal => "budget_exhausted_total",
            Self::LoopGuardTotal => "loop_guard_total",
            Self::ContextReductionTotal => "context_reduction_total",
            Self::RetryDelaySeconds => "retry_delay_seconds",
            Self::RetryAttempts => "retry_attempts",
        }
    }
}
