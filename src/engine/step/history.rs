//! A history that providers refuse: it is repaired before a call, or once after a provider has refused it.

use super::super::because::{Shown, because};
use super::super::directive::{Because, Note, RepairHistory, Work};
use super::super::event::TurnMeasure;
use super::super::failure::Failure;
use super::super::orphans;
use super::super::state::{Pending, Repairing};
use super::Step;
use crate::policy::{Classified, ErrorClass, HistoryCheck};
use crate::session::HistoryRepair;

impl Step<'_> {
    /// The conversation is measured: the turn begins, after a repair if it needs one.
    pub(super) fn turn_prepared(&mut self, measure: TurnMeasure) {
        self.state.model_turn.history_asked = false;
        self.state.model_turn.reductions.turn_begins();
        let faults = measure.history_faults;
        if faults == 0 || self.policy.history().check.value != HistoryCheck::BeforeCall {
            return self.begin_turn(measure);
        }
        let why = self.why_repaired(format!("{} found before the call", count(faults, "fault")));
        self.ask_repair(Repairing::Prepared(measure), why);
    }

    /// A provider has refused the history: it is looked at once for each turn. `false`: the failure is one like others.
    pub(super) fn history_refused(&mut self, failure: &Failure, classified: Classified) -> bool {
        let class = classified.class;
        // Without fault of the request it is the call of this reply that cannot be read, and none of the history.
        let malformed = class == ErrorClass::MalformedToolCall && classified.request_at_fault;
        let never = self.policy.history().check.value == HistoryCheck::Never;
        if !(class == ErrorClass::OrphanToolCall || malformed) || never || self.state.model_turn.history_asked
        {
            return false;
        }
        self.state.model_turn.history_asked = true;
        self.state.model_turn.history_refusal = Some(failure.clone());
        let why = self.why_repaired(format!("the provider refused the history: {class}"));
        self.ask_repair(Repairing::Refused, why);
        true
    }

    /// The host has looked: what it found is repaired, and what was held back by it goes on.
    pub(super) fn history_repaired(&mut self, what: Repairing, repair: HistoryRepair) {
        let refusal = self.state.model_turn.history_refusal.take();
        let nothing = repair.is_empty();
        if !nothing {
            self.repair_history(repair, refusal.as_ref());
        }
        match (what, refusal) {
            (Repairing::Prepared(measure), _) => self.begin_turn(measure),
            // It is another history now, so this is no second attempt at the same request.
            (Repairing::Refused, Some(failure)) if nothing => self.model_failed(&failure),
            (Repairing::Refused, _) => self.call_model(),
        }
    }

    fn repair_history(&mut self, mut repair: HistoryRepair, refusal: Option<&Failure>) {
        let rules = self.policy.history();
        orphans::write(rules, &mut repair, &mut |template, vars| self.say(template, vars));
        let model = refusal.and_then(|_| self.state.target().cloned()).unwrap_or_default();
        let told = orphans::told(&repair, refusal.map(|failure| (&*model, &*failure.message)));
        let HistoryRepair { splices, pruned, injected, malformed, .. } = repair;
        self.note(Note::Splice { splices }, Vec::new());
        let facts = [
            (pruned.len(), "call taken out"),
            (injected.len(), "result put in"),
            (malformed, "call with arguments that are no JSON object"),
        ];
        let facts = facts.into_iter().filter(|(number, _)| *number > 0);
        let facts: Vec<String> = facts.map(|(number, what)| format!("{what}: {number}")).collect();
        let why = because(self.policy, "history.orphan_calls", &rules.orphan_calls.map(Shown), facts);
        self.note(Note::OrphanToolCallsPruned(told), vec![why]);
        if let Some(text) = orphans::reminder(rules, &pruned, &mut |template, vars| self.say(template, vars))
        {
            self.guide(ErrorClass::OrphanToolCall, text);
        }
    }

    fn why_repaired(&self, fact: String) -> Vec<Because> {
        vec![because(self.policy, "history.check", &self.policy.history().check.map(Shown), [fact])]
    }

    fn ask_repair(&mut self, what: Repairing, why: Vec<Because>) {
        let work = self.state.issue(Pending::Repair(what));
        let orphan_calls = self.policy.history().orphan_calls.value;
        let malformed_calls = self.policy.turn().malformed_calls.value;
        self.ask(Work::RepairHistory(RepairHistory { work, orphan_calls, malformed_calls }), why);
    }
}

pub(super) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
