//! Replay: decides sessions again from the records of their logs, by the same policy or by another one.
//!
//! The same policy makes identical decisions, byte for byte. With another policy, the first difference is reported
//! and the replay ends there, since later events answer the recorded decisions.
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

/// A session replayed record by record.
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
    /// Policies that replay their own decisions.
    earlier: Vec<Policy>,
    pass_over: DecisionParts,
    /// The policy for the last event read, with the present tools.
    interpreter: Interpreter,
    state: State,
    /// The last event read, until its state is read.
    event: Option<Envelope>,
    /// The recorded decisions about it.
    then: Option<(String, Directives)>,
    /// The files of each policy, by its digest: two policies may have used the same file name.
    files: BTreeMap<String, PolicyNames>,
    /// Whether everything compared so far was decided by this policy, with no part ignored.
    exact: bool,
    found: ReplayReport,
}

/// Why a session cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recorded tools cannot be used.
    #[error("the tools of event {seq} cannot be used: {source}")]
    Tools {
        /// The event.
        seq: u64,
        /// The error in the tools.
        source: CatalogueError,
    },
    /// The policy cannot be used with the recorded tools.
    #[error("the policy does not go with the tools of event {seq}: {source}")]
    Clash {
        /// The event.
        seq: u64,
        /// The conflict.
        source: NameClash,
    },
}

impl Replay {
    /// A replay before its first record, by `policy`.
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

    /// Continues if decisions only differ in these parts. Decisions of another policy are always compared without
    /// [`DecisionPart::Because`] and [`DecisionPart::Bounds`].
    #[must_use]
    pub fn pass_over(mut self, parts: DecisionParts) -> Self {
        self.pass_over = parts;
        self
    }

    /// Adds policies that replay their own decisions: those used before the session's policy was changed.
    #[must_use]
    pub fn earlier(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.earlier.extend(policies);
        self
    }

    /// Sets the state before the first record, if the log does not begin with the session's first event.
    #[must_use]
    pub fn at(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Takes the next record. After the first difference records are only counted.
    ///
    /// # Errors
    /// The recorded tools cannot be used, or not with this policy.
    pub fn take(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Session(header) => self.found.header = Some(header),
            Record::Event(envelope) => {
                // The event before has no recorded state, so its decision cannot be compared. It is still replayed, as
                // later events depend on it.
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

    /// Takes all these records. Returns the report.
    ///
    /// # Errors
    /// A record cannot be read or replayed.
    pub fn all<E>(
        mut self,
        records: impl IntoIterator<Item = Result<Record, E>>,
    ) -> Result<ReplayReport, NotReplayable<E>> {
        for record in records {
            self.take(record.map_err(NotReplayable::Read)?).map_err(NotReplayable::Decide)?;
        }
        Ok(self.end())
    }

    /// The report after the last record.
    pub fn end(mut self) -> ReplayReport {
        // An event without a recorded state was never acted upon.
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

    /// Selects the policy that made the recorded decision, if it is available.
    fn decides(&mut self, then: &str, envelope: &Envelope) -> Result<(), ReplayError> {
        let at_hand =
            self.earlier.iter().find(|policy| policy.digest() == then && then != self.policy.digest());
        let policy = at_hand.unwrap_or(&self.policy);
        if policy.digest() == self.interpreter.policy().digest() {
            return Ok(());
        }
        let (policy, tools) = (policy.clone(), self.interpreter.tools().clone());
        // The recorded policy fitted its tools, even if the log records them later. Tools in this event are checked
        // below.
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
            // Decisions do not depend on it.
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

/// The tools from this event on, if it changes them.
const fn tools_of(event: &Event) -> Option<&Vec<ToolFacts>> {
    match event {
        Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } => Some(tools),
        _ => None,
    }
}

/// Replays a complete session.
///
/// # Errors
/// A record cannot be read or replayed.
pub fn replay<E>(
    policy: &Policy,
    parts: DecisionParts,
    records: impl IntoIterator<Item = Result<Record, E>>,
) -> Result<ReplayReport, NotReplayable<E>> {
    Replay::new(policy.clone()).pass_over(parts).all(records)
}

/// Why a session was not replayed.
#[derive(Debug)]
pub enum NotReplayable<E> {
    /// A record cannot be read.
    Read(E),
    /// A record cannot be replayed.
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
        // The message is that of the inner error, so the chain continues below it.
        match self {
            Self::Read(error) => error.source(),
            Self::Decide(error) => error.source(),
        }
    }
}
