//! The end of the attempts at a tool call: it is written down, and the policy or the planner decides what is done instead.

use serde_json::json;

use super::super::run_parts::RunParts;
use super::attempts::reducer_text;
use super::{AfterAnswer, CallContext, CallStep, ToolSeries};
use crate::engine::because::{Shown, because};
use crate::engine::directive::{Decision, Note};
use crate::engine::metric::MetricName;
use crate::engine::retry::{Case, Progress};
use crate::policy::{ErrorClass, ToolPolicy, Trigger};
use crate::session::{ReducerError, RetryExhausted, StopReason};

/// The end of the attempts at a tool call.
pub(super) struct AttemptsEnd<'c> {
    /// The attempt that was the last.
    pub(super) progress: Progress,
    /// How it failed.
    pub(super) case: &'c Case,
    /// Why no other follows.
    pub(super) reason: StopReason,
}

impl ToolSeries {
    /// The call gets no further attempt.
    pub(super) fn exhausted(
        &self,
        policy: &ToolPolicy,
        end: &AttemptsEnd<'_>,
        objection: Option<&ReducerError>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let AttemptsEnd { progress, case, reason } = *end;
        let exhausted = RetryExhausted {
            action: self.name(),
            reason,
            attempts: self.series.history.clone(),
            retry_after: case.hint,
        };
        let mut why = run.why_stopped(&exhausted.action, &policy.retry, progress, case, reason);
        if reason == StopReason::MayHaveActed {
            let effect = run.effect_of(&self.tool, policy);
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
            call: self.call.clone(),
            tool: self.tool.clone(),
            attempts: progress.attempt,
            error_type: Some(error_type),
            message: message.clone(),
        };
        run.out.note(ended, why.clone());
        let refused = run.out.reduce(Trigger::ToolFailed, || {
            json!({
                "tool": self.tool, "call": self.call, "attempts": progress.attempt, "arguments": self.arguments,
                "error_type": error_type, "message": message, "reason": reason,
            })
        });
        let objection = objection.or(refused.as_ref());
        let vars = json!({
            "tool": self.tool, "error": message, "error_type": error_type, "attempts": progress.attempt,
            "may_have_acted": reason == StopReason::MayHaveActed,
        });
        let (class, told, text) = if let Some(error) = objection {
            let text = reducer_text(&self.tool, error, run);
            (ErrorClass::ReducerError, text.clone(), text)
        } else {
            let used_up = reason.used_up();
            let words = if used_up { &policy.messages.exhausted } else { &policy.messages.failed };
            (error_type, message, run.out.say(words, vars))
        };
        let text = cx.room.show_failure(self, class, &told, text, run);
        // Only attempts that were used up are the planner's business; any other failure the model is told.
        let decision = if reason.used_up() {
            run.decide(&policy.on_exhausted, &mut why)
        } else {
            Some(Decision::TellModel)
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        let then = match decision {
            Some(decision) => AfterAnswer::GiveUp(decision, exhausted),
            None => AfterAnswer::Consult(exhausted),
        };
        CallStep::Answered { text, error: true, then }
    }
}
