//! The wait of a tool call for its turn under the pace of its tool.

use serde_json::json;

use super::super::pace::{PaceRules, PaceStep, PacedStart};
use super::super::run_parts::RunParts;
use super::super::work_table::WorkPurpose;
use super::exhausted::AttemptsEnd;
use super::{CallContext, CallPhase, CallStep, ToolSeries};
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::retry::{self, AttemptProgress, RetryBlocker};
use crate::policy::{ErrorClass, ToolPolicy};
use crate::session::StopReason;
use crate::time::Nanos;

impl ToolSeries {
    /// What happens instead of an attempt: the call waits for its turn, or it would be too late for it. `None`: the
    /// attempt is made.
    pub(super) fn wait_for_turn(
        &mut self,
        policy: &ToolPolicy,
        (progress, max_attempts): (AttemptProgress, Option<u32>),
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> Option<CallStep> {
        let is_first = self.series.history.is_empty();
        if self.phase == CallPhase::Paced && is_first && self.is_refused_now(policy, run) {
            return Some(CallStep::Open);
        }
        let (now, deadline) = (run.out.now, run.deadline());
        let late = |wait: Nanos| retry::missed(&policy.retry, progress, deadline, now, wait).is_some();
        let start = PacedStart {
            rules: PaceRules::Tool(&self.tool, policy),
            ticket: &mut self.ticket,
            purpose: WorkPurpose::WaitTool(cx.index),
            name: format!("tool {}", self.tool),
            attempt: progress.attempt,
            max_attempts,
            request: 0,
            late: &late,
        };
        let (wait, why) = match run.pace(start) {
            PaceStep::Start => return None,
            PaceStep::Wait => {
                self.phase = CallPhase::Paced;
                return Some(CallStep::Open);
            }
            PaceStep::TooLate { wait, why } => (wait, why),
        };
        if is_first {
            let error = format!("too many calls; the next may start in {}", wait.rounded());
            let class = ErrorClass::RateLimit;
            let vars = json!({
                "tool": self.tool, "error": error, "error_type": class, "attempts": 0, "may_have_acted": false,
            });
            let text = run.out.say(&policy.messages.failed, vars);
            self.refuse_agreed(CallRefusal { class, text, because: vec![why] }, run);
            return Some(CallStep::Open);
        }
        let class = self.series.history.last().map_or(ErrorClass::RateLimit, |failed| failed.error_type);
        let case = run.case(class, None, RetryBlocker::None);
        let failed = AttemptProgress { attempt: progress.attempt.saturating_sub(1), ..progress };
        let end =
            AttemptsEnd { progress: failed, case: &case, reason: StopReason::Pace, ended_by: Some(&why) };
        Some(self.exhausted(policy, &end, None, cx, run))
    }

    /// Refuses a call that waited for its turn, if the end of the run or the breaker prevents it now.
    fn is_refused_now(&mut self, policy: &ToolPolicy, run: &mut RunParts<'_>) -> bool {
        let refusal = match self.too_late(run) {
            Some(refusal) => refusal,
            None => match run.tools.admit_again(&self.tool, self.place, policy, &mut run.out) {
                Ok(place) => {
                    self.place = place;
                    return false;
                }
                Err(refusal) => refusal,
            },
        };
        self.refuse_agreed(refusal, run);
        true
    }
}
