//! The narrator: describes events and directives in words. Timelines, test reports and logs only style them.

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

/// An event or decision in words: `{subject} {verb}: {detail}`.
///
/// Foreign text is on one line, without control characters, and cut if long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Narration {
    /// The kind; log lines have it as their text.
    /// Example: `tool call refused`
    pub title: &'static str,
    /// The level of the log line.
    pub severity: Severity,
    /// Whether the event is a success.
    pub good: bool,
    /// A symbol for the kind, one column wide.
    pub sign: &'static str,
    /// Where the narration is shown.
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
    /// The facts that log lines contain as fields.
    pub facts: Vec<(&'static str, Fact)>,
    /// The rules that decided, each with its place.
    pub because: Vec<String>,
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Internal records.
    Trace,
    /// Expected events.
    Debug,
    /// Events that operators may want to know.
    Info,
    /// Problems that were handled.
    Warn,
    /// Errors.
    Error,
}

/// Where a narration is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prominence {
    /// In logs only.
    Silent,
    /// In lists of all decisions.
    Detail,
    /// Everywhere.
    Main,
}

/// A fact in a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A name or a text.
    Text(String),
    /// A number.
    Number(u64),
    /// A yes or no.
    Flag(bool),
}

/// Narrates one run, event by event. It remembers the names of work for the events that answer it, and the last
/// failure, so that none is narrated twice.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    now: Option<Instant>,
    names: BTreeMap<WorkId, String>,
    failure: String,
    next_target: Option<String>,
}

impl Narrator {
    /// Narrates an event.
    pub(crate) fn event(&mut self, envelope: &Envelope) -> Narration {
        self.now = Some(envelope.now);
        self.any_event(&envelope.event)
    }

    /// Narrates an event without its time.
    pub(crate) fn any_event(&mut self, event: &Event) -> Narration {
        // Removed with its answer, so that the narrator of a long session does not grow.
        let name = event.work().and_then(|work| self.names.remove(&work));
        event::narrate(self, event, name)
    }

    /// Narrates a directive.
    pub(crate) fn directive(&mut self, directive: &Directive) -> Narration {
        let because = directive.because.iter().map(ToString::to_string).collect();
        Narration { because, ..self.order(&directive.order, &directive.because) }
    }

    /// Narrates a directive without its reasons.
    fn order(&mut self, order: &DirectiveKind, because: &[DecisionReason]) -> Narration {
        match order {
            DirectiveKind::Work(work) => {
                self.in_flight(work);
                work::narrate(work)
            }
            DirectiveKind::Note(note) => note::narrate(self, note, because),
        }
    }

    /// Remembers the name of work for the event that answers it.
    pub(crate) fn in_flight(&mut self, work: &Work) {
        self.names.extend(work::name(work).map(|name| (work.id(), name)));
    }

    /// Whether the message differs from the last failure narrated; it becomes the last one.
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
