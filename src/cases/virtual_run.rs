//! A run in virtual time: the interpreter, and work that ends at times the clock jumps to. Nothing sleeps.

use std::collections::BTreeMap;

use crate::engine::{Directives, Envelope, Event, Interpreter, State, WorkId};
use crate::time::Instant;

/// A run in virtual time.
#[derive(Debug, Default)]
pub(crate) struct VirtualRun {
    pub(crate) state: State,
    /// The events that answer the work in flight, in the order in which they happen.
    in_flight: BTreeMap<WorkEnd, Event>,
    begun: u64,
}

/// When work ends; its rank and its number among what ends in the same moment.
type WorkEnd = (Instant, usize, u64);

impl VirtualRun {
    /// The next run of the session.
    pub(crate) fn next_run(&self) -> Self {
        Self { state: self.state.next_run(), ..Self::default() }
    }

    /// The event as the next one of the run.
    pub(crate) fn envelope(&self, now: Instant, event: Event) -> Envelope {
        Envelope { seq: self.state.seq.saturating_add(1), now, event }
    }

    /// What the interpreter decides. The caller begins the work and withdraws what was dropped.
    pub(crate) fn step(&mut self, interpreter: &Interpreter, envelope: Envelope) -> Directives {
        interpreter.step(&mut self.state, envelope)
    }

    /// Begins work that ends at `due`. Of what ends in the same moment the lowest rank comes first, then what began first.
    pub(crate) fn begin(&mut self, due: Instant, rank: usize, event: Event) {
        self.begun = self.begun.saturating_add(1);
        self.in_flight.insert((due, rank, self.begun), event);
    }

    /// The work is not wanted any more.
    pub(crate) fn withdraw(&mut self, work: WorkId) {
        self.in_flight.retain(|_, event| event.work() != Some(work));
    }

    /// Nothing that is in flight ends any more.
    pub(crate) fn cancel(&mut self) {
        self.in_flight.clear();
    }

    /// When the next piece of work ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.in_flight.first_key_value().map(|((due, ..), _)| *due)
    }

    /// Ends the next piece of work.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.in_flight.pop_first().map(|(_, event)| event)
    }
}
