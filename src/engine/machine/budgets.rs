//! Whether a failure is followed by another attempt, as far as its budget allows.

use super::super::because::{because, of_retry};
use super::super::budget::{Budgets, Overdrawn};
use super::super::directive::Note;
use super::super::retry::{self, Case, Obstacle, Progress, Verdict};
use super::out::Out;
use crate::policy::{ErrorClass, RetryPolicy, Seed};
use crate::session::StopReason;
use crate::time::Instant;

impl Budgets {
    /// Decides about another attempt at `action`. In shadow mode a note says what would be done.
    pub(in crate::engine) fn decide(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &mut Case,
        seed: Seed,
        out: &mut Out<'_>,
    ) -> Verdict {
        if progress.attempt == 1 {
            self.called(action, &retry.budget.value, out.now);
        }
        if case.obstacle == Obstacle::None && self.overdrawn(action, retry, case.class, out.now).is_some() {
            case.obstacle = Obstacle::Overdrawn;
        }
        match retry::in_earnest(retry, progress, *case, out.now, || seed) {
            Verdict::Retry { delay, by } if retry.shadow.value => {
                let policy = out.rules.policy;
                let mut why = of_retry(policy, retry, progress, case, delay, by);
                why.push(because(policy, "retry.shadow", &retry.shadow, []));
                let (action, attempt) = (action.to_owned(), progress.attempt);
                out.note(Note::Shadow { action, attempt, error_type: case.class, delay }, why);
                Verdict::Stop(StopReason::Shadow)
            }
            verdict => verdict,
        }
    }

    /// Why the budget leaves no attempt at `action` after a failure of that class.
    pub(in crate::engine) fn overdrawn(
        &self,
        action: &str,
        retry: &RetryPolicy,
        class: ErrorClass,
        now: Instant,
    ) -> Option<Overdrawn> {
        self.refuses(action, &retry.budget.value, class, now)
    }
}
