//! The end of the attempts at a tool call: it is written down, and the policy or the planner decides what is done instead.

use core::mem;

use serde_json::json;

use super::super::because::{Shown, because};
use super::super::directive::{Decision, Note};
use super::super::machine::{Pending, Then};
use super::super::metric::MetricName;
use super::super::retry::{Case, Progress};
use super::super::state::SlotPhase;
use super::{Split, Step};
use crate::policy::{ErrorClass, ToolPolicy, Trigger};
use crate::session::{FinalReason, ReducerError, RetryExhausted, StopReason};

impl Step<'_> {
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
            self.split().run.decide(&policy.on_exhausted, &mut why)
        } else {
            Some(Decision::TellModel)
        };
        self.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        self.answer(index, text, true);
        if let Some(decision) = decision {
            self.give_up_tool(decision, exhausted);
        } else {
            self.set_phase(index, SlotPhase::WithPlanner(Box::new(exhausted.clone())));
            self.split().run.consult(Pending::ConsultTool(index), exhausted);
        }
    }

    /// The planner has decided what is done about a tool call; it has its answer already.
    pub(super) fn tool_decided(&mut self, index: usize, decision: Decision) -> Then {
        if let Some(slot) = self.state.batch.slots.get_mut(index)
            && let SlotPhase::WithPlanner(exhausted) = mem::replace(&mut slot.phase, SlotPhase::Settled)
        {
            self.give_up_tool(decision, *exhausted);
        }
        self.settle()
    }

    fn give_up_tool(&mut self, decision: Decision, exhausted: RetryExhausted) {
        match decision {
            Decision::TellModel => {}
            Decision::FinalTurn => {
                self.force_last_turn(FinalReason::RetryExhaustion, Vec::new());
            }
            Decision::Fail => self.failed_by_tool(exhausted),
        }
    }

    /// The planner has decided what is done about the report.
    pub(super) fn report_decided(&mut self, decision: Decision) -> Then {
        let Split { mut run, report, .. } = self.split();
        if let Err(end) = report.on_decided(decision, &mut run) {
            return end;
        }
        if self.state.batch.slots.is_empty() {
            return Then::AfterReport;
        }
        for slot in &mut self.state.batch.slots {
            if slot.phase == SlotPhase::ReportWithPlanner {
                slot.phase = SlotPhase::Settled;
            }
        }
        self.settle()
    }
}
