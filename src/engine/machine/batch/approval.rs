//! Questions to people: one after the other, in the order of the calls.

use serde_json::{Value, json};

use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::Batch;
use super::doubt::ask_again;
use super::queue::too_late;
use super::slot::{Refusal, Slot, SlotPhase};
use crate::engine::ask::{Answer, Ask, Question};
use crate::engine::because::{Shown, because};
use crate::engine::directive::{Because, Work, WorkId};
use crate::engine::reason::Reason;
use crate::policy::{CallPolicy, ErrorClass, Scope, Unanswered};

impl Batch {
    /// Asks about the first call that waits for it, unless a person is being asked about another.
    pub(in crate::engine) fn ask_next(&mut self, run: &mut RunParts<'_>) -> Result<(), Then> {
        let asked = |_, pending: &Pending| matches!(pending, Pending::Approve(_) | Pending::ApproveAgain(_));
        while !run.work.any(asked) {
            let Some(index) = run.queue.next_question(run.proposal) else { return Ok(()) };
            let Some(slot) = self.slot(index) else { return Ok(()) };
            run.out.about(index);
            let (phase, slot) = (slot.phase.clone(), slot.without_history());
            match phase {
                SlotPhase::Unasked => {
                    if let Some(refusal) = too_late(&slot, run) {
                        self.refuse_agreed(index, refusal, run);
                    } else if run.tools.is_agreed(&slot.tool) {
                        self.begin_agreed(index, Vec::new(), run)?;
                    } else {
                        self.ask_whether(index, &slot, run);
                    }
                }
                SlotPhase::Doubtful(doubt) => ask_again(index, &slot, &doubt, run),
                _ => {}
            }
        }
        Ok(())
    }

    /// Asks whether the call of a slot may run.
    fn ask_whether(&mut self, index: usize, slot: &Slot, run: &mut RunParts<'_>) {
        self.set_phase(index, SlotPhase::Asked);
        let CallPolicy { policy, left_out } =
            run.policy().call(&slot.tool, &slot.arguments, slot.planner.as_ref());
        // A condition that cannot be told keeps its gate shut: the reason is told beside the rule.
        let unsure = left_out.into_iter().filter(|_| policy.approval.origin.scope == Scope::Call);
        let why = because(run.policy(), "approval", &policy.approval.map(Shown), unsure);
        ask_person(Pending::Approve(index), Question::Run, slot, "", why, run);
    }

    /// A person has answered whether the call of a slot may run, or nobody has.
    pub(in crate::engine) fn on_approved(
        &mut self,
        index: usize,
        answer: Answer,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let Some(slot) = self.slot(index).map(Slot::without_history) else {
            return Ok(());
        };
        let unanswered = &run.policy().turn().approval.unanswered;
        let (yes, answered) = match answer {
            Answer::Approve | Answer::ApproveAll => (true, true),
            Answer::Refuse => (false, true),
            Answer::None => (unanswered.value == Unanswered::Approve, false),
        };
        if answer == Answer::ApproveAll {
            run.tools.agree(&slot.tool);
        }
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let why = if answered {
            let fact = if yes { "the user agreed" } else { "the user did not agree" };
            Reason::new(run.policy(), "approval", &policy.approval.map(Shown), [fact.to_owned()])
        } else {
            let rule = unanswered.map(Shown);
            Reason::new(run.policy(), "turn.approval.unanswered", &rule, ["nobody answered".to_owned()])
        };
        if yes {
            self.begin_agreed(index, vec![why.told(run.policy())], run)?;
        } else {
            let vars: Value = json!({ "tool": slot.tool, "answered": answered });
            let text = run.out.say(&policy.messages.not_approved, vars);
            let class = ErrorClass::PermissionDenied;
            self.refuse_agreed(index, Refusal { class, text, because: vec![why] }, run);
        }
        self.ask_next(run)
    }
}

pub(super) fn ask_person(
    pending: Pending,
    question: Question,
    slot: &Slot,
    message: &str,
    why: Because,
    run: &mut RunParts<'_>,
) {
    let own = run.policy().turn().approval.timeout.value.length();
    let left = run.deadline().map(|deadline| deadline.since(run.out.now));
    let ask = Ask {
        work: WorkId(0),
        question,
        call: slot.call.clone(),
        tool: slot.tool.clone(),
        arguments: Value::clone(&slot.arguments),
        message: message.to_owned(),
        // Nobody is waited for longer than the run has time.
        timeout: [own, left].into_iter().flatten().min(),
    };
    run.ask(pending, |work| Work::Ask(Ask { work, ..ask }), vec![why]);
}
