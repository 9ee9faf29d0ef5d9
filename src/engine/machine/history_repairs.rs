//! Repairs of a history that providers refuse: before a call, or once after a refusal.

use serde::{Deserialize, Serialize};

use super::super::because::{ShownValue, because};
use super::super::directive::{DecisionReason, Note, RepairHistory, Work};
use super::super::failure::Failure;
use super::super::orphans;
use super::run_parts::RunParts;
use super::then::NextMachine;
use super::turn_guidance::TurnGuidance;
use super::work_table::{RepairPurpose, WorkPurpose};
use crate::engine::measure::TurnMeasure;
use crate::policy::{ClassifiedFailure, ErrorClass, HistoryCheck, Policy};
use crate::session::{HistoryRepair, HistorySplice};

/// The state of history repairs in a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct HistoryRepairs {
    /// Whether a refusal has already led to a check of the history in this turn.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    asked: bool,
    /// The refusal, while the host checks the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Failure>,
}

impl HistoryRepairs {
    /// Whether the state is empty.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Starts the turn after the measurement, with a repair first if the history needs one.
    pub(in crate::engine) fn on_prepared(
        &mut self,
        measure: TurnMeasure,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        // A turn allows one repair after a refusal. The next turn has another history and its own repair.
        self.asked = false;
        let faults = measure.history_faults;
        if faults == 0
            // Checked before the call by default: a session with an orphaned call is refused for ever
            // (claude-code#473, opencode#5750, goose#2951).
            || run.policy().history().check.value != HistoryCheck::BeforeCall
            || !run.terms.can_repair()
        {
            return NextMachine::Begin(measure);
        }
        let why = why_repaired(run.policy(), format!("{} found before the call", count(faults, "fault")));
        ask_repair(RepairPurpose::Prepared(measure), why, run)
    }

    /// Handles a refused history, once per turn. `None`: the failure is an ordinary one.
    pub(in crate::engine) fn on_refused(
        &mut self,
        failure: &Failure,
        classified: ClassifiedFailure,
        run: &mut RunParts<'_>,
    ) -> Option<NextMachine> {
        let class = classified.class;
        // Only a request at fault indicates the history. Otherwise the provider failed to parse the call of this very
        // reply (Ollama, status 500), and the history is valid.
        let malformed = class == ErrorClass::MalformedToolCall && classified.request_at_fault;
        let never = run.policy().history().check.value == HistoryCheck::Never;
        if !(class == ErrorClass::OrphanToolCall || malformed)
            || never
            // SwarmSDK repairs once per request, too: a second refusal has another cause, and would repeat without
            // end.
            || self.asked
            || !run.terms.can_repair()
        {
            return None;
        }
        self.asked = true;
        // Kept while the host checks; if it finds nothing, this failure counts.
        self.refusal = Some(failure.clone());
        let why = why_repaired(run.policy(), format!("the provider refused the history: {class}"));
        Some(ask_repair(RepairPurpose::Refused, why, run))
    }

    /// Applies the repair that the host found, and continues the interrupted work. `target` is the current model.
    pub(in crate::engine) fn on_repaired(
        &mut self,
        what: RepairPurpose,
        repair: HistoryRepair,
        target: Option<&String>,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let refusal = self.refusal.take();
        let nothing = repair.is_empty();
        let messages = repaired_length(&repair);
        if !nothing {
            let refused =
                refusal.as_ref().map(|failure| (target.map_or("", String::as_str), &*failure.message));
            make(repair, refused, guidance, run);
        }
        match (what, refusal) {
            // A reduction that follows is made of the repaired conversation, and is checked against its length.
            (RepairPurpose::Prepared(measure), _) => {
                let messages = messages(measure.messages);
                NextMachine::Begin(TurnMeasure { messages, ..measure })
            }
            // The next request has another history, so it is not counted as a retry (SwarmSDK: "doesn't count as a
            // retry"). If nothing was found, the refusal is an ordinary failure.
            (RepairPurpose::Refused, Some(failure)) if nothing => NextMachine::failed(failure, run.policy()),
            (RepairPurpose::Refused, _) => NextMachine::Call,
        }
    }
}

/// The number of messages after the repair, by the number before.
fn repaired_length(repair: &HistoryRepair) -> impl Fn(u64) -> u64 + use<> {
    let total = |part: &dyn Fn(&HistorySplice) -> usize| {
        let sum = repair.splices.iter().map(part).fold(0_usize, usize::saturating_add);
        u64::try_from(sum).unwrap_or(u64::MAX)
    };
    let (removed, inserted) = (total(&|splice| splice.remove), total(&|splice| splice.insert.len()));
    move |before| before.saturating_sub(removed).saturating_add(inserted)
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
    let HistoryRepair { splices, pruned, .. } = repair;
    out.note(Note::Splice { splices }, Vec::new());
    // The request for the repair named the policy's choice for orphans, so it is not repeated.
    out.note(Note::OrphanToolCallsPruned(told), Vec::new());
    // The model must learn that calls are missing, or it relies on results that never came.
    if let Some(text) = orphans::reminder(rules, &pruned, &mut |template, vars| out.say(template, vars)) {
        guidance.guide(ErrorClass::OrphanToolCall, text, out);
    }
}

fn why_repaired(policy: &Policy, fact: String) -> Vec<DecisionReason> {
    let rules = policy.history();
    vec![
        because(policy, "history.check", &rules.check.map(ShownValue), [fact]),
        because(policy, "history.orphan_calls", &rules.orphan_calls.map(ShownValue), []),
    ]
}

fn ask_repair(what: RepairPurpose, why: Vec<DecisionReason>, run: &mut RunParts<'_>) -> NextMachine {
    let orphan_calls = run.policy().history().orphan_calls.value;
    let malformed_calls = run.policy().turn().malformed_calls.value;
    let repair = |work| Work::RepairHistory(RepairHistory { work, orphan_calls, malformed_calls });
    run.ask(WorkPurpose::Repair(what), repair, why);
    NextMachine::Host
}

/// `1 fault`, `2 faults`.
pub(in crate::engine) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
