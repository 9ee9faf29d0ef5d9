//! The conditions of one proposal of the host.

use serde::{Deserialize, Serialize};

use super::pending_delay::PendingDelay;
use crate::engine::ids::ProposalId;
use crate::time::Instant;

/// The conditions for all work of a proposal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ProposalTerms {
    pub(super) kind: ProposalKind,
    /// The turn of the proposal, from 1; 0: none, as the host proposes no turns.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) turn: u32,
    /// The proposal of the turn whose reply contains the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) of_turn: Option<ProposalId>,
    /// Whether the host has withdrawn the proposal.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) withdrawn: bool,
    /// No attempt starts after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) deadline: Option<Instant>,
    /// The delay before the next turn.
    #[serde(default, skip_serializing_if = "PendingDelay::is_empty")]
    pub(in crate::engine) delay: PendingDelay,
    /// The estimated tokens added to the conversation since its measurement.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) appended: u64,
    /// Whether a budget shortened the reply of the last call.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) lowered: bool,
}

/// The kind of a proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum ProposalKind {
    /// No proposal: the interpreter drives the turns.
    #[default]
    Own,
    /// Tool calls.
    Tools,
    /// A turn; the fields are the further skills of the host.
    Turn { repair: bool, reduce: bool },
    /// A report.
    Report,
}

impl ProposalTerms {
    /// The kind of the proposal.
    pub(in crate::engine) const fn kind(&self) -> ProposalKind {
        self.kind
    }

    /// Whether the host reduces the conversation of each request that it proposes, and keeps its own.
    pub(in crate::engine) const fn reduces_requests(&self) -> bool {
        matches!(self.kind, ProposalKind::Turn { reduce: true, .. })
    }

    /// Whether the history of the request can be repaired.
    pub(in crate::engine) const fn can_repair(&self) -> bool {
        match self.kind {
            ProposalKind::Own => true,
            ProposalKind::Turn { repair, .. } => repair,
            // Tool calls and reports send no conversation.
            ProposalKind::Tools | ProposalKind::Report => false,
        }
    }

    /// Whether the conversation of the request can be reduced.
    pub(in crate::engine) const fn can_reduce(&self) -> bool {
        match self.kind {
            ProposalKind::Own => true,
            ProposalKind::Turn { reduce, .. } => reduce,
            ProposalKind::Tools | ProposalKind::Report => false,
        }
    }
}
