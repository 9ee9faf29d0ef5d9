//! Whether a failure is followed by another attempt, and what that draws on its budget.

use super::super::because::{because, of_retry, of_stop};
use super::super::budget::Overdrawn;
use super::super::directive::{Because, Note};
use super::super::metric::MetricName;
use super::super::retry::{self, Case, Obstacle, Progress, Verdict};
use super::Step;
use crate::policy::{Budget, ErrorClass, RetryPolicy, Seed};
use crate::session::StopReason;

impl Step<'_> {
    /// Decides about another attempt at `action`. In shadow it is written down what would be done.
    pub(super) fn verdict(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &mut Case,
        seed: Seed,
    ) -> Verdict {
        let (now, budget) = (self.state.now, &retry.budget.value);
        if progress.attempt == 1 {
            self.state.budgets.called(action, budget, now);
        }
        if case.obstacle == Obstacle::None && self.overdrawn(action, retry, case.class).is_some() {
            case.obstacle = Obstacle::Overdrawn;
        }
        match retry::in_earnest(retry, progress, *case, now, || seed) {
            Verdict::Retry { delay, by } if retry.shadow.value => {
                let mut why = of_retry(self.policy, retry, progress, case, delay, by);
                why.push(because(self.policy, "retry.shadow", &retry.shadow, []));
                let (action, attempt) = (action.to_owned(), progress.attempt);
                self.note(Note::Shadow { action, attempt, error_type: case.class, delay }, why);
                Verdict::Stop(StopReason::Shadow)
            }
            verdict => verdict,
        }
    }

    /// Why no further attempt at `action` is made.
    pub(super) fn why_stopped(
        &self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
        reason: StopReason,
    ) -> Vec<Because> {
        if reason == StopReason::Budget {
            let fact = self.overdrawn(action, retry, case.class).map(|overdrawn| overdrawn.to_string());
            return vec![because(self.policy, "retry.budget", &retry.budget, fact)];
        }
        if reason == StopReason::RunBudget {
            return self.out_of_budget().into_iter().collect();
        }
        if reason == StopReason::Deadline
            && let Some(why) = self.late_by_budget(retry, progress, case)
        {
            return vec![why];
        }
        of_stop(self.policy, retry, progress, case, reason)
    }

    fn overdrawn(&self, action: &str, retry: &RetryPolicy, class: ErrorClass) -> Option<Overdrawn> {
        self.state.budgets.refuses(action, &retry.budget.value, class, self.state.now)
    }

    /// Another attempt at `action` is made after a failure of that class.
    pub(super) fn charge(&mut self, action: &str, retry: &RetryPolicy, class: ErrorClass) {
        self.state.budgets.retried(action, &retry.budget.value, class, self.state.now);
    }

    /// `action` has succeeded; `after` is the class of its last failure, if it had one.
    pub(super) fn earn(&mut self, action: &str, budget: &Budget, after: Option<ErrorClass>) {
        self.state.budgets.succeeded(action, budget, after, self.state.now);
    }

    /// Counts an end for which the budget is the reason.
    pub(super) fn count_overdrawn(&mut self, action: &str, reason: StopReason) {
        if reason == StopReason::Budget {
            self.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
    }
}
