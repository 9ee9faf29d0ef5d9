//! Questions to people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::ask::{ApprovalAnswer, ApprovalQuestion};
use crate::engine::event::Event;
use crate::engine::ids::WorkId;
use crate::time::Nanos;

/// Ask a person.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskPerson {
    /// The number of this piece of work; the event that answers it carries it.
    pub(in crate::engine) work: WorkId,
    /// What is asked.
    pub question: ApprovalQuestion,
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

impl AskPerson {
    /// The person has answered.
    pub fn answered(self, answer: ApprovalAnswer) -> Event {
        Event::Answered { work: self.work, answer }
    }
}
