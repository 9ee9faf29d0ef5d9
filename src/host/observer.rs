//! What a host may listen to and decide: the observer and the planner.

use super::{BoxFuture, ModelAttempt, PolicyFilesError, SessionCheckpoint, SharedStateError, ToolProgress};
use crate::engine::{Directive, Directives, Envelope, PlannerDecision, State};
use crate::policy::CallOverride;
use crate::session::{ReducerError, RetryExhausted, ToolCall};

/// Sees everything that happens in a run, in order.
pub trait Observer: Send {
    /// A session continues that stood there.
    fn resumed(&mut self, _past: &SessionCheckpoint) {}

    /// An event is about to be taken.
    fn event(&mut self, _envelope: &Envelope) {}

    /// A directive was given.
    fn directive(&mut self, _directive: &Directive) {}

    /// A piece of the text of a streamed answer has come; each `call_model` directive begins a new answer. If it fails, a
    /// `turn_retracted` directive takes back what had come. Secrets are taken out, so a piece may come a word later.
    fn streamed(&mut self, _text: &str) {}

    /// A tool tells how far it is. Comes between its `run_tool` directive and its `tool_finished` event, at most ten times
    /// a second, and is not written down.
    fn progressed(&mut self, _progress: &ToolProgress) {}

    /// A call of a model is over. Comes after the directives it led to.
    fn attempt(&mut self, _attempt: &ModelAttempt) {}

    /// A reducer failed. What it was given and why is in `error`; the session has it already.
    fn on_reducer_error(&mut self, _error: &ReducerError) {}

    /// The policy's files have changed, but cannot be used; the last good policy stays in effect.
    fn on_reload_error(&mut self, _error: &PolicyFilesError) {}

    /// What hosts share is out of reach; the run continues with what it knows. Told once, until it is back.
    fn on_shared_error(&mut self, _error: &SharedStateError) {}

    /// The event has been taken and its directives are on their way.
    fn stepped(&mut self, _state: &State) {}
}

/// Writes a run down while it continues: each event and what was decided about it, before that is acted on.
///
/// What is recorded may be written later, in the same order: nothing is acted on before [`written`](Self::written) has ended.
pub trait Journal: Send {
    /// How many bytes the result of a tool may have as JSON; `None`: any number. What has more is cut before it is taken, and
    /// says so: for want of a record nobody would know what the tool has done.
    fn most_of_a_result(&self) -> Option<usize> {
        None
    }

    /// The event is about to be taken.
    ///
    /// # Errors
    /// It could not be written; the run must stop.
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError>;

    /// The event was taken; this was decided by the policy of that digest, and `state` is what the interpreter knows
    /// now.
    ///
    /// # Errors
    /// It could not be written; the run must stop.
    fn directives(
        &mut self,
        policy: &str,
        directives: &Directives,
        state: &State,
    ) -> Result<(), JournalError>;

    /// Ends when all that was recorded is written; `None`: it is.
    ///
    /// # Errors
    /// It could not be written; the run must stop.
    fn written(&mut self) -> Option<BoxFuture<'static, Result<(), JournalError>>> {
        None
    }
}

/// A session that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Decides where the policy leaves it to the host.
pub trait Planner: Send + Sync {
    /// A layer of its own for one call: the most specific of all, though never looser than `limits`.
    fn for_call(&self, _call: &ToolCall) -> Option<CallOverride> {
        None
    }

    /// What is done when attempts are exhausted and the policy says `ask_planner`.
    fn on_exhausted(&self, exhausted: &RetryExhausted) -> PlannerDecision;
}

/// Listens to nothing and writes nothing down.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopObserver;

impl Observer for NoopObserver {}

impl Journal for NoopObserver {
    fn event(&mut self, _envelope: &Envelope) -> Result<(), JournalError> {
        Ok(())
    }

    fn directives(
        &mut self,
        _policy: &str,
        _directives: &Directives,
        _state: &State,
    ) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Tells the model and continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TellModel;

impl Planner for TellModel {
    fn on_exhausted(&self, _exhausted: &RetryExhausted) -> PlannerDecision {
        PlannerDecision::TellModel
    }
}
