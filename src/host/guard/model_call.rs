//! One call of a model, as its caller sees it.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{CallModel, CallTimeouts, ToolChoice};

/// One call of a model, as the policy wants it. Each begins a new answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelCall {
    /// The model.
    pub target: String,
    /// The turn, from 1.
    pub turn: u32,
    /// The attempt at this model, from 1.
    pub attempt: u32,
    /// The most attempts; `None`: unlimited.
    pub max_attempts: Option<u32>,
    /// The tools that it may be shown; in the final turn only the report.
    pub tools: Vec<String>,
    /// Which of them it may call.
    pub tool_choice: ToolChoice,
    /// The most tokens of the reply, if the budget of the run limits them.
    pub max_output: Option<u64>,
    /// What it reads after the conversation. In a request whose [history](super::TurnGuard::history) is known, it is there already.
    pub guidance: Vec<String>,
    /// The longest the call may take; the guard enforces it.
    pub timeout: Option<Duration>,
    /// How long each step of it may take.
    pub timeouts: CallTimeouts,
    pub(super) received: Arc<AtomicU64>,
}

impl ModelCall {
    /// So many more characters of the answer have come. If the call fails, they are [taken back](crate::engine::Note::TurnRetracted)
    /// and `turn.after_partial` says whether another attempt follows.
    pub fn received(&self, characters: u64) {
        self.received.fetch_add(characters, Ordering::Relaxed);
    }

    pub(super) fn new(call: &CallModel, guidance: Vec<String>) -> Self {
        Self {
            target: call.target.clone(),
            turn: call.turn,
            attempt: call.attempt,
            max_attempts: call.max_attempts,
            tools: call.tools.clone(),
            tool_choice: call.tool_choice.clone(),
            max_output: call.max_output,
            guidance,
            timeout: call.timeout.map(Into::into),
            timeouts: call.timeouts,
            received: Arc::default(),
        }
    }
}
