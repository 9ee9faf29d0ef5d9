//! Selectors that match nothing of what the host has.

use indexmap::IndexMap;

use super::{Found, View};
use crate::policy::did_you_mean::closest;
use crate::policy::rules::Rules;
use crate::policy::{Code, Diagnostic, Span};

/// So many are compared with all names that are known; nobody reads the next suggestion.
const COMPARED: usize = 100;

/// The selectors of all views, by their places, and whether any name matches.
#[derive(Default)]
pub(super) struct Selectors {
    tools: Seen,
    models: Seen,
}

#[derive(Default)]
struct Seen {
    selectors: IndexMap<Span, (String, bool)>,
    names: Vec<String>,
}

impl Selectors {
    /// Hears the selectors of one view.
    pub(super) fn hear(&mut self, view: &View<'_>) {
        if let Some(tools) = &view.options.tools {
            self.tools.hear(view.layers.tool_rules(), tools.iter().map(|tool| tool.name.as_str()));
        }
        if let Some(models) = &view.options.models {
            self.models.hear(view.layers.model_rules(), models.iter().map(|model| model.name.as_str()));
        }
    }

    /// Says which match nothing.
    pub(super) fn finish(&self, found: &mut Found<'_>) {
        self.tools.finish("tool", found);
        self.models.finish("model", found);
    }
}

impl Seen {
    fn hear<'n, T>(&mut self, rules: &Rules<T>, names: impl Iterator<Item = &'n str> + Clone) {
        for rule in rules.all() {
            self.selectors.entry(rule.span).or_insert_with(|| (rule.selector.as_str().to_owned(), false));
        }
        if self.names.is_empty() {
            self.names = names.clone().map(str::to_owned).collect();
        }
        for rule in names.flat_map(|name| rules.matching(name)) {
            if let Some((_, matches)) = self.selectors.get_mut(&rule.span) {
                *matches = true;
            }
        }
    }

    fn finish(&self, kind: &str, found: &mut Found<'_>) {
        let dead = self.selectors.iter().filter(|(_, (selector, matches))| !matches && selector != "*");
        for (number, (span, (selector, _))) in dead.enumerate() {
            let message = if selector.contains('*') {
                format!("`{selector}` matches no {kind} of the host")
            } else {
                format!("the host has no {kind} `{selector}`")
            };
            let problem = Diagnostic::warning(Code::DEAD_SELECTOR, *span, message);
            let names = self.names.iter().map(String::as_str).filter(|_| number < COMPARED);
            found.push(match closest(selector, names) {
                // The rules may be meant for a tool that is to come; nobody gives them to another one unasked.
                Some(meant) => problem.label(format!("did you mean `{meant}`?")),
                None => problem.help("remove it, or register what it is meant for"),
            });
        }
    }
}
