//! Selectors that match nothing of what the host, an agent or a test has.

use indexmap::IndexMap;

use super::{LintFindings, ProfileView};
use crate::policy::rules::RuleList;
use crate::text::did_you_mean::closest;
use crate::text::{Code, Diagnostic, SourceId, Span};

/// The maximum number of selectors compared with all known names.
const COMPARED: usize = 100;

/// Who has the names.
pub(super) struct NameOwner<'o> {
    /// For people: `agent`, `host`.
    pub(super) name: &'o str,
    /// The file that nobody else uses, where a name which is not there cannot be meant.
    pub(super) own: Option<SourceId>,
    /// Only slips of known names are reported.
    pub(super) slips: bool,
    /// How the names of tools begin that servers may bring.
    pub(super) unasked: &'o [String],
}

impl NameOwner<'_> {
    /// Whether a server may bring what the selector matches.
    fn may_get(&self, selector: &str) -> bool {
        let (beginning, pattern) = match selector.split_once('*') {
            Some((beginning, _)) => (beginning, true),
            None => (selector, false),
        };
        self.unasked.iter().any(|prefix| {
            beginning.starts_with(prefix.as_str()) || (pattern && prefix.starts_with(beginning))
        })
    }
}

/// The selectors of all views, by their places, and whether any name matches.
#[derive(Default)]
pub(super) struct SelectorMatches {
    tools: SeenSelector,
    models: SeenSelector,
}

#[derive(Default)]
struct SeenSelector {
    selectors: IndexMap<Span, (String, bool)>,
    names: Vec<String>,
}

impl SelectorMatches {
    /// Observes the selectors of one view.
    pub(super) fn observe(&mut self, view: &ProfileView<'_>) {
        let (options, known) = (view.options, view.options.names.as_ref());
        let tools = known.and_then(|known| known.tools.clone()).or_else(|| {
            options.tools.as_ref().map(|tools| tools.iter().map(|tool| tool.name.clone()).collect())
        });
        let models = known.and_then(|known| known.models.clone()).or_else(|| {
            options.models.as_ref().map(|models| models.iter().map(|model| model.name.clone()).collect())
        });
        if let Some(tools) = tools {
            self.tools.observe(view.layers.tool_rules(), tools);
        }
        if let Some(models) = models {
            self.models.observe(view.layers.model_rules(), models);
        }
    }

    /// Says which match nothing.
    pub(super) fn finish(&self, owner: &NameOwner<'_>, found: &mut LintFindings<'_>) {
        self.tools.finish(owner, "tool", found);
        self.models.finish(owner, "model", found);
    }
}

impl SeenSelector {
    fn observe<T>(&mut self, rules: &RuleList<T>, names: Vec<String>) {
        for rule in rules.all() {
            self.selectors.entry(rule.span).or_insert_with(|| (rule.selector.as_str().to_owned(), false));
        }
        for rule in names.iter().flat_map(|name| rules.matching(name)) {
            if let Some((_, matches)) = self.selectors.get_mut(&rule.span) {
                *matches = true;
            }
        }
        if self.names.is_empty() {
            self.names = names;
        }
    }

    fn finish(&self, owner: &NameOwner<'_>, kind: &str, found: &mut LintFindings<'_>) {
        let dead = self.selectors.iter().filter(|(_, (selector, matches))| !matches && selector != "*");
        // Presets speak of the tools of the system they are made after.
        let dead = dead.filter(|(span, _)| !found.ships(**span)).collect::<Vec<_>>();
        for (number, (span, (selector, _))) in dead.into_iter().enumerate() {
            let (who, exact) = (owner.name, !selector.contains('*'));
            let certain = exact && owner.own == Some(span.source);
            let problem = match (exact, certain) {
                (false, _) => {
                    let message = format!("`{selector}` matches no {kind} of the {who}");
                    Diagnostic::warning(Code::DEAD_SELECTOR, *span, message)
                }
                (true, false) => {
                    let message = format!("the {who} has no {kind} `{selector}`");
                    Diagnostic::warning(Code::DEAD_SELECTOR, *span, message)
                }
                (true, true) => {
                    let message = format!("the {who} has no {kind} `{selector}`");
                    Diagnostic::error(Code::NO_SUCH_NAME, *span, message)
                }
            };
            let names = self.names.iter().map(String::as_str).filter(|_| number < COMPARED);
            let near = closest(selector, names);
            // A slip of a tool there is may still be one: without prefixes any name may come.
            if kind == "tool" && owner.may_get(selector) && near.is_none() {
                continue;
            }
            if owner.slips && near.is_none_or(|near| !exact || self.has_rules(near)) {
                continue;
            }
            // The rules may be meant for a future tool; they are not moved to another one automatically.
            found.push(match near {
                Some(meant) => problem.label(format!("did you mean `{meant}`?")),
                None if kind == "tool" && !owner.unasked.is_empty() => {
                    problem.help(with_prefixes(selector, owner.unasked))
                }
                None if self.names.is_empty() => problem.help(format!("the {who} has no {kind}s")),
                None if certain => problem
                    .help(self.known(kind))
                    .help("if another agent has it, put the rules into a file that both extend"),
                None => problem.help("remove it, or register what it is meant for"),
            });
        }
    }

    /// Whether a selector is that very name.
    fn has_rules(&self, name: &str) -> bool {
        self.selectors.values().any(|(selector, _)| selector == name)
    }

    /// The names there are, for people.
    fn known(&self, kind: &str) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        match names.as_slice() {
            [one] => format!("its {kind} is `{one}`"),
            names => format!("its {kind}s are {}", crate::policy::decode::list(names)),
        }
    }
}

/// How a selector is written for the tools of servers.
fn with_prefixes(selector: &str, prefixes: &[String]) -> String {
    let with: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}{selector}")).collect();
    let with: Vec<&str> = with.iter().map(String::as_str).collect();
    format!(
        "the names of its servers' tools begin with the server's: write {}",
        crate::policy::decode::list(&with)
    )
}
