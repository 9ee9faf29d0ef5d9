//! Questions to people: the directive that asks, and the answers there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::directive::WorkId;
use super::event::Event;
use crate::time::Nanos;

/// Ask a person.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The number of this piece of work; the event that answers it carries it.
    pub(super) work: WorkId,
    /// What is asked.
    pub question: Question,
    /// The model's id of the call.
    /// Example: `call_1`
    pub call: String,
    /// The tool.
    /// Example: `send_mail`
    pub tool: String,
    /// The arguments; they hold the tool's schema.
    /// Example: `{"to": "ada@example.org"}`
    pub arguments: Value,
    /// How the run before ended; empty: there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    /// Example: `no answer within 30s`
    pub message: String,
    /// How long an answer is waited for; `None`: no limit.
    pub timeout: Option<Nanos>,
}

/// What a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Whether the call may run.
    Run,
    /// Whether it may run again, though it may have acted before it failed.
    RunAgain,
}

/// What a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It may.
    Approve,
    /// It may, and so may all further calls of the tool in this run.
    ApproveAll,
    /// It may not.
    Refuse,
    /// Nobody answered, or there is nobody to ask: the policy decides.
    None,
}

impl Ask {
    /// The person has answered.
    pub fn answered(self, answer: Answer) -> Event {
        Event::Answered { work: self.work, answer }
    }
}
