//! What holds for everything that is done for one proposal of the host.

use serde::{Deserialize, Serialize};

use super::pending_delay::PendingDelay;
use crate::engine::ids::ProposalId;
use crate::time::Instant;

/// What holds for everything that is done for a proposal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ProposalTerms {
    pub(super) kind: ProposalKind,
    /// The turn it belongs to, from 1; 0: to none, as the host proposes no turns.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) turn: u32,
    /// The proposal of the turn whose reply the calls are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) of_turn: Option<ProposalId>,
    /// Whether the host needs it no more.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) withdrawn: bool,
    /// No attempt starts after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) deadline: Option<Instant>,
    /// The wait before the next turn.
    #[serde(default, skip_serializing_if = "PendingDelay::is_empty")]
    pub(in crate::engine) delay: PendingDelay,
    /// Tokens that came into the conversation since it was measured, as they are estimated.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) appended: u64,
    /// Whether the reply of the last call had less room than usual.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) lowered: bool,
}

/// What was proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum ProposalKind {
    /// Nothing: the interpreter drives the turns.
    #[default]
    Own,
    /// Calls of tools.
    Tools,
    /// A turn, by a host that can do this besides calling models.
    Turn { repair: bool, reduce: bool },
    /// A report.
    Report,
}

impl ProposalTerms {
    /// What was proposed.
    pub(in crate::engine) const fn kind(&self) -> ProposalKind {
        self.kind
    }

    /// Whether the history of the request can be repaired.
    pub(in crate::engine) const fn can_repair(&self) -> bool {
        match self.kind {
            ProposalKind::Own => true,
            ProposalKind::Turn { repair, .. } => repair,
            // A tool call or a report sends no conversation.
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
