//! What a run is asked to do, and what it comes to.

use std::sync::Arc;

use super::observer::JournalError;
use super::{Cost, Metrics};
use crate::engine::{
    CatalogueError, Drive, Envelope, Event, NameClash, Outcome, RunTool, State, ToolFacts, Work,
};
use crate::policy::{RunLimits, UnknownPrice};
use crate::session::Message;
use crate::time::Nanos;

/// What one run is to do.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The run's id; the correlation id of everything logged about it.
    pub run: String,
    /// Instructions above the conversation.
    pub system: String,
    /// A conversation there was before, which goes on with the task.
    pub history: Vec<Message>,
    /// What the user wants.
    pub task: String,
    /// The seed of every jittered delay.
    pub seed: u64,
    /// The longest the run may take; `None`: no limit.
    pub deadline: Option<Nanos>,
}

/// Where a session stood when its log ended. Nothing, if it is new.
#[derive(Debug, Default)]
pub struct Past {
    /// The state.
    pub state: State,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The work that was begun and has no answer, in the order in which it was asked for.
    pub open: Vec<Work>,
    /// An event that is in the log, and about which nothing was decided yet.
    pub untaken: Option<Envelope>,
    /// Digest of the policy that decided last; empty: none did.
    pub policy: String,
    /// The tools as the log tells them last.
    pub tools: Vec<ToolFacts>,
}

impl Past {
    /// Whether there is no run to go on with.
    pub fn is_over(&self) -> bool {
        self.untaken.is_none() && (self.state.run.is_empty() || self.state.is_over())
    }

    /// Whether the run to go on with is driven by a host with a loop of its own.
    pub fn is_driven(&self) -> bool {
        let drive = match &self.untaken {
            Some(Envelope { event: Event::RunStarted(started), .. }) => started.drive,
            _ => self.state.drive(),
        };
        !self.is_over() && drive == Drive::Calls
    }

    /// The tools that were running when the log ended: nobody knows what they did.
    pub fn unknown(&self) -> impl Iterator<Item = &RunTool> {
        self.open.iter().filter_map(|work| match work {
            Work::RunTool(run) => Some(run),
            _ => None,
        })
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub outcome: Outcome,
    /// The state at its end.
    pub state: State,
    /// The conversation at its end.
    pub messages: Vec<Message>,
    /// What was counted: in this run, or in every run of the agent if it was given metrics to share.
    pub metrics: Arc<Metrics>,
    /// The budgets it had.
    pub limits: RunLimits,
    /// What the calls of models cost; `None`: no price is known. Calls without a known price are not in it.
    pub cost: Option<Cost>,
    /// What there is of the answer, if the run failed because a limit of tokens cut it.
    pub partial: Option<String>,
}

/// A run that could not go on, for reasons outside the policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The tools cannot be used.
    #[error(transparent)]
    Tools(#[from] CatalogueError),
    /// The policy and the tools do not go together.
    #[error(transparent)]
    Names(#[from] NameClash),
    /// The policy bounds what a run may cost, and the price of a model is unknown.
    #[error(transparent)]
    Price(#[from] UnknownPrice),
    /// The session cannot be written.
    #[error("the session cannot be written, so the run stops: {0}")]
    Journal(#[from] JournalError),
    /// There is no run to go on with.
    #[error("the last run of the session is over; give it a task to go on with")]
    Over,
    /// The run that was broken off is not an agent's.
    #[error(
        "the run that was broken off was driven by its own host (drive: calls), which alone can go on with it; give it a task to \
         end that run and begin the next"
    )]
    Driven,
    /// The interpreter gave no work and no end: a fault of this product.
    #[error("the run has neither work nor an end; please report this with the session file")]
    Stalled,
}
