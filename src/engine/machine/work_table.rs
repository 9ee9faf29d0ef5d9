//! The work in flight, with the purpose of each piece.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::reductions::ReductionInFlight;
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::measure::TurnMeasure;

/// The pieces of work in flight, and the number of the last one. Numbers are unique in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct WorkTable {
    last: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<WorkId, (ProposalId, WorkPurpose)>,
}

/// The purpose of a piece of work in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum WorkPurpose {
    Prepare,
    Repair(RepairPurpose),
    Reduce(ReductionInFlight),
    /// A summary of the messages that a reduction drops.
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
    /// The question whether the call of a slot may run again.
    ApproveAgain(usize),
    /// The effect verification of a slot's call.
    Verify(usize),
}

/// The work that continues after a repair of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum RepairPurpose {
    /// The start of the turn.
    Prepared(TurnMeasure),
    /// The model call whose history was refused.
    Refused,
}

impl WorkPurpose {
    /// Whether the work is a wait for another attempt or for the next turn.
    pub(in crate::engine) const fn is_wait(self) -> bool {
        matches!(self, Self::WaitTurn | Self::WaitModel | Self::WaitTool(_))
    }
}

impl WorkTable {
    /// The state for the next run of the session: no open work, and continued numbers.
    pub(in crate::engine) const fn next_run(&self) -> Self {
        // The numbers continue, so that a late answer from the previous run cannot match work of this run.
        Self { last: self.last, open: BTreeMap::new() }
    }

    /// Opens a piece of work for a proposal.
    pub(in crate::engine) fn issue(&mut self, proposal: ProposalId, pending: WorkPurpose) -> WorkId {
        self.last = self.last.saturating_add(1);
        let work = WorkId(self.last);
        self.open.insert(work, (proposal, pending));
        work
    }

    /// Closes a piece of work, and returns its purpose.
    pub(in crate::engine) fn claim(&mut self, work: WorkId) -> Option<(ProposalId, WorkPurpose)> {
        self.open.remove(&work)
    }

    /// Reopens a piece of work after an answer of the wrong kind.
    pub(in crate::engine) fn put_back(&mut self, work: WorkId, of: (ProposalId, WorkPurpose)) {
        // An answer of the wrong kind is a mistake of the host. The work is still in flight, and the right answer may
        // follow.
        self.open.insert(work, of);
    }

    /// The purpose of a piece of work, if it is open.
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

    /// Closes all work at the end of the run.
    pub(in crate::engine) fn clear(&mut self) {
        self.open.clear();
    }
}
