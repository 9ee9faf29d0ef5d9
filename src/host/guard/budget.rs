//! The budgets of a guard: shared by all its calls, looked at only where a policy has one.

use super::Inner;
use crate::engine::MetricName;
use crate::engine::retry::{Case, Obstacle, Progress, Verdict, decide};
use crate::policy::{Budget, ErrorClass, RetryPolicy, Seed};
use crate::session::StopReason;
use crate::time::Instant;

/// Decides about another attempt at an action and draws it on the budget, both at once: of two calls that fail at
/// the same time only one gets the last token.
#[derive(Clone, Copy)]
pub(super) struct Account<'a> {
    pub(super) inner: &'a Inner,
    pub(super) retry: &'a RetryPolicy,
    /// Whether it is a tool or a model.
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
}

impl Account<'_> {
    pub(super) fn action(self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    pub(super) fn decide(
        self,
        progress: Progress,
        mut case: Case,
        now: Instant,
        seed: impl FnOnce() -> Seed,
    ) -> Verdict {
        let Self { inner, retry, .. } = self;
        let (budget, class) = (&retry.budget.value, case.class);
        if *budget == Budget::None {
            return decide(retry, progress, case, now, seed);
        }
        let action = &*self.action();
        let verdict = inner.session.budgets(|budgets| {
            if progress.attempt == 1 {
                budgets.called(action, budget, now);
            }
            if case.obstacle == Obstacle::None && budgets.refuses(action, budget, class, now).is_some() {
                case.obstacle = Obstacle::Overdrawn;
            }
            let verdict = decide(retry, progress, case, now, seed);
            if matches!(verdict, Verdict::Retry { .. }) {
                budgets.retried(action, budget, class, now);
            }
            verdict
        });
        if verdict == Verdict::Stop(StopReason::Budget) {
            inner.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
        verdict
    }

    /// The attempt that was granted is not made after all.
    pub(super) fn take_back(self, verdict: Verdict, class: ErrorClass, now: Instant) {
        let budget = &self.retry.budget.value;
        if matches!(verdict, Verdict::Retry { .. }) && *budget != Budget::None {
            self.inner.session.budgets(|budgets| budgets.taken_back(&self.action(), budget, class, now));
        }
    }
}

impl Inner {
    /// A call has succeeded; `after` is the class of its last failure, if it had one.
    pub(super) fn earn(&self, action: &str, retry: &RetryPolicy, after: Option<ErrorClass>) {
        let budget = &retry.budget.value;
        if *budget != Budget::None {
            let now = self.clock.now();
            self.session.budgets(|budgets| budgets.succeeded(action, budget, after, now));
        }
    }
}
