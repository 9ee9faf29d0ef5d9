//! Rules for single error classes that are never retried, or never raised.

use indexmap::IndexMap;

use super::LintFindings;
use crate::policy::{ClassRetry, ClassSet, ErrorClass, LayerKind, Origin, RetryPolicy};
use crate::text::{Code, Diagnostic};

/// The rules of the files for single classes, by their places, and whether one ever decides something.
#[derive(Default)]
pub(super) struct OfClass {
    rules: IndexMap<Origin, (ErrorClass, &'static str, bool)>,
}

impl OfClass {
    /// Observes the policy of one name, which fails with these classes.
    pub(super) fn observe(&mut self, retry: &RetryPolicy, raised: ClassSet) {
        let retried =
            |class| retry.retry_on.value.contains(class) && !retry.never_retry.value.contains(class);
        for (class, own) in retry.by_class.iter() {
            let alive = retried(class) && raised.contains(class);
            for (field, origin) in said(retry, own) {
                let (.., held) = self.rules.entry(origin).or_insert((class, field, false));
                *held |= alive;
            }
        }
    }

    /// Says which never decide.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for (origin, (class, field, alive)) in self.rules {
            let Some(span) = found.place(origin).filter(|_| !alive) else { continue };
            let message = format!("`by_class.{class}.{field}` has no effect: {class} is not retried here");
            let problem = Diagnostic::warning(Code::DEAD_CLASS_RULE, span, message);
            found.push(problem.help("add the class to `retry_on`, or remove its rules"));
        }
    }
}

/// The values that are not those for all classes.
fn said(retry: &RetryPolicy, own: &ClassRetry) -> Vec<(&'static str, Origin)> {
    let all = [
        ("max_attempts", own.max_attempts.origin, retry.max_attempts.origin),
        ("backoff", own.backoff.origin, retry.backoff.origin),
        ("server_delay", own.server_delay.origin, retry.server_delay.origin),
    ];
    let differs = all.into_iter().filter(|(_, own, general)| own != general && own.scope != LayerKind::Limit);
    differs.map(|(field, own, _)| (field, own)).collect()
}
