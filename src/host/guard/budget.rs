//! The budgets of a guard: shared by all its calls, looked at only where a policy has one.

use super::Inner;
use crate::engine::MetricName;
use crate::engine::retry::{Obstacle, Progress};
use crate::policy::{Budget, ErrorClass, RetryPolicy};
use crate::time::Instant;

impl Inner {
    /// What the budget has against a retry after a failure of that class.
    pub(super) fn draw(
        &self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        class: ErrorClass,
        now: Instant,
    ) -> Obstacle {
        let budget = &retry.budget.value;
        if *budget == Budget::None {
            return Obstacle::None;
        }
        let overdrawn = self.session.budgets(|budgets| {
            if progress.attempt == 1 {
                budgets.called(action, budget, now);
            }
            budgets.refuses(action, budget, class, now)
        });
        if overdrawn.is_none() {
            return Obstacle::None;
        }
        if retry.retries(class) {
            self.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
        Obstacle::Overdrawn
    }

    /// Another attempt is made after a failure of that class.
    pub(super) fn charge(&self, action: &str, retry: &RetryPolicy, class: ErrorClass, now: Instant) {
        let budget = &retry.budget.value;
        if *budget != Budget::None {
            self.session.budgets(|budgets| budgets.retried(action, budget, class, now));
        }
    }

    /// A call has succeeded; `after` is the class of its last failure, if it had one.
    pub(super) fn earn(&self, action: &str, retry: &RetryPolicy, after: Option<ErrorClass>) {
        let budget = &retry.budget.value;
        if *budget != Budget::None {
            let now = self.clock.now();
            self.session.budgets(|budgets| budgets.succeeded(action, budget, after, now));
        }
    }
}
