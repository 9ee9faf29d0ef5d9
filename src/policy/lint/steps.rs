//! Timeouts of single steps of a model call that the end of the whole call always comes before.

use indexmap::IndexMap;

use super::Found;
use crate::policy::{Bound, Code, Diagnostic, ModelPolicy, Origin};
use crate::time::Nanos;

/// The timeouts of single steps, by their places; `None`: there is a model for which it can fire.
#[derive(Default)]
pub(super) struct Steps {
    said: IndexMap<Origin, Option<Late>>,
}

/// A timeout that comes too late, and what comes before it.
struct Late {
    step: &'static str,
    after: Nanos,
    whole: Whole,
}

/// What ends the whole call.
#[derive(Clone, Copy)]
struct Whole {
    name: &'static str,
    after: Nanos,
    origin: Origin,
}

impl Steps {
    /// Hears the policy of one name.
    pub(super) fn hear(&mut self, policy: &ModelPolicy) {
        let (steps, whole) = (&policy.timeouts, whole(policy));
        let named = [("connect", steps.connect), ("first_token", steps.first_token), ("idle", steps.idle)];
        for (step, said) in named {
            // `unlimited` leaves it to the whole call on purpose.
            let Bound::Within(after) = said.value else { continue };
            let late = whole.filter(|whole| after >= whole.after);
            let late = late.map(|whole| Late { step, after, whole });
            if late.is_none() {
                self.said.insert(said.origin, None);
            } else {
                self.said.entry(said.origin).or_insert(late);
            }
        }
    }

    /// Says which fire for no model.
    pub(super) fn finish(self, found: &mut Found<'_>) {
        for (origin, late) in self.said {
            let Some(Late { step, after, whole }) = late else { continue };
            let Some(span) = found.place(origin) else { continue };
            let Whole { name, after: ends, origin } = whole;
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
fn whole(policy: &ModelPolicy) -> Option<Whole> {
    let retry = &policy.retry;
    let named = [("attempt_timeout", retry.attempt_timeout), ("deadline", retry.deadline)];
    let ends = named.into_iter().filter_map(|(name, bound)| {
        bound.value.length().map(|after| Whole { name, after, origin: bound.origin })
    });
    ends.min_by_key(|whole| whole.after)
}
