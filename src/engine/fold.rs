//! Rebuilds a session from its log: the state, the conversation, and the work without an answer.
//!
//! The log is authoritative: the state results from the interpreter taking its events in order. No work is repeated.

use std::collections::BTreeMap;

use super::directive::{DirectiveKind, Directives, Note, Work};
use super::event::{Envelope, Event, RunStarted, ToolFacts};
use super::state::State;
use super::step::Interpreter;
use crate::engine::ids::WorkId;
use crate::session::Message;

/// A session, rebuilt from the records read so far.
///
/// ```
/// use unfazed::engine::{ToolCatalogue, Envelope, Event, SessionFold, Interpreter, RunStarted};
/// use unfazed::policy::Policy;
/// use unfazed::time::Instant;
/// let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::default());
/// let started = RunStarted { run: "r".into(), task: "What does it cost?".into(), ..RunStarted::default() };
/// let mut fold = SessionFold::new();
/// fold.take(&interpreter, Envelope { seq: 1, now: Instant(0), event: Event::RunStarted(started) });
/// assert_eq!((fold.messages().len(), fold.open().len()), (1, 1));
/// ```
#[derive(Debug, Default)]
pub struct SessionFold {
    state: State,
    messages: Vec<Message>,
    open: BTreeMap<WorkId, Work>,
    tools: Vec<ToolFacts>,
}

impl SessionFold {
    /// A session before its first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event of the log, and lets `interpreter` decide about it again.
    pub fn take(&mut self, interpreter: &Interpreter, envelope: Envelope) {
        let directives = self.decide(interpreter, envelope);
        self.decided(directives);
    }

    /// Decides about an event of the log again; [`decided`](Self::decided) takes the resulting directives.
    pub(crate) fn decide(&mut self, interpreter: &Interpreter, envelope: Envelope) -> Directives {
        // A session may contain several runs; each begins with the state that the previous one leaves.
        if matches!(envelope.event, Event::RunStarted(_)) && self.state.is_over() {
            self.state = self.state.next_run();
        }
        self.happened(&envelope);
        interpreter.step(&mut self.state, envelope)
    }

    /// Takes an event of the log without deciding; [`decided`](Self::decided) takes the recorded directives.
    pub fn happened(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } => {
                self.tools.clone_from(tools);
            }
            event => {
                // An answer closes its work even if the interpreter ignored it: the host has finished the work.
                if let Some(work) = event.work() {
                    self.open.remove(&work);
                }
            }
        }
    }

    /// Takes the directives that followed the last event.
    pub fn decided(&mut self, directives: Directives) {
        for directive in directives.0 {
            match directive.order {
                DirectiveKind::Work(work) => drop(self.open.insert(work.id(), work)),
                DirectiveKind::Note(Note::Append { message }) => self.messages.push(message),
                // The host runs its own loop: the indices refer to its own messages, which are not stored here.
                DirectiveKind::Note(Note::Splice { .. }) if directive.of.is_some() => {}
                DirectiveKind::Note(Note::Dropped { work }) => drop(self.open.remove(&work)),
                // At the end of the run no work is in flight; late answers are not awaited.
                DirectiveKind::Note(Note::Finish { .. }) => self.open.clear(),
                DirectiveKind::Note(note) => note.apply(&mut self.messages),
            }
        }
    }

    /// A session with these parts.
    pub(crate) fn of(state: State, messages: Vec<Message>, open: Vec<Work>, tools: Vec<ToolFacts>) -> Self {
        let open = open.into_iter().map(|work| (work.id(), work)).collect();
        Self { state, messages, open, tools }
    }

    /// Replaces the state by a stored one.
    #[must_use]
    // A stored state avoids deciding about all events again; the conversation still comes from the notes.
    pub fn at(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// The state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The work without an answer, in the order of the requests.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &Work> {
        self.open.values()
    }

    /// The tools as last reported.
    pub fn tools(&self) -> &[ToolFacts] {
        &self.tools
    }

    /// The state, the conversation, the work without an answer, and the tools.
    pub fn into_parts(self) -> (State, Vec<Message>, Vec<Work>, Vec<ToolFacts>) {
        (self.state, self.messages, self.open.into_values().collect(), self.tools)
    }
}
