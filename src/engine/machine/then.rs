//! What comes next: machines return it, and the step routes it.

use super::super::directive::{DecisionReason, Outcome, ProposalResult};
use super::super::event::ModelReply;
use super::super::failure::Failure;
use crate::engine::measure::TurnMeasure;
use crate::policy::{ClassifiedFailure, Policy};
use crate::session::{RetryExhausted, StopReason};

/// Which machine comes next. A machine never asks another one to continue: so no call is nested in another, however long a
/// series of repairs, reductions and attempts is.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) enum NextMachine {
    /// None: the host has work to do, or the run is over.
    Host,
    /// The next turn.
    Turn,
    /// The next turn, after the wait that is due before it.
    TurnWhenDue,
    /// The turn is measured: its conversation is reduced if it has to be.
    Begin(TurnMeasure),
    /// The turn has room: a model is chosen for it.
    Choose(TurnMeasure),
    /// The model that is due is called.
    Call,
    /// The call of the model failed.
    Failed(Box<Failure>, ClassifiedFailure),
    /// The model replied.
    Replied(Box<ModelReply>),
    /// The calls of the batch are settled, as far as they have ended.
    Settle,
    /// A report was accepted or refused that did not come as a call of a tool.
    AfterReport,
    /// Nothing more comes of the proposal.
    Settled(ProposalResult),
    /// The run ends.
    End(Box<RunEnd>),
}

/// How a run ends.
#[derive(Debug)]
pub(in crate::engine) enum RunEnd {
    /// With a report or an answer.
    Finished(Outcome),
    /// Because attempts at something are used up.
    Failed(RetryExhausted, Vec<DecisionReason>),
    /// Because it was asked to.
    Stopped(String),
}

impl NextMachine {
    /// The call of the model failed, by a failure that no event brings.
    pub(in crate::engine) fn failed(failure: Failure, policy: &Policy) -> Self {
        let classified = failure.classified(policy);
        Self::Failed(Box::new(failure), classified)
    }

    /// The run ends so.
    pub(in crate::engine) fn finished(outcome: Outcome) -> Self {
        Self::End(Box::new(RunEnd::Finished(outcome)))
    }

    /// The run ends because attempts at something are used up.
    pub(in crate::engine) fn fail(exhausted: RetryExhausted, why: Vec<DecisionReason>) -> Self {
        Self::End(Box::new(RunEnd::Failed(exhausted, why)))
    }

    /// The run ends for a reason that is not the failure of one action.
    pub(in crate::engine) fn run_failed(reason: StopReason, why: Vec<DecisionReason>) -> Self {
        let action = "run".to_owned();
        Self::fail(RetryExhausted { action, reason, attempts: Vec::new(), retry_after: None }, why)
    }

    /// The run ends because it was asked to.
    pub(in crate::engine) fn stopped(reason: String) -> Self {
        Self::End(Box::new(RunEnd::Stopped(reason)))
    }
}

/// What comes after a call of the batch has ended, or may run: the batch is settled, unless the run ends.
impl From<Result<(), NextMachine>> for NextMachine {
    fn from(settled: Result<(), Self>) -> Self {
        match settled {
            Ok(()) => Self::Settle,
            Err(end) => end,
        }
    }
}
