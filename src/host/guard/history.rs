//! Histories that providers refuse, in the requests of a guarded turn.

use serde_json::Value;

use super::{Guard, Inner};
use crate::context::repair;
use crate::engine::{OrphanToolCallsPruned, orphans};
use crate::host::trace;
use crate::policy::{ErrorClass, HistoryCheck, Policy, Setting, Template};
use crate::session::{Message, splice};

/// The way to the conversation in a request.
pub(super) type Find<R> = Box<dyn Fn(&mut R) -> &mut Vec<Message> + Send + Sync>;

/// The request of one turn: as it was given, or with its history repaired.
pub(super) struct Request<'a, R> {
    given: &'a R,
    find: Option<&'a Find<R>>,
    repaired: Option<R>,
    /// Whether it was looked at after a refusal.
    asked: bool,
}

impl<'a, R: Clone> Request<'a, R> {
    pub(super) const fn new(given: &'a R, find: Option<&'a Find<R>>) -> Self {
        Self { given, find, repaired: None, asked: false }
    }

    /// As it is sent.
    pub(super) fn now(&self) -> R {
        self.repaired.as_ref().unwrap_or(self.given).clone()
    }

    /// Repairs the history before the first call, if the policy wants it looked at then.
    pub(super) fn check(&mut self, inner: &Inner, rules: &Policy) {
        if rules.history().check.value == HistoryCheck::BeforeCall {
            self.repair(inner, rules, None);
        }
    }

    /// A provider has refused the history: it is looked at once. `true`: it is another one now.
    pub(super) fn refused(
        &mut self,
        inner: &Inner,
        rules: &Policy,
        class: ErrorClass,
        by: (&str, &str),
    ) -> bool {
        let of_history = matches!(class, ErrorClass::OrphanToolCall | ErrorClass::MalformedToolCall);
        let looks = of_history && rules.history().check.value != HistoryCheck::Never;
        looks && !std::mem::replace(&mut self.asked, true) && self.repair(inner, rules, Some(by))
    }

    fn repair(&mut self, inner: &Inner, rules: &Policy, refused: Option<(&str, &str)>) -> bool {
        let Some(find) = self.find else { return false };
        let mut request = self.now();
        let repaired = inner.repair_history(rules, find(&mut request), refused).is_some();
        if repaired {
            self.repaired = Some(request);
        }
        repaired
    }
}

impl Guard {
    /// Repairs a conversation before it goes into a request, as `history:` in the policy says: calls without a result,
    /// results without a call, second and misplaced results, and arguments that are no JSON object. `None`: there was
    /// nothing to repair, or the policy does not want it looked at before a call.
    pub fn repair_history(&self, messages: &mut Vec<Message>) -> Option<OrphanToolCallsPruned> {
        let rules = self.inner.live.current();
        let looks = rules.history().check.value == HistoryCheck::BeforeCall;
        looks.then(|| self.inner.repair_history(&rules, messages, None)).flatten()
    }
}

impl Inner {
    fn repair_history(
        &self,
        rules: &Policy,
        messages: &mut Vec<Message>,
        refused: Option<(&str, &str)>,
    ) -> Option<OrphanToolCallsPruned> {
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
        let told = orphans::told(&repair, refused);
        let because = format!("history.orphan_calls ({})", rules.place(history.orphan_calls.origin));
        self.in_span(rules, || trace::orphans(&told, &because));
        Some(told)
    }
}
