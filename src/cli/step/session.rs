//! A session that a host steps: the interpreter, the conversation, and its log if there is one.
//!
//! What is pure is done here: measuring, repairing and reducing the conversation of the drive `turns`. In the drive `calls` the
//! conversation is the host's, and so is that work.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::protocol::{DirectivesAnswer, ErrorAnswer};
use crate::context::{ToolForm, repair};
use crate::engine::{
    Directive, DirectiveKind, Directives, Envelope, Event, Interpreter, RunStarted, SessionFold, State,
    ToolCatalogue, ToolFacts, ToolSpec, Work,
};
use crate::host::measure::ConversationMeasure;
use crate::host::{Clock, Journal, JournalError, SessionCheckpoint, counter_by, offered, rule_changes};
use crate::policy::{MalformedCalls, Policy};
use crate::session::Message;
use crate::store::Recorder;
use crate::time::Instant;

/// A session in this process.
pub(super) struct SteppedSession {
    interpreter: Interpreter,
    fold: SessionFold,
    clock: Clock,
    /// Digest of the policy that decided last; empty: none did.
    policy: String,
    journal: Option<Recorder>,
}

/// Why an event has no answer.
#[derive(Debug)]
pub(super) enum StepFailure {
    /// The line cannot be used; nothing has changed.
    Line(ErrorAnswer),
    /// The session cannot be written, so nothing more is decided.
    Journal(JournalError),
}

impl From<ErrorAnswer> for StepFailure {
    fn from(answer: ErrorAnswer) -> Self {
        Self::Line(answer)
    }
}

impl SteppedSession {
    /// A session that stands there. `journal` writes on.
    pub(super) fn new(interpreter: Interpreter, past: SessionCheckpoint, journal: Option<Recorder>) -> Self {
        let SessionCheckpoint { state, messages, open, policy, tools, .. } = past;
        let fold = SessionFold::of(state, messages, open, tools);
        Self { interpreter, fold, clock: Clock::system(), policy, journal }
    }

    /// Takes what the log had not been able to tell the interpreter: an event without its decision, another policy, other tools.
    pub(super) async fn catch_up(
        &mut self,
        untaken: Option<Envelope>,
        now: Option<Instant>,
    ) -> Result<Vec<Value>, StepFailure> {
        let mut list = Vec::new();
        if let Some(envelope) = untaken {
            // It is in the log already.
            let directives = self.fold.decide(&self.interpreter, envelope);
            let due = self.decided(directives, &mut list).map_err(StepFailure::Journal)?;
            list.extend(self.take_all(due, self.now(now)).await?);
        }
        if !self.state().run.is_empty() && !self.state().is_over() {
            let changes = rule_changes(&self.interpreter, &self.policy, self.fold.tools()).collect();
            list.extend(self.take_all(changes, self.now(now)).await?);
        }
        Ok(list)
    }

    /// A run begins, under the policy and with the tools of this process.
    pub(super) async fn start(
        &mut self,
        started: RunStarted,
        now: Option<Instant>,
    ) -> Result<DirectivesAnswer, StepFailure> {
        if !self.state().run.is_empty() && !self.state().is_over() {
            let run = &self.state().run;
            return Err(ErrorAnswer::new(format!("the run `{run}` is not over; `cancelled` ends it")).into());
        }
        let (policy, tools) = (self.interpreter.policy().digest().to_owned(), self.facts());
        self.take(Event::RunStarted(RunStarted { policy, tools, ..started }), now).await
    }

    /// Something happened.
    pub(super) async fn event(
        &mut self,
        seq: Option<u64>,
        event: Event,
        now: Option<Instant>,
    ) -> Result<DirectivesAnswer, StepFailure> {
        let next = self.state().seq.saturating_add(1);
        if let Some(seq) = seq
            && seq != next
        {
            return Err(ErrorAnswer::at("/seq", format!("the next event is {next}, not {seq}")).into());
        }
        let instead = match event {
            Event::RunStarted(_) => "a run begins with a line of the kind `start`",
            Event::ToolsChanged { .. } => "other tools come with a line of the kind `tools`",
            Event::PolicyChanged { .. } => {
                "the policy is the one that this process was started with; `save` the session, and continue it in another process"
            }
            event => return self.take(event, now).await,
        };
        Err(ErrorAnswer::at("/event", instead).into())
    }

    /// The host has other tools.
    pub(super) async fn tools(
        &mut self,
        tools: ToolCatalogue,
        now: Option<Instant>,
    ) -> Result<DirectivesAnswer, StepFailure> {
        self.interpreter = Interpreter::new(self.interpreter.policy().clone(), tools);
        let tools = self.facts();
        self.take(Event::ToolsChanged { tools }, now).await
    }

    pub(super) fn state(&self) -> &State {
        self.fold.state()
    }

    pub(super) fn policy(&self) -> &Policy {
        self.interpreter.policy()
    }

    /// The work that has no answer.
    pub(super) fn open(&self) -> Vec<Value> {
        self.fold.open().map(|work| json!(work)).collect()
    }

    /// The tools as they are declared to the model, the one of the final report among them.
    pub(super) fn offered(&self) -> Vec<ToolSpec> {
        offered(&self.interpreter).to_vec()
    }

    /// What it takes to continue: a [`SessionCheckpoint`], and the digest of its state.
    pub(super) fn saved(&self) -> Value {
        json!({
            "digest": self.state().digest(),
            "checkpoint": {
                "state": self.state(), "messages": self.fold.messages(), "open": self.open(),
                "policy": self.policy, "tools": self.fold.tools(),
            },
        })
    }

    /// Closes the log.
    pub(super) async fn close(self) -> Vec<String> {
        match self.journal {
            Some(journal) => journal.close().await,
            None => Vec::new(),
        }
    }

    async fn take(&mut self, event: Event, now: Option<Instant>) -> Result<DirectivesAnswer, StepFailure> {
        let list = self.take_all(VecDeque::from([event]), self.now(now)).await?;
        // A conversation is sent where it is due, and no more often: it may be long.
        let messages = list.iter().find_map(|directive| self.messages_for(directive));
        Ok(DirectivesAnswer { seq: self.state().seq, list, messages, state: self.state().digest() })
    }

    /// Takes these events, and those that answer what is done here. Ends when all is written down.
    async fn take_all(&mut self, mut due: VecDeque<Event>, now: Instant) -> Result<Vec<Value>, StepFailure> {
        let mut list = Vec::new();
        while let Some(event) = due.pop_front() {
            let envelope = Envelope { seq: self.state().seq.saturating_add(1), now, event };
            if let Some(journal) = &mut self.journal {
                // What cannot be recorded cannot be decided again, so it is not taken.
                journal.event(&envelope).map_err(|error| ErrorAnswer::new(error.to_string()))?;
            }
            let directives = self.fold.decide(&self.interpreter, envelope);
            due.extend(self.decided(directives, &mut list).map_err(StepFailure::Journal)?);
        }
        let written = self.journal.as_mut().and_then(Journal::written);
        if let Some(written) = written {
            written.await.map_err(StepFailure::Journal)?;
        }
        Ok(list)
    }

    /// This was decided: the events that answer what is done here; the rest is for the host.
    fn decided(
        &mut self,
        directives: Directives,
        list: &mut Vec<Value>,
    ) -> Result<VecDeque<Event>, JournalError> {
        let policy = self.interpreter.policy().digest();
        if let Some(journal) = &mut self.journal {
            journal.directives(policy, &directives, self.fold.state())?;
        }
        policy.clone_into(&mut self.policy);
        let (own, for_host): (Vec<_>, Vec<_>) =
            directives.0.iter().partition(|directive| is_done_here(directive));
        list.extend(for_host.into_iter().map(|directive| json!(directive)));
        let own: Vec<_> = own
            .into_iter()
            .filter_map(|directive| match &directive.order {
                DirectiveKind::Work(work) => Some(work.id()),
                DirectiveKind::Note(_) => None,
            })
            .collect();
        self.fold.decided(directives);
        let done = self.fold.open().filter(|work| own.contains(&work.id()));
        Ok(done.filter_map(|work| self.done(work)).collect())
    }

    /// The event that answers a piece of work, if it is done here.
    fn done(&self, work: &Work) -> Option<Event> {
        let (messages, policy) = (self.fold.messages(), self.interpreter.policy());
        let id = work.id();
        Some(match work {
            Work::PrepareTurn(_) => {
                let drops = policy.turn().malformed_calls.value == MalformedCalls::Drop;
                Event::TurnPrepared { work: id, measure: self.measure().of(messages, drops) }
            }
            Work::RepairHistory(work) => Event::HistoryRepaired {
                work: id,
                repair: repair(messages, work.orphan_calls, work.malformed_calls),
            },
            Work::ReduceContext(work) => Event::ContextReduced {
                work: id,
                reduction: self.measure().reduced(policy, &work.plan, messages),
            },
            _ => return None,
        })
    }

    /// The size of the conversation as it is.
    fn measure(&self) -> ConversationMeasure {
        let model = self.state().first_target();
        let counter = counter_by(&self.interpreter.policy().model(model).tokens, model);
        let mut measure = ConversationMeasure::new(counter, ToolForm::Chat, model);
        measure.set_tools(&self.offered());
        measure.take_up(self.fold.messages());
        measure
    }

    /// The conversation as a call of a model is to have it, if that is the interpreter's own.
    fn messages_for(&self, directive: &Value) -> Option<Vec<Message>> {
        if directive["directive"] != "call_model" || directive.get("of").is_some() {
            return None;
        }
        let guidance = directive.get("guidance").and_then(Value::as_array).into_iter().flatten();
        let guidance: Vec<String> = guidance.filter_map(|text| text.as_str().map(str::to_owned)).collect();
        Some(self.fold.messages().iter().cloned().chain(Message::of_guidance(&guidance)).collect())
    }

    fn facts(&self) -> Vec<ToolFacts> {
        self.interpreter.tools().iter().map(ToolFacts::from).collect()
    }

    fn now(&self, told: Option<Instant>) -> Instant {
        told.unwrap_or_else(|| self.clock.now())
    }
}

/// Whether this process answers a directive by itself. The conversation of a proposed turn is the host's.
fn is_done_here(directive: &Directive) -> bool {
    let is_pure = matches!(
        directive.order,
        DirectiveKind::Work(Work::PrepareTurn(_) | Work::RepairHistory(_) | Work::ReduceContext(_))
    );
    is_pure && directive.of.is_none()
}
