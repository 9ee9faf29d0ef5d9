//! The reasons for the final turn, and the failure report if the model delivers no report.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::ErrorClass;

/// Why a turn is the last one, which allows only the final report.
///
/// Example: `max_turns`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinalReason {
    /// There are no more turns.
    MaxTurns,
    /// The conversation is too large for every model.
    Context,
    /// Attempts were exhausted, and the policy says so.
    RetryExhaustion,
    /// A report was delivered and refused; the turns left were taken away.
    // ai-agent, "Final Report Attempt Tracking & Turn Collapse".
    ReportAttempt,
    /// The model repeated itself too often.
    Loop,
    /// The user or the host asked for the end.
    UserStop,
    /// A budget of the run (`limits.run`) has enough left for one turn.
    Budget,
}

impl FinalReason {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxTurns => "all turns are used up",
            Self::Context => "the conversation is too large for every model",
            Self::RetryExhaustion => "attempts are exhausted",
            Self::ReportAttempt => "a report was refused",
            Self::Loop => "the model repeats itself",
            Self::UserStop => "the run is to end",
            Self::Budget => "the budget of the run is used up",
        }
    }
}

/// How an accepted report was delivered.
///
/// Example: `tool_call`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportSource {
    /// By a call of the report's tool.
    ToolCall,
    /// As the text of a reply.
    Text,
    /// As the text of an earlier reply that was refused for being text; the model delivered no other.
    // ai-agent, "Pending Final Report Cache": kept until the final turn, so retries come before the fallback.
    Pending,
    /// By a host that runs its own loop.
    Host,
}

/// What there is instead of a report: why there is none, and how far the run came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// The fields of ai-agent's "Synthetic Failure Contract".
pub struct FailureReport {
    /// Why there is no report.
    pub reason: FailureReason,
    /// The same for people.
    /// Example: `There is no report: all turns are used up (turn 12 of 12).`
    pub text: String,
    /// How many turns were begun.
    /// Example: `12`
    pub turns_completed: u32,
    /// The most turns there are.
    /// Example: `12`
    pub max_turns: u32,
    /// How often a report was delivered and refused.
    /// Example: `3`
    pub final_report_attempts: u32,
    /// Why the run came to its final turn, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_final_reason: Option<FinalReason>,
    /// How the model ended its last reply, if there was one.
    /// Example: `length`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stop_reason: Option<String>,
    /// The class of the last error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_type: Option<ErrorClass>,
    /// The last error, if there was one.
    /// Example: `429 Too Many Requests`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Why there is no report.
///
/// Example: `max_turns_exhausted`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// All turns are used up.
    MaxTurnsExhausted,
    /// Attempts at a model, a tool or the report are exhausted.
    SessionFailed,
    /// The run has no time left.
    DeadlineExceeded,
    /// The user or the host stopped it.
    Stopped,
    /// A budget of the run (`limits.run`) is used up.
    BudgetExhausted,
}

impl FailureReason {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxTurnsExhausted => "all turns are used up",
            Self::SessionFailed => "the run failed",
            Self::DeadlineExceeded => "the time is over",
            Self::Stopped => "the run was stopped",
            Self::BudgetExhausted => "the budget of the run is used up",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
