//! Timeouts of single steps of a model call that the end of the whole call always comes before.

use indexmap::IndexMap;

use super::LintFindings;
use crate::policy::{ModelPolicy, Origin, TimeBound};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// The timeouts of single steps, by their places; `None`: there is a model for which it can fire.
#[derive(Default)]
pub(super) struct StepTimeouts {
    said: IndexMap<Origin, Option<LateTimeout>>,
}

/// A timeout that comes too late, and what comes before it.
struct LateTimeout {
    step: &'static str,
    after: Nanos,
    whole: WholeCall,
}

/// What ends the whole call.
#[derive(Clone, Copy)]
struct WholeCall {
    name: &'static str,
    after: Nanos,
    origin: Origin,
}

impl StepTimeouts {
    /// Observes the policy of one name.
    pub(super) fn observe(&mut self, policy: &ModelPolicy) {
        let (steps, whole) = (&policy.timeouts, whole(policy));
        let named = [("connect", steps.connect), ("first_token", steps.first_token), ("idle", steps.idle)];
        for (step, said) in named {
            // `unlimited` leaves it to the whole call on purpose.
            let TimeBound::Within(after) = said.value else { continue };
            let late = whole.filter(|whole| after >= whole.after);
            let late = late.map(|whole| LateTimeout { step, after, whole });
            if late.is_none() {
                self.said.insert(said.origin, None);
            } else {
                self.said.entry(said.origin).or_insert(late);
            }
        }
    }

    /// Says which fire for no model.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for (origin, late) in self.said {
            let Some(LateTimeout { step, after, whole }) = late else { continue };
            let Some(span) = found.place(origin) else { continue };
            let WholeCall { name, after: ends, origin } = whole;
            let message =
                format!("`timeouts.{step}` is {after} and never fires: `{name}` ends the call after {ends}");
            let problem = Diagnostic::warning(Code::LATE_STEP, span, message);
            let problem = match found.place(origin) {
                Some(ends) => problem.also(ends, "ends the call"),
                None => problem,
            };
            found.push(problem.help(format!("make `{step}` shorter, or `{name}` longer")));
        }
    }
}

/// The first that ends a call, if something does.
fn whole(policy: &ModelPolicy) -> Option<WholeCall> {
    let retry = &policy.retry;
    let named = [("attempt_timeout", retry.attempt_timeout), ("deadline", retry.deadline)];
    let ends = named.into_iter().filter_map(|(name, bound)| {
        bound.value.length().map(|after| WholeCall { name, after, origin: bound.origin })
    });
    ends.min_by_key(|whole| whole.after)
}
