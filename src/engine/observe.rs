//! Observation of a run in flight: open calls, the purpose of a wait, and models in cooldown.

use serde_json::Value;

use super::directive::WaitWork;
use super::machine::{OpenProposal, ToolSeries, WorkPurpose};
use super::state::State;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::ids::{ProposalId, WorkId};
use crate::policy::ModelPolicy;
use crate::session::AttemptRecord;
use crate::time::{Instant, Nanos};

/// The step that follows a wait.
#[derive(Clone, Copy, Debug)]
pub enum AwaitedStep<'s> {
    /// The next attempt of a tool call.
    Call(OpenCall<'s>),
    /// The next call of a model; `None`: the turn begins again with it.
    Model(Option<OpenAttempts<'s>>),
    /// The next turn.
    Turn,
}

/// A tool call of the batch in flight.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpenCall<'s> {
    /// The call's id.
    pub id: &'s str,
    /// The tool.
    pub tool: &'s str,
    /// Its arguments.
    pub arguments: &'s Value,
    /// Its attempts.
    pub attempts: OpenAttempts<'s>,
}

/// The attempts of one call so far.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpenAttempts<'s> {
    /// When the first began.
    pub started: Instant,
    /// The time waited between them.
    pub slept: Nanos,
    /// The failed attempts, in order.
    pub failed: &'s [AttemptRecord],
}

impl State {
    /// Whether the answer to this work is still expected.
    pub fn is_open(&self, work: WorkId) -> bool {
        self.work.get(work).is_some()
    }

    /// The proposal of this work; `None`: the work is not open, or the interpreter drives the run.
    pub fn proposal_of(&self, work: WorkId) -> Option<ProposalId> {
        let (proposal, _) = self.work.get(work)?;
        (proposal != ProposalId::NONE).then_some(proposal)
    }

    /// The open proposals in the order of their ids. A host that has lost its work for them withdraws them.
    pub fn open_proposals(&self) -> impl Iterator<Item = ProposalId> {
        self.proposals.keys().copied()
    }

    /// Whether a host that drives the run has had its final turn without a report: no turn follows in this run.
    pub fn has_had_final_turn(&self) -> bool {
        !self.is_over() && self.ending.is_now() && self.ending.is_answered()
    }

    /// The calls of the batches in flight in order, including those that have a result.
    pub fn open_calls(&self) -> impl Iterator<Item = OpenCall<'_>> {
        let proposed = self.proposals.values().flat_map(|open| open.batch.slots());
        self.own.batch.slots().chain(proposed).map(OpenCall::of)
    }

    /// The step that follows a wait; `None`: the wait is no longer open.
    pub fn awaited(&self, wait: &WaitWork) -> Option<AwaitedStep<'_>> {
        let (proposal, pending) = self.work.get(wait.work)?;
        let open: &OpenProposal = self.proposals.get(&proposal).unwrap_or(&self.own);
        match pending {
            WorkPurpose::WaitTool(slot) => {
                open.batch.slot(slot).map(|slot| AwaitedStep::Call(OpenCall::of(slot)))
            }
            WorkPurpose::WaitModel => {
                Some(AwaitedStep::Model(open.model.series.attempts().map(OpenAttempts::of)))
            }
            WorkPurpose::WaitTurn => Some(AwaitedStep::Turn),
            WorkPurpose::Prepare
            | WorkPurpose::Repair(_)
            | WorkPurpose::Reduce(_)
            | WorkPurpose::Summary(_)
            | WorkPurpose::Model
            | WorkPurpose::Tool(_)
            | WorkPurpose::ConsultTool(_)
            | WorkPurpose::ConsultModel
            | WorkPurpose::ConsultOutput
            | WorkPurpose::Approve(_)
            | WorkPurpose::ApproveAgain(_)
            | WorkPurpose::Verify(_) => None,
        }
    }

    /// The current model of the interpreter's own turn.
    pub fn current_target(&self) -> Option<&str> {
        self.own.model.series.target(&self.context.targets).map(String::as_str)
    }

    /// Whether the model, or the provider that its policy names, is in cooldown.
    pub fn cools_down(&self, target: &str, policy: &ModelPolicy) -> bool {
        self.models.rests(target, policy, self.now)
    }

    /// Whether the turn in flight may not call the model yet, because of a server delay.
    pub fn is_held_back(&self, target: &str) -> bool {
        let place = self.context.targets.iter().position(|known| known == target);
        place.is_some_and(|place| self.own.model.series.not_before(place) > self.now)
    }
}

impl<'s> OpenCall<'s> {
    fn of(slot: &'s ToolSeries) -> Self {
        Self {
            id: &slot.call,
            tool: &slot.tool,
            arguments: &slot.arguments,
            attempts: OpenAttempts::of(&slot.series),
        }
    }
}

impl<'s> OpenAttempts<'s> {
    fn of(series: &'s AttemptSeries) -> Self {
        Self { started: series.started, slept: series.slept, failed: &series.history }
    }
}
