//! The work in flight: what each piece of it is for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::reductions::ReductionInFlight;
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::measure::TurnMeasure;

/// The pieces of work in flight, and the number of the last one. No number comes twice in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct WorkTable {
    last: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<WorkId, (ProposalId, WorkPurpose)>,
}

/// What a piece of work in flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum WorkPurpose {
    Prepare,
    Repair(RepairPurpose),
    Reduce(ReductionInFlight),
    /// A summary of what the reduction leaves out.
    Summary(ReductionInFlight),
    Model,
    /// The tool run of a slot of the batch.
    Tool(usize),
    WaitModel,
    WaitTool(usize),
    /// The wait before the next turn.
    WaitTurn,
    ConsultTool(usize),
    ConsultModel,
    ConsultOutput,
    /// The question whether the call of a slot may run.
    Approve(usize),
    /// The question whether it may run again.
    ApproveAgain(usize),
    /// The run of another tool that verifies whether that of a slot had side effects.
    Verify(usize),
}

/// What a repair of the history was needed for, and continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum RepairPurpose {
    /// The turn, which begins.
    Prepared(TurnMeasure),
    /// The call of a model that refused the history.
    Refused,
}

impl WorkPurpose {
    /// Whether it is a wait for another attempt or for the next turn.
    pub(in crate::engine) const fn is_wait(self) -> bool {
        matches!(self, Self::WaitTurn | Self::WaitModel | Self::WaitTool(_))
    }
}

impl WorkTable {
    /// What the next run of the session begins with: nothing is open, and the numbers continue.
    pub(in crate::engine) const fn next_run(&self) -> Self {
        // The numbers continue, so that an answer from the run before cannot be taken for one to this run.
        Self { last: self.last, open: BTreeMap::new() }
    }

    /// Opens a piece of work for a proposal.
    pub(in crate::engine) fn issue(&mut self, proposal: ProposalId, pending: WorkPurpose) -> WorkId {
        self.last = self.last.saturating_add(1);
        let work = WorkId(self.last);
        self.open.insert(work, (proposal, pending));
        work
    }

    /// Closes a piece of work, and returns what it was for.
    pub(in crate::engine) fn claim(&mut self, work: WorkId) -> Option<(ProposalId, WorkPurpose)> {
        self.open.remove(&work)
    }

    /// Opens a piece of work again that was closed by an answer that does not fit.
    pub(in crate::engine) fn put_back(&mut self, work: WorkId, of: (ProposalId, WorkPurpose)) {
        // An answer of the wrong kind is the host's mistake. Its work is still in flight, and the right answer may
        // follow.
        self.open.insert(work, of);
    }

    /// What a piece of work is for, if it is open.
    pub(in crate::engine) fn get(&self, work: WorkId) -> Option<(ProposalId, WorkPurpose)> {
        self.open.get(&work).copied()
    }

    /// The open pieces of work for a proposal, in the order of their numbers.
    pub(in crate::engine) fn open(
        &self,
        proposal: ProposalId,
    ) -> impl Iterator<Item = (WorkId, WorkPurpose)> {
        let own = self.open.iter().filter(move |(_, (of, _))| *of == proposal);
        own.map(|(work, (_, pending))| (*work, *pending))
    }

    /// Whether a piece of work of that kind is open.
    pub(in crate::engine) fn any(&self, is_it: impl Fn(ProposalId, &WorkPurpose) -> bool) -> bool {
        self.open.values().any(|(proposal, pending)| is_it(*proposal, pending))
    }

    /// Closes everything: the run is over.
    pub(in crate::engine) fn clear(&mut self) {
        self.open.clear();
    }
}
