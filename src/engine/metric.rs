//! Metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unfazed_macros::Named;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// `validation_retry_total`, `reducer_error_total`, `retry_delay_seconds`, `pace_wait_seconds`, `retry_attempts`.
    pub name: MetricName,
    /// What it is about.
    /// Example: `tool lookup_price`
    pub subject: String,
    /// The count, the attempts, or nanoseconds of delay.
    /// Example: `3`
    pub value: u64,
}

/// The metrics there are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Named,
)]
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
    /// Histogram: waits of a call for its turn under a pace; the value is in nanoseconds, shown in seconds.
    PaceWaitSeconds,
    /// Counter: rates that were decreased after a refusal.
    PaceDecreaseTotal,
    /// Histogram: attempts that a call, turn or report took in the end.
    RetryAttempts,
}
