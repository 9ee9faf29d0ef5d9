//! Reductions of the conversation: requests to the host, and their reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call_timeouts::CallTimeouts;
use super::event::{Event, ModelReply};
use super::failure::Failure;
use crate::engine::ids::WorkId;
use crate::policy::ReduceStep;
use crate::session::ContextReduction;
use crate::time::Nanos;

/// Find what one step of a reduction comes to. `context::reduce` does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReduceContext {
    /// The number of this piece of work; the event that answers it carries it.
    pub(super) work: WorkId,
    /// The model whose window it is for.
    /// Example: `main`
    pub target: String,
    /// What is to be done.
    pub plan: ReducePlan,
}

/// One step of a reduction, with the numbers it is to come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReducePlan {
    /// Which step of `context.reduce` it is, from 1.
    /// Example: `1`
    pub number: u32,
    /// The step.
    pub step: ReduceStep,
    /// How many tokens the messages are to have: no more is done than that takes.
    /// Example: `4000`
    pub aim: u64,
    /// How many tokens the messages may have at most: the last resort goes so far.
    /// Example: `5600`
    pub most: u64,
    /// How many tokens the request for a summary may have at most; `None`: any number, or none is asked for.
    /// Example: `6500`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Whether what the user said last stays.
    /// Example: `true`
    pub keep_task: bool,
}

/// Ask a model for a summary of messages that are left out.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummarizeMessages {
    /// The number of this piece of work; the event that answers it carries it.
    pub(super) work: WorkId,
    /// The turn, from 1.
    /// Example: `2`
    pub turn: u32,
    /// Which model.
    /// Example: `main`
    pub target: String,
    /// What it is asked, as a user's message; it is shown no tool and nothing of the conversation.
    /// Example: `Sum up this conversation in a few words.`
    pub prompt: String,
    /// The most tokens of its reply, where a budget of the run leaves it less than usual.
    /// Example: `2048`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The longest the call may take; `None`: no limit.
    pub timeout: Option<Nanos>,
    /// The longest each step of it may take.
    #[serde(default, skip_serializing_if = "CallTimeouts::is_empty")]
    pub timeouts: CallTimeouts,
}

/// What one step of a reduction came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextReduced {
    /// The model whose window it is for.
    /// Example: `main`
    pub target: String,
    /// The kind of the step.
    /// Example: `digest`
    pub step: String,
    /// How many tokens the messages had.
    /// Example: `9000`
    pub tokens_before: u64,
    /// How many they have.
    /// Example: `4200`
    pub tokens_after: u64,
    /// How many messages are shorter.
    /// Example: `3`
    pub shortened: u64,
    /// How many messages were left out.
    /// Example: `12`
    pub left_out: u64,
}

impl SummarizeMessages {
    /// The model answered.
    pub fn responded(self, reply: ModelReply) -> Event {
        Event::ModelResponded { work: self.work, reply }
    }

    /// The call failed.
    pub fn failed(self, failure: Failure) -> Event {
        Event::ModelFailed { work: self.work, failure }
    }
}

impl ReduceContext {
    /// Makes the event with the result of a step.
    pub fn reduced(self, reduction: ContextReduction) -> Event {
        Event::ContextReduced { work: self.work, reduction }
    }
}
