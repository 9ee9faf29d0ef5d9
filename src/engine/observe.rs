//! What can be seen of a run under way: the open calls, what a wait is for, and which models are passed over.

use serde_json::Value;

use super::directive::{ProposalId, Wait, WorkId};
use super::machine::{OpenProposal, Pending, ToolSeries};
use super::state::{Series, State};
use crate::policy::ModelPolicy;
use crate::session::AttemptRecord;
use crate::time::{Instant, Nanos};

/// What a wait comes before.
#[derive(Clone, Copy, Debug)]
pub enum Awaited<'s> {
    /// The next attempt of a tool call.
    Call(OpenCall<'s>),
    /// The next call of a model; `None`: the turn begins anew with it.
    Model(Option<OpenAttempts<'s>>),
    /// The next turn.
    Turn,
}

/// A tool call of the batch under way.
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

/// The attempts at one thing so far.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpenAttempts<'s> {
    /// When the first began.
    pub started: Instant,
    /// How long was waited between them.
    pub slept: Nanos,
    /// Those that failed, in order.
    pub failed: &'s [AttemptRecord],
}

impl State {
    /// Whether the run still waits for the answer to this work.
    pub fn is_open(&self, work: WorkId) -> bool {
        self.work.get(work).is_some()
    }

    /// The proposal that this work is for; `None`: it is not open, or the interpreter drives the run.
    pub fn proposal_of(&self, work: WorkId) -> Option<ProposalId> {
        let (proposal, _) = self.work.get(work)?;
        (proposal != ProposalId::NONE).then_some(proposal)
    }

    /// The proposals that were taken and are not settled, in the order in which they were made. A host that has lost what it
    /// was doing for them withdraws them.
    pub fn open_proposals(&self) -> impl Iterator<Item = ProposalId> {
        self.proposals.keys().copied()
    }

    /// The calls of the batches under way, in order, those included that have their result already.
    pub fn open_calls(&self) -> impl Iterator<Item = OpenCall<'_>> {
        let proposed = self.proposals.values().flat_map(|open| open.batch.slots());
        self.own.batch.slots().chain(proposed).map(OpenCall::of)
    }

    /// What a wait comes before; `None` if it is no longer open.
    pub fn awaited(&self, wait: &Wait) -> Option<Awaited<'_>> {
        let (proposal, pending) = self.work.get(wait.work)?;
        let open: &OpenProposal = self.proposals.get(&proposal).unwrap_or(&self.own);
        match pending {
            Pending::WaitTool(slot) => open.batch.slot(slot).map(|slot| Awaited::Call(OpenCall::of(slot))),
            Pending::WaitModel => Some(Awaited::Model(open.model.series.attempts().map(OpenAttempts::of))),
            Pending::WaitTurn => Some(Awaited::Turn),
            Pending::Prepare
            | Pending::Repair(_)
            | Pending::Reduce(_)
            | Pending::Summary(_)
            | Pending::Model
            | Pending::Tool(_)
            | Pending::ConsultTool(_)
            | Pending::ConsultModel
            | Pending::ConsultOutput
            | Pending::Approve(_)
            | Pending::ApproveAgain(_)
            | Pending::Verify(_) => None,
        }
    }

    /// The model that the turn of the interpreter calls.
    pub fn current_target(&self) -> Option<&str> {
        self.own.model.series.target(&self.context.targets).map(String::as_str)
    }

    /// Whether turns pass a model over for now: it, or the provider that its policy names, cools down.
    pub fn cools_down(&self, target: &str, policy: &ModelPolicy) -> bool {
        self.models.rests(target, policy, self.now)
    }

    /// Whether the turn under way may not call a model yet, because it asked for a wait.
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
    fn of(series: &'s Series) -> Self {
        Self { started: series.started, slept: series.slept, failed: &series.history }
    }
}
