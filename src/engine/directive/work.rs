//! Work: directives that a host carries out and answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ask::AskPerson;
use crate::engine::ask::PlannerDecision;
use crate::engine::call_timeouts::CallTimeouts;
use crate::engine::event::RunFacts;
use crate::engine::event::{Event, ModelReply, ToolOutcome};
use crate::engine::failure::Failure;
use crate::engine::ids::WorkId;
use crate::engine::measure::TurnMeasure;
use crate::engine::reduce::{ReduceContext, SummarizeMessages};
use crate::engine::result::ResultSpill;
use crate::policy::{ErrorClass, MalformedCalls, OrphanCalls};
use crate::session::{HistoryRepair, RetryExhausted};
use crate::time::{Instant, Nanos};

/// Work: each piece makes, and is used up by, the one event that answers it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "directive", rename_all = "snake_case")]
pub enum Work {
    /// Measure the conversation for the next turn.
    PrepareTurn(PrepareTurn),
    /// Find what it takes to make the history one that providers accept.
    RepairHistory(RepairHistory),
    /// Find what one step of a reduction of the conversation comes to.
    ReduceContext(ReduceContext),
    /// Ask a model for a summary of messages that are left out.
    Summarize(SummarizeMessages),
    /// Call the model.
    CallModel(CallModel),
    /// Run a tool.
    RunTool(RunTool),
    /// Wait.
    Wait(WaitWork),
    /// Ask the planner what to do instead.
    Consult(ConsultPlanner),
    /// Ask a person.
    Ask(AskPerson),
}

/// Measure the conversation for the next turn.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareTurn {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// The turn, from 1.
    /// Example: `2`
    pub turn: u32,
    /// The most turns there are.
    /// Example: `30`
    pub max_turns: u32,
    /// Whether only the final report is allowed in it.
    /// Example: `false`
    pub last: bool,
}

/// Find what it takes to make the history one that providers accept. `context::repair` does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairHistory {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// What is done about a call without a result.
    pub orphan_calls: OrphanCalls,
    /// What is done about a call whose arguments are no JSON object.
    #[serde(default, skip_serializing_if = "MalformedCalls::is_answer")]
    pub malformed_calls: MalformedCalls,
}

/// Call the model with the conversation as it stands.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallModel {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// The turn, from 1.
    /// Example: `2`
    pub turn: u32,
    /// The attempt within the turn, from 1.
    /// Example: `2`
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    /// Example: `3`
    pub max_attempts: Option<u32>,
    /// Which model.
    /// Example: `main`
    pub target: String,
    /// The tools the model may be shown.
    /// Example: `["lookup_price", "final_report"]`
    pub tools: Vec<String>,
    /// Whether it must call one.
    pub tool_choice: ToolChoice,
    /// The most tokens of its reply, where a budget of the run leaves it less than usual.
    /// Example: `2048`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The message to the model at the end of this request, outside the conversation.
    /// Example: `["The last reply was empty. Answer, or call a tool."]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// The longest the call may take; `None`: no limit.
    pub timeout: Option<Nanos>,
    /// The longest each step of it may take.
    #[serde(default, skip_serializing_if = "CallTimeouts::is_empty")]
    pub timeouts: CallTimeouts,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// Some tool.
    Required,
    /// This tool.
    /// Example: `{"tool": "final_report"}`
    Tool(String),
}

/// Run a tool.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTool {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// The model's id of the call.
    /// Example: `call_1`
    pub call: String,
    /// The tool.
    /// Example: `lookup_price`
    pub tool: String,
    /// The attempt, from 1.
    /// Example: `2`
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    /// Example: `3`
    pub max_attempts: Option<u32>,
    /// The arguments; they hold the tool's schema.
    /// Example: `{"item": 42}`
    pub arguments: Value,
    /// The longest the run may take; `None`: no limit.
    pub timeout: Option<Nanos>,
    /// The same for every attempt of this call, and for no other call.
    /// Example: `0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b-1-0`
    pub idempotency_key: String,
    /// Keep the whole result if it is too large for the model; `None`: it need not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<ResultSpill>,
}

/// Wait. Never for no time at all: a zero delay gives the next directive at once.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitWork {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// How long.
    pub delay: Nanos,
    /// Until when.
    pub until: Instant,
    /// What is waited for: `tool lookup_price`, `model main`, `output`.
    /// Example: `tool lookup_price`
    pub subject: String,
    /// The attempt that follows.
    /// Example: `2`
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    /// Example: `3`
    pub max_attempts: Option<u32>,
    /// What went wrong; `rate_limit` if the call waits for its turn under a pace.
    pub error_type: ErrorClass,
    /// What the server said, or the place of the call among those that wait.
    /// Example: `429 Too Many Requests`
    pub message: String,
    /// The pool whose pace is waited for; `None`: it is a delay after a failure.
    /// Example: `provider openai`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// Ask the planner what to do instead.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultPlanner {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// The end of the attempts.
    pub exhausted: RetryExhausted,
}

impl Work {
    /// The number that the answering event will carry.
    pub const fn id(&self) -> WorkId {
        match self {
            Self::PrepareTurn(work) => work.work,
            Self::RepairHistory(work) => work.work,
            Self::ReduceContext(work) => work.work,
            Self::Summarize(work) => work.work,
            Self::CallModel(work) => work.work,
            Self::RunTool(work) => work.work,
            Self::Wait(work) => work.work,
            Self::Consult(work) => work.work,
            Self::Ask(work) => work.work,
        }
    }

    /// Whether the answer follows from the conversation and the policy alone.
    pub const fn is_pure(&self) -> bool {
        match self {
            Self::PrepareTurn(_) | Self::RepairHistory(_) | Self::ReduceContext(_) => true,
            Self::Summarize(_)
            | Self::CallModel(_)
            | Self::RunTool(_)
            | Self::Wait(_)
            | Self::Consult(_)
            | Self::Ask(_) => false,
        }
    }
}

impl PrepareTurn {
    /// Makes the event that the conversation is measured.
    pub fn prepared(self, measure: TurnMeasure) -> Event {
        Event::TurnPrepared { work: self.work, measure }
    }
}

impl RepairHistory {
    /// Makes the event with the repair.
    pub fn repaired(self, repair: HistoryRepair) -> Event {
        Event::HistoryRepaired { work: self.work, repair }
    }
}

impl CallModel {
    /// Makes the event that the model answered.
    pub fn responded(self, reply: ModelReply) -> Event {
        Event::ModelResponded { work: self.work, reply }
    }

    /// Makes the event that the call failed.
    pub fn failed(self, failure: Failure) -> Event {
        Event::ModelFailed { work: self.work, failure }
    }
}

impl RunTool {
    /// Makes the event that the run ended.
    pub fn finished(self, outcome: ToolOutcome) -> Event {
        self.finished_with(outcome, RunFacts::default())
    }

    /// Makes the event that the run ended, with further facts about the run.
    pub fn finished_with(self, outcome: ToolOutcome, run: RunFacts) -> Event {
        Event::ToolFinished { work: self.work, outcome, run }
    }
}

impl WaitWork {
    /// Makes the event that the wait is over.
    pub fn fired(self) -> Event {
        Event::TimerFired { work: self.work }
    }
}

impl ConsultPlanner {
    /// Makes the event with the planner's decision.
    pub fn decided(self, decision: PlannerDecision) -> Event {
        Event::PlannerDecided { work: self.work, decision }
    }
}
