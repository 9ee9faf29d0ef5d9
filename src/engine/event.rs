//! Events: what a host reports to the interpreter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ToolSpec;
use super::ask::{ApprovalAnswer, PlannerDecision};
use super::depth;
use super::failure::{EffectState, Failure};
use super::ids::{ProposalId, WorkId};
use super::known_windows::KnownWindow;
use super::measure::TurnMeasure;
use super::overhead::RequestOverhead;
use super::provider_limit::ProviderLimit;
use crate::engine::shared_known::SharedKnown;
use crate::policy::{CallOverride, Effect, Price};
use crate::session::{ContextReduction, HistoryRepair, Message, ToolCall, Usage};
use crate::time::{Instant, Nanos};

/// An event with its number and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// The number of the event, from 1, without gaps.
    pub seq: u64,
    /// When the driver saw it. A time before the last one is taken to be the last one.
    pub now: Instant,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
///
/// Events that answer a directive are made by that directive (`CallModel::responded`, `RunTool::finished`, …),
/// which is used up by it: so every directive that asks for work is answered by exactly one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run begins.
    RunStarted(RunStarted),
    /// The host has measured the conversation for the next turn.
    TurnPrepared {
        /// The directive this answers.
        work: WorkId,
        /// What was measured.
        #[serde(flatten)]
        measure: TurnMeasure,
    },
    /// The host has found what it takes to make the history one that providers accept. It is not made before a
    /// `splice` says so.
    HistoryRepaired {
        /// The directive this answers.
        work: WorkId,
        /// What it takes.
        repair: HistoryRepair,
    },
    /// The host has found what a step of a reduction comes to. It is not made before a `splice` says so.
    ContextReduced {
        /// The directive this answers.
        work: WorkId,
        /// What it comes to.
        reduction: ContextReduction,
    },
    /// The model answered.
    ModelResponded {
        /// The directive this answers.
        work: WorkId,
        /// The answer.
        reply: ModelReply,
    },
    /// The model call failed.
    ModelFailed {
        /// The directive this answers.
        work: WorkId,
        /// What is known.
        failure: Failure,
    },
    /// Tool calls of a host that runs its own loop ([`DriveMode::Calls`]).
    ToolsProposed {
        /// The calls of one reply, in the model's order.
        calls: Vec<ProposedCall>,
        /// The turn whose reply they are of, if it was proposed.
        /// Example: `12`
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<ProposalId>,
    },
    /// A turn of a model of a host that runs its own loop ([`DriveMode::Calls`]).
    TurnProposed(TurnProposal),
    /// A final report of a host that runs its own loop ([`DriveMode::Calls`]).
    OutputProposed {
        /// The report as the model wrote it: JSON text that may be broken.
        /// Example: `{"price": 12.5`
        output: String,
    },
    /// The host needs a proposal, or one call of it, no more. What has begun may have had side effects.
    ProposalWithdrawn {
        /// The proposal.
        /// Example: `12`
        proposal: ProposalId,
        /// The place of the call in its list; `None`: all of it.
        /// Example: `0`
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<u32>,
    },
    /// A tool run ended.
    ToolFinished {
        /// The directive this answers.
        work: WorkId,
        /// How it ended.
        outcome: ToolOutcome,
        /// What else is known of it.
        #[serde(default, skip_serializing_if = "RunFacts::is_empty")]
        run: RunFacts,
    },
    /// A wait is over.
    TimerFired {
        /// The directive this answers.
        work: WorkId,
    },
    /// The planner has decided what to do instead.
    PlannerDecided {
        /// The directive this answers.
        work: WorkId,
        /// The decision.
        decision: PlannerDecision,
    },
    /// A person has answered, or nobody has.
    Answered {
        /// The directive this answers.
        work: WorkId,
        /// The answer.
        answer: ApprovalAnswer,
    },
    /// Another policy is in effect from now on; the interpreter that takes this event has it. Breakers and budgets
    /// whose rules are the same continue where they stood.
    PolicyChanged {
        /// Its digest.
        /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
        policy: String,
    },
    /// The agent has other tools from now on; the interpreter that takes this event has them.
    ToolsChanged {
        /// All tools there are now.
        tools: Vec<ToolFacts>,
    },
    /// This is what all hosts know of breakers and budgets that they share, this one among them, and what others have found of
    /// providers.
    SharedChanged(SharedKnown),
    /// The user or the host asks the run to end, as the policy's `turn.on_stop` says.
    StopRequested {
        /// Why, for the report.
        /// Example: `stopped by the user`
        reason: String,
    },
    /// The user or the host stops the run. Work in flight need not be answered any more.
    Cancelled {
        /// Why, for the report.
        /// Example: `stopped by the user`
        reason: String,
    },
}

impl ModelReply {
    /// Whether the reply has neither text nor calls.
    pub(super) fn is_empty(&self) -> bool {
        // Reasoning is no reply: ai-agent has a separate class for replies that consist of reasoning alone.
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    /// Whether the reply includes reasoning.
    pub fn has_reasoning(&self) -> bool {
        // Providers name the fields `reasoning`, `reasoning_content`, `thinking` or `thinking_blocks`; they are
        // passed on unchanged.
        let is_reasoning = |name: &str| name.starts_with("reasoning") || name.starts_with("thinking");
        let says = |value: &Value| match value {
            Value::Null => false,
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(parts) => !parts.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
        };
        self.extra.iter().any(|(name, value)| is_reasoning(name) && says(value))
    }
}

impl Event {
    /// The work that the event answers; `None`: the event answers no work.
    pub const fn work(&self) -> Option<WorkId> {
        match self {
            Self::TurnPrepared { work, .. }
            | Self::HistoryRepaired { work, .. }
            | Self::ContextReduced { work, .. }
            | Self::ModelResponded { work, .. }
            | Self::ModelFailed { work, .. }
            | Self::ToolFinished { work, .. }
            | Self::TimerFired { work }
            | Self::PlannerDecided { work, .. }
            | Self::Answered { work, .. } => Some(*work),
            Self::RunStarted(_)
            | Self::ToolsProposed { .. }
            | Self::TurnProposed(_)
            | Self::OutputProposed { .. }
            | Self::ProposalWithdrawn { .. }
            | Self::PolicyChanged { .. }
            | Self::ToolsChanged { .. }
            | Self::SharedChanged(_)
            | Self::StopRequested { .. }
            | Self::Cancelled { .. } => None,
        }
    }
}

/// The facts of a run, told once at its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    /// The id of the run; the correlation id of everything that is logged about it.
    /// Example: `0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b`
    pub run: String,
    /// Digest of the effective policy.
    /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
    pub policy: String,
    /// The seed of every jittered delay.
    /// Example: `42`
    pub seed: u64,
    /// Who runs the loop.
    pub drive: DriveMode,
    /// Instructions above the conversation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    /// Example: `You look up prices.`
    pub system: String,
    /// A conversation there was before, which continues with the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// What the user wants.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    /// Example: `What does item 42 cost?`
    pub task: String,
    /// The models, by the names the policy's selectors match, in order of preference.
    /// Example: `["main", "spare"]`
    pub targets: Vec<String>,
    /// How large the windows of the models are, as far as the host found out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    /// Example: `{"main": {"tokens": 131072, "source": "server"}}`
    pub windows: BTreeMap<String, KnownWindow>,
    /// What the providers of the models are documented to add to each request, in tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    /// Example: `{"main": {"request": 3, "tools": 496}}`
    pub overheads: BTreeMap<String, RequestOverhead>,
    /// What the tokens of the models cost, as far as the host knows: US dollars per million, in millionths of a dollar. What
    /// the policy says goes first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    /// Example: `{"main": {"input": 2500000, "output": 10000000}}`
    pub prices: BTreeMap<String, Price>,
    /// The tools.
    pub tools: Vec<ToolFacts>,
    /// No attempt starts after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Instant>,
}

/// Who runs the loop of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriveMode {
    /// The interpreter: it asks for every model call and ends the run.
    #[default]
    Turns,
    /// The host: it proposes tool calls and reports; the interpreter decides about each.
    Calls,
}

/// A tool as the log remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFacts {
    /// The name.
    /// Example: `lookup_price`
    pub name: String,
    /// What the tool itself says a run does to the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Digest of its declaration.
    /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
    pub digest: String,
    /// JSON Schema of its arguments, by which they can be checked again; `None`: it was not written down.
    /// Example: `{"type": "object", "properties": {"item": {"type": "string"}}}`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// A turn that a host with its own loop proposes: the interpreter asks for its model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnProposal {
    /// The models that may be called, in order of preference; empty: those of the run.
    /// Example: `["main", "spare"]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// What the host measured of the conversation it is going to send; `None`: it measures nothing, and no window is too
    /// small for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<TurnMeasure>,
    /// What the host is able to do besides calling models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    /// Example: `["repair", "reduce"]`
    pub can: Vec<HostSkill>,
    /// No attempt of this turn starts after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Instant>,
}

/// Work that not every host with its own loop is able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostSkill {
    /// It can repair the history of its request (`repair_history`, `splice`).
    Repair,
    /// It can reduce the conversation of its request (`reduce_context`, `summarize`, `splice`).
    Reduce,
}

/// A complete reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReply {
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    /// Example: `Let me look.`
    pub text: String,
    /// The tool calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProposedCall>,
    /// Why the model stopped.
    #[serde(default)]
    pub finish: FinishReason,
    /// Tokens, if the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What else the provider sent with the message, untouched.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    /// Example: `{"reasoning": "First the price."}`
    pub extra: Map<String, Value>,
    /// What the host had to change in the request for the server to take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    /// Example: `["`gpt-5` refused the request, which is sent again without `temperature`"]`
    pub notes: Vec<String>,
    /// The limits that the headers of the answer state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ProviderLimit>,
    /// Whether the host keeps the reply to itself: nothing but its usage is looked at.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    /// Example: `false`
    pub opaque: bool,
}

/// Why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// The token limit cut it.
    Length,
    /// The model's window was full before the reply was whole.
    ContextWindow,
    /// The provider's filter, or the model itself, refused.
    ContentFilter,
    /// The provider did not say.
    #[default]
    Unsaid,
    /// Something else, as the provider put it.
    /// Example: `{"other": "eos"}`
    Other(String),
}

impl FinishReason {
    /// Whether the model finished its reply. Otherwise the text may be cut, and its open brackets must not be closed.
    pub const fn is_of_a_whole_reply(&self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => true,
            // Without a reason, or with an unknown reason, the reply may have been cut.
            Self::Length | Self::ContextWindow | Self::ContentFilter | Self::Unsaid | Self::Other(_) => false,
        }
    }
}

/// A tool call the model asks for, with what the planner has to say about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProposedCall {
    /// The call as the model wrote it.
    #[serde(flatten)]
    pub call: ToolCall,
    /// The planner's own layer for this call: the most specific of all, though never looser than `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<CallOverride>,
    /// Whether the host keeps the arguments to itself: they are neither validated nor compared with those of other calls.
    /// Example: `false`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub opaque: bool,
}

/// What a host knows of one run of a tool besides how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFacts {
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
    /// The process that ran it, or still does.
    /// Example: `"4711"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// The handle under which the whole result is kept, if it is.
    /// Example: `r1-0`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

impl RunFacts {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How a tool run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did what it should.
    Ok {
        /// Its result: text, or any JSON.
        /// Example: `{"price": 12.5}`
        data: Value,
    },
    /// It did what it should, and the host keeps the result to itself.
    Done,
    /// It failed.
    Failed {
        /// What is known.
        failure: Failure,
        /// How far it got.
        #[serde(default)]
        effect: EffectState,
    },
}

impl ToolOutcome {
    /// Why a result is nested too deep to be read back from a session; `None`: the nesting is allowed.
    pub fn too_deep(data: &Value) -> Option<String> {
        depth::too_deep(data)
    }
}

impl From<ToolCall> for ProposedCall {
    fn from(call: ToolCall) -> Self {
        Self { call, policy: None, opaque: false }
    }
}

impl From<&ToolSpec> for ToolFacts {
    fn from(spec: &ToolSpec) -> Self {
        let text = serde_json::to_vec(spec).unwrap_or_default();
        // The digest covers the declaration as sent: another description can make a model call a tool in another way.
        let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text));
        let parameters = Some(spec.parameters.clone());
        Self { name: spec.name.clone(), effect: spec.effect, digest, parameters }
    }
}
