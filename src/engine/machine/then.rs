//! The next machine: returned by a machine, and called by the step.

use super::super::directive::{DecisionReason, Outcome, ProposalResult};
use super::super::event::ModelReply;
use super::super::failure::Failure;
use crate::engine::measure::TurnMeasure;
use crate::policy::{ClassifiedFailure, Policy};
use crate::session::{RetryExhausted, StopReason};

/// The next machine. Machines never call each other, so that calls are not nested, however long a series of repairs,
/// reductions and attempts is.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) enum NextMachine {
    /// No machine: the host has work to do, or the run is over.
    Host,
    /// The next turn.
    Turn,
    /// The next turn, after its delay.
    TurnWhenDue,
    /// The measured turn: its conversation is reduced if necessary.
    Begin(TurnMeasure),
    /// The choice of a model for a turn whose conversation fits.
    Choose(TurnMeasure),
    /// A call of the current model.
    Call,
    /// The handling of a failed model call.
    Failed(Box<Failure>, ClassifiedFailure),
    /// The handling of a reply.
    Replied(Box<ModelReply>),
    /// The settlement of the batch's calls, as far as they have ended.
    Settle,
    /// What follows a report that did not come as a tool call.
    AfterReport,
    /// The end of the proposal.
    Settled(ProposalResult),
    /// The end of the run.
    End(Box<RunEnd>),
}

/// How a run ends.
#[derive(Debug)]
pub(in crate::engine) enum RunEnd {
    /// With a report or an answer.
    Finished(Outcome),
    /// Because attempts are exhausted.
    Failed(RetryExhausted, Vec<DecisionReason>),
    /// Because a stop was requested.
    Stopped(String),
}

impl NextMachine {
    /// Handles a failed model call whose failure comes from no event.
    pub(in crate::engine) fn failed(failure: Failure, policy: &Policy) -> Self {
        let classified = failure.classified(policy);
        Self::Failed(Box::new(failure), classified)
    }

    /// Ends the run with this outcome.
    pub(in crate::engine) fn finished(outcome: Outcome) -> Self {
        Self::End(Box::new(RunEnd::Finished(outcome)))
    }

    /// Ends the run because attempts are exhausted.
    pub(in crate::engine) fn fail(exhausted: RetryExhausted, why: Vec<DecisionReason>) -> Self {
        Self::End(Box::new(RunEnd::Failed(exhausted, why)))
    }

    /// Ends the run for a reason that is not the failure of one action.
    pub(in crate::engine) fn run_failed(reason: StopReason, why: Vec<DecisionReason>) -> Self {
        let action = "run".to_owned();
        Self::fail(RetryExhausted { action, reason, attempts: Vec::new(), retry_after: None }, why)
    }

    /// Ends the run because a stop was requested.
    pub(in crate::engine) fn stopped(reason: String) -> Self {
        Self::End(Box::new(RunEnd::Stopped(reason)))
    }
}

/// After a call of the batch has ended or may run, the batch is settled, unless the run ends.
impl From<Result<(), NextMachine>> for NextMachine {
    fn from(settled: Result<(), Self>) -> Self {
        match settled {
            Ok(()) => Self::Settle,
            Err(end) => end,
        }
    }
}
