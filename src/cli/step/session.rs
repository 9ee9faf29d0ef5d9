//! A session that a host steps: the interpreter, the conversation, and its log if there is one.
//!
//! What is pure is done here: measuring, repairing and reducing the conversation of the drive `turns`. In the drive `calls` the
//! conversation is the host's, and so is that work.

use core::mem;
use std::collections::VecDeque;

use serde_json::{Value, json};

use super::protocol::{DirectivesAnswer, ErrorAnswer};
use crate::cli::lines;
use crate::context::{ConversationMeasure, ToolForm};
use crate::engine::{
    Directive, DirectiveKind, Directives, DriveMode, Envelope, Event, Interpreter, Note, RunStarted,
    SessionFold, State, ToolCatalogue, ToolFacts, ToolSpec, Work, WorkId, checksum,
};
use crate::host::{Clock, Journal, JournalError, SessionCheckpoint, counter_by, offered, rule_changes};
use crate::policy::Policy;
use crate::session::Message;
use crate::store::Recorder;
use crate::time::Instant;

/// A session in this process.
pub(super) struct SteppedSession {
    interpreter: Interpreter,
    fold: SessionFold,
    clock: Clock,
    /// The size of the conversation, kept up with it.
    measure: ConversationMeasure,
    /// The model by whose vocabulary it is counted.
    counted_for: String,
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
        let model = fold.state().first_target().to_owned();
        let measure = measured(&interpreter, &fold, &model);
        Self { interpreter, fold, clock: Clock::system(), measure, counted_for: model, policy, journal }
    }

    /// Does what the process that ended had still to do: it decides about an event without a decision, does the work that is done
    /// here, and tells the interpreter of another policy and other tools.
    pub(super) async fn catch_up(
        &mut self,
        untaken: Option<Envelope>,
        now: Option<Instant>,
    ) -> Result<Vec<Value>, StepFailure> {
        let (mut list, policy) = (Vec::new(), self.policy.clone());
        let due = if let Some(envelope) = untaken {
            // It is in the log already.
            let directives = self.fold.decide(&self.interpreter, envelope);
            self.decided(directives, &mut list).map_err(StepFailure::Journal)?
        } else {
            let own = self.fold.open().map(Work::id).filter(|id| self.state().proposal_of(*id).is_none());
            self.answers(&own.collect::<Vec<_>>())
        };
        list.extend(self.take_all(due, self.now(now)).await?);
        if !self.state().run.is_empty() && !self.state().is_over() {
            let changes = rule_changes(&self.interpreter, &policy, self.fold.tools()).collect();
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
            let message = format!("the run `{run}` is not over; `cancelled` ends it");
            return Err(ErrorAnswer::at("/kind", message).into());
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
        self.check(&event)?;
        self.take(event, now).await
    }

    /// Refuses what no host means: an event before there is a run, and an answer to work of another kind, which would be lost.
    fn check(&self, event: &Event) -> Result<(), ErrorAnswer> {
        if self.state().run.is_empty() {
            return Err(ErrorAnswer::at(
                "/kind",
                "there is no run yet; a line of the kind `start` begins one",
            ));
        }
        let work = event.work().and_then(|id| self.fold.open().find(|work| work.id() == id));
        let Some(other) = work.filter(|work| !is_answer(event, work)) else { return Ok(()) };
        let other = json!(other);
        let message = format!("it does not answer work {}, which is {}", other["work"], other["directive"]);
        Err(ErrorAnswer::at("/event", message))
    }

    /// The host has other tools.
    pub(super) async fn tools(
        &mut self,
        tools: ToolCatalogue,
        now: Option<Instant>,
    ) -> Result<DirectivesAnswer, StepFailure> {
        let now_has = Interpreter::new(self.interpreter.policy().clone(), tools);
        let had = mem::replace(&mut self.interpreter, now_has);
        self.measure.set_tools(&self.offered());
        if self.state().run.is_empty() {
            // The run that is to begin has these tools.
            return Ok(self.answer(Vec::new()));
        }
        let tools = self.facts();
        let taken = self.take(Event::ToolsChanged { tools }, now).await;
        if matches!(taken, Err(StepFailure::Line(_))) {
            self.interpreter = had;
            self.measure.set_tools(&self.offered());
        }
        taken
    }

    pub(super) fn state(&self) -> &State {
        self.fold.state()
    }

    pub(super) fn policy(&self) -> &Policy {
        self.interpreter.policy()
    }

    /// The work that has no answer, and the proposals that it is for.
    pub(super) fn open(&self) -> Vec<Value> {
        let open = self.fold.open().map(|work| {
            let mut directive = json!(work);
            if let Some(proposal) = self.state().proposal_of(work.id()) {
                directive["of"] = json!({ "proposal": proposal });
            }
            directive
        });
        open.collect()
    }

    /// The conversation, if there is one here.
    pub(super) fn messages(&self) -> Option<Vec<Message>> {
        let messages = self.fold.messages();
        (self.state().drive() == DriveMode::Turns && !messages.is_empty()).then(|| messages.to_vec())
    }

    /// The tools as they are declared to the model, the one of the final report among them.
    pub(super) fn offered(&self) -> Vec<ToolSpec> {
        offered(&self.interpreter).to_vec()
    }

    /// What it takes to continue: a [`SessionCheckpoint`] as JSON, after its checksum.
    pub(super) fn saved(&self) -> Result<String, ErrorAnswer> {
        let open: Vec<&Work> = self.fold.open().collect();
        let checkpoint = json!({
            "state": self.state(), "messages": self.fold.messages(), "open": open, "policy": self.policy,
            "tools": self.fold.tools(),
        });
        let text = checkpoint.to_string();
        // In a line quotes are escaped.
        if text.len() > lines::MOST_OF_HELLO / 2 {
            let most = lines::MOST_OF_HELLO >> 21;
            return Err(ErrorAnswer::new(format!(
                "the session has more than {most} MiB; `--record` keeps it"
            )));
        }
        Ok(format!("{} {text}", checksum(text.as_bytes())))
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
        Ok(self.answer(list))
    }

    fn answer(&self, list: Vec<Value>) -> DirectivesAnswer {
        // A conversation is sent where it is due, and no more often: it may be long.
        let messages = list.iter().find_map(|directive| self.messages_for(directive));
        DirectivesAnswer { seq: self.state().seq, list, messages, state: self.state().digest() }
    }

    /// Takes these events, and those that answer what is done here. Ends when all is written down.
    async fn take_all(&mut self, mut due: VecDeque<Event>, now: Instant) -> Result<Vec<Value>, StepFailure> {
        let (mut list, mut is_first) = (Vec::new(), true);
        while let Some(event) = due.pop_front() {
            let envelope = Envelope { seq: self.state().seq.saturating_add(1), now, event };
            if let Some(journal) = &mut self.journal {
                // What cannot be recorded cannot be decided again, so it is not taken.
                journal.event(&envelope).map_err(|error| {
                    // Only before the first of them nothing has changed.
                    if is_first {
                        ErrorAnswer::new(error.to_string()).into()
                    } else {
                        StepFailure::Journal(error)
                    }
                })?;
                is_first = false;
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
        list.extend(for_host(&directives));
        let own: Vec<WorkId> = directives.0.iter().filter_map(own_work).collect();
        for directive in &directives.0 {
            match (&directive.order, directive.of) {
                (DirectiveKind::Note(Note::Append { message }), _) => self.measure.append(message),
                (DirectiveKind::Note(Note::Splice { splices }), None) => self.measure.splice(splices),
                _ => {}
            }
        }
        self.fold.decided(directives);
        Ok(self.answers(&own))
    }

    /// The events that answer those of these pieces of work that are done here.
    fn answers(&mut self, own: &[WorkId]) -> VecDeque<Event> {
        if self.counted_for != self.fold.state().first_target() {
            self.fold.state().first_target().clone_into(&mut self.counted_for);
            self.measure = measured(&self.interpreter, &self.fold, &self.counted_for);
        }
        let Self { interpreter, fold, measure, .. } = self;
        let own = fold.open().filter(|work| own.contains(&work.id()));
        own.filter_map(|work| measure.answer(work, fold.messages(), interpreter.policy())).collect()
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

/// The size of the conversation as it is, counted as that model counts.
fn measured(interpreter: &Interpreter, fold: &SessionFold, model: &str) -> ConversationMeasure {
    let counter = counter_by(&interpreter.policy().model(model).tokens, model);
    let mut measure = ConversationMeasure::new(counter, ToolForm::Chat, model);
    measure.set_tools(&offered(interpreter));
    measure.take_up(fold.messages());
    measure
}

/// Where a saved session stood.
pub(super) fn checkpoint(saved: &str) -> Result<SessionCheckpoint, ErrorAnswer> {
    let wrong = || {
        let message = "this is not what `saved` had: it was changed, or another version of unfazed wrote it";
        ErrorAnswer::at("/saved", message)
    };
    let (written, text) = saved.split_once(' ').ok_or_else(wrong)?;
    if checksum(text.as_bytes()) != written {
        return Err(wrong());
    }
    serde_json::from_str(text).map_err(|_| wrong())
}

/// The directives that the host gets.
pub(super) fn for_host(directives: &Directives) -> impl Iterator<Item = Value> {
    directives.0.iter().filter(|directive| own_work(directive).is_none()).map(|directive| json!(directive))
}

/// Whether an event answers work of that kind.
const fn is_answer(event: &Event, work: &Work) -> bool {
    matches!(
        (work, event),
        (Work::PrepareTurn(_), Event::TurnPrepared { .. })
            | (Work::RepairHistory(_), Event::HistoryRepaired { .. })
            | (Work::ReduceContext(_), Event::ContextReduced { .. })
            | (
                Work::CallModel(_) | Work::Summarize(_),
                Event::ModelResponded { .. } | Event::ModelFailed { .. }
            )
            | (Work::RunTool(_), Event::ToolFinished { .. })
            | (Work::Wait(_), Event::TimerFired { .. })
            | (Work::Consult(_), Event::PlannerDecided { .. })
            | (Work::Ask(_), Event::Answered { .. })
    )
}

/// The work of a directive that this process answers by itself. The conversation of a proposed turn is the host's.
fn own_work(directive: &Directive) -> Option<WorkId> {
    match &directive.order {
        DirectiveKind::Work(work) if work.is_pure() && directive.of.is_none() => Some(work.id()),
        _ => None,
    }
}
