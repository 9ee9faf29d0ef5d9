//! The end of the attempts at a tool call: it is written down, and the policy or the planner decides what is done instead.

use core::mem;

use serde_json::json;

use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::Batch;
use super::attempts::reducer_text;
use super::slot::SlotPhase;
use crate::engine::because::{Shown, because};
use crate::engine::directive::{Decision, Note};
use crate::engine::metric::MetricName;
use crate::engine::retry::{Case, Progress};
use crate::policy::{ErrorClass, ToolPolicy, Trigger};
use crate::session::{FinalReason, ReducerError, RetryExhausted, StopReason};

/// The end of the attempts at a tool call.
pub(super) struct AttemptsEnd<'c> {
    /// The attempt that was the last.
    pub(super) progress: Progress,
    /// How it failed.
    pub(super) case: &'c Case,
    /// Why no other follows.
    pub(super) reason: StopReason,
}

impl Batch {
    /// A tool call gets no further attempt.
    pub(super) fn exhausted(
        &mut self,
        index: usize,
        policy: &ToolPolicy,
        end: &AttemptsEnd<'_>,
        objection: Option<&ReducerError>,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let AttemptsEnd { progress, case, reason } = *end;
        let Some(mut slot) = self.slot(index).cloned() else { return Ok(()) };
        let exhausted = RetryExhausted {
            action: format!("tool {}", slot.tool),
            reason,
            attempts: mem::take(&mut slot.series.history),
            retry_after: case.hint,
        };
        let mut why = run.why_stopped(&exhausted.action, &policy.retry, progress, case, reason);
        if reason == StopReason::MayHaveActed {
            let effect = run.effect_of(&slot.tool, policy);
            let told =
                (policy.effect.value != effect).then(|| format!("the tool itself says {}", Shown(effect)));
            why.push(because(run.policy(), "effect", &policy.effect.map(Shown), told));
        }
        run.out.count(MetricName::RetryAttempts, exhausted.action.clone(), progress.attempt.into());
        run.count_overdrawn(&exhausted.action, reason);
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
        run.out.note(ended, why.clone());
        let refused = run.out.reduce(Trigger::ToolFailed, || {
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
            let text = reducer_text(&slot.tool, error, run);
            (ErrorClass::ReducerError, text.clone(), text)
        } else {
            let used_up = reason.used_up();
            let words = if used_up { &policy.messages.exhausted } else { &policy.messages.failed };
            (error_type, message, run.out.say(words, vars))
        };
        let text = self.room.show_failure(&slot, class, &told, text, run);
        // Only attempts that were used up are the planner's business; any other failure the model is told.
        let decision = if reason.used_up() {
            run.decide(&policy.on_exhausted, &mut why)
        } else {
            Some(Decision::TellModel)
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        self.answer(index, text, true, run);
        if let Some(decision) = decision {
            give_up(decision, exhausted, run)?;
        } else {
            self.set_phase(index, SlotPhase::WithPlanner(Box::new(exhausted.clone())));
            run.consult(Pending::ConsultTool(index), exhausted);
        }
        Ok(())
    }

    /// The planner has decided what is done about a tool call; it has its answer already.
    pub(in crate::engine) fn on_decided(
        &mut self,
        index: usize,
        decision: Decision,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        match mem::replace(&mut slot.phase, SlotPhase::Settled) {
            SlotPhase::WithPlanner(exhausted) => give_up(decision, *exhausted, run),
            _ => Ok(()),
        }
    }
}

fn give_up(decision: Decision, exhausted: RetryExhausted, run: &mut RunParts<'_>) -> Result<(), Then> {
    match decision {
        Decision::TellModel => {}
        Decision::FinalTurn => {
            run.force_last_turn(FinalReason::RetryExhaustion, Vec::new());
        }
        Decision::Fail => return Err(Then::fail(exhausted, Vec::new())),
    }
    Ok(())
}
