//! Words that change nothing: shadowed values, repeated values, idle nulls, and defaults that do not reach.
//!
//! Every value of every file is observed at all names that it is for. What never counts at any of them is shadowed; what
//! never differs from what it inherits is repeated.

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_json::Value;

use super::never::ClassLists;
use super::{LintFindings, ProfileView};
use crate::policy::LayerKind;
use crate::policy::conflict::short;
use crate::policy::form::{KeyVisit, MergedBlock as _};
use crate::policy::layers::PolicyLayers;
use crate::policy::merge::{LayerWord, WordKind};
use crate::policy::rules::RuleList;
use crate::text::{Code, Diagnostic, Span};

/// So many places are shown in addition to the first.
const PLACES: usize = 3;

/// With more rules for one name than this, the deciding rule cannot be determined; none then counts as repeated.
const COMPARED: usize = 64;

/// What has been observed of the values of the files, by their places.
#[derive(Default)]
pub(super) struct WrittenValues {
    observed: IndexMap<Span, WordOutcome>,
    blocked: IndexMap<Span, BlockedWord>,
    /// Priorities decide somewhere: what a pattern inherits then depends on the name.
    uneven: bool,
}

/// What became of a word at all names so far.
struct WordOutcome {
    path: String,
    kind: WordKind,
    /// Whether it counts somewhere.
    alive: bool,
    /// Whether it changes something somewhere.
    matters: bool,
    /// Those that replace it.
    replaced_by: Vec<Span>,
    /// The word it repeats, and the value.
    repeats: Option<(Span, Value)>,
    /// Whether it is of a pattern.
    pattern: bool,
}

/// A word that more specific rules of earlier files keep out.
struct BlockedWord {
    path: String,
    value: Value,
    by: IndexMap<Span, (String, Value)>,
}

impl WrittenValues {
    /// Observes the values for turns, the history, the context and the report.
    pub(super) fn of_blocks(&mut self, view: &ProfileView<'_>) -> ClassLists {
        self.uneven |= uneven(view.layers);
        let turn = view.layers.turn();
        self.observe(&mut |visit| turn.each("", visit));
        let history = view.layers.history();
        self.observe(&mut |visit| history.each("", visit));
        let context = view.layers.context();
        self.observe(&mut |visit| context.each("", visit));
        if view.layers.output_wanted().is_none() {
            return ClassLists::default();
        }
        let output = view.layers.output();
        self.observe(&mut |visit| output.each("", visit))
    }

    /// Observes the values for one name; returns its lists of classes.
    pub(super) fn observe(&mut self, each: &mut dyn FnMut(KeyVisit<'_>)) -> ClassLists {
        let mut lists = ClassLists::default();
        each(&mut |path, _, trail| {
            let words = trail.words();
            lists.observe(&path, trail, &words);
            self.count(&path, &words);
            self.reach(&path, &words);
        });
        lists
    }

    /// Which words count, and which change something.
    fn count(&mut self, path: &str, words: &[LayerWord]) {
        // The lowest part that replaces what lower layers set, and where.
        let mut above: Option<(usize, Span)> = None;
        let is_set = |word: &LayerWord| word.scope != LayerKind::Builtin && word.kind != WordKind::Unset;
        let first_set = words.iter().position(is_set);
        let ruled: Vec<&LayerWord> =
            words.iter().filter(|word| word.selector.is_some() && word.scope != LayerKind::Builtin).collect();
        let numbered = words.iter().enumerate().rev();
        for (number, word) in numbered.filter(|(_, word)| word.scope != LayerKind::Builtin) {
            let from = word.from.and_then(|from| words.get(from));
            let inherited = from.filter(|from| from.scope != LayerKind::Builtin);
            let matters = match word.kind {
                WordKind::Unset => first_set.is_some_and(|first| first < number),
                WordKind::Set | WordKind::Edit => {
                    word.before != word.after
                        || inherited.is_none_or(|from| from.part > word.part || decides(&ruled, from))
                }
            };
            let conditional = word.scope == LayerKind::Call;
            let replaced = above.filter(|(part, _)| *part <= word.part && !conditional);
            let observed = self.entry(path, word);
            observed.alive |= replaced.is_none();
            observed.matters |= matters;
            if let Some((_, by)) = replaced
                && observed.replaced_by.len() < PLACES
                && !observed.replaced_by.contains(&by)
            {
                observed.replaced_by.push(by);
            }
            if !matters && observed.repeats.is_none() {
                observed.repeats = inherited.map(|from| (from.span, word.after.clone().unwrap_or_default()));
            }
            let lowest = above.is_none_or(|(part, _)| word.part < part);
            if word.kind != WordKind::Edit && !conditional && lowest {
                above = Some((word.part, word.span));
            }
        }
    }

    fn entry(&mut self, path: &str, word: &LayerWord) -> &mut WordOutcome {
        match self.observed.entry(word.span) {
            Entry::Occupied(observed) => observed.into_mut(),
            Entry::Vacant(free) => free.insert(WordOutcome {
                path: spoken(&word.layer, path),
                kind: word.kind,
                alive: false,
                matters: false,
                replaced_by: Vec::new(),
                repeats: None,
                pattern: word.layer.contains('*'),
            }),
        }
    }

    /// Whether the value a later file sets is kept out by what an earlier one says more narrowly.
    fn reach(&mut self, path: &str, words: &[LayerWord]) {
        let last = words.iter().rfind(|word| word.scope != LayerKind::Call && word.kind != WordKind::Edit);
        let Some(last) = last.filter(|word| is_file(word) && word.before != word.after) else { return };
        let Some(below) = last.from.and_then(|from| words.get(from)) else { return };
        let changes = below.kind == WordKind::Set && below.before != below.after;
        if !is_file(below) || below.part <= last.part || !changes {
            return;
        }
        let blocked = self.blocked.entry(below.span).or_insert_with(|| BlockedWord {
            path: spoken(&below.layer, path),
            value: below.after.clone().unwrap_or_default(),
            by: IndexMap::new(),
        });
        let says = (spoken(&last.layer, path), last.after.clone().unwrap_or_default());
        blocked.by.entry(last.span).or_insert(says);
    }

    /// Says what has been found.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for (span, observed) in &self.observed {
            let depends = observed.pattern && self.uneven;
            if !observed.alive {
                found.push(observed.shadowed(*span));
            } else if !observed.matters && !depends {
                found.push(observed.idle(*span));
            }
        }
        for (span, blocked) in &self.blocked {
            found.push(blocked.problem(*span));
        }
    }
}

impl WordOutcome {
    fn shadowed(&self, span: Span) -> Diagnostic {
        let message = format!("`{}` never takes effect: it is overridden wherever it would apply", self.path);
        let problem = Diagnostic::warning(Code::SHADOWED, span, message).label("never takes effect");
        let problem = self.replaced_by.iter().fold(problem, |problem, by| problem.also(*by, "replaced here"));
        problem.help("remove it, or remove what overrides it")
    }

    fn idle(&self, span: Span) -> Diagnostic {
        match (&self.repeats, self.kind) {
            (Some((from, value)), WordKind::Set) => {
                let message = format!("`{}` is redundant: it inherits {} already", self.path, short(value));
                let problem =
                    Diagnostic::warning(Code::NO_OP, span, message).also(*from, "inherited from here");
                problem.help("remove it, or set another value")
            }
            (Some((from, value)), WordKind::Edit) => {
                let message = format!("`{}` is redundant: the list is {} already", self.path, short(value));
                let problem =
                    Diagnostic::warning(Code::NO_OP, span, message).also(*from, "inherited from here");
                problem.help("remove it")
            }
            (_, _) => {
                let message = format!("`{}` is unset, and no file sets it below", self.path);
                let problem = Diagnostic::warning(Code::IDLE_NULL, span, message).label("unsets nothing");
                problem.help("remove it: the built-in value applies here anyway")
            }
        }
    }
}

impl BlockedWord {
    fn problem(&self, span: Span) -> Diagnostic {
        let value = short(&self.value);
        let message = match self.by.len() {
            1 => format!("`{}`: {value} is overridden by a more specific rule of an earlier file", self.path),
            count => {
                format!(
                    "`{}`: {value} is overridden by {count} more specific rules of earlier files",
                    self.path
                )
            }
        };
        let problem = Diagnostic::warning(Code::BLOCKED, span, message);
        let shown = self.by.iter().take(PLACES);
        let problem = shown.fold(problem, |problem, (at, (path, value))| {
            problem.also(*at, format!("`{path}` stays {}", short(value)))
        });
        problem.help("set it under that selector too, if it is meant to apply there")
    }
}

/// Whether a pattern that overlaps the one of `from`, neither more specific, says something else: a word above both decides
/// between them, though it repeats one.
fn decides(ruled: &[&LayerWord], from: &LayerWord) -> bool {
    let Some(one) = &from.selector else { return false };
    ruled.len() > COMPARED
        || ruled.iter().filter(|word| word.after != from.after).any(|word| {
            word.selector.as_ref().is_some_and(|other| !one.includes(other) && !other.includes(one))
        })
}

/// Whether a word is of a file itself, not of a profile or a call.
fn is_file(word: &LayerWord) -> bool {
    !matches!(word.scope, LayerKind::Builtin | LayerKind::Profile | LayerKind::Call)
        && !word.layer.starts_with("profiles.")
}

/// The path of a value as it is written in the file.
fn spoken(layer: &str, path: &str) -> String {
    // The path names the class itself.
    let layer = layer.rsplit_once(" by_class.").map_or(layer, |(layer, _)| layer);
    let layer = layer.split_once(" (priority").map_or(layer, |(layer, _)| layer);
    match layer.strip_suffix("retry") {
        // A block for every kind of work: its values are known by paths that begin with it.
        Some(before) if layer == "retry" || before.ends_with('.') => format!("{before}{path}"),
        _ => format!("{layer}.{path}"),
    }
}

/// Whether some selector has another priority than the rest.
fn uneven(layers: &PolicyLayers) -> bool {
    fn any<T>(rules: &RuleList<T>) -> bool {
        let first = rules.all().first().map(|rule| rule.priority);
        rules.all().iter().any(|rule| Some(rule.priority) != first)
    }
    any(layers.tool_rules()) || any(layers.model_rules())
}
