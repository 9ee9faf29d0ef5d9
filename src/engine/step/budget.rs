//! Whether a failure is followed by another attempt, and what that draws on its budget.

use super::super::because::{because, of_stop};
use super::super::directive::Because;
use super::super::metric::MetricName;
use super::super::retry::{Case, Progress, Verdict};
use super::{Parts, Step};
use crate::policy::{Budget, ErrorClass, RetryPolicy, Seed};
use crate::session::StopReason;

impl Step<'_> {
    /// Decides about another attempt at `action`.
    pub(super) fn verdict(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &mut Case,
        seed: Seed,
    ) -> Verdict {
        let Parts { mut out, budgets, .. } = self.parts();
        budgets.decide(action, retry, progress, case, seed, &mut out)
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
            let overdrawn = self.state.budgets.overdrawn(action, retry, case.class, self.state.now);
            let fact = overdrawn.map(|overdrawn| overdrawn.to_string());
            return vec![because(self.policy, "retry.budget", &retry.budget, fact)];
        }
        if reason == StopReason::RunBudget {
            return self.run_budget().out_of_budget().into_iter().collect();
        }
        if reason == StopReason::Deadline
            && let Some(why) = self.run_budget().late_by_budget(retry, progress, case)
        {
            return vec![why];
        }
        of_stop(self.policy, retry, progress, case, reason)
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
