//! What is in flight for one proposal of the host; or for none, where the interpreter drives the turns.

use serde::{Deserialize, Serialize};

use super::super::event::{HostSkill, TurnProposal};
use super::batch::Batch;
use super::model_turn::ModelTurn;
use super::proposal_terms::{ProposalKind, ProposalTerms};
use crate::engine::tracked::{DigestedPart, digest_of_json};

/// What is in flight for one proposal: the calls of models of a turn, and the calls of tools.
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
    /// Nothing is in flight for it yet.
    pub(in crate::engine) fn of(kind: ProposalKind, turn: u32) -> Self {
        Self { terms: ProposalTerms { kind, turn, ..ProposalTerms::default() }, ..Self::default() }
    }

    /// A turn is proposed, the one of that number.
    pub(in crate::engine) fn of_turn(proposal: &TurnProposal, turn: u32) -> Self {
        // A host with its own loop may be unable to change its messages. What it cannot do is not asked for, or its
        // turn would wait for ever.
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
        // Each part has a digest of its own, so that a change of one proposal does not cost the others.
        let Self { targets, terms, model, batch } = self;
        digest_of_json(&(targets, terms, model, batch.digest()))
    }
}
