//! A proposal that is open: what comes of it, until its end.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc::UnboundedReceiver;
use tracing::Span;

use super::ProposalError;
use super::locked::LockedRun;
use crate::engine::{Directive, DirectiveKind, Note, ProposalId, ProposalRef, SettledProposal, WorkId};

/// A proposal that is open. Dropped before its end, it is withdrawn.
pub(in crate::host) struct OpenTicket {
    pub(super) locked: Arc<LockedRun>,
    pub(super) proposal: ProposalId,
    pub(super) directives: UnboundedReceiver<Directive>,
    /// The next directive, until it is written down.
    pub(super) next: Option<Directive>,
    pub(super) ended: bool,
    /// How many runs had ended before it.
    pub(super) runs_before: u64,
}

impl OpenTicket {
    /// The next directive about the proposal, once it is written down. Dropped before its end, it loses none.
    pub(in crate::host) async fn next(&mut self) -> Result<Directive, ProposalError> {
        if self.next.is_none() {
            self.next = self.directives.recv().await;
        }
        if self.next.is_some()
            && let Err(error) = self.locked.written().await
        {
            self.ended = true;
            return Err(error);
        }
        // The session was lost: there is nothing to withdraw.
        self.ended = self.next.is_none();
        self.next.take().ok_or(ProposalError::Stopped)
    }

    /// Nobody waits for the next directive until it is asked for again. Otherwise the task that answers a piece of work, which is the one
    /// that waits, would notify itself, and tokio hands such a task to another thread.
    pub(in crate::host) fn stop_waiting(&mut self) {
        let mut nobody = Context::from_waker(Waker::noop());
        if self.next.is_none()
            && let Poll::Ready(next) = self.directives.poll_recv(&mut nobody)
        {
            self.next = next;
        }
    }

    /// Whether nothing was decided about the proposal that is not carried out.
    pub(in crate::host) fn is_idle(&self) -> bool {
        self.next.is_none() && self.directives.is_empty()
    }

    /// What the directive ends the proposal with, if it does.
    pub(in crate::host) fn end(
        &mut self,
        directive: &Directive,
    ) -> Option<Result<SettledProposal, ProposalError>> {
        let end = match &directive.order {
            DirectiveKind::Note(Note::Settled(settled)) => Ok(settled.clone()),
            DirectiveKind::Note(Note::ProposalRefused { reason, message, .. }) => {
                Err(ProposalError::Refused { reason: *reason, message: message.clone() })
            }
            _ => return None,
        };
        self.ended = true;
        Some(end)
    }

    /// It was not made: there is nothing to withdraw.
    pub(super) fn given_up(mut self) {
        self.ended = true;
    }

    /// The span that a piece of its work is to be done in.
    pub(in crate::host) fn span(&self, work: WorkId) -> Span {
        self.locked.span(work)
    }

    /// How many runs of the session had ended before it.
    pub(in crate::host) const fn runs_before(&self) -> u64 {
        self.runs_before
    }

    /// What is about the proposal as a whole.
    pub(in crate::host) const fn of(&self) -> ProposalRef {
        ProposalRef { proposal: self.proposal, call: None }
    }
}

impl Drop for OpenTicket {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.locked.withdraw(self.proposal)
        {
            tracing::error!(proposal = self.proposal.0, error = %error, "a proposal cannot be withdrawn");
        }
    }
}
