//! Paces whose calls never wait.

use super::LintFindings;
use crate::policy::{PaceLimit, Setting, TimeBound};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// Looks at the effective pace of a tool or a model.
pub(super) fn check(
    subject: &str,
    requests: &Setting<PaceLimit>,
    max_wait: &Setting<TimeBound>,
    found: &mut LintFindings<'_>,
) {
    let (Some(rate), Some(most)) = (requests.value.rate(), max_wait.value.length()) else { return };
    let Some(span) = found.place(requests.origin).or_else(|| found.place(max_wait.origin)) else { return };
    let next = Nanos(rate.per.0.div_ceil(rate.limit.get().into()));
    if next <= most {
        return;
    }
    let message = format!(
        "no call of {subject} waits for its turn: the next one starts after {}, and `max_wait` is {most}",
        next.rounded()
    );
    let problem = Diagnostic::warning(Code::NO_TURN, span, message);
    let problem = match found.place(max_wait.origin).filter(|at| *at != span) {
        Some(at) => problem.also(at, "the longest wait"),
        None => problem,
    };
    found.push(problem.help(format!("set `max_wait` to {} or more, or write a higher rate", next.rounded())));
}
