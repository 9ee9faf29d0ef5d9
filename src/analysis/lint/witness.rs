//! Tools that are to say whether another has acted (`on_uncertain_effect: {kind: verify}`), and cannot.

use super::LintFindings;
use super::view::ProfileView;
use crate::policy::form::MergedBlock as _;
use crate::policy::{AfterEffect, Effect, ToolPolicy};
use crate::text::did_you_mean::closest;
use crate::text::{Code, Diagnostic};

/// Reports a tool that is not there, or does more than read: it is not run, and nothing is found out.
pub(super) fn check(
    view: &ProfileView<'_>,
    subject: &str,
    policy: &ToolPolicy,
    found: &mut LintFindings<'_>,
) {
    let AfterEffect::Verify(check) = &policy.on_uncertain_effect.value else { return };
    let Some(span) = found.place(policy.on_uncertain_effect.origin) else { return };
    let name = &check.tool;
    let tools = view.options.tools.as_ref().or(view.options.witnesses.as_ref());
    let known = tools.map(|tools| tools.iter().find(|tool| tool.name == *name));
    if known == Some(None) {
        let message = format!("the effect of {subject} cannot be verified: there is no tool `{name}`");
        let problem = Diagnostic::warning(Code::NO_WITNESS, span, message);
        let problem = problem.help("name a tool of the host that only reads");
        let names = tools.into_iter().flatten().map(|tool| tool.name.as_str());
        return found.push(match closest(name, names) {
            Some(meant) => problem.label(format!("did you mean `{meant}`?")),
            None => problem,
        });
    }
    let told = view.layers.tool(name, &[]).policy().map_or(Effect::Unknown, |of| of.effect.value);
    let effect = match (told, known.flatten()) {
        (Effect::Unknown, Some(known)) => known.effect,
        // The tool itself may say that it only reads.
        (Effect::Unknown, None) => return,
        (told, _) => told,
    };
    if effect != Effect::ReadOnly {
        let message =
            format!("the effect of {subject} cannot be verified: `{name}` is not known to be `read_only`");
        let problem = Diagnostic::warning(Code::NO_WITNESS, span, message);
        found.push(problem.help(format!("declare `effect: read_only` for `{name}` if it only reads")));
    }
}
