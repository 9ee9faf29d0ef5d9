//! Whether a failure is followed by another attempt, and what that draws on its budget.

use super::super::because::{because, of_retry};
use super::super::budget::{Ledger, Overdrawn};
use super::super::directive::{MetricName, Note};
use super::super::retry::{self, Case, Progress, Verdict};
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
        let now = self.state.now;
        if progress.attempt == 1 {
            self.ledger(action, &retry.budget.value, |ledger, budget| ledger.called(budget, now));
        }
        case.overdrawn = self.overdrawn(action, &retry.budget.value, case.class);
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

    /// Another attempt at `action` is made after a failure of that class.
    pub(super) fn charge(&mut self, action: &str, retry: &RetryPolicy, class: ErrorClass) {
        let now = self.state.now;
        self.ledger(action, &retry.budget.value, |ledger, budget| ledger.retried(budget, class, now));
    }

    /// `action` has succeeded; `after` is the class of its last failure, if it had one.
    pub(super) fn earn(&mut self, action: &str, budget: &Budget, after: Option<ErrorClass>) {
        let now = self.state.now;
        self.ledger(action, budget, |ledger, budget| {
            if after.is_none() {
                ledger.called(budget, now);
            }
            ledger.succeeded(budget, after);
        });
    }

    /// Counts an end for which the budget is the reason.
    pub(super) fn count_overdrawn(&mut self, action: &str, reason: StopReason) {
        if reason == StopReason::Budget {
            self.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
    }

    fn overdrawn(&self, action: &str, budget: &Budget, class: ErrorClass) -> Option<Overdrawn> {
        let whole = Ledger::default();
        let ledger = self.state.budgets.get(&account(action, budget)?).unwrap_or(&whole);
        ledger.refuses(budget, class, self.state.now)
    }

    fn ledger(&mut self, action: &str, budget: &Budget, entry: impl FnOnce(&mut Ledger, &Budget)) {
        let Some(account) = account(action, budget) else { return };
        let mut ledger = self.state.budgets.remove(&account).unwrap_or_default();
        entry(&mut ledger, budget);
        if !ledger.is_empty() {
            self.state.budgets.insert(account, ledger);
        }
    }
}

/// Under which name a budget is kept; `None`: there is none to keep.
fn account(action: &str, budget: &Budget) -> Option<String> {
    match budget {
        Budget::None => None,
        Budget::Tokens(_) | Budget::Window(_) => {
            Some(budget.pool().map_or_else(|| action.to_owned(), |pool| format!("pool {pool}")))
        }
    }
}
