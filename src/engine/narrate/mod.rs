//! The one narrator: what an event or a directive says, in words. Timelines, test reports and logs only style it.

mod event;
mod note;
mod phrase;
mod work;

use core::fmt;
use std::collections::BTreeMap;

use super::directive::{DecisionReason, Directive, DirectiveKind, Work};
use super::event::{Envelope, Event};
use crate::engine::ids::WorkId;
use crate::time::Instant;

/// What happened or was decided, in words: `{subject} {verb}: {detail}`.
///
/// Pieces of foreign text are in one line, without control characters, and cut where they are long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Narration {
    /// The kind; log lines have it as their text.
    /// Example: `tool call refused`
    pub title: &'static str,
    /// The level of the log line.
    pub severity: Severity,
    /// Whether something came out well.
    pub good: bool,
    /// A sign for the kind, of one column.
    pub sign: &'static str,
    /// In which tellings it belongs.
    pub prominence: Prominence,
    /// Who acts or is acted on.
    /// Example: `model main`
    pub subject: String,
    /// What happens.
    /// Example: `is called, attempt 2 of 3`
    pub verb: String,
    /// What else is known; empty: nothing, or it has just been said.
    /// Example: `invalid_args: item: 42 is not a string`
    pub detail: String,
    /// The facts that log lines carry as fields.
    pub facts: Vec<(&'static str, Fact)>,
    /// The rules that decided it, each with its place.
    pub because: Vec<String>,
}

/// How serious it is: the level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Bookkeeping.
    Trace,
    /// What goes as planned.
    Debug,
    /// What operators may want to know.
    Info,
    /// What went wrong and was dealt with.
    Warn,
    /// What went wrong.
    Error,
}

/// In which tellings of a run something belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prominence {
    /// In logs alone.
    Silent,
    /// Where every decision is listed.
    Detail,
    /// Everywhere.
    Main,
}

/// A fact, as log lines carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A name or a text.
    Text(String),
    /// A number.
    Number(u64),
    /// Whether it is so.
    Flag(bool),
}

/// Narrates one run, event by event. It remembers what directives called the work that events answer, and which failure it
/// told last, to tell none twice.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    now: Option<Instant>,
    names: BTreeMap<WorkId, String>,
    failure: String,
    next_target: Option<String>,
}

impl Narrator {
    /// What happened.
    pub(crate) fn event(&mut self, envelope: &Envelope) -> Narration {
        self.now = Some(envelope.now);
        self.any_event(&envelope.event)
    }

    /// What happened, at whatever time.
    pub(crate) fn any_event(&mut self, event: &Event) -> Narration {
        // Removed with its answer, so that a narrator of a long session does not grow.
        let name = event.work().and_then(|work| self.names.remove(&work));
        event::narrate(self, event, name)
    }

    /// What was decided.
    pub(crate) fn directive(&mut self, directive: &Directive) -> Narration {
        let because = directive.because.iter().map(ToString::to_string).collect();
        Narration { because, ..self.order(&directive.order, &directive.because) }
    }

    /// What was decided, without its reasons.
    fn order(&mut self, order: &DirectiveKind, because: &[DecisionReason]) -> Narration {
        match order {
            DirectiveKind::Work(work) => {
                self.in_flight(work);
                work::narrate(work)
            }
            DirectiveKind::Note(note) => note::narrate(self, note, because),
        }
    }

    /// Work that an event is going to answer.
    pub(crate) fn in_flight(&mut self, work: &Work) {
        self.names.extend(work::name(work).map(|name| (work.id(), name)));
    }

    /// Whether that differs from the last failure narrated; from now on it is the last.
    fn is_new_failure(&mut self, message: &str) -> bool {
        let is_new = self.failure != message;
        if is_new {
            message.clone_into(&mut self.failure);
        }
        is_new
    }
}

impl Narration {
    /// The same with another verb and another detail.
    #[must_use]
    pub(crate) fn with(self, verb: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { verb: verb.into(), detail: detail.into(), ..self }
    }

    fn new(
        severity: Severity,
        sign: &'static str,
        title: &'static str,
        subject: impl Into<String>,
        verb: impl Into<String>,
    ) -> Self {
        Self {
            title,
            severity,
            good: false,
            sign,
            prominence: Prominence::Main,
            subject: subject.into(),
            verb: verb.into(),
            detail: String::new(),
            facts: Vec::new(),
            because: Vec::new(),
        }
    }

    fn good(self) -> Self {
        Self { good: true, ..self }
    }

    fn only_if(self, is_main: bool) -> Self {
        if is_main { self } else { self.minor() }
    }

    fn minor(self) -> Self {
        Self { prominence: Prominence::Detail, ..self }
    }

    fn silent(self) -> Self {
        Self { prominence: Prominence::Silent, ..self }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// A fact for logs.
    fn fact(self, name: &'static str, fact: impl Into<Fact>) -> Self {
        self.known(name, Some(fact))
    }

    /// A fact for logs, if it is known.
    fn known(mut self, name: &'static str, fact: Option<impl Into<Fact>>) -> Self {
        self.facts.extend(fact.map(|fact| (name, fact.into())));
        self
    }
}

impl fmt::Display for Narration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, verb, detail, .. } = self;
        let said = [subject.as_str(), verb].into_iter().filter(|part| !part.is_empty());
        f.write_str(&said.collect::<Vec<_>>().join(" "))?;
        if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Fact {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Fact {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Fact {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Fact {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

#[cfg(test)]
pub(super) mod tests;
