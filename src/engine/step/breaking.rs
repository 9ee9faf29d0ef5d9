//! The breakers of a run: what they count, which calls they let through, which tools are not shown, and when they
//! begin anew.

use serde_json::json;

use super::super::because::{because, threshold};
use super::super::breaker::{Admission, Breaker, BreakerPhase};
use super::super::directive::{Because, Note};
use super::super::gate::Place;
use super::super::reason::Reason;
use super::super::state::{Refusal, Slot};
use super::Step;
use super::queue::Entry;
use crate::policy::{Bound, BreakerPolicy, BreakerScope, Counting, ErrorClass, ToolPolicy};

impl Step<'_> {
    /// Asks the breaker of a tool about a call, where so many others of the tool have a place.
    pub(super) fn admit(&mut self, tool: &str, policy: &ToolPolicy, places: u32) -> Entry {
        let now = self.state.now;
        let admission = match self.state.tools.breakers.get_mut(tool) {
            Some(breaker) if breaker.is_full(&policy.breaker, places) => return Entry::Later,
            Some(breaker) => breaker.ask(now),
            None if Breaker::default().is_full(&policy.breaker, places) => return Entry::Later,
            None => Admission::Run,
        };
        match admission {
            Admission::Run => Entry::Free(Place::Run),
            Admission::Probe => {
                let state = BreakerPhase::HalfOpen;
                self.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
                Entry::Free(Place::Probe)
            }
            Admission::Refused => Entry::Refused(self.broken(tool, policy)),
        }
    }

    /// Asks the breaker again about a call that has had its place for a while.
    pub(super) fn no_longer_admitted(
        &mut self,
        index: usize,
        slot: &Slot,
        policy: &ToolPolicy,
    ) -> Option<Refusal> {
        let phase = self.state.tools.breakers.get(&slot.tool)?.phase();
        if phase == BreakerPhase::Closed
            || (phase, slot.place) == (BreakerPhase::HalfOpen, Some(Place::Probe))
        {
            return None;
        }
        match self.admit(&slot.tool, policy, 0) {
            Entry::Free(place) => self.set_place(index, Some(place)),
            Entry::Refused(refusal) => return Some(refusal),
            // Of no others it was told.
            Entry::Later | Entry::Full => {}
        }
        None
    }

    /// A probe that says nothing about the tool's health is given back, so that the next call may try.
    pub(super) fn return_probe(&mut self, index: usize) {
        let now = self.state.now;
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return };
        if slot.place != Some(Place::Probe) {
            return;
        }
        slot.place = Some(Place::Run);
        let tool = slot.tool.clone();
        let Some(breaker) = self.state.tools.breakers.get_mut(&tool) else { return };
        if breaker.phase() == BreakerPhase::HalfOpen {
            breaker.returned(now);
            let (state, until) = (breaker.phase(), breaker.open_until());
            self.note(Note::Breaker { tool, state, until }, Vec::new());
        }
    }

    /// Why a call does not run while the breaker is open.
    fn broken(&mut self, tool: &str, policy: &ToolPolicy) -> Refusal {
        let failures = self.state.tools.breakers.get(tool).map_or(0, Breaker::failures);
        let text = self.say(&policy.breaker.message, json!({ "tool": tool, "failures": failures }));
        let because = vec![self.why_open(&policy.breaker, failures)];
        Refusal { class: ErrorClass::CircuitOpen, text, because }
    }

    /// Whether the breaker has opened since the run began, and what comes of it moves nothing.
    fn is_late(&self, slot: &Slot) -> bool {
        let phase = self.state.tools.breakers.get(&slot.tool).map(Breaker::phase);
        phase == Some(BreakerPhase::HalfOpen) && slot.place != Some(Place::Probe)
    }

    /// Whether the breaker is open once a failure of the run is counted.
    pub(super) fn would_open(&self, slot: &Slot, policy: &ToolPolicy) -> bool {
        let mut breaker = self.state.tools.breakers.get(&slot.tool).cloned().unwrap_or_default();
        if !self.is_late(slot) {
            breaker.failed(&policy.breaker, self.state.now);
        }
        breaker.phase() == BreakerPhase::Open
    }

    /// A run of the tool failed.
    pub(super) fn count_failure(&mut self, slot: &Slot, policy: &ToolPolicy) {
        if self.is_late(slot) {
            return;
        }
        let (now, tool) = (self.state.now, &slot.tool);
        let breaker = self.state.tools.breakers.entry(tool.to_owned()).or_default();
        if !breaker.failed(&policy.breaker, now) {
            return;
        }
        let (until, failures) = (breaker.open_until(), breaker.failures());
        let mut why = vec![self.why_open(&policy.breaker, failures).told(self.policy)];
        why.extend(self.why_for_long(&policy.breaker));
        self.note(Note::Breaker { tool: tool.to_owned(), state: BreakerPhase::Open, until }, why);
    }

    /// A run of the tool went well.
    pub(super) fn count_success(&mut self, slot: &Slot, policy: &ToolPolicy) {
        if self.is_late(slot) {
            return;
        }
        let (now, tool) = (self.state.now, &slot.tool);
        let closed = if matches!(policy.breaker.count.value, Counting::Window(_)) {
            self.state.tools.breakers.entry(tool.to_owned()).or_default().succeeded(&policy.breaker, now)
        } else {
            let breaker = self.state.tools.breakers.get_mut(tool);
            breaker.is_some_and(|breaker| breaker.succeeded(&policy.breaker, now))
        };
        if closed {
            let state = BreakerPhase::Closed;
            self.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
        }
    }

    /// A turn begins: what was known for one turn only is forgotten.
    pub(super) fn breakers_of_turn(&mut self) {
        let mut closed = Vec::new();
        self.state.tools.breakers.retain(|tool, breaker| {
            let stays = breaker.scope() != BreakerScope::Turn;
            if !stays && breaker.phase() != BreakerPhase::Closed {
                closed.push(tool.clone());
            }
            stays
        });
        for tool in closed {
            let policy = self.policy.tool(&tool);
            let fact = "another turn begins".to_owned();
            let why = vec![because(self.policy, "breaker.scope", &policy.breaker.scope, [fact])];
            self.note(Note::Breaker { tool, state: BreakerPhase::Closed, until: None }, why);
        }
    }

    /// The tools that a model may be shown. Says which are not, if that has changed.
    pub(super) fn shown_tools(&mut self) -> Vec<String> {
        let now = self.state.now;
        let mut hidden = Vec::new();
        let mut why = Vec::new();
        for (tool, breaker) in &self.state.tools.breakers {
            if !breaker.is_open(now) || self.tools.get(tool).is_none() {
                continue;
            }
            let policy = self.policy.tool(tool);
            if policy.breaker.hide.value {
                hidden.push(tool.clone());
                let fact = format!("the breaker of {tool} is open");
                why.push(because(self.policy, "breaker.hide", &policy.breaker.hide, [fact]));
            }
        }
        if self.state.tools.hidden != hidden {
            self.state.tools.hidden.clone_from(&hidden);
            self.note(Note::ToolsHidden { tools: hidden }, why);
        }
        let hidden = &self.state.tools.hidden;
        let shown =
            self.tools.names().filter(|name| hidden.binary_search_by(|one| (**one).cmp(name)).is_err());
        shown.map(str::to_owned).collect()
    }

    /// What says how long a breaker stays open that lets no probe through, if it is not the run.
    fn why_for_long(&self, breaker: &BreakerPolicy) -> Option<Because> {
        let told = breaker.open_for.value == Bound::Unlimited && breaker.scope.value != BreakerScope::Run;
        let fact = || "no probe is let through".to_owned();
        told.then(|| because(self.policy, "breaker.scope", &breaker.scope, [fact()]))
    }

    fn why_open(&self, breaker: &BreakerPolicy, failures: u32) -> Reason {
        let fact = match breaker.count.value {
            Counting::Consecutive => format!("{failures} failures in a row"),
            Counting::Cumulative => format!("{failures} failures in all"),
            Counting::Window(window) => {
                format!("{failures} failures among the last {} results", window.calls)
            }
        };
        Reason::new(self.policy, "breaker.failures", &threshold(breaker), [fact])
    }
}
