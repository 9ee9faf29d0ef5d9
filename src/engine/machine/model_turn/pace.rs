//! The wait of a model call for its turn under the pace of its model.

use std::sync::Arc;

use super::super::failed_call::FailedCall;
use super::super::pace::{PaceRules, PaceStep, PacedStart};
use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::work_table::WorkPurpose;
use super::ModelTurn;
use super::failure::stop_instead_of;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::retry::{self, AttemptProgress, FailureContext, RetryBlocker};
use crate::policy::{ErrorClass, ModelPolicy};
use crate::session::StopReason;
use crate::time::Nanos;

impl ModelTurn {
    /// What happens instead of a call with a request of so many tokens: it waits for its turn, or another model is
    /// called because it would be too late. `None`: the call is made.
    pub(super) fn wait_for_turn(
        &mut self,
        (target, policy): (&str, &Arc<ModelPolicy>),
        request: u64,
        run: &mut RunParts<'_>,
    ) -> Option<NextMachine> {
        let (now, deadline, attempt) = (run.out.now, run.deadline(), self.series.attempt());
        // Before the first attempt its time has not begun, so only the deadline of the run can be missed.
        let begun = self.series.attempts().map(AttemptSeries::progress);
        let begun = begun.unwrap_or_else(|| AttemptSeries::begin(now).progress());
        let progress = AttemptProgress { attempt, ..begun };
        let late = |wait: Nanos| retry::missed(&policy.retry, progress, deadline, now, wait).is_some();
        let rules = match self.series.last() {
            Some(failed) => policy.retry.for_class(failed.error_type),
            None => policy.retry.for_others(),
        };
        let start = PacedStart {
            rules: PaceRules::Model(target, policy),
            max_attempts: rules.max_attempts.value.limit(),
            ticket: self.series.ticket(),
            purpose: WorkPurpose::WaitModel,
            name: format!("model {target}"),
            attempt,
            request,
            late: &late,
        };
        let (wait, why) = match run.pace(start) {
            PaceStep::Start => return None,
            PaceStep::Wait => return Some(NextMachine::Host),
            PaceStep::TooLate { wait, why } => (wait, why),
        };
        // Whoever stops a run wants no other model called instead.
        if let Some(reason) = stop_instead_of(wait, run) {
            return Some(NextMachine::stopped(reason));
        }
        let case = run.case(ErrorClass::RateLimit, None, RetryBlocker::None);
        let failed = FailedCall {
            target: target.to_owned(),
            name: format!("model {target}"),
            policy: Arc::clone(policy),
            progress,
            case: FailureContext { hint: Some(wait), ..case },
            message: format!("its pace lets the next call start in {}", wait.rounded()),
            ended_by: Some(why.told(run.policy())),
        };
        Some(self.exhausted(failed, StopReason::Pace, run))
    }
}
