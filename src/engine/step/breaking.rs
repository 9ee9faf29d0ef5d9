//! The breakers of a run: what they count, which calls wait for others to end, which tools are not shown, and when they
//! begin anew.

use serde_json::json;

use super::super::because::{because, threshold};
use super::super::breaker::{Admission, BreakerPhase};
use super::super::directive::{Because, Note};
use super::super::state::{Refusal, SlotPhase};
use super::Step;
use crate::policy::{BreakerPolicy, BreakerScope, Counting, ErrorClass, ToolPolicy};

/// Whether a call may begin.
pub(super) enum Entry {
    /// It may.
    Free,
    /// When others of its tool have ended.
    Later,
    /// It may not.
    Refused(Refusal),
}

impl Step<'_> {
    /// Asks the breaker of a tool. Whoever may begin is under way from now on.
    pub(super) fn enter(&mut self, tool: &str, policy: &ToolPolicy) -> Entry {
        let now = self.state.now;
        let under_way = self.state.gate.under_way(tool);
        let admission = match self.state.breakers.get_mut(tool) {
            Some(breaker) if breaker.is_full(&policy.breaker, under_way) => return Entry::Later,
            Some(breaker) => breaker.ask(now),
            None => {
                if super::super::Breaker::default().is_full(&policy.breaker, under_way) {
                    return Entry::Later;
                }
                Admission::Run
            }
        };
        match admission {
            Admission::Run => {}
            Admission::Probe => {
                let state = BreakerPhase::HalfOpen;
                self.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
            }
            Admission::Refused => return Entry::Refused(self.broken(tool, policy)),
        }
        self.state.gate.enter(tool);
        Entry::Free
    }

    /// Why a call does not run while the breaker is open.
    fn broken(&mut self, tool: &str, policy: &ToolPolicy) -> Refusal {
        let failures = self.state.breakers.get(tool).map_or(0, super::super::Breaker::failures);
        let text = self.say(&policy.breaker.message, json!({ "tool": tool, "failures": failures }));
        let because = vec![self.why_open(&policy.breaker, failures)];
        Refusal { class: ErrorClass::CircuitOpen, text, because }
    }

    /// A call that ran is over: those of its tool that waited for it are asked for again.
    pub(super) fn leave(&mut self, tool: &str) {
        self.state.gate.leave(tool);
        while let Some(index) = self.state.gate.first(tool) {
            let Some(slot) = self.state.batch.get(index).map(super::super::state::Slot::without_history)
            else {
                return;
            };
            if let Some(refusal) = self.only_the_end(tool) {
                self.state.gate.release(tool);
                self.set_phase(index, SlotPhase::Refused(refusal));
                continue;
            }
            let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
            match self.enter(tool, &policy) {
                Entry::Later => return,
                Entry::Free => {
                    self.state.gate.release(tool);
                    self.set_phase(index, SlotPhase::UnderWay);
                    self.run_tool(index, Vec::new());
                }
                Entry::Refused(refusal) => {
                    self.state.gate.release(tool);
                    self.set_phase(index, SlotPhase::Refused(refusal));
                }
            }
        }
    }

    /// A run of the tool failed.
    pub(super) fn count_failure(&mut self, tool: &str, policy: &ToolPolicy) {
        let now = self.state.now;
        let breaker = self.state.breakers.entry(tool.to_owned()).or_default();
        if !breaker.failed(&policy.breaker, now) {
            return;
        }
        let (until, failures) = (breaker.open_until(), breaker.failures());
        let why = vec![self.why_open(&policy.breaker, failures)];
        self.note(Note::Breaker { tool: tool.to_owned(), state: BreakerPhase::Open, until }, why);
    }

    /// A run of the tool went well.
    pub(super) fn count_success(&mut self, tool: &str, policy: &ToolPolicy) {
        let now = self.state.now;
        let closed = if matches!(policy.breaker.count.value, Counting::Window(_)) {
            self.state.breakers.entry(tool.to_owned()).or_default().succeeded(&policy.breaker, now)
        } else {
            let breaker = self.state.breakers.get_mut(tool);
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
        self.state.breakers.retain(|tool, breaker| {
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
        for (tool, breaker) in &self.state.breakers {
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
        if self.state.hidden != hidden {
            self.state.hidden.clone_from(&hidden);
            self.note(Note::ToolsHidden { tools: hidden }, why);
        }
        let hidden = &self.state.hidden;
        let shown =
            self.tools.names().filter(|name| hidden.binary_search_by(|one| (**one).cmp(name)).is_err());
        shown.map(str::to_owned).collect()
    }

    fn why_open(&self, breaker: &BreakerPolicy, failures: u32) -> Because {
        let fact = match breaker.count.value {
            Counting::Consecutive => format!("{failures} failures in a row"),
            Counting::Cumulative => format!("{failures} failures in all"),
            Counting::Window(window) => {
                format!("{failures} failures among the last {} results", window.calls)
            }
        };
        because(self.policy, "breaker.failures", &threshold(breaker), [fact])
    }
}
