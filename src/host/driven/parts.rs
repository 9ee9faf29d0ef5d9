//! What a driven run is behind its lock: its state, who waits for what of it, and what others are to learn.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ProposalError;
use crate::engine::{
    Directive, DirectiveKind, Directives, DriveMode, Envelope, Event, Interpreter, Note, ProposalId,
    RunStarted, SharedKnown, SharedSubject, SharingScope, State, ToolCatalogue, ToolFacts, ToolSpec,
};
use crate::host::clock::Clock;
use crate::host::observer::Journal;
use crate::host::shared::{bring_together, process_state};
use crate::host::telemetry::{ModelAttempt, Telemetry};
use crate::host::trace;
use crate::policy::Policy;
use crate::session::ReducerError;
use crate::time::Instant;

/// What a host wants to know of its run.
pub(in crate::host) enum News {
    /// A call of a model is over.
    Attempt(Box<ModelAttempt>),
    /// A reducer failed.
    ReducerError(ReducerError),
}

/// What a run is made ready with for a proposal. If it has not begun, or is over, it begins, or the next run of the session does.
pub(in crate::host) struct RunSetup<'a> {
    /// Under this policy.
    pub(in crate::host) policy: &'a Policy,
    /// With this tool, if it has none of that name.
    pub(in crate::host) tool: Option<&'a str>,
    /// What it begins with.
    pub(in crate::host) started: &'a RunStarted,
}

/// What the lock is around.
pub(super) struct LockedParts {
    pub(super) interpreter: Interpreter,
    pub(super) state: State,
    /// Where what happens is written down, if it is.
    pub(super) journal: Option<Box<dyn Journal>>,
    pub(super) telemetry: Option<Telemetry>,
    pub(super) news: Vec<News>,
    /// Whoever waits for a proposal.
    pub(super) waiting: BTreeMap<ProposalId, UnboundedSender<Directive>>,
    /// The session could not be written: nothing more is begun.
    pub(super) lost: bool,
    /// Whether other runs of this process share something with it.
    pub(super) shares: bool,
    /// Somebody waits until no proposal is open.
    pub(super) is_awaited: bool,
    /// How many tools were called after the final turn.
    pub(super) called_after: u32,
    /// How many runs of the session have ended here.
    pub(super) runs_ended: u64,
}

/// Whether a run that has had its final turn could end.
pub(super) enum Ending {
    /// It has ended, or another one has begun.
    Ended,
    /// Turns or reports are open.
    Open,
    /// Calls of tools are open.
    CallsOpen,
    /// The model has called a tool since.
    Ignored,
}

impl LockedParts {
    pub(super) fn tell(&mut self, clock: Clock, event: Event) -> Result<(), ProposalError> {
        self.take(Envelope { seq: self.state.seq.saturating_add(1), now: clock.now(), event })
    }

    pub(super) fn ready(&mut self, setup: &RunSetup<'_>, clock: Clock) -> Result<(), ProposalError> {
        let changed = self.interpreter.policy() != setup.policy;
        if changed {
            self.interpreter = Interpreter::new(setup.policy.clone(), self.interpreter.tools().clone());
        }
        let added = setup.tool.is_some_and(|tool| self.declare(tool));
        if self.state.is_over() {
            self.state = self.state.next_run();
        }
        if self.state.run.is_empty() {
            let (policy, tools) = (setup.policy.digest().to_owned(), facts(self.interpreter.tools()));
            let started = RunStarted { drive: DriveMode::Calls, policy, tools, ..setup.started.clone() };
            self.tell(clock, Event::RunStarted(started))?;
            self.shares = !self.sharing(SharingScope::Process).is_empty();
            return Ok(());
        }
        if changed {
            let policy = setup.policy.digest().to_owned();
            self.tell(clock, Event::PolicyChanged { policy })?;
        }
        if added {
            let tools = facts(self.interpreter.tools());
            self.tell(clock, Event::ToolsChanged { tools })?;
        }
        if changed || added {
            self.shares = !self.sharing(SharingScope::Process).is_empty();
        }
        Ok(())
    }

    /// What is shared under the policy.
    pub(super) fn sharing(&self, scope: SharingScope) -> Vec<SharedSubject> {
        let mut all = self.interpreter.sharing(&self.state);
        all.retain(|subject| subject.scope == scope);
        all
    }

    /// Takes what the other runs of this process have reported.
    pub(super) fn look_at_shared(&mut self, clock: Clock) -> Result<(), ProposalError> {
        if !self.shares || self.state.is_over() {
            return Ok(());
        }
        self.share(clock, &self.sharing(SharingScope::Process))
    }

    /// Reports what has happened to the other runs of this process.
    pub(super) fn tell_others(&mut self, clock: Clock) -> Result<(), ProposalError> {
        if !self.shares {
            return Ok(());
        }
        let mut news = self.interpreter.unshared(&self.state);
        news.retain(|subject| subject.scope == SharingScope::Process);
        self.share(clock, &news)
    }

    fn share(&mut self, clock: Clock, all: &[SharedSubject]) -> Result<(), ProposalError> {
        let mut known = SharedKnown::default();
        let merge =
            |subject: &_, others: Option<&_>| self.interpreter.merge_shared(&self.state, subject, others);
        // In this process it answers at once, and is never away.
        let _ = bring_together(process_state(), merge, all, &mut known).now_or_never();
        if known.is_empty() { Ok(()) } else { self.tell(clock, Event::SharedChanged(known)) }
    }

    pub(super) fn end_after_final_turn(&mut self, clock: Clock) -> Result<Ending, ProposalError> {
        if !self.state.has_had_final_turn() {
            return Ok(Ending::Ended);
        }
        if core::mem::take(&mut self.called_after) > 0 {
            return Ok(Ending::Ignored);
        }
        if self.state.open_calls().next().is_some() {
            return Ok(Ending::CallsOpen);
        }
        if self.state.open_proposals().next().is_some() {
            self.is_awaited = true;
            return Ok(Ending::Open);
        }
        let reason = "the final turn is over".to_owned();
        self.tell(clock, Event::Cancelled { reason }).map(|()| Ending::Ended)
    }

    /// Makes a tool of that name one of the run's, if it is not; any arguments will do for it. Returns whether it was made.
    fn declare(&mut self, name: &str) -> bool {
        let (policy, tools) = (self.interpreter.policy(), self.interpreter.tools());
        let is_report = policy.output().is_some_and(|output| output.tool.value == name);
        if is_report || tools.get(name).is_some() {
            return false;
        }
        let (name, parameters) = (name.to_owned(), serde_json::json!({}));
        let spec = ToolSpec { name, description: String::new(), parameters, effect: None };
        let Ok(tools) = ToolCatalogue::new(tools.iter().cloned().chain([spec])) else { return false };
        self.interpreter = Interpreter::new(policy.clone(), tools);
        true
    }

    /// Writes an event down, takes it, and writes down what was decided.
    fn take(&mut self, envelope: Envelope) -> Result<(), ProposalError> {
        if self.lost {
            return Err(ProposalError::Stopped);
        }
        match self.journal.as_mut().map(|journal| journal.event(&envelope)) {
            Some(Err(error)) => Err(self.lose(error.into())),
            Some(Ok(())) | None => self.decide(envelope),
        }
    }

    pub(super) fn decide(&mut self, envelope: Envelope) -> Result<(), ProposalError> {
        let (cause, now) = (self.cause(&envelope), envelope.now);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.event(&envelope, self.interpreter.policy());
        }
        let directives = self.interpreter.step(&mut self.state, envelope);
        self.noted(&directives, now);
        if let Some(journal) = &mut self.journal {
            let policy = self.interpreter.policy().digest();
            if let Err(error) = journal.directives(policy, &directives, &self.state) {
                return Err(self.lose(error.into()));
            }
        }
        self.deliver(directives, cause);
        Ok(())
    }

    /// What comes of the proposal from now on, and how many runs of the session have ended before it.
    pub(super) fn open(&mut self, proposal: ProposalId) -> (UnboundedReceiver<Directive>, u64) {
        let (sender, directives) = unbounded_channel();
        self.waiting.insert(proposal, sender);
        (directives, self.runs_ended)
    }

    /// Measures what was decided.
    pub(super) fn noted(&mut self, directives: &Directives, now: Instant) {
        let Some(telemetry) = &mut self.telemetry else { return };
        let attempts = telemetry.directives(directives, now, &self.state, self.interpreter.policy());
        attempts.iter().for_each(trace::attempt);
        self.news.extend(attempts.into_iter().map(|attempt| News::Attempt(Box::new(attempt))));
    }

    /// Gives each directive to whoever waits for it; what is of no proposal, to whom it was caused by.
    pub(super) fn deliver(&mut self, directives: Directives, cause: Option<ProposalId>) {
        if directives.0.is_empty() {
            return;
        }
        let policy = self.interpreter.policy().digest();
        let _span = tracing::info_span!("run", correlation_id = %self.state.run, policy).entered();
        for directive in directives.0 {
            trace::directive(&directive);
            if let DirectiveKind::Note(Note::Finish { .. }) = &directive.order {
                self.runs_ended = self.runs_ended.saturating_add(1);
            }
            if let DirectiveKind::Note(Note::ReducerError { error }) = &directive.order
                && self.telemetry.is_some()
            {
                self.news.push(News::ReducerError(error.clone()));
            }
            let (proposal, ends) = match &directive.order {
                DirectiveKind::Note(Note::ProposalRefused { proposal, .. }) => (Some(*proposal), true),
                order => {
                    let ends = matches!(order, DirectiveKind::Note(Note::Settled(_)));
                    (directive.of.map(|of| of.proposal).or(cause), ends)
                }
            };
            let Some(proposal) = proposal else { continue };
            // Nobody listens to one that was withdrawn, and nothing follows the end of one.
            let waiting = self.waiting.get(&proposal);
            if let Some(waiting) = waiting {
                let _ = waiting.send(directive);
            }
            if ends {
                self.waiting.remove(&proposal);
            }
        }
    }

    /// The proposal that an event is about: what is of none goes there.
    fn cause(&self, envelope: &Envelope) -> Option<ProposalId> {
        match envelope.event.work() {
            Some(work) => self.state.proposal_of(work),
            None => Some(ProposalId(envelope.seq)),
        }
    }

    /// The session cannot be written: what is awaited never comes.
    pub(super) fn lose(&mut self, error: ProposalError) -> ProposalError {
        self.lost = true;
        self.waiting.clear();
        error
    }
}

pub(super) fn facts(tools: &ToolCatalogue) -> Vec<ToolFacts> {
    tools.iter().map(ToolFacts::from).collect()
}
