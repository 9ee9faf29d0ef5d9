//! What a run is asked to do, and what it comes to.

use std::sync::Arc;

use super::observer::JournalError;
use super::{Cost, Metrics};
use crate::engine::{CatalogueError, NameClash, Outcome, State};
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
    /// The state at the end of the run before it in the same session: breakers whose scope is the session go on where they
    /// stood.
    pub after: Option<State>,
    /// What the user wants.
    pub task: String,
    /// The seed of every jittered delay.
    pub seed: u64,
    /// The longest the run may take; `None`: no limit.
    pub deadline: Option<Nanos>,
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
    /// What the calls of models cost; `None`: no price is known. Calls without a known price are not in it.
    pub cost: Option<Cost>,
}

/// A run that could not go on, for reasons outside the policy.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The tools cannot be used.
    #[error(transparent)]
    Tools(#[from] CatalogueError),
    /// The policy and the tools do not go together.
    #[error(transparent)]
    Names(#[from] NameClash),
    /// The session cannot be written.
    #[error("the session cannot be written, so the run stops: {0}")]
    Journal(#[from] JournalError),
    /// The interpreter gave no work and no end: a fault of this product.
    #[error("the run has neither work nor an end; please report this with the session file")]
    Stalled,
}
