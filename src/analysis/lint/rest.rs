//! Lints of a policy that has mistakes: only what does not come of them.

use std::sync::Arc;

use super::LintOptions;
use crate::policy::load::Review;
use crate::policy::{Findings, Loader, Policy};
use crate::text::{Code, Diagnostic};

impl Loader {
    /// Tells with the mistakes of a policy that cannot be used what [`Policy::lint`] finds in the rest of it.
    #[must_use]
    pub fn with_lints(self, options: LintOptions) -> Self {
        self.with_review(Review(Arc::new(move |policy, findings| policy.lint_the_rest(&options, findings))))
    }
}

impl Policy {
    /// Adds what the lints find next to the mistakes that were found, whatever those kept from being read.
    fn lint_the_rest(&self, options: &LintOptions, findings: &mut Findings) {
        let report = self.lint(options);
        for problem in report.all() {
            if stands(problem, findings) {
                findings.push(problem.clone());
            }
        }
    }
}

/// Whether a finding does not depend on what could not be read.
fn stands(problem: &Diagnostic, findings: &Findings) -> bool {
    let lost = findings.lost();
    match problem.code {
        Code::SUPPRESSION | Code::DEAD_SELECTOR => true,
        // What is suppressed may only be found without the mistakes.
        Code::UNUSED_SUPPRESSION => false,
        Code::SHADOWED | Code::NO_OP | Code::BLOCKED | Code::IDLE_NULL => {
            let path = problem.message.split('`').nth(1).unwrap_or_default();
            !lost.touches(path) && !lost.any(&["ToolLayer", "ModelLayer", "priority", "CallRule"])
        }
        _ => lost.is_nothing(),
    }
}
