//! Sessions decided again: by the policy that decided, or by another one, from the records of their logs alone.
//!
//! The same policy decides the same, byte for byte. Another policy decides the same up to a place: there the first difference
//! is reported, and replaying ends, since the events that follow answer what was decided then.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod compare;
mod files;
mod part;
mod replayed;
mod tally;

use core::fmt;
use std::collections::BTreeMap;

pub use compare::{DecisionSides, ReplayDifference};
pub use part::{DecisionPart, DecisionParts, UnknownPart};
pub use replayed::{PassedOver, ReplayDivergence, ReplayEnding, ReplayReport};
pub use tally::WorkTally;

use crate::engine::{
    CatalogueError, Directives, Envelope, Event, Interpreter, NameClash, Record, RunStarted, State,
    ToolCatalogue, ToolFacts, ToolSpec,
};
use crate::policy::Policy;
use files::PolicyNames;

/// A session that is decided again, record by record.
///
/// ```
/// use unfazed::engine::{ToolCatalogue, Directives, Envelope, Event, Interpreter, Record, RunStarted, State};
/// use unfazed::policy::Policy;
/// use unfazed::replay::{ReplayEnding, Replay};
/// use unfazed::time::Instant;
/// let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::default());
/// let started = RunStarted { run: "r".into(), task: "What does it cost?".into(), ..RunStarted::default() };
/// let envelope = Envelope { seq: 1, now: Instant(0), event: Event::RunStarted(started) };
/// let mut state = State::new();
/// let list = interpreter.step(&mut state, envelope.clone());
/// let records = [
///     Record::Event(envelope),
///     Record::Directives { seq: 1, policy: Policy::builtin().digest().to_owned(), list },
///     Record::State { seq: 1, hash: state.digest() },
/// ];
/// let mut replay = Replay::new(Policy::builtin());
/// for record in records {
///     replay.take(record)?;
/// }
/// let replayed = replay.end();
/// assert_eq!((replayed.same, replayed.ending), (1, ReplayEnding::Same));
/// # Ok::<(), unfazed::replay::ReplayError>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    policy: Policy,
    /// Policies that decide again what they decided then.
    earlier: Vec<Policy>,
    pass_over: DecisionParts,
    /// The policy that decides about the event that was read last, with the tools there are.
    interpreter: Interpreter,
    state: State,
    /// The event that was read last, until the state it led to is read.
    event: Option<Envelope>,
    /// What was decided about it then.
    then: Option<(String, Directives)>,
    /// The files of each policy that decides again, by its digest: two of them may have had one name.
    files: BTreeMap<String, PolicyNames>,
    /// All that was compared so far was decided by this policy, and no part of it was passed over.
    exact: bool,
    found: ReplayReport,
}

/// Why a session cannot be decided again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The tools it had cannot be used.
    #[error("the tools of event {seq} cannot be used: {source}")]
    Tools {
        /// The event.
        seq: u64,
        /// What is wrong with them.
        source: CatalogueError,
    },
    /// The policy cannot be used with the tools it had.
    #[error("the policy does not go with the tools of event {seq}: {source}")]
    Clash {
        /// The event.
        seq: u64,
        /// What is wrong.
        source: NameClash,
    },
}

impl Replay {
    /// Nothing is read yet; `policy` will decide about all of it.
    pub fn new(policy: Policy) -> Self {
        let found = ReplayReport::new(policy.digest());
        let interpreter = Interpreter::new(policy.clone(), ToolCatalogue::default());
        Self {
            policy,
            earlier: Vec::new(),
            pass_over: DecisionParts::default(),
            interpreter,
            state: State::new(),
            event: None,
            then: None,
            files: BTreeMap::new(),
            exact: true,
            found,
        }
    }

    /// Continues where decisions differ in nothing but these parts. What another policy has decided is always compared without
    /// [`DecisionPart::Because`] and [`DecisionPart::Bounds`].
    #[must_use]
    pub fn pass_over(mut self, parts: DecisionParts) -> Self {
        self.pass_over = parts;
        self
    }

    /// What one of these policies decided then, it decides again: those that were in effect before the session's policy was
    /// changed.
    #[must_use]
    pub fn earlier(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.earlier.extend(policies);
        self
    }

    /// The state before the first record, where it is not that of a session before its first event.
    #[must_use]
    pub fn at(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Takes the next record. After the first difference they are only counted.
    ///
    /// # Errors
    /// The tools that were written down cannot be used, or not by this policy.
    pub fn take(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Session(header) => self.found.header = Some(header),
            Record::Event(envelope) => {
                // Without a state it was decided about in no session that was resumed; what follows counts on it.
                if let Some(undecided) = self.event.take().filter(|_| self.goes_on()) {
                    drop(self.decide(undecided)?);
                }
                self.found.happened(&envelope);
                (self.event, self.then) = (Some(envelope), None);
            }
            Record::Directives { policy, list, .. } => self.then = Some((policy, list)),
            Record::State { seq, hash } => {
                if let (Some(envelope), Some(then)) = (self.event.take(), self.then.take()) {
                    let at_hand = self.earlier.iter().any(|policy| policy.digest() == then.0);
                    self.found.decided(&then.0, seq, at_hand);
                    if self.goes_on() {
                        self.compare(envelope, then, &hash)?;
                    } else {
                        self.found.left_out = self.found.left_out.saturating_add(1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes all these records. Returns what was found.
    ///
    /// # Errors
    /// A record that cannot be read, or one that cannot be decided about again.
    pub fn all<E>(
        mut self,
        records: impl IntoIterator<Item = Result<Record, E>>,
    ) -> Result<ReplayReport, NotReplayable<E>> {
        for record in records {
            self.take(record.map_err(NotReplayable::Read)?).map_err(NotReplayable::Decide)?;
        }
        Ok(self.end())
    }

    /// What was found, all records being read.
    pub fn end(mut self) -> ReplayReport {
        // What was decided without the state it led to was never begun.
        self.found.undecided = self.event.map(|envelope| envelope.seq);
        self.found
    }

    const fn goes_on(&self) -> bool {
        matches!(self.found.ending, ReplayEnding::Same)
    }

    fn compare(
        &mut self,
        envelope: Envelope,
        (policy, then): (String, Directives),
        hash: &str,
    ) -> Result<(), ReplayError> {
        self.decides(&policy, &envelope)?;
        let by_same = policy == self.interpreter.policy().digest();
        let (seq, at, event) = (envelope.seq, envelope.now, envelope.event.clone());
        let again = self.decide(envelope)?;
        self.found.recorded.add(&then);
        self.found.replayed.add(&again);
        match self.differs(by_same, then, again, hash) {
            None => self.found.same = self.found.same.saturating_add(1),
            Some(difference) => {
                let divergence = ReplayDivergence { seq, at, event, policy, difference: *difference };
                self.found.ending = ReplayEnding::Diverges(Box::new(divergence));
            }
        }
        Ok(())
    }

    /// From now on the policy decides that decided then, if it is at hand.
    fn decides(&mut self, then: &str, envelope: &Envelope) -> Result<(), ReplayError> {
        let at_hand =
            self.earlier.iter().find(|policy| policy.digest() == then && then != self.policy.digest());
        let policy = at_hand.unwrap_or(&self.policy);
        if policy.digest() == self.interpreter.policy().digest() {
            return Ok(());
        }
        let (policy, tools) = (policy.clone(), self.interpreter.tools().clone());
        // What decided then went with its tools, though the log may tell of them later. Those that come now are looked at then.
        if policy.digest() != then && tools_of(&envelope.event).is_none() {
            tools.fits(&policy).map_err(|source| ReplayError::Clash { seq: envelope.seq, source })?;
        }
        self.interpreter = Interpreter::new(policy, tools);
        Ok(())
    }

    fn differs(
        &mut self,
        by_same: bool,
        then: Directives,
        mut again: Directives,
        hash: &str,
    ) -> Option<Box<ReplayDifference>> {
        let mut parts = self.pass_over;
        if by_same {
            let policy = self.interpreter.policy().digest();
            match self.files.get_mut(policy) {
                Some(files) => files.name_as(&then, &mut again),
                None => self.files.entry(policy.to_owned()).or_default().name_as(&then, &mut again),
            }
        } else {
            parts = parts.with(DecisionPart::Because).with(DecisionPart::Bounds);
        }
        let passed = match compare::lists(then, again, parts) {
            Ok(passed) => passed,
            Err(difference) => return Some(difference),
        };
        self.exact &= by_same && passed.is_empty();
        if by_same {
            self.found.passed_over.add(passed);
        }
        self.exact &= !State::is_of_another_format(hash);
        let now = self.exact.then(|| self.state.digest()).filter(|digest| digest != hash)?;
        Some(Box::new(ReplayDifference::State { then: hash.to_owned(), now }))
    }

    fn decide(&mut self, envelope: Envelope) -> Result<Directives, ReplayError> {
        if matches!(envelope.event, Event::RunStarted(_)) && self.state.is_over() {
            self.state = self.state.next_run();
        }
        if let Some(tools) = tools_of(&envelope.event) {
            self.interpreter = self.with_tools(tools, envelope.seq)?;
        }
        Ok(self.interpreter.step(&mut self.state, envelope))
    }

    fn with_tools(&mut self, tools: &[ToolFacts], seq: u64) -> Result<Interpreter, ReplayError> {
        let unchecked = tools.iter().filter(|tool| tool.parameters.is_none());
        self.found.unchecked.extend(unchecked.map(|tool| tool.name.clone()));
        let specs = tools.iter().map(|tool| ToolSpec {
            name: tool.name.clone(),
            // Nothing is decided by it.
            description: String::new(),
            parameters: tool.parameters.clone().unwrap_or_else(|| true.into()),
            effect: tool.effect,
        });
        let tools = ToolCatalogue::new(specs).map_err(|source| ReplayError::Tools { seq, source })?;
        let policy = self.interpreter.policy().clone();
        tools.fits(&policy).map_err(|source| ReplayError::Clash { seq, source })?;
        Ok(Interpreter::new(policy, tools))
    }
}

/// The tools that there are from that event on, if it brings any.
const fn tools_of(event: &Event) -> Option<&Vec<ToolFacts>> {
    match event {
        Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } => Some(tools),
        _ => None,
    }
}

/// Decides a session again whose records are all there.
///
/// # Errors
/// A record that cannot be read, or one that cannot be decided about again.
pub fn replay<E>(
    policy: &Policy,
    parts: DecisionParts,
    records: impl IntoIterator<Item = Result<Record, E>>,
) -> Result<ReplayReport, NotReplayable<E>> {
    Replay::new(policy.clone()).pass_over(parts).all(records)
}

/// Why a session was not decided again.
#[derive(Debug)]
pub enum NotReplayable<E> {
    /// It cannot be read.
    Read(E),
    /// It cannot be decided again.
    Decide(ReplayError),
}

impl<E: fmt::Display> fmt::Display for NotReplayable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Decide(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for NotReplayable<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The message is that of the error itself, so the chain continues below it.
        match self {
            Self::Read(error) => error.source(),
            Self::Decide(error) => error.source(),
        }
    }
}
