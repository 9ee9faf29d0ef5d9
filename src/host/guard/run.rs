//! The run that the calls of a guard are: it proposes them to the interpreter, and does what it is asked for.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Span;

use super::plain::{PlainTools, ToolCell};
use super::{CallError, CallRefused};
use crate::engine::{
    DecisionReason, Directive, DirectiveKind, Directives, Event, Interpreter, Note, PlainEnd, PlainNext,
    ProposalFault, ProposalId, ProposedCall, RunStarted, SettledProposal, State, WorkId,
};
use crate::host::driven::locked::{AfterFailure, LockedRun, OpenTicket};
use crate::host::driven::parts::RunSetup;
use crate::host::{InterruptedCall, LivePolicy, ProposalError, SessionCheckpoint};
use crate::policy::{ErrorClass, Policy, ToolPolicy};
use crate::session::{Message, RetryExhausted};
use crate::time::{Instant, Nanos};

/// The run of a guard.
pub(super) struct GuardRun {
    locked: Arc<LockedRun>,
    live: LivePolicy,
    /// What each run of the session begins with.
    started: RunStarted,
    pub(super) plain: Arc<PlainTools>,
    /// What the model is to read with its next request, each text with the number of runs that had ended before.
    guidance: Mutex<Vec<(u64, String)>>,
    /// How many more proposals the run takes; further ones wait.
    permits: Arc<Semaphore>,
}

/// The right to one open proposal.
pub(super) struct Permit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Learns what is decided about a turn, before it is carried out.
pub(in crate::host) type TurnListener = Arc<dyn Fn(&Directive) + Send + Sync>;

/// A proposal in flight, and its messages.
pub(super) struct Proposed {
    open: OpenTicket,
    /// What came of it; nothing follows.
    settled: Option<Result<SettledProposal, ProposalError>>,
    /// What came while something else was awaited.
    waiting: Vec<Directive>,
    pub(super) said: Said,
    listener: Option<TurnListener>,
    /// Given back when nothing is open any more.
    _permit: Permit,
}

/// What the interpreter has noted about a proposal.
#[derive(Default)]
pub(super) struct Said {
    /// The result of the call, as the model reads it.
    pub(super) text: String,
    /// What it was refused for.
    pub(super) refused: Option<ErrorClass>,
    /// The attempts, once there is no further one.
    pub(super) exhausted: Option<RetryExhausted>,
    /// Why there is none.
    pub(super) because: Vec<DecisionReason>,
    /// What else the model is to read.
    pub(super) guidance: Vec<String>,
}

impl GuardRun {
    pub(super) fn new(
        live: LivePolicy,
        locked: LockedRun,
        started: RunStarted,
        plain: Arc<PlainTools>,
    ) -> Self {
        let (guidance, permits) = (Mutex::default(), Arc::new(Semaphore::new(Interpreter::MOST_OPEN)));
        Self { locked: Arc::new(locked), live, started, plain, guidance, permits }
    }

    /// Begins the run, or the next one of the session, if none is under way.
    pub(super) fn ready(&self) -> Result<(), ProposalError> {
        self.locked.ready(&self.setup(&self.live.current(), None))
    }

    /// The cell of a tool, open if nothing is known of the tool.
    pub(super) fn cell(&self, tool: &Arc<str>) -> Arc<ToolCell> {
        let cell = self.plain.cell(tool);
        self.locked.publish();
        cell
    }

    /// What the run is made ready with for a proposal.
    const fn setup<'a>(&'a self, policy: &'a Policy, tool: Option<&'a str>) -> RunSetup<'a> {
        RunSetup { policy, tool, started: &self.started }
    }

    /// Continues a run whose process has ended.
    pub(super) fn catch_up(&self, past: SessionCheckpoint) -> Result<Vec<InterruptedCall>, ProposalError> {
        let interrupted = self.locked.catch_up(past)?;
        self.plain.count_from(self.read(State::batches));
        Ok(interrupted)
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.locked.read(read)
    }

    /// Waits until the run takes one more proposal.
    pub(super) async fn permit(&self) -> Permit {
        // Nobody closes the semaphore.
        Permit { _permit: Arc::clone(&self.permits).acquire_owned().await.ok() }
    }

    /// Proposes something.
    pub(super) async fn propose(&self, event: Event) -> Result<Proposed, ProposalError> {
        let permit = self.permit().await;
        let policy = self.live.current();
        let open = LockedRun::propose(&self.locked, Some(&self.setup(&policy, None)), |_| event)?;
        Ok(Proposed::of(open, permit))
    }

    /// Proposes a call of a tool.
    pub(super) fn propose_call(
        &self,
        (tool, cell): (&str, &ToolCell),
        proposal: impl FnOnce(String) -> ProposedCall,
        permit: Permit,
    ) -> Result<Proposed, ProposalError> {
        let event = |state: &mut State| {
            cell.hand_over(tool, state);
            if state.knows_for_turn() {
                // Calls of other tools that are in flight are of the same turn, and this one begins no other.
                self.plain.hand_over(state);
            }
            let number = self.plain.next_call();
            state.count_batches(number.saturating_sub(1));
            let calls = vec![proposal(format!("call_{number}"))];
            Event::ToolsProposed { calls, turn: None }
        };
        let policy = self.live.current();
        let open = LockedRun::propose(&self.locked, Some(&self.setup(&policy, Some(tool))), event)?;
        Ok(Proposed::of(open, permit))
    }

    /// A call of a tool is to begin without a step. `false`: the interpreter has to decide about it.
    pub(super) fn plain_begins(
        &self,
        (tool, rules): (&str, &ToolPolicy),
        policy: &Policy,
        arguments: &Value,
    ) -> bool {
        self.locked.plain_begins(policy, |interpreter, state| {
            interpreter.plain_begins(state, (tool, rules), arguments)
        })
    }

    /// A call of a tool has failed that was begun without the run.
    pub(super) fn plain_failed(
        &self,
        (tool, cell): (&str, &ToolCell),
        policy: &Policy,
        act: impl FnOnce(&Interpreter, &mut State, Instant) -> (PlainNext, Option<Directives>),
    ) -> Result<AfterFailure<Box<Proposed>>, ProposalError> {
        let failed =
            LockedRun::plain_failed(&self.locked, &self.setup(policy, Some(tool)), |all, state, now| {
                cell.close();
                act(all, state, now)
            });
        Ok(match failed? {
            AfterFailure::Retry(delay) => AfterFailure::Retry(delay),
            AfterFailure::Adopt => AfterFailure::Adopt,
            AfterFailure::Adopted(open) => {
                // Its place was given back when it was settled, if the run counts it.
                cell.leave();
                AfterFailure::Adopted(Box::new(Proposed::of(*open, Permit { _permit: None })))
            }
        })
    }

    /// Such a call has ended.
    pub(super) fn plain_ended(&self, (tool, cell): (&str, &ToolCell), policy: &ToolPolicy, end: PlainEnd) {
        self.locked.plain_ended(|interpreter, state, clock| {
            let (directives, is_quiet) = match (cell.leave(), end) {
                (false, _) => {
                    let directives = interpreter.plain_ended(state, (tool, policy), end, clock.now());
                    (Some(directives), state.is_quiet(tool))
                }
                (true, PlainEnd::Succeeded) => {
                    interpreter.plain_succeeded(state, (tool, policy), || clock.now())
                }
                (true, PlainEnd::Dropped) => (None, state.is_quiet(tool)),
            };
            cell.open(|| is_quiet);
            directives
        });
    }

    /// The interpreter takes such a call.
    pub(super) async fn adopt(
        &self,
        (tool, cell): (&str, &ToolCell),
        act: impl FnOnce(&Interpreter, &mut State, Instant) -> (ProposalId, Directives),
    ) -> Result<Proposed, ProposalError> {
        let (permit, policy) = (self.permit().await, self.live.current());
        let open =
            LockedRun::adopt(&self.locked, &self.setup(&policy, Some(tool)), |interpreter, state, now| {
                cell.hand_over(tool, state);
                act(interpreter, state, now)
            })?;
        Ok(Proposed::of(open, permit))
    }

    /// Ends a run that has had its final turn, once its other turns have ended. `false`: calls of tools are open.
    pub(super) async fn end_after_final_turn(&self) -> Result<bool, ProposalError> {
        self.locked.end_after_final_turn().await
    }

    /// Ends when all that happened is written down.
    pub(super) async fn written(&self) -> Result<(), ProposalError> {
        self.locked.written().await
    }

    #[cfg(feature = "serve")]
    pub(super) fn locked(&self) -> &LockedRun {
        &self.locked
    }

    /// Answers a piece of work.
    pub(super) fn tell(&self, event: Event) -> Result<(), ProposalError> {
        self.locked.tell(event)
    }

    /// Messages about a proposal, for the next request of the model.
    pub(super) fn guide(&self, proposed: &Proposed, texts: impl IntoIterator<Item = String>) {
        let of = proposed.open.runs_before();
        self.said().extend(texts.into_iter().map(|text| (of, text)));
    }

    /// The same, once. Those of a run that has ended are not for the model of the next one.
    pub(super) fn take_guidance(&self) -> Vec<String> {
        let said = core::mem::take(&mut *self.said());
        if said.is_empty() {
            return Vec::new();
        }
        let ended = self.locked.runs_ended();
        said.into_iter().filter(|(of, _)| *of == ended).map(|(_, text)| text).collect()
    }

    fn said(&self) -> MutexGuard<'_, Vec<(u64, String)>> {
        self.guidance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proposed {
    fn of(open: OpenTicket, permit: Permit) -> Self {
        Self {
            open,
            settled: None,
            waiting: Vec::new(),
            said: Said::default(),
            listener: None,
            _permit: permit,
        }
    }

    /// The same, with a listener.
    pub(super) fn heard_by(self, listener: Option<TurnListener>) -> Self {
        Self { listener, ..self }
    }

    /// The next directive about it; `None`: it is settled.
    pub(super) async fn next(&mut self) -> Option<Directive> {
        while self.settled.is_none() {
            if !self.waiting.is_empty() {
                return Some(self.waiting.remove(0));
            }
            match self.open.next().await {
                Ok(directive) => {
                    if let Some(directive) = self.note(directive) {
                        return Some(directive);
                    }
                }
                Err(error) => self.settled = Some(Err(error)),
            }
        }
        None
    }

    /// Awaits a piece of work. `None`: nobody needs it any more.
    pub(super) async fn carry_out<T>(&mut self, id: WorkId, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        while self.settled.is_none() {
            let directive = tokio::select! {
                biased;
                done = &mut work => {
                    self.open.stop_waiting();
                    return Some(done);
                }
                directive = self.open.next() => directive,
            };
            match directive {
                Ok(directive) if matches!(directive.order, DirectiveKind::Note(Note::Dropped { work }) if work == id) =>
                {
                    return None;
                }
                Ok(directive) => {
                    let due = self.note(directive);
                    self.waiting.extend(due);
                }
                Err(error) => self.settled = Some(Err(error)),
            }
        }
        None
    }

    /// The span that a piece of its work is to be done in.
    pub(super) fn span(&self, work: WorkId) -> Span {
        self.open.span(work)
    }

    /// What came of it, once it is settled.
    pub(super) fn settled(&mut self) -> Result<SettledProposal, ProposalError> {
        self.settled.take().unwrap_or(Err(ProposalError::Stopped))
    }

    /// Why it did not run, or what became of it otherwise.
    pub(super) fn refusal(&mut self, settled: &SettledProposal) -> CallRefused {
        CallRefused {
            class: self.said.refused.unwrap_or(ErrorClass::Cancelled),
            message: core::mem::take(&mut self.said.text),
            delay: settled.delay.unwrap_or(Nanos::ZERO).into(),
            final_turn: settled.final_turn.is_some(),
        }
    }

    /// Takes note of a directive, and returns it if there is more to do about it.
    fn note(&mut self, directive: Directive) -> Option<Directive> {
        if let Some(listener) = &self.listener {
            listener(&directive);
        }
        if let Some(end) = self.open.end(&directive) {
            self.settled = Some(end);
            return None;
        }
        match directive.order {
            DirectiveKind::Note(Note::Refused { error_type, .. }) => self.said.refused = Some(error_type),
            DirectiveKind::Note(Note::Exhausted { exhausted, .. }) => {
                self.said.exhausted = Some(exhausted);
                self.said.because = directive.because;
            }
            DirectiveKind::Note(Note::Append { message: Message::Tool { text, .. } }) => {
                self.said.text = text;
            }
            DirectiveKind::Note(Note::Append { message: Message::User { text, .. } }) => {
                self.said.guidance.push(text);
            }
            order => return Some(Directive { order, ..directive }),
        }
        None
    }
}

/// Whether a turn was not taken because the final turn of the run is over.
pub(super) fn is_over<E>(error: &CallError<E>) -> bool {
    let CallError::Run(error) = error else { return false };
    matches!(**error, ProposalError::Refused { reason: ProposalFault::FinalTurnOver, .. })
}
