//! The layers of one profile, and the names at which they are checked.

use super::{KnownTool, LintFindings, LintOptions};
use crate::analysis::explain::WorstCase;
use crate::policy::conflict::SearchBudget;
use crate::policy::document::RetryPolicy;
use crate::policy::form::{Merged, MergedBlock as _};
use crate::policy::layers::PolicyLayers;
use crate::policy::rules::RuleList;
use crate::text::{Code, Diagnostic, Span};

/// The layers of one profile, and what is known of the host.
pub(super) struct ProfileView<'p> {
    pub(super) layers: &'p PolicyLayers,
    pub(super) options: &'p LintOptions,
}

/// A name at which rules are checked: a tool or model, or a selector for all that it matches.
#[derive(Clone, Copy)]
pub(super) struct CheckedName<'p> {
    pub(super) name: &'p str,
    pub(super) known: Option<&'p KnownTool>,
}

impl<'p> ProfileView<'p> {
    /// The tools that are known, or all selectors for tools and `*`.
    pub(super) fn tools(&self) -> Vec<CheckedName<'p>> {
        match &self.options.tools {
            Some(tools) => {
                tools.iter().map(|tool| CheckedName { name: &tool.name, known: Some(tool) }).collect()
            }
            None => selectors(self.layers.tool_rules()),
        }
    }

    /// The models that are known, or all selectors for models and `*`.
    pub(super) fn models(&self) -> Vec<CheckedName<'p>> {
        match &self.options.models {
            Some(models) => {
                models.iter().map(|model| CheckedName { name: &model.name, known: None }).collect()
            }
            None => selectors(self.layers.model_rules()),
        }
    }

    /// How often the client of a model retries inside each attempt.
    pub(super) fn inner_retries(&self, model: &str) -> u32 {
        let mut known = self.options.models.iter().flatten();
        known
            .find(|known| known.name == model)
            .map_or(0, |known| known.inner_retries)
            .max(self.options.inner_retries)
    }
}

/// Pays for showing a retry policy, and for following its waits. `false`: there is nothing left to pay with.
pub(super) fn spend_waits(
    retry: &RetryPolicy<Merged>,
    work: &mut SearchBudget,
    found: &mut LintFindings<'_>,
) -> bool {
    /// So many are followed without being counted, which is what policies usually ask for.
    const FREE: usize = 200;
    /// So often each lint that looks at waits follows them.
    const TIMES: usize = 6;
    let cost = retry.policy().map_or(0, |retry| WorstCase::cost(&retry));
    let enough = work.spend(cost.saturating_sub(FREE).saturating_mul(TIMES));
    if !enough {
        let message = "too many attempts with too many waits to look for all likely mistakes";
        let problem = Diagnostic::warning(Code::TOO_LARGE, found.start(), message);
        found.push(problem.help("ask for fewer attempts, list fewer delays, or say them once for all tools"));
    }
    enough
}

/// What a name is, for people: the tool of that name, the tools a pattern matches, all tools.
pub(super) fn subject(kind: &str, name: &str) -> String {
    match name {
        "*" => format!("{kind}s"),
        _ if name.contains('*') => format!("{kind}s `{name}`"),
        _ => format!("{kind} `{name}`"),
    }
}

/// Pays for hearing the rules of a name so many times. `false`: there is nothing left to pay with.
pub(super) fn spend<T>(
    rules: &RuleList<T>,
    name: &str,
    times: usize,
    work: &mut SearchBudget,
    found: &mut LintFindings<'_>,
) -> bool {
    let enough = work.spend(rules.cost(name).saturating_mul(times));
    if !enough {
        found.push(unfinished(found.start()));
    }
    enough
}

fn selectors<T>(rules: &RuleList<T>) -> Vec<CheckedName<'_>> {
    let mut names: Vec<&str> = rules.all().iter().map(|rule| rule.selector.as_str()).collect();
    names.push("*");
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| CheckedName { name, known: None }).collect()
}

fn unfinished(span: Span) -> Diagnostic {
    let message = "too many patterns match the same names to look for all likely mistakes";
    let problem = Diagnostic::warning(Code::TOO_LARGE, span, message);
    problem.help("use exact names, or patterns that begin or end differently")
}
