//! The end of the attempts: it is written down, and the policy or the planner decides what is done instead.

use serde_json::json;

use super::super::because::{Shown, because};
use super::super::directive::{Because, Consult, Decision, Note, Work};
use super::super::failure::Failure;
use super::super::metric::MetricName;
use super::super::retry::{self, Case, Obstacle, Progress};
use super::super::state::{Pending, SlotPhase};
use super::Step;
use crate::policy::{Classified, ErrorClass, OnExhausted, RetryPolicy, Setting, ToolPolicy, Trigger};
use crate::session::{FinalReason, ReducerError, RetryExhausted, StopReason};
use crate::time::Nanos;

impl Step<'_> {
    pub(super) fn case(&self, class: ErrorClass, hint: Option<Nanos>, obstacle: Obstacle) -> Case {
        Case { class, hint, assumed: false, obstacle, run_deadline: self.deadline(), correction: false }
    }

    /// The case of a failure: with what the server says about retries, as far as the policy listens.
    pub(super) fn case_of(
        &self,
        failure: &Failure,
        classified: Classified,
        retry: &RetryPolicy,
        obstacle: Obstacle,
    ) -> Case {
        let rule = &retry.for_class(classified.class).server_delay.value;
        let waits = failure.waits();
        let hint = retry::hint(&waits, classified, rule);
        let assumed = retry::assumed(&waits, classified, rule);
        let advice = retry::advice(failure.should_retry, rule);
        let obstacle = obstacle.or_fault_of(classified).or_advice(advice);
        Case { assumed, ..self.case(classified.class, hint, obstacle) }
    }

    /// A tool call gets no further attempt.
    pub(super) fn tool_exhausted(
        &mut self,
        index: usize,
        policy: &ToolPolicy,
        progress: Progress,
        case: &Case,
        reason: StopReason,
        objection: Option<&ReducerError>,
    ) {
        let Some(slot) = self.state.batch.slots.get(index).cloned() else { return };
        let exhausted = RetryExhausted {
            action: format!("tool {}", slot.tool),
            reason,
            attempts: slot.series.history,
            retry_after: case.hint,
        };
        let mut why = self.why_stopped(&exhausted.action, &policy.retry, progress, case, reason);
        if reason == StopReason::MayHaveActed {
            let effect = self.effect_of(&slot.tool, policy);
            let told =
                (policy.effect.value != effect).then(|| format!("the tool itself says {}", Shown(effect)));
            why.push(because(self.policy, "effect", &policy.effect.map(Shown), told));
        }
        self.count(MetricName::RetryAttempts, exhausted.action.clone(), progress.attempt.into());
        self.count_overdrawn(&exhausted.action, reason);
        let last = exhausted.attempts.last();
        let (error_type, message) =
            last.map_or((case.class, String::new()), |last| (last.error_type, last.message.clone()));
        let ended = Note::ToolEnded {
            call: slot.call.clone(),
            tool: slot.tool.clone(),
            attempts: progress.attempt,
            error_type: Some(error_type),
            message: message.clone(),
        };
        self.note(ended, why.clone());
        let refused = self.reduce(Trigger::ToolFailed, || {
            json!({
                "tool": slot.tool, "call": slot.call, "attempts": progress.attempt, "arguments": slot.arguments,
                "error_type": error_type, "message": message, "reason": reason,
            })
        });
        let objection = objection.or(refused.as_ref());
        let vars = json!({
            "tool": slot.tool, "error": message, "error_type": error_type, "attempts": progress.attempt,
            "may_have_acted": reason == StopReason::MayHaveActed,
        });
        let (class, told, text) = if let Some(error) = objection {
            let text = self.reducer_text(&slot.tool, error);
            (ErrorClass::ReducerError, text.clone(), text)
        } else {
            let used_up = reason.used_up();
            let words = if used_up { &policy.messages.exhausted } else { &policy.messages.failed };
            (error_type, message, self.say(words, vars))
        };
        let text = self.show_failure(index, class, &told, text);
        // Only attempts that were used up are the planner's business; any other failure the model is told.
        let decision = if reason.used_up() {
            self.decide(&policy.on_exhausted, &mut why)
        } else {
            Some(Decision::TellModel)
        };
        self.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        self.answer(index, text, true);
        if let Some(decision) = decision {
            self.give_up_tool(decision, exhausted);
        } else {
            self.set_phase(index, SlotPhase::WithPlanner);
            self.consult(Pending::ConsultTool(index), exhausted);
        }
    }

    /// The planner has decided what is done about a tool call; it has its answer already.
    pub(super) fn tool_decided(&mut self, index: usize, decision: Decision) {
        self.set_phase(index, SlotPhase::Settled);
        if let Some(exhausted) = self.state.consulted.take() {
            self.give_up_tool(decision, exhausted);
        }
        self.settle();
    }

    fn give_up_tool(&mut self, decision: Decision, exhausted: RetryExhausted) {
        match decision {
            Decision::TellModel => {}
            Decision::FinalTurn => {
                self.force_last_turn(FinalReason::RetryExhaustion, Vec::new());
            }
            Decision::Fail => self.failed_for_good(exhausted, Vec::new()),
        }
    }

    /// The planner has decided what is done about the model.
    pub(super) fn model_decided(&mut self, decision: Decision) {
        if let Some(exhausted) = self.state.consulted.take() {
            self.give_up_model(decision, exhausted);
        }
    }

    /// What is done when no model answers: one more try in a last turn, or the end.
    pub(super) fn give_up_model(&mut self, decision: Decision, exhausted: RetryExhausted) {
        self.state.model_turn.series = None;
        let again = match decision {
            Decision::FinalTurn => self.force_last_turn(FinalReason::RetryExhaustion, Vec::new()),
            // There is nobody to tell.
            Decision::TellModel | Decision::Fail => false,
        };
        if again {
            return self.next_turn();
        }
        self.failed_for_good(exhausted, Vec::new());
    }

    /// The planner has decided what is done about the report.
    pub(super) fn output_decided(&mut self, decision: Decision) {
        if let Some(exhausted) = self.state.consulted.take() {
            self.give_up_output(decision, exhausted);
        }
        if self.state.is_over() {
            return;
        }
        if self.state.batch.slots.is_empty() {
            return self.after_output();
        }
        for slot in &mut self.state.batch.slots {
            if slot.phase == SlotPhase::WithPlanner {
                slot.phase = SlotPhase::Settled;
            }
        }
        self.settle();
    }

    /// What is done when no report holds: one last turn, going on, or the end.
    pub(super) fn give_up_output(&mut self, decision: Decision, exhausted: RetryExhausted) {
        let goes_on = match decision {
            Decision::FinalTurn => self.force_last_turn(FinalReason::RetryExhaustion, Vec::new()),
            Decision::TellModel => !self.state.ending.is_now(),
            Decision::Fail => false,
        };
        if !goes_on {
            self.failed_for_good(exhausted, Vec::new());
        } else if decision == Decision::FinalTurn {
            // The last turn has attempts of its own.
            self.state.report.series = None;
        }
    }

    pub(super) fn decide(&self, on: &Setting<OnExhausted>, why: &mut Vec<Because>) -> Option<Decision> {
        why.push(because(self.policy, "on_exhausted", &on.map(Shown), []));
        match on.value {
            OnExhausted::TellModel => Some(Decision::TellModel),
            OnExhausted::FinalTurn => Some(Decision::FinalTurn),
            OnExhausted::Fail => Some(Decision::Fail),
            OnExhausted::AskPlanner => None,
        }
    }

    pub(super) fn consult(&mut self, pending: Pending, exhausted: RetryExhausted) {
        let work = self.state.issue(pending);
        self.state.consulted = Some(exhausted.clone());
        self.ask(Work::Consult(Consult { work, exhausted }), Vec::new());
    }
}
