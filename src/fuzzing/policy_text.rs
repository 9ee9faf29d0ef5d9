//! The text of a policy: load, lint, explain.

use crate::analysis::{ComparedNames, LintOptions, PolicyExplanation};
use crate::policy::{ErrorClass, Loader, Policy};
use crate::text::Report;

/// A policy loads or says why not, in places that are there. One that loads can be linted and explained, and what is
/// explained is a policy that says the same.
pub fn policy_text(data: &[u8]) {
    let loader = Loader::new().every_profile().with_lints(LintOptions::default());
    let policy = match loader.load(vec![("policy.yaml".to_owned(), data)]) {
        Ok(policy) => policy,
        Err(report) => {
            assert!(report.has_errors(), "it does not load, and no mistake is reported");
            return shown(&report);
        }
    };
    if let Some(warnings) = policy.warnings() {
        shown(warnings);
    }
    shown(&policy.lint(&LintOptions::default()));
    let _ = policy.bounds(&ComparedNames::default(), 1).human();
    explained(&policy.explain_tool("search"), |other| other.explain_tool("search"));
    explained(&policy.explain_model("main"), |other| other.explain_model("main"));
    explained(&policy.explain_turn(), Policy::explain_turn);
    explained(&policy.explain_history(), Policy::explain_history);
    explained(&policy.explain_context(), Policy::explain_context);
}

fn explained(found: &PolicyExplanation, again: impl Fn(&Policy) -> PolicyExplanation) {
    let _ = (found.human(), found.to_json(), found.on_error(ErrorClass::Timeout).human());
    let text = found.document().to_string();
    // A block alone may speak of slices and tools that stand elsewhere.
    if let Ok(other) = Policy::from_yaml("explained.yaml", &text) {
        assert_eq!(again(&other).effective(), found.effective(), "it explains itself as another one: {text}");
    }
}

fn shown(report: &Report) {
    let _ = (report.human(true), report.to_json(), report.to_string());
    for diagnostic in report.all() {
        let place = report.sources().place_of(diagnostic.span);
        assert!(!diagnostic.message.is_empty(), "{place}: nothing is said");
    }
}
