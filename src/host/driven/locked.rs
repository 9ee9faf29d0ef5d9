//! The state of a run that the host drives, behind one lock: steps, writes them down, and gives each directive to the
//! proposal that it is about.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::spin_loop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

#[cfg(feature = "serve")]
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::Span;

use super::parts::{Ending, LockedParts, News, RunSetup, facts};
use super::{InterruptedCall, ProposalError, interrupted};
use crate::engine::{
    Directive, DirectiveKind, Directives, Event, Interpreter, Note, PlainNext, ProposalId, ProposalRef,
    SettledProposal, SharedSubject, SharingScope, State, ToolCatalogue, WorkId,
};
use crate::host::checkpoint::{SessionCheckpoint, rule_changes, same_tools};
use crate::host::clock::Clock;
use crate::host::observer::Journal;
use crate::host::telemetry::{Telemetry, spans};
use crate::policy::Policy;
use crate::time::{Instant, Nanos};

/// So often a thread looks whether the run is free before it waits for it: for about 10 microseconds.
const SPINS: u32 = 200;

/// A run that the host drives.
pub(in crate::host) struct LockedRun {
    inner: Mutex<LockedParts>,
    /// Whether what happens is written down.
    is_recorded: bool,
    clock: Clock,
    /// Notified whenever no proposal is open.
    idle: Notify,
    /// Notified whenever a call has taken of a pace that other hosts share.
    #[cfg(feature = "serve")]
    used: Notify,
    listener: Option<Listener>,
    publish: Option<Publish>,
}

/// Looks at the state whenever it has changed, and is quick about it.
pub(in crate::host) type Publish = Box<dyn Fn(&State) + Send + Sync>;

/// Learns what a host wants to know of its run, while the run is not locked.
pub(in crate::host) type Listener = Box<dyn Fn(News) + Send + Sync>;

/// What follows a failure of a call that was begun without the run.
pub(in crate::host) enum AfterFailure<P> {
    /// Another attempt, after this wait.
    Retry(Nanos),
    /// The run is to adopt the call.
    Adopt,
    /// It has: the call is this proposal.
    Adopted(P),
}

/// A proposal that is open. Dropped before its end, it is withdrawn.
pub(in crate::host) struct OpenTicket {
    locked: Arc<LockedRun>,
    proposal: ProposalId,
    directives: UnboundedReceiver<Directive>,
    /// The next directive, until it is written down.
    next: Option<Directive>,
    ended: bool,
    /// How many runs had ended before it.
    runs_before: u64,
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
    pub(in crate::host) fn new(
        interpreter: Interpreter,
        state: State,
        journal: Option<Box<dyn Journal>>,
        clock: Clock,
    ) -> Self {
        let is_recorded = journal.is_some();
        let (telemetry, news, waiting) = (None, Vec::new(), BTreeMap::new());
        let inner = LockedParts {
            interpreter,
            state,
            journal,
            telemetry,
            news,
            waiting,
            lost: false,
            shares: false,
            is_awaited: false,
            called_after: 0,
            runs_ended: 0,
        };
        Self {
            inner: Mutex::new(inner),
            is_recorded,
            clock,
            idle: Notify::new(),
            #[cfg(feature = "serve")]
            used: Notify::new(),
            listener: None,
            publish: None,
        }
    }

    /// The same run, watched.
    pub(in crate::host) fn watched(self, telemetry: Telemetry, listener: Listener, publish: Publish) -> Self {
        self.lock().telemetry = Some(telemetry);
        Self { listener: Some(listener), publish: Some(publish), ..self }
    }

    /// A call that was begun without the run has failed: only where nothing is written down.
    pub(in crate::host) fn plain_failed(
        run: &Arc<Self>,
        setup: &RunSetup<'_>,
        act: impl FnOnce(&Interpreter, &mut State, Instant) -> (PlainNext, Option<Directives>),
    ) -> Result<AfterFailure<Box<OpenTicket>>, ProposalError> {
        let mut inner = run.lock();
        if inner.interpreter.policy() != setup.policy {
            inner.ready(setup, run.clock)?;
        }
        let now = run.clock.now();
        let known = &mut *inner;
        let (next, directives) = act(&known.interpreter, &mut known.state, now);
        let (next, cause) = match next {
            PlainNext::Retry(delay) => (AfterFailure::Retry(delay), None),
            PlainNext::Adopt => (AfterFailure::Adopt, None),
            PlainNext::Adopted(proposal) => (
                AfterFailure::Adopted(Box::new(OpenTicket::of_run(run, proposal, &mut inner))),
                Some(proposal),
            ),
        };
        if let Some(directives) = directives.filter(|directives| !directives.0.is_empty()) {
            inner.noted(&directives, now);
            inner.deliver(directives, cause);
        }
        run.leave(inner);
        Ok(next)
    }

    /// Such a call is to begin under that policy; `act` says whether it may. `false`: other rules are in effect.
    pub(in crate::host) fn plain_begins(
        &self,
        policy: &Policy,
        act: impl FnOnce(&Interpreter, &mut State) -> bool,
    ) -> bool {
        let mut inner = self.lock();
        let known = &mut *inner;
        known.interpreter.policy() == policy && act(&known.interpreter, &mut known.state)
    }

    /// Such a call has ended; `act` may be quick about it.
    pub(in crate::host) fn plain_ended(
        &self,
        act: impl FnOnce(&Interpreter, &mut State, &Clock) -> Option<Directives>,
    ) {
        let mut inner = self.lock();
        let known = &mut *inner;
        let directives = act(&known.interpreter, &mut known.state, &self.clock);
        if let Some(directives) = directives.filter(|directives| !directives.0.is_empty()) {
            inner.noted(&directives, self.clock.now());
            inner.deliver(directives, None);
        }
        self.leave(inner);
    }

    /// Looks at the state, and publishes it.
    pub(in crate::host) fn publish(&self) {
        self.change(|_| ());
    }

    /// The run adopts such a call.
    pub(in crate::host) fn adopt(
        run: &Arc<Self>,
        setup: &RunSetup<'_>,
        act: impl FnOnce(&Interpreter, &mut State, Instant) -> (ProposalId, Directives),
    ) -> Result<OpenTicket, ProposalError> {
        run.change(|inner| {
            inner.ready(setup, run.clock)?;
            let now = run.clock.now();
            let (proposal, directives) = act(&inner.interpreter, &mut inner.state, now);
            let open = OpenTicket::of_run(run, proposal, inner);
            inner.noted(&directives, now);
            inner.deliver(directives, Some(proposal));
            Ok(open)
        })
    }

    /// Makes the run ready for proposals.
    pub(in crate::host) fn ready(&self, setup: &RunSetup<'_>) -> Result<(), ProposalError> {
        self.change(|inner| inner.ready(setup, self.clock))
    }

    /// Continues a run whose process has ended: what was in flight is withdrawn, and the tools that were running are returned.
    pub(in crate::host) fn catch_up(
        &self,
        past: SessionCheckpoint,
    ) -> Result<Vec<InterruptedCall>, ProposalError> {
        let SessionCheckpoint { state, open, untaken, policy, tools, .. } = past;
        let interrupted = open.iter().filter_map(|work| interrupted(work, &state)).collect();
        let open = self.change(|inner| {
            if let Some(telemetry) = &mut inner.telemetry {
                telemetry.goes_on(&state.run);
            }
            inner.state = state;
            if let Some(envelope) = untaken {
                inner.decide(envelope)?;
            }
            for event in rule_changes(&inner.interpreter, &policy, &tools) {
                inner.tell(self.clock, event)?;
            }
            inner.shares = !inner.sharing(SharingScope::Process).is_empty();
            Ok::<Vec<_>, ProposalError>(inner.state.open_proposals().collect())
        })?;
        for proposal in open {
            self.withdraw(proposal)?;
        }
        Ok(interrupted)
    }

    /// Proposes something: what comes of it waits for whoever holds the proposal. `setup`: the run is made ready first.
    pub(in crate::host) fn propose(
        run: &Arc<Self>,
        setup: Option<&RunSetup<'_>>,
        event: impl FnOnce(&mut State) -> Event,
    ) -> Result<OpenTicket, ProposalError> {
        run.change(|inner| {
            if let Some(setup) = setup {
                inner.ready(setup, run.clock)?;
            }
            inner.look_at_shared(run.clock)?;
            let event = event(&mut inner.state);
            if matches!(event, Event::ToolsProposed { .. }) && inner.state.has_had_final_turn() {
                inner.called_after = inner.called_after.saturating_add(1);
            }
            let proposal = ProposalId(inner.state.seq.saturating_add(1));
            let open = OpenTicket::of_run(run, proposal, inner);
            match inner.tell(run.clock, event).and_then(|()| inner.tell_others(run.clock)) {
                Ok(()) => Ok(open),
                Err(error) => {
                    open.given_up();
                    Err(error)
                }
            }
        })
    }

    /// The host has these tools from now on.
    pub(in crate::host) fn set_tools(&self, tools: ToolCatalogue) -> Result<(), ProposalError> {
        self.change(|inner| {
            let had = facts(inner.interpreter.tools());
            inner.interpreter = Interpreter::new(inner.interpreter.policy().clone(), tools);
            let tools = facts(inner.interpreter.tools());
            if same_tools(&had, &tools) || inner.state.run.is_empty() || inner.state.is_over() {
                return Ok(());
            }
            inner.tell(self.clock, Event::ToolsChanged { tools })
        })
    }

    /// Takes an event that proposes nothing.
    pub(in crate::host) fn tell(&self, event: Event) -> Result<(), ProposalError> {
        self.change(|inner| {
            inner.look_at_shared(self.clock)?;
            inner.tell(self.clock, event)?;
            inner.tell_others(self.clock)
        })
    }

    /// Ends the run if it has had its final turn, as soon as no other proposal is open. `false`: calls of tools are, and one of
    /// them may be what waits for this; or the model has called a tool since, and a next run would have no other end.
    pub(in crate::host) async fn end_after_final_turn(&self) -> Result<bool, ProposalError> {
        loop {
            // Listens before it looks, so that it misses no end.
            let idle = self.idle.notified();
            match self.change(|inner| inner.end_after_final_turn(self.clock))? {
                Ending::Ended => return Ok(true),
                Ending::CallsOpen | Ending::Ignored => return Ok(false),
                Ending::Open => idle.await,
            }
        }
    }

    /// What the run shares with other hosts.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn sharing(&self) -> Vec<SharedSubject> {
        self.lock().sharing(SharingScope::Hosts)
    }

    /// Ends when a call has taken of a pace that other hosts share, and they have not received it.
    #[cfg(feature = "serve")]
    pub(in crate::host) async fn uses_shared_pace(&self) {
        self.used.notified().await;
    }

    /// Merges what the others know with what the run knows.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn merge_shared(
        &self,
        subject: &SharedSubject,
        others: Option<&Value>,
    ) -> Result<crate::engine::SharedPart, crate::engine::RecordError> {
        let inner = self.lock();
        inner.interpreter.merge_shared(&inner.state, subject, others)
    }

    /// Withdraws a proposal, if it is still open.
    pub(in crate::host) fn withdraw(&self, proposal: ProposalId) -> Result<(), ProposalError> {
        self.change(|inner| {
            inner.waiting.remove(&proposal);
            if inner.state.is_over() || !inner.state.open_proposals().any(|open| open == proposal) {
                return Ok(());
            }
            inner.tell(self.clock, Event::ProposalWithdrawn { proposal, call: None })
        })
    }

    /// Ends when all that happened is written down.
    pub(in crate::host) async fn written(&self) -> Result<(), ProposalError> {
        // Most runs of a gateway have no record, and its threads would wait for each other here.
        if !self.is_recorded {
            return Ok(());
        }
        let writing = self.lock().journal.as_mut().and_then(|journal| journal.written());
        let Some(writing) = writing else { return Ok(()) };
        writing.await.map_err(|error| {
            let mut inner = self.lock();
            if inner.lost { ProposalError::Stopped } else { inner.lose(error.into()) }
        })
    }

    pub(in crate::host) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// How many runs of the session have ended.
    pub(in crate::host) fn runs_ended(&self) -> u64 {
        self.lock().runs_ended
    }

    /// The span that a piece of work is to be done in.
    pub(in crate::host) fn span(&self, work: WorkId) -> Span {
        if !spans::may_be_read() {
            return Span::none();
        }
        self.lock().telemetry.as_ref().map_or_else(Span::none, |telemetry| telemetry.span(work))
    }

    /// Changes the run; listeners learn of it afterwards.
    fn change<T>(&self, change: impl FnOnce(&mut LockedParts) -> T) -> T {
        let mut inner = self.lock();
        let changed = change(&mut inner);
        if inner.is_awaited && inner.state.open_proposals().next().is_none() {
            inner.is_awaited = false;
            self.idle.notify_waiters();
        }
        #[cfg(feature = "serve")]
        if inner.state.has_used_shared_pace() {
            self.used.notify_one();
        }
        if let Some(publish) = &self.publish {
            publish(&inner.state);
        }
        self.leave(inner);
        changed
    }

    /// Ends a change.
    fn leave(&self, inner: MutexGuard<'_, LockedParts>) {
        if !inner.news.is_empty() {
            self.listen(inner);
        }
    }

    #[cold]
    fn listen(&self, mut inner: MutexGuard<'_, LockedParts>) {
        let news = core::mem::take(&mut inner.news);
        drop(inner);
        if let Some(listener) = &self.listener {
            news.into_iter().for_each(listener);
        }
    }

    /// The run is locked for some microseconds at a time, which takes less than to put a thread to sleep and to wake it.
    fn lock(&self) -> MutexGuard<'_, LockedParts> {
        for _ in 0..SPINS {
            match self.inner.try_lock() {
                Ok(inner) => return inner,
                Err(TryLockError::Poisoned(inner)) => return inner.into_inner(),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTicket {
    /// For a proposal that was made of the run.
    fn of_run(run: &Arc<LockedRun>, proposal: ProposalId, parts: &mut LockedParts) -> Self {
        let (directives, runs_before) = parts.open(proposal);
        Self { locked: Arc::clone(run), proposal, directives, next: None, ended: false, runs_before }
    }

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
    fn given_up(mut self) {
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
