//! Notes: reports of what happened, which need no answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outcome::Outcome;
use super::proposal::{ProposalFault, SettledProposal};
use crate::engine::ask::PlannerDecision;
use crate::engine::breaker::BreakerPhase;
use crate::engine::failure::EffectState;
use crate::engine::ids::ProposalId;
use crate::engine::ids::WorkId;
use crate::engine::metric::Metric;
use crate::engine::reduce::ContextReduced;
use crate::engine::repeats::LoopRepetition;
use crate::policy::{ErrorClass, SizeUnit};
use crate::session::{
    FinalReason, HistorySplice, Message, ReducerError, ReportSource, RetryExhausted, RetryFeedback, splice,
};
use crate::text::repair::RepairSet;
use crate::time::{Instant, Nanos};

/// Something to take note of; asks for no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "directive", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// Add this message at the end of the conversation.
    Append {
        /// The message.
        message: Message,
    },
    /// Replace these pieces of the conversation, all at once.
    Splice {
        /// The pieces, in the order of their places.
        splices: Vec<HistorySplice>,
    },
    /// The history was not one that providers accept, and was repaired.
    OrphanToolCallsPruned(OrphanToolCallsPruned),
    /// The conversation was too large, and was reduced.
    ContextReduced(ContextReduced),
    /// A retryable failure was written into the session.
    Feedback {
        /// The record.
        feedback: RetryFeedback,
    },
    /// A reducer failed; tell the host's `on_reducer_error`.
    ReducerError {
        /// The record.
        error: ReducerError,
    },
    /// A tool call was refused before it ran.
    Refused {
        /// The model's id of the call.
        /// Example: `call_1`
        call: String,
        /// The tool.
        /// Example: `lookup_price`
        tool: String,
        /// Why.
        error_type: ErrorClass,
        /// The message to the model.
        /// Example: `item: 42 is not a string`
        message: String,
    },
    /// Arguments or a report that were not JSON were repaired; what follows is about the repaired value.
    Repaired {
        /// The tool the arguments are for, or that delivers the report; empty: the report came as text.
        /// Example: `lookup_price`
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tool: String,
        /// The model's id of the call; empty: there is none.
        /// Example: `call_1`
        #[serde(default, skip_serializing_if = "String::is_empty")]
        call: String,
        /// The kinds of repairs.
        /// Example: `["trailing_comma"]`
        #[schemars(with = "Vec<crate::text::repair::RepairKind>")]
        repairs: RepairSet,
    },
    /// Calls stood in the text of a reply; they are taken as calls.
    LeakedCalls {
        /// The tools they are of, in order.
        /// Example: `["lookup_price"]`
        tools: Vec<String>,
    },
    /// A call of a tool there is not was taken for one of the tool it can mean; what follows is about that one.
    Renamed {
        /// The model's id of the call.
        /// Example: `call_1`
        call: String,
        /// The tool.
        /// Example: `web.search`
        tool: String,
        /// The name the model called it by.
        /// Example: `functions.search`
        from: String,
    },
    /// It was looked into whether a run that failed has acted.
    EffectChecked {
        /// The model's id of the call.
        /// Example: `call_1`
        call: String,
        /// The tool.
        /// Example: `send_mail`
        tool: String,
        /// The tool that was run for it; empty: a person was asked.
        /// Example: `outbox`
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
        /// What came of it. `not_started`: it may run again; `unknown`: unknown, or the person did not agree.
        effect: EffectState,
    },
    /// No call of several rounds in a row went well: the model is asked to go another way.
    RoundsFailed {
        /// How many rounds.
        /// Example: `3`
        rounds: u32,
        /// The message to the model.
        /// Example: `No call went well 3 times in a row. Go another way.`
        message: String,
    },
    /// A tool call is over.
    ToolEnded {
        /// The model's id of the call.
        /// Example: `call_1`
        call: String,
        /// The tool.
        /// Example: `lookup_price`
        tool: String,
        /// How many attempts it took.
        /// Example: `3`
        attempts: u32,
        /// `None`: it went well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_type: Option<ErrorClass>,
        /// What went wrong; empty if nothing did.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        /// Example: `connection reset`
        message: String,
    },
    /// A result is too large to be shown whole; the event that brought it has all of it.
    ResultCut {
        /// The model's id of the call.
        /// Example: `call_1`
        call: String,
        /// The tool.
        /// Example: `lookup_price`
        tool: String,
        /// What the sizes are counted in.
        unit: SizeUnit,
        /// How much of it the model is shown.
        /// Example: `5940`
        shown: u64,
        /// How much there is.
        /// Example: `32613`
        total: u64,
        /// The handle by which the model may read the rest; `None`: it is not kept.
        /// Example: `r1-0`
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
    },
    /// The reply is not what was due: the model is asked to do otherwise.
    RejectTurn {
        /// What is wrong with it.
        error_type: ErrorClass,
        /// The message to the model.
        /// Example: `Call a tool, or deliver the report.`
        message: String,
    },
    /// A model call failed after a part of its answer had been streamed: whoever showed that part takes it back.
    TurnRetracted {
        /// The model.
        /// Example: `main`
        target: String,
        /// The attempt, from 1.
        /// Example: `2`
        attempt: u32,
        /// How many characters had come: text, reasoning and tool calls.
        /// Example: `120`
        received: u64,
    },
    /// What is done about a model call that failed, or about a model that is passed over.
    TurnRetry(TurnRetry),
    /// A circuit breaker changed.
    Breaker {
        /// The tool.
        /// Example: `lookup_price`
        tool: String,
        /// What it is now.
        state: BreakerPhase,
        /// Until when, if it opened for a time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Instant>,
    },
    /// The tools that models are not shown for now are others than before: these.
    ToolsHidden {
        /// Their names.
        /// Example: `["lookup_price"]`
        tools: Vec<String>,
    },
    /// The model repeats itself, and something is done about it.
    LoopGuard(LoopRepetition),
    /// Attempts are exhausted.
    Exhausted {
        /// The end of the attempts.
        exhausted: RetryExhausted,
        /// What is done about it; `None`: the planner is asked.
        decision: Option<PlannerDecision>,
    },
    /// There would be another attempt, if the policy were not in shadow.
    Shadow {
        /// What failed: `tool lookup_price`, `model main`, `output`.
        /// Example: `tool lookup_price`
        action: String,
        /// The attempt that failed, from 1.
        /// Example: `2`
        attempt: u32,
        /// Why.
        error_type: ErrorClass,
        /// The wait there would be.
        delay: Nanos,
    },
    /// The final report was accepted.
    OutputAccepted {
        /// The report.
        /// Example: `{"price": 12.5}`
        output: Value,
        /// How it was delivered.
        source: ReportSource,
    },
    /// The turn that begins, or the next one, is the last: it allows only the final report.
    FinalTurn {
        /// Why.
        reason: FinalReason,
        /// Which turn that is, from 1.
        /// Example: `4`
        turn: u32,
        /// The most turns there would have been.
        /// Example: `12`
        max_turns: u32,
    },
    /// A piece of work that was asked for need not be answered any more.
    Dropped {
        /// The work.
        work: WorkId,
    },
    /// The final report was refused.
    OutputRefused {
        /// The attempt, from 1.
        /// Example: `2`
        attempt: u32,
        /// The most attempts; `None`: unlimited.
        /// Example: `3`
        max_attempts: Option<u32>,
        /// What is wrong with it.
        /// Example: `price: missing`
        message: String,
    },
    /// A proposal is settled: nothing more is about it.
    Settled(SettledProposal),
    /// A proposal was not taken: nothing is about it but this.
    ProposalRefused {
        /// The proposal.
        /// Example: `12`
        proposal: ProposalId,
        /// Why.
        reason: ProposalFault,
        /// The same, for people.
        /// Example: `the run is over`
        message: String,
    },
    /// Something is counted.
    Metric(Metric),
    /// The event could not be used, or something else the operator should know.
    Warning {
        /// What it is.
        /// Example: `event 7 answers work that nobody asked for`
        message: String,
    },
    /// The run is over.
    Finish {
        /// How it ended.
        outcome: Outcome,
    },
}

/// What was done about a history that providers do not accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrphanToolCallsPruned {
    /// How many calls were taken out.
    /// Example: `1`
    pub pruned_count: u64,
    /// How many results were put in for calls that had none.
    /// Example: `0`
    pub injected_count: u64,
    /// How many results were taken out: those that answer no call, and second ones.
    /// Example: `0`
    pub dropped_count: u64,
    /// How many results were moved to their call.
    /// Example: `0`
    pub moved_count: u64,
    /// How many calls had arguments that are no JSON object: they got some that are, or were taken out.
    /// Example: `1`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub malformed_count: u64,
    /// The model that refused the history; `None`: it was found before a call.
    /// Example: `main`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What its provider said.
    /// Example: `tool_use ids were found without tool_result blocks`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_error: Option<String>,
}

/// What is done about a model call that failed, or about a model that is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnRetry {
    /// What is done.
    pub action: RetryAction,
    /// The model.
    /// Example: `main`
    pub target: String,
    /// The model that is asked next; `None`: none is.
    /// Example: `spare`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_target: Option<String>,
    /// How many other models can still be asked in this turn.
    /// Example: `1`
    pub remaining: u32,
    /// What went wrong.
    pub error_type: ErrorClass,
    /// The wait before the next attempt.
    pub backoff: Nanos,
    /// For the log: the other fields in words, and the message of the failure.
    /// Example: `main: rate_limit: slow down; attempt 2 of 4 after 2s`
    pub log_message: String,
    /// The message to the model, if there is one.
    /// Example: `The last reply was empty. Answer, or call a tool.`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// The rules the action comes from.
    /// Example: `["retry.server_delay"]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// What is done about a model call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryAction {
    /// Another attempt is made.
    Retry,
    /// The model is asked no more in this turn; another one is.
    SkipProvider,
    /// No further attempt is made in this turn.
    Abort,
}

impl Note {
    /// Applies the change of the conversation that the note describes; most notes describe none. Applying all notes
    /// of a log to an empty conversation yields the conversation.
    ///
    /// ```
    /// use unfazed::engine::Note;
    /// use unfazed::session::Message;
    /// let mut conversation = Vec::new();
    /// Note::Append { message: Message::user("What does it cost?") }.apply(&mut conversation);
    /// assert_eq!(conversation.len(), 1);
    /// ```
    pub fn apply(&self, conversation: &mut Vec<Message>) {
        match self {
            Self::Append { message } => conversation.push(message.clone()),
            Self::Splice { splices } => splice(conversation, splices),
            // Only these two change the conversation, so that a log can be replayed without a policy.
            _ => {}
        }
    }
}

impl RetryAction {
    /// The name of the action in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::SkipProvider => "skip-provider",
            Self::Abort => "abort",
        }
    }
}
