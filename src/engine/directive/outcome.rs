//! How a run ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::{FailureReport, RetryExhausted};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// With the final report.
    Reported {
        /// The report.
        /// Example: `{"price": 12.5}`
        output: Value,
    },
    /// With a plain answer, where the policy accepts one.
    Answered {
        /// The text.
        /// Example: `The price is 12.50.`
        text: String,
    },
    /// Attempts were exhausted and nothing else was left.
    Failed {
        /// The end of the attempts.
        exhausted: RetryExhausted,
        /// What there is instead of a report.
        report: FailureReport,
    },
    /// The user or the host stopped it.
    Stopped {
        /// Why.
        /// Example: `stopped by the user`
        reason: String,
        /// What there is instead of a report.
        report: FailureReport,
    },
}
