//! A history that providers refuse: it is repaired before a call, or once after a provider has refused it.

use serde_json::{Value, json};

use super::super::because::{Shown, because};
use super::super::directive::{Because, Note, OrphanToolCallsPruned, RepairHistory, Work};
use super::super::event::TurnMeasure;
use super::super::failure::Failure;
use super::super::state::{Pending, Repairing};
use super::Step;
use crate::policy::{ErrorClass, HistoryCheck};
use crate::session::{HistoryRepair, ToolCall};

impl Step<'_> {
    /// The conversation is measured: the turn begins, after a repair if it needs one.
    pub(super) fn turn_prepared(&mut self, measure: TurnMeasure) {
        self.state.history_asked = false;
        let faults = measure.history_faults;
        if faults == 0 || self.policy.history().check.value != HistoryCheck::BeforeCall {
            return self.begin_turn(measure);
        }
        let why = self.why_repaired(format!("{} found before the call", count(faults, "fault")));
        self.ask_repair(Repairing::Prepared(measure), why);
    }

    /// A provider has refused the history: it is looked at once for each turn. `false`: the failure is one like others.
    pub(super) fn history_refused(&mut self, failure: &Failure, class: ErrorClass) -> bool {
        let never = self.policy.history().check.value == HistoryCheck::Never;
        if class != ErrorClass::OrphanToolCall || never || self.state.history_asked {
            return false;
        }
        self.state.history_asked = true;
        self.state.history_refusal = Some(failure.clone());
        let why = self.why_repaired(format!("the provider refused the history: {class}"));
        self.ask_repair(Repairing::Refused, why);
        true
    }

    /// The host has looked: what it found is repaired, and what was held back by it goes on.
    pub(super) fn history_repaired(&mut self, what: Repairing, repair: HistoryRepair) {
        let refusal = self.state.history_refusal.take();
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
        repair.write(&mut |result| self.say(&rules.injected_message, json!({ "tool": result.tool })));
        let HistoryRepair { splices, pruned, injected, dropped, moved } = repair;
        self.note(Note::Splice { splices }, Vec::new());
        let facts = [(pruned.len(), "call taken out"), (injected.len(), "result put in")];
        let facts = facts.into_iter().filter(|(number, _)| *number > 0);
        let facts: Vec<String> = facts.map(|(number, what)| format!("{what}: {number}")).collect();
        let why = because(self.policy, "history.orphan_calls", &rules.orphan_calls.map(Shown), facts);
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let told = OrphanToolCallsPruned {
            pruned_count: number(pruned.len()),
            injected_count: number(injected.len()),
            dropped_count: number(dropped),
            moved_count: number(moved),
            model: refusal.and_then(|_| self.state.target().cloned()),
            original_error: refusal.map(|failure| failure.message.clone()),
        };
        self.note(Note::OrphanToolCallsPruned(told), vec![why]);
        if pruned.is_empty() {
            return;
        }
        let most = usize::try_from(rules.argument_chars.value.get()).unwrap_or(usize::MAX);
        let call = |call: &ToolCall| json!({ "tool": call.name, "arguments": arguments(call, most) });
        let calls: Value = pruned.iter().map(call).collect();
        let text = self.say(&rules.pruned_message, json!({ "calls": calls }));
        self.guide(ErrorClass::OrphanToolCall, text);
    }

    fn why_repaired(&self, fact: String) -> Vec<Because> {
        vec![because(self.policy, "history.check", &self.policy.history().check.map(Shown), [fact])]
    }

    fn ask_repair(&mut self, what: Repairing, why: Vec<Because>) {
        let work = self.state.issue(Pending::Repair(what));
        let orphan_calls = self.policy.history().orphan_calls.value;
        self.ask(Work::RepairHistory(RepairHistory { work, orphan_calls }), why);
    }
}

/// The arguments of a call in one line, as a person would write them; each text among them is cut.
fn arguments(call: &ToolCall, most: usize) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(&call.arguments) else {
        return cut(&call.arguments, most);
    };
    let field = |(name, value): (String, Value)| match value {
        Value::String(text) => format!("{name}: {}", Value::from(cut(&text, most))),
        value => format!("{name}: {}", cut(&value.to_string(), most)),
    };
    fields.into_iter().map(field).collect::<Vec<_>>().join(", ")
}

/// A text of at most so many characters; what is cut ends with three dots.
fn cut(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{start}...")
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        arguments(&ToolCall { id: "x".into(), name: "t".into(), arguments: text.into() }, 50)
    }

    #[test]
    fn arguments_are_shown_as_a_person_would_write_them() {
        assert_eq!(shown(r#"{"file_path": "/a.rb", "line": 3}"#), r#"file_path: "/a.rb", line: 3"#);
        assert_eq!(shown("{}"), "");
    }

    #[test]
    fn a_text_over_fifty_characters_is_cut_at_forty_seven() {
        let (fits, over) = ("é".repeat(50), "é".repeat(51));
        assert_eq!(shown(&json!({ "a": fits }).to_string()), format!("a: \"{fits}\""));
        assert_eq!(shown(&json!({ "a": over }).to_string()), format!("a: \"{}...\"", "é".repeat(47)));
    }

    #[test]
    fn whatever_else_is_long_is_cut_too() {
        assert_eq!(shown(&json!({ "a": vec![1_000_000; 20] }).to_string()).chars().count(), 53);
        assert_eq!(shown(&"{broken ".repeat(20)).chars().count(), 50);
    }
}
