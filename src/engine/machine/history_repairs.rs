//! A history that providers refuse: it is repaired before a call, or once after a provider has refused it.

use serde::{Deserialize, Serialize};

use super::super::because::{Shown, because};
use super::super::directive::{Because, Note, RepairHistory, Work};
use super::super::event::TurnMeasure;
use super::super::failure::Failure;
use super::super::orphans;
use super::run_parts::RunParts;
use super::then::Then;
use super::turn_guidance::TurnGuidance;
use super::work_table::{Pending, Repairing};
use crate::policy::{Classified, ErrorClass, HistoryCheck, Policy};
use crate::session::HistoryRepair;

/// What a turn remembers of repairs of its history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct HistoryRepairs {
    /// Whether the history was looked at in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    asked: bool,
    /// The refusal, while it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Failure>,
}

impl HistoryRepairs {
    /// Whether nothing is remembered.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The conversation is measured: the turn begins, after a repair if it needs one.
    pub(in crate::engine) fn on_prepared(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> Then {
        self.asked = false;
        let faults = measure.history_faults;
        if faults == 0
            || run.policy().history().check.value != HistoryCheck::BeforeCall
            || !run.terms.can_repair()
        {
            return Then::Begin(measure);
        }
        let why = why_repaired(run.policy(), format!("{} found before the call", count(faults, "fault")));
        ask_repair(Repairing::Prepared(measure), why, run)
    }

    /// A provider has refused the history: it is looked at once for each turn. `None`: the failure is one like others.
    pub(in crate::engine) fn on_refused(
        &mut self,
        failure: &Failure,
        classified: Classified,
        run: &mut RunParts<'_>,
    ) -> Option<Then> {
        let class = classified.class;
        // Without fault of the request it is the call of this reply that cannot be read, and none of the history.
        let malformed = class == ErrorClass::MalformedToolCall && classified.request_at_fault;
        let never = run.policy().history().check.value == HistoryCheck::Never;
        if !(class == ErrorClass::OrphanToolCall || malformed)
            || never
            || self.asked
            || !run.terms.can_repair()
        {
            return None;
        }
        self.asked = true;
        self.refusal = Some(failure.clone());
        let why = why_repaired(run.policy(), format!("the provider refused the history: {class}"));
        Some(ask_repair(Repairing::Refused, why, run))
    }

    /// The host has looked: what it found is repaired, and what was held back by it continues. `target` is the model that
    /// is due.
    pub(in crate::engine) fn on_repaired(
        &mut self,
        what: Repairing,
        repair: HistoryRepair,
        target: Option<&String>,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> Then {
        let refusal = self.refusal.take();
        let nothing = repair.is_empty();
        if !nothing {
            let refused =
                refusal.as_ref().map(|failure| (target.map_or("", String::as_str), &*failure.message));
            make(repair, refused, guidance, run);
        }
        match (what, refusal) {
            (Repairing::Prepared(measure), _) => Then::Begin(measure),
            // It is another history now, so this is no second attempt at the same request.
            (Repairing::Refused, Some(failure)) if nothing => Then::Failed(Box::new(failure)),
            (Repairing::Refused, _) => Then::Call,
        }
    }
}

fn make(
    mut repair: HistoryRepair,
    refused: Option<(&str, &str)>,
    guidance: &mut TurnGuidance,
    run: &mut RunParts<'_>,
) {
    let out = &mut run.out;
    let policy = out.rules.policy;
    let rules = policy.history();
    orphans::write(rules, &mut repair, &mut |template, vars| out.say(template, vars));
    let told = orphans::told(&repair, refused);
    let HistoryRepair { splices, pruned, injected, malformed, .. } = repair;
    out.note(Note::Splice { splices }, Vec::new());
    let facts = [
        (pruned.len(), "call taken out"),
        (injected.len(), "result put in"),
        (malformed, "call with arguments that are no JSON object"),
    ];
    let facts = facts.into_iter().filter(|(number, _)| *number > 0);
    let facts: Vec<String> = facts.map(|(number, what)| format!("{what}: {number}")).collect();
    let why = because(policy, "history.orphan_calls", &rules.orphan_calls.map(Shown), facts);
    out.note(Note::OrphanToolCallsPruned(told), vec![why]);
    if let Some(text) = orphans::reminder(rules, &pruned, &mut |template, vars| out.say(template, vars)) {
        guidance.guide(ErrorClass::OrphanToolCall, text, out);
    }
}

fn why_repaired(policy: &Policy, fact: String) -> Vec<Because> {
    vec![because(policy, "history.check", &policy.history().check.map(Shown), [fact])]
}

fn ask_repair(what: Repairing, why: Vec<Because>, run: &mut RunParts<'_>) -> Then {
    let orphan_calls = run.policy().history().orphan_calls.value;
    let malformed_calls = run.policy().turn().malformed_calls.value;
    let repair = |work| Work::RepairHistory(RepairHistory { work, orphan_calls, malformed_calls });
    run.ask(Pending::Repair(what), repair, why);
    Then::Host
}

/// `1 fault`, `2 faults`.
pub(in crate::engine) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
