//! Histories that providers refuse, for a host that repairs its own conversation.

use serde_json::Value;

use super::{Guard, GuardParts, in_span};
use crate::context::repair;
use crate::engine::{Note, OrphanToolCallsPruned, orphans};
use crate::host::trace;
use crate::policy::{ErrorClass, HistoryCheck, Policy, Setting};
use crate::session::{Message, splice};
use crate::text::Template;

/// The way to the conversation in a request.
pub(super) type FindHistory<R> = Box<dyn Fn(&mut R) -> &mut Vec<Message> + Send + Sync>;

impl Guard {
    /// Repairs a conversation before it goes into a request, as `history:` in the policy says: calls without a result,
    /// results without a call, second and misplaced results, and arguments that are no JSON object. `None`: there was
    /// nothing to repair, or the policy does not want it looked at before a call.
    pub fn repair_history(&self, messages: &mut Vec<Message>) -> Option<OrphanToolCallsPruned> {
        let rules = self.inner.live.current();
        let looks = rules.history().check.value == HistoryCheck::BeforeCall;
        looks.then(|| self.inner.repair_history(&rules, messages)).flatten()
    }
}

impl GuardParts {
    fn repair_history(&self, rules: &Policy, messages: &mut Vec<Message>) -> Option<OrphanToolCallsPruned> {
        let history = rules.history();
        let mut repair = repair(messages, history.orphan_calls.value, rules.turn().malformed_calls.value);
        if repair.is_empty() {
            return None;
        }
        let mut say = |template: &Setting<Template>, vars: Value| {
            self.say(rules, &template.value, &vars).unwrap_or_else(|error| error.to_string())
        };
        orphans::write(history, &mut repair, &mut say);
        splice(messages, &repair.splices);
        let reminder = orphans::reminder(history, &repair.pruned, &mut say);
        let guidance = Some(ErrorClass::OrphanToolCall.name().to_owned());
        messages.extend(reminder.map(|text| Message::User { text, guidance }));
        let told = orphans::told(&repair, None);
        let because = format!("history.orphan_calls ({})", rules.place(history.orphan_calls.origin));
        let note = Note::OrphanToolCallsPruned(told.clone());
        in_span(&self.id, rules, || trace::note(note, Some(because)));
        Some(told)
    }
}
