//! The metrics there are: names, kinds, units, labels.

use serde::{Serialize, Serializer};

use crate::engine::MetricName;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// Upper bounds of the buckets of delays before a retry: 10 ms to 10 minutes.
const DELAYS: &[u64] = &[
    10 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    1_000 * MS,
    2_500 * MS,
    5_000 * MS,
    10_000 * MS,
    30_000 * MS,
    60_000 * MS,
    120_000 * MS,
    300_000 * MS,
    600_000 * MS,
];
/// Those of latencies: reasoning takes its time, up to 5 minutes and more.
const LATENCIES: &[u64] = &[
    10 * MS,
    20 * MS,
    40 * MS,
    80 * MS,
    160 * MS,
    320 * MS,
    640 * MS,
    1_280 * MS,
    2_560 * MS,
    5_120 * MS,
    10_240 * MS,
    20_480 * MS,
    40_960 * MS,
    81_920 * MS,
    163_840 * MS,
    327_680 * MS,
];
/// Those of durations, as OpenTelemetry's conventions give them: 10 ms to 82 s, without the last two of latencies.
const DURATIONS: &[u64] = LATENCIES.split_at(14).0;
/// Those of tokens, as the same conventions give them.
const TOKENS: &[u64] =
    &[1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
/// Those of attempts.
const ATTEMPTS: &[u64] = &[1, 2, 3, 4, 5, 7, 10, 20];
/// Those of turns.
const TURNS: &[u64] = &[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100];

/// What a metric's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricUnit {
    /// Things that are counted.
    Number,
    /// Nanoseconds; shown in seconds or milliseconds, as the metric's name says.
    Nanoseconds,
    /// Millionths of a millionth of a US dollar; shown in dollars.
    Picodollars,
}

/// How a metric's values are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets.
    Histogram(&'static [u64]),
}

/// Everything about one metric.
pub(super) struct MetricDefinition {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) unit: MetricUnit,
    /// How many decimals a value has when it is shown.
    pub(super) decimals: u32,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

macro_rules! meters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $kind:expr, $unit:ident / $decimals:literal, [$($label:literal),*];)+) => {
        /// The metrics there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MetricId { $($(#[doc = $doc])+ $variant,)+ }

        impl MetricId {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            pub(super) const fn definition(self) -> MetricDefinition {
                match self {
                    $(Self::$variant => MetricDefinition {
                        name: $name,
                        kind: $kind,
                        unit: MetricUnit::$unit,
                        decimals: $decimals,
                        labels: &[$($label),*],
                        help: concat!($($doc),+).trim_ascii(),
                    },)+
                }
            }
        }
    };
}

meters! {
    /// Retryable failures of validation.
    ValidationRetries = "validation_retry_total" MetricKind::Counter, Number/0, ["subject"];
    /// Reducers that failed.
    ReducerErrors = "reducer_error_total" MetricKind::Counter, Number/0, ["subject"];
    /// Ends of attempts because the retry budget was used up.
    BudgetsExhausted = "budget_exhausted_total" MetricKind::Counter, Number/0, ["subject"];
    /// What was done about models that repeat themselves.
    LoopGuards = "loop_guard_total" MetricKind::Counter, Number/0, ["subject"];
    /// Reductions of the conversation.
    ContextReductions = "context_reduction_total" MetricKind::Counter, Number/0, ["subject"];
    /// Delays before a next attempt.
    RetryDelays = "retry_delay_seconds" MetricKind::Histogram(DELAYS), Nanoseconds/9, ["subject"];
    /// Waits of calls for their turn under a pace.
    PaceWaits = "pace_wait_seconds" MetricKind::Histogram(DELAYS), Nanoseconds/9, ["subject"];
    /// Rates that were decreased after a refusal.
    PaceDecreases = "pace_decrease_total" MetricKind::Counter, Number/0, ["subject"];
    /// Attempts that a call, turn or report took in the end.
    RetryAttempts = "retry_attempts" MetricKind::Histogram(ATTEMPTS), Number/0, ["subject"];

    /// Calls of a model.
    LlmRequests = "ai_agent_llm_requests_total" MetricKind::Counter, Number/0, ["target", "provider", "model", "status"];
    /// How long calls of a model took.
    LlmLatency = "ai_agent_llm_latency_ms" MetricKind::Histogram(LATENCIES), Nanoseconds/6, ["target", "provider", "model", "status"];
    /// Tokens of requests, those of a cache among them.
    LlmPromptTokens = "ai_agent_llm_prompt_tokens_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Tokens of replies.
    LlmCompletionTokens = "ai_agent_llm_completion_tokens_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Tokens of requests that were read from a cache.
    LlmCacheReadTokens = "ai_agent_llm_cache_read_tokens_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Tokens of requests that were written into a cache.
    LlmCacheWriteTokens = "ai_agent_llm_cache_write_tokens_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Bytes of requests to models.
    LlmBytesIn = "ai_agent_llm_bytes_in_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Bytes of answers of models.
    LlmBytesOut = "ai_agent_llm_bytes_out_total" MetricKind::Counter, Number/0, ["target", "provider", "model"];
    /// Calls of a model that failed.
    LlmErrors = "ai_agent_llm_errors_total" MetricKind::Counter, Number/0, ["target", "provider", "model", "error_type"];
    /// Further attempts because a call of this model failed, at this model or another.
    LlmRetries = "ai_agent_llm_retries_total" MetricKind::Counter, Number/0, ["target", "provider", "model", "error_type"];
    /// What calls of models with known prices cost, in US dollars.
    LlmCost = "ai_agent_llm_cost_usd_total" MetricKind::Counter, Picodollars/12, ["target", "provider", "model"];

    /// Runs of a tool.
    ToolInvocations = "ai_agent_tool_invocations_total" MetricKind::Counter, Number/0, ["tool_name", "status"];
    /// How long runs of a tool took.
    ToolLatency = "ai_agent_tool_latency_ms" MetricKind::Histogram(LATENCIES), Nanoseconds/6, ["tool_name", "status"];
    /// Bytes of arguments, as JSON.
    ToolBytesIn = "ai_agent_tool_bytes_in_total" MetricKind::Counter, Number/0, ["tool_name"];
    /// Bytes of results: of text as it is, of anything else as JSON.
    ToolBytesOut = "ai_agent_tool_bytes_out_total" MetricKind::Counter, Number/0, ["tool_name"];
    /// Runs of a tool that failed.
    ToolErrors = "ai_agent_tool_errors_total" MetricKind::Counter, Number/0, ["tool_name", "error_type"];

    /// Models passed over, and final turns forced, because the conversation is too large.
    ContextGuardEvents = "ai_agent_context_guard_events_total" MetricKind::Counter, Number/0, ["target", "provider", "model", "trigger", "outcome"];
    /// Tokens that were left in the window when a model was last called.
    ContextRemaining = "ai_agent_context_guard_remaining_tokens" MetricKind::Gauge, Number/0, ["target", "provider", "model"];

    /// Final reports, those that stand in for a missing one among them.
    FinalReports = "ai_agent_final_report_total" MetricKind::Counter, Number/0, ["source", "status", "forced_final_reason"];
    /// Attempts at the report: those accepted, those refused, and final turns that brought something else.
    FinalReportAttempts = "ai_agent_final_report_attempts_total" MetricKind::Counter, Number/0, [];
    /// The turn that ended with the final report.
    FinalReportTurns = "ai_agent_final_report_turns" MetricKind::Histogram(TURNS), Number/0, [];
    /// How often the turns that were left were taken away.
    RetryCollapses = "ai_agent_retry_collapse_total" MetricKind::Counter, Number/0, ["reason"];

    /// Duration of calls of a model, as OpenTelemetry names it.
    GenAiOperationDuration = "gen_ai_client_operation_duration_seconds" MetricKind::Histogram(DURATIONS), Nanoseconds/9, ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"];
    /// Tokens of one call of a model, as OpenTelemetry names it.
    GenAiTokenUsage = "gen_ai_client_token_usage" MetricKind::Histogram(TOKENS), Number/0, ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"];
    /// Duration of runs of a tool, as OpenTelemetry names it.
    GenAiToolDuration = "gen_ai_execute_tool_duration_seconds" MetricKind::Histogram(DURATIONS), Nanoseconds/9, ["gen_ai_tool_name", "error_type"];
}

impl MetricId {
    /// The name it is exported by.
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The names of its labels.
    pub const fn labels(self) -> &'static [&'static str] {
        self.definition().labels
    }

    /// What its values are.
    pub const fn unit(self) -> MetricUnit {
        self.definition().unit
    }
}

impl From<MetricName> for MetricId {
    fn from(name: MetricName) -> Self {
        match name {
            MetricName::ValidationRetryTotal => Self::ValidationRetries,
            MetricName::ReducerErrorTotal => Self::ReducerErrors,
            MetricName::BudgetExhaustedTotal => Self::BudgetsExhausted,
            MetricName::LoopGuardTotal => Self::LoopGuards,
            MetricName::ContextReductionTotal => Self::ContextReductions,
            MetricName::RetryDelaySeconds => Self::RetryDelays,
            MetricName::PaceWaitSeconds => Self::PaceWaits,
            MetricName::PaceDecreaseTotal => Self::PaceDecreases,
            MetricName::RetryAttempts => Self::RetryAttempts,
        }
    }
}

impl Serialize for MetricId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_interpreter_counts_keeps_its_name() {
        for name in [
            MetricName::ValidationRetryTotal,
            MetricName::ReducerErrorTotal,
            MetricName::BudgetExhaustedTotal,
            MetricName::LoopGuardTotal,
            MetricName::ContextReductionTotal,
            MetricName::RetryDelaySeconds,
            MetricName::PaceWaitSeconds,
            MetricName::PaceDecreaseTotal,
            MetricName::RetryAttempts,
        ] {
            let meter = MetricId::from(name);
            assert_eq!((meter.name(), meter.labels()), (name.name(), &["subject"][..]));
        }
    }

    #[test]
    fn names_follow_the_rules_of_the_format() {
        for meter in MetricId::ALL {
            let legal = |name: &str| {
                !name.is_empty()
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            };
            assert!(legal(meter.name()) && meter.labels().iter().all(|label| legal(label)), "{meter:?}");
            let counter = meter.definition().kind == MetricKind::Counter;
            assert_eq!(counter, meter.name().ends_with("_total"), "{meter:?}");
        }
    }

    #[test]
    fn bounds_grow() {
        for meter in MetricId::ALL {
            if let MetricKind::Histogram(bounds) = meter.definition().kind {
                assert!(bounds.is_sorted_by(|a, b| a < b), "{meter:?}");
            }
        }
    }
}
