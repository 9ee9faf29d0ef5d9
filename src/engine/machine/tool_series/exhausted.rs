//! The end of the attempts of a tool call: it is recorded, and the policy or the planner decides what follows.

use serde_json::json;

use super::super::run_parts::RunParts;
use super::{AfterAnswer, CallContext, CallStep, ToolSeries, reducer_text};
use crate::engine::ask::PlannerDecision;
use crate::engine::because::{ShownValue, because};
use crate::engine::directive::Note;
use crate::engine::metric::MetricName;
use crate::engine::reason::StoredReason;
use crate::engine::retry::{AttemptProgress, FailureContext};
use crate::policy::{ErrorClass, ToolPolicy, Trigger};
use crate::session::{ReducerError, RetryExhausted, StopReason};

/// The end of the attempts of a tool call.
pub(super) struct AttemptsEnd<'c> {
    /// The progress at the last attempt.
    pub(super) progress: AttemptProgress,
    /// The failure of the last attempt.
    pub(super) case: &'c FailureContext,
    /// Why no further attempt follows.
    pub(super) reason: StopReason,
    /// The rule that decided, if the retry policy does not have it.
    pub(super) ended_by: Option<&'c StoredReason>,
}

impl ToolSeries {
    /// Ends the attempts of the call.
    pub(super) fn exhausted(
        &self,
        policy: &ToolPolicy,
        end: &AttemptsEnd<'_>,
        objection: Option<&ReducerError>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let AttemptsEnd { progress, case, reason, ended_by } = *end;
        let exhausted = RetryExhausted {
            action: self.name(),
            reason,
            attempts: self.series.history.clone(),
            retry_after: case.hint,
        };
        let mut why = match ended_by {
            Some(rule) => vec![rule.clone().told(run.policy())],
            None => run.why_stopped(&exhausted.action, &policy.retry, progress, case, reason),
        };
        // The effect ended the attempts. If the tool itself declared it, a value in the policy would override it, so
        // that value is named.
        if reason == StopReason::MayHaveActed {
            let effect = run.effect_of(&self.tool, policy);
            let told = (policy.effect.value != effect)
                .then(|| format!("the tool itself says {}", ShownValue(effect)));
            why.push(because(run.policy(), "effect", &policy.effect.map(ShownValue), told));
        }
        if reason == StopReason::CircuitOpen {
            let opened = run.tools.why_open(&self.tool, policy, run.out.rules);
            why.push(opened.told(run.policy()));
        }
        run.out.count(MetricName::RetryAttempts, exhausted.action.clone(), progress.attempt.into());
        run.count_overdrawn(&exhausted.action, reason);
        let last = exhausted.attempts.last();
        let (error_type, message) =
            last.map_or((case.class, String::new()), |last| (last.error_type, last.message.clone()));
        // The end is noted before reducers run, so that their notes follow it in the log.
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
        // The model reads the first objection.
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
            // "Used up" and "not retried" are two messages: the first asks the model to try something else, the
            // second explains the error.
            let words = if used_up { &policy.messages.exhausted } else { &policy.messages.failed };
            (error_type, message, run.out.say(words, vars))
        };
        let text = cx.room.show_failure(self, class, &told, text, run);
        // The planner decides after exhausted attempts (weakincentives: "the planner decides whether to abort or fall
        // back"). Any other failure is an ordinary result for the model.
        let decision = if reason.used_up() {
            run.decide(&policy.on_exhausted, reason, &mut why)
        } else {
            Some(PlannerDecision::TellModel)
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        let then = match decision {
            Some(decision) => AfterAnswer::GiveUp(decision, exhausted),
            None => AfterAnswer::Consult(exhausted),
        };
        CallStep::Answered { text, error: true, then }
    }
}
