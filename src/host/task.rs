//! What a run is asked to do, and what it comes to.

use core::time::Duration;
use std::sync::Arc;

use super::attached::{AttachmentError, TaskAttachment};
use super::observer::JournalError;
use super::{Cost, Metrics};
use crate::engine::{CatalogueError, NameClash, Outcome, State};
use crate::policy::{RunLimits, UnknownPrice};
use crate::session::Message;

/// What one run is to do.
#[derive(Clone, Debug, Default)]
pub struct RunTask {
    /// The run's id; the correlation id of everything logged about it. It must not be empty.
    pub run: String,
    /// Instructions above the conversation.
    pub system: String,
    /// A conversation there was before, which continues with the task.
    pub history: Vec<Message>,
    /// What the user wants.
    pub task: String,
    /// Images and documents that come with it, for the models that can be shown them.
    pub attachments: Vec<TaskAttachment>,
    /// The seed of every jittered delay.
    pub seed: u64,
    /// The longest the run may take; `None`: no limit.
    pub deadline: Option<Duration>,
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

/// A run that could not continue, for reasons outside the policy.
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
    /// What comes with the task cannot be kept for the models.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// The session cannot be written.
    #[error("the session cannot be written, so the run stops: {0}")]
    Journal(#[from] JournalError),
    /// There is no task.
    #[error("there is nothing to do: write `task:` into the agent file, or give the run a task of its own")]
    NoTask,
    /// The run has no id, which is what a state knows its run by.
    #[error("the run has no id: set `RunTask::run`, to a UUID for example")]
    NoRunId,
    /// There is no run to continue with.
    #[error("the last run of the session is over; give it a task to continue with")]
    Over,
    /// The run that was broken off is not an agent's.
    #[error(
        "the run that was broken off was driven by its own host (drive: calls), which alone can continue with it; give it a task to \
         end that run and begin the next"
    )]
    Driven,
    /// The interpreter gave no work and no end: a fault of this product.
    #[error("the run has neither work nor an end; please report this with the session file")]
    Stalled,
}
