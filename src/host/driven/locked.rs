//! The state of a run that the host drives, behind one lock: steps, writes them down, and gives each directive to the
//! proposal that it is about.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ProposalError;
use crate::engine::{Directive, Envelope, Event, Interpreter, Note, Of, Order, ProposalId, Settled, State};
use crate::host::clock::Clock;
use crate::host::observer::Journal;
use crate::host::trace;

/// A run that the host drives.
pub(super) struct LockedRun {
    inner: Mutex<Inner>,
    clock: Clock,
}

struct Inner {
    interpreter: Interpreter,
    state: State,
    journal: Box<dyn Journal>,
    /// Whoever waits for a proposal.
    waiting: BTreeMap<ProposalId, UnboundedSender<Directive>>,
    /// The session could not be written: nothing more is begun.
    lost: bool,
}

/// A proposal that is open. Dropped before its end, it is withdrawn.
pub(super) struct Open {
    locked: Arc<LockedRun>,
    proposal: ProposalId,
    directives: UnboundedReceiver<Directive>,
    ended: bool,
}

impl fmt::Debug for LockedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("LockedRun")
            .field("run", &inner.state.run)
            .field("seq", &inner.state.seq)
            .field("open", &inner.waiting.len())
            .finish_non_exhaustive()
    }
}

impl LockedRun {
    pub(super) fn new(
        interpreter: Interpreter,
        state: State,
        journal: Box<dyn Journal>,
        clock: Clock,
    ) -> Self {
        let inner = Inner { interpreter, state, journal, waiting: BTreeMap::new(), lost: false };
        Self { inner: Mutex::new(inner), clock }
    }

    /// Proposes something: what comes of it waits for whoever holds the proposal.
    pub(super) fn propose(run: &Arc<Self>, event: Event) -> Result<Open, ProposalError> {
        let mut inner = run.lock();
        let proposal = ProposalId(inner.state.seq.saturating_add(1));
        let (sender, directives) = unbounded_channel();
        inner.waiting.insert(proposal, sender);
        let envelope = inner.next(run.clock, event);
        inner.take(envelope)?;
        drop(inner);
        Ok(Open { locked: Arc::clone(run), proposal, directives, ended: false })
    }

    /// Takes an event that proposes nothing.
    pub(super) fn tell(&self, event: Event) -> Result<(), ProposalError> {
        let mut inner = self.lock();
        let envelope = inner.next(self.clock, event);
        inner.take(envelope)
    }

    /// Takes an event that is written down, and about which nothing was decided yet.
    pub(super) fn take(&self, envelope: Envelope) -> Result<(), ProposalError> {
        self.lock().decide(envelope)
    }

    /// Withdraws a proposal, if it is still open.
    pub(super) fn withdraw(&self, proposal: ProposalId) -> Result<(), ProposalError> {
        let mut inner = self.lock();
        inner.waiting.remove(&proposal);
        if inner.state.is_over() || !inner.state.open_proposals().any(|open| open == proposal) {
            return Ok(());
        }
        let envelope = inner.next(self.clock, Event::ProposalWithdrawn { proposal, call: None });
        inner.take(envelope)
    }

    pub(super) fn open_proposals(&self) -> Vec<ProposalId> {
        self.read(|state| state.open_proposals().collect())
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn next(&self, clock: Clock, event: Event) -> Envelope {
        Envelope { seq: self.state.seq.saturating_add(1), now: clock.now(), event }
    }

    /// Writes an event down, takes it, and writes down what was decided.
    fn take(&mut self, envelope: Envelope) -> Result<(), ProposalError> {
        if self.lost {
            return Err(ProposalError::Stopped);
        }
        if let Err(error) = self.journal.event(&envelope) {
            return Err(self.lose(error.into()));
        }
        self.decide(envelope)
    }

    fn decide(&mut self, envelope: Envelope) -> Result<(), ProposalError> {
        let cause = self.cause(&envelope);
        let directives = self.interpreter.step(&mut self.state, envelope);
        let policy = self.interpreter.policy().digest();
        if let Err(error) = self.journal.directives(policy, &directives, &self.state) {
            return Err(self.lose(error.into()));
        }
        for directive in directives.0 {
            trace::directive(&directive);
            let proposal = match &directive.order {
                Order::Note(Note::ProposalRefused { proposal, .. }) => Some(*proposal),
                _ => directive.of.map(|of| of.proposal).or(cause),
            };
            // Nobody listens to one that was withdrawn.
            let waiting = proposal.and_then(|proposal| self.waiting.get(&proposal));
            if let Some(waiting) = waiting {
                let _ = waiting.send(directive);
            }
        }
        Ok(())
    }

    /// The proposal that an event is about: what is of none goes there.
    fn cause(&self, envelope: &Envelope) -> Option<ProposalId> {
        match envelope.event.work() {
            Some(work) => self.state.proposal_of(work),
            None => Some(ProposalId(envelope.seq)),
        }
    }

    /// The session cannot be written: whoever waits, waits in vain.
    fn lose(&mut self, error: ProposalError) -> ProposalError {
        self.lost = true;
        self.waiting.clear();
        error
    }
}

impl Open {
    /// The next directive about the proposal.
    pub(super) async fn next(&mut self) -> Result<Directive, ProposalError> {
        let directive = self.directives.recv().await;
        // The session was lost: there is nothing to withdraw.
        self.ended = directive.is_none();
        directive.ok_or(ProposalError::Stopped)
    }

    /// What the directive ends the proposal with, if it does.
    pub(super) fn end(&mut self, directive: &Directive) -> Option<Result<Settled, ProposalError>> {
        let end = match &directive.order {
            Order::Note(Note::Settled(settled)) => Ok(settled.clone()),
            Order::Note(Note::ProposalRefused { reason, message, .. }) => {
                Err(ProposalError::Refused { reason: *reason, message: message.clone() })
            }
            _ => return None,
        };
        self.ended = true;
        self.locked.lock().waiting.remove(&self.proposal);
        Some(end)
    }

    /// What is about the proposal as a whole.
    pub(super) const fn of(&self) -> Of {
        Of { proposal: self.proposal, call: None }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.locked.withdraw(self.proposal)
        {
            tracing::error!(proposal = self.proposal.0, error = %error, "a proposal cannot be withdrawn");
        }
    }
}
