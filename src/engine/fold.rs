//! A session rebuilt from its log: the state, the conversation, and the work that was begun and has no answer.
//!
//! The log is the truth: state is its events taken by the interpreter, one after the other. Nothing is done again.

use std::collections::BTreeMap;

use super::directive::{DirectiveKind, Directives, Note, Work};
use super::event::{Envelope, Event, RunStarted, ToolFacts};
use super::state::State;
use super::step::Interpreter;
use crate::engine::ids::WorkId;
use crate::session::Message;

/// A session as far as its log was read.
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

    /// Takes an event of the log and decides about it again, by that interpreter.
    pub fn take(&mut self, interpreter: &Interpreter, envelope: Envelope) {
        let directives = self.decide(interpreter, envelope);
        self.decided(directives);
    }

    /// Decides about an event of the log again; [`decided`](Self::decided) takes what comes of it.
    pub(crate) fn decide(&mut self, interpreter: &Interpreter, envelope: Envelope) -> Directives {
        // A session may hold several runs; each begins with what the one before it leaves.
        if matches!(envelope.event, Event::RunStarted(_)) && self.state.is_over() {
            self.state = self.state.next_run();
        }
        self.happened(&envelope);
        interpreter.step(&mut self.state, envelope)
    }

    /// An event of the log was taken; what was decided about it is reported by [`decided`](Self::decided).
    pub fn happened(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } => {
                self.tools.clone_from(tools);
            }
            event => {
                // An answer closes its work, even if the interpreter did not use it: the host is done with it.
                if let Some(work) = event.work() {
                    self.open.remove(&work);
                }
            }
        }
    }

    /// This was decided about the last event.
    pub fn decided(&mut self, directives: Directives) {
        for directive in directives.0 {
            match directive.order {
                DirectiveKind::Work(work) => drop(self.open.insert(work.id(), work)),
                DirectiveKind::Note(Note::Append { message }) => self.messages.push(message),
                // The host of this turn has a loop of its own: the indices count in its messages, which are not kept
                // here.
                DirectiveKind::Note(Note::Splice { .. }) if directive.of.is_some() => {}
                DirectiveKind::Note(Note::Dropped { work }) => drop(self.open.remove(&work)),
                // At the end nothing is in flight for the run any more; late answers are not waited for.
                DirectiveKind::Note(Note::Finish { .. }) => self.open.clear(),
                DirectiveKind::Note(note) => note.apply(&mut self.messages),
            }
        }
    }

    /// A session that stands there.
    pub(crate) fn of(state: State, messages: Vec<Message>, open: Vec<Work>, tools: Vec<ToolFacts>) -> Self {
        let open = open.into_iter().map(|work| (work.id(), work)).collect();
        Self { state, messages, open, tools }
    }

    /// Takes a state that was written down instead of the one the events led to.
    #[must_use]
    // A stored state saves deciding all events again; the conversation still comes from the notes.
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

    /// The work that was begun and has no answer, in the order in which it was asked for.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &Work> {
        self.open.values()
    }

    /// The tools as last reported.
    pub fn tools(&self) -> &[ToolFacts] {
        &self.tools
    }

    /// All of it: the state, the conversation, the work without an answer, and the tools.
    pub fn into_parts(self) -> (State, Vec<Message>, Vec<Work>, Vec<ToolFacts>) {
        (self.state, self.messages, self.open.into_values().collect(), self.tools)
    }
}
