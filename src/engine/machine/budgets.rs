//! Decides about another attempt within the retry budget.

use super::super::because::{because, of_retry};
use super::super::budget::{BudgetShortage, RetryBudgets};
use super::super::directive::Note;
use super::super::retry::{self, AttemptProgress, FailureContext, RetryBlocker, RetryVerdict};
use super::out::StepOutput;
use crate::policy::{ErrorClass, RetryPolicy, Seed};
use crate::session::StopReason;
use crate::time::Instant;

impl RetryBudgets {
    /// Decides about another attempt of `action`. In shadow mode a note reports the decision.
    pub(in crate::engine) fn decide(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &mut FailureContext,
        seed: Seed,
        out: &mut StepOutput<'_>,
    ) -> RetryVerdict {
        // A call counts once, with its first attempt: a window budget is the share of retries in calls, not in
        // attempts.
        if progress.attempt == 1 {
            self.called(action, &retry.budget.value, out.now);
        }
        // A known obstacle takes precedence, so the budget must not replace it as the reason.
        if case.obstacle == RetryBlocker::None && self.overdrawn(action, retry, case.class, out.now).is_some()
        {
            case.obstacle = RetryBlocker::Overdrawn;
        }
        match retry::decide_unshadowed(retry, progress, *case, out.now, || seed) {
            RetryVerdict::Stop(StopReason::Deadline) => {
                // A verdict to stop has no delay, so the delay that was too long is computed again; this is rare.
                let delay = retry::delay(retry, progress, *case, seed);
                let late = retry::lateness(retry, progress, case.run_deadline, out.now, delay);
                case.obstacle = RetryBlocker::Late(late);
                RetryVerdict::Stop(StopReason::Deadline)
            }
            // Shadow mode stops the attempt only after the full decision: it must not report retries that a limit
            // would prevent.
            RetryVerdict::Retry { delay, by } if retry.shadow.value => {
                let policy = out.rules.policy;
                let mut why = vec![because(policy, "retry.shadow", &retry.shadow, [])];
                why.extend(of_retry(policy, retry, progress, case, delay, by));
                let (action, attempt) = (action.to_owned(), progress.attempt);
                out.note(Note::Shadow { action, attempt, error_type: case.class, delay }, why);
                RetryVerdict::Stop(StopReason::Shadow)
            }
            verdict => verdict,
        }
    }

    /// Why the budget allows no further attempt of `action` after a failure of `class`.
    pub(in crate::engine) fn overdrawn(
        &self,
        action: &str,
        retry: &RetryPolicy,
        class: ErrorClass,
        now: Instant,
    ) -> Option<BudgetShortage> {
        self.refuses(action, &retry.budget.value, class, now)
    }
}
