//! The work in flight for one proposal of the host, or for the interpreter's own turns.

use serde::{Deserialize, Serialize};

use super::super::event::{HostSkill, TurnProposal};
use super::batch::Batch;
use super::model_turn::ModelTurn;
use super::proposal_terms::{ProposalKind, ProposalTerms};
use crate::engine::tracked::{DigestedPart, digest_of_json};

/// The work in flight for one proposal: model calls and tool calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct OpenProposal {
    /// The models that may be called; empty: those of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) targets: Vec<String>,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) terms: ProposalTerms,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) model: ModelTurn,
    #[serde(default, skip_serializing_if = "Batch::is_new")]
    pub(in crate::engine) batch: Batch,
}

impl OpenProposal {
    /// A proposal of this kind without work in flight.
    pub(in crate::engine) fn of(kind: ProposalKind, turn: u32) -> Self {
        Self { terms: ProposalTerms { kind, turn, ..ProposalTerms::default() }, ..Self::default() }
    }

    /// A proposed turn with this number.
    pub(in crate::engine) fn of_turn(proposal: &TurnProposal, turn: u32) -> Self {
        // A host with its own loop may be unable to change its messages. Work that it cannot do is not requested,
        // because the turn would wait for ever.
        let can = |skill| proposal.can.contains(&skill);
        let kind = ProposalKind::Turn { repair: can(HostSkill::Repair), reduce: can(HostSkill::Reduce) };
        let mut open = Self::of(kind, turn);
        open.targets.clone_from(&proposal.targets);
        open.terms.deadline = proposal.deadline;
        open
    }
}

impl DigestedPart for OpenProposal {
    fn digest(&self) -> u128 {
        // Each part has its own digest, so that a change of one proposal does not require hashing the others.
        let Self { targets, terms, model, batch } = self;
        digest_of_json(&(targets, terms, model, batch.digest()))
    }
}
