//! Questions to people: one after the other, in the order of the calls.

use serde_json::{Value, json};

use super::super::ask::{Answer, Ask, Question};
use super::super::because::{Shown, because};
use super::super::directive::{Because, Work};
use super::super::machine::{Pending, Then};
use super::super::reason::Reason;
use super::super::state::{Refusal, Slot, SlotPhase};
use super::Step;
use crate::policy::{CallPolicy, ErrorClass, Scope, Unanswered};

impl Step<'_> {
    /// Asks about the first call that waits for it, unless a person is being asked about another.
    pub(super) fn ask_next(&mut self) {
        let asked = |pending: &Pending| matches!(pending, Pending::Approve(_) | Pending::ApproveAgain(_));
        while !self.state.work.any(asked) {
            let Some(index) = self.state.batch.gate.next_question() else { return };
            let Some(slot) = self.state.batch.slots.get(index) else { return };
            let (phase, slot) = (slot.phase.clone(), slot.without_history());
            match phase {
                SlotPhase::Unasked => {
                    if let Some(refusal) = self.too_late(&slot) {
                        self.refuse_agreed(index, refusal);
                    } else if self.state.tools.is_agreed(&slot.tool) {
                        self.begin_agreed(index, Vec::new());
                    } else {
                        self.ask_whether(index, &slot);
                    }
                }
                SlotPhase::Doubtful(doubt) => self.ask_again(index, &slot, &doubt),
                _ => {}
            }
        }
    }

    /// Asks whether the call of a slot may run.
    fn ask_whether(&mut self, index: usize, slot: &Slot) {
        self.set_phase(index, SlotPhase::Asked);
        let CallPolicy { policy, left_out } =
            self.policy.call(&slot.tool, &slot.arguments, slot.planner.as_ref());
        // A condition that cannot be told keeps its gate shut: the reason is told beside the rule.
        let unsure = left_out.into_iter().filter(|_| policy.approval.origin.scope == Scope::Call);
        let why = because(self.policy, "approval", &policy.approval.map(Shown), unsure);
        self.ask_person(Pending::Approve(index), Question::Run, slot, "", why);
    }

    pub(super) fn ask_person(
        &mut self,
        pending: Pending,
        question: Question,
        slot: &Slot,
        message: &str,
        why: Because,
    ) {
        let own = self.policy.turn().approval.timeout.value.length();
        let left = self.deadline().map(|deadline| deadline.since(self.state.now));
        let ask = Ask {
            work: self.state.work.issue(pending),
            question,
            call: slot.call.clone(),
            tool: slot.tool.clone(),
            arguments: Value::clone(&slot.arguments),
            message: message.to_owned(),
            // Nobody is waited for longer than the run has time.
            timeout: [own, left].into_iter().flatten().min(),
        };
        self.ask(Work::Ask(ask), vec![why]);
    }

    /// A person has answered whether the call of a slot may run, or nobody has.
    pub(super) fn approved(&mut self, index: usize, answer: Answer) -> Then {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else {
            return Then::Host;
        };
        let unanswered = &self.policy.turn().approval.unanswered;
        let (yes, answered) = match answer {
            Answer::Approve | Answer::ApproveAll => (true, true),
            Answer::Refuse => (false, true),
            Answer::None => (unanswered.value == Unanswered::Approve, false),
        };
        if answer == Answer::ApproveAll {
            self.state.tools.agree(&slot.tool);
        }
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let why = if answered {
            let fact = if yes { "the user agreed" } else { "the user did not agree" };
            Reason::new(self.policy, "approval", &policy.approval.map(Shown), [fact.to_owned()])
        } else {
            let rule = unanswered.map(Shown);
            Reason::new(self.policy, "turn.approval.unanswered", &rule, ["nobody answered".to_owned()])
        };
        if yes {
            self.begin_agreed(index, vec![why.told(self.policy)]);
        } else {
            let vars: Value = json!({ "tool": slot.tool, "answered": answered });
            let text = self.say(&policy.messages.not_approved, vars);
            let class = ErrorClass::PermissionDenied;
            self.refuse_agreed(index, Refusal { class, text, because: vec![why] });
        }
        self.ask_next();
        self.settle()
    }
}
