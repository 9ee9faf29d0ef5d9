//! Patterns that overlap, neither more specific, and disagree.
//!
//! Two patterns overlap if and only if the text one begins with begins the other's, and likewise at the end. So the
//! patterns that set a value are sorted by one of their ends, whichever sets more of them apart, and each is compared
//! only with those whose end continues its own. What is left of work is bounded by [`SearchBudget`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::display::flow;
use super::document::{PrioritizedRule, SelectorPriority, for_all};
use super::lost::UnreadSelectors;
use super::rules::{RuleList, SelectorRule};
use super::{Findings, Selector};
use crate::text::excerpt;
use crate::text::{Code, Diagnostic, Span};

/// What may be spent on looking for rules that cannot hold together, in comparisons of two short texts.
#[derive(Debug)]
pub(crate) struct SearchBudget(usize);

impl SearchBudget {
    /// What a policy with all its profiles may cost: a fraction of a second.
    const MOST: usize = 4_000_000;
    /// What its lints may cost.
    const MOST_OF_LINTS: usize = 1_500_000;

    pub(crate) const fn new() -> Self {
        Self(Self::MOST)
    }

    pub(crate) const fn of_lints() -> Self {
        Self(Self::MOST_OF_LINTS)
    }

    /// Whether nothing is left.
    pub(crate) const fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    /// Takes from what is left. `false`: it is used up.
    pub(crate) const fn spend(&mut self, cost: usize) -> bool {
        let enough = self.0 >= cost;
        self.0 = self.0.saturating_sub(cost);
        enough
    }

    /// Says that the rules cannot be checked.
    pub(crate) fn used_up(span: Span) -> Diagnostic {
        let message = format!("too many patterns match the same names: more than {} comparisons", Self::MOST);
        Diagnostic::error(Code::TOO_LARGE, span, message)
            .help("use exact names, or patterns that begin or end differently")
    }
}

/// What a pattern says about one value.
struct PatternCandidate<'r, T> {
    rule: &'r SelectorRule<T>,
    span: Span,
    value: Value,
    /// Whether it is set for this class itself, not for all classes.
    own: bool,
}

/// Reports patterns that overlap, neither more specific, and disagree where no more specific selector decides.
///
/// Rules for single calls disagree if they have the same condition; what other conditions hold together nobody can tell.
pub(crate) fn conflicts<T: PrioritizedRule>(
    rules: &RuleList<T>,
    profile: Option<&str>,
    work: &mut SearchBudget,
    findings: &mut Findings,
) {
    let lost = findings.lost().clone();
    for (path, voices) in by_path(rules) {
        let Some(first) = voices.first() else { continue };
        if voices.iter().all(|voice| voice.value == first.value) {
            continue;
        }
        // A field that could not be read has been reported as an error, so ending here hides nothing.
        if !work.spend(lost.len()) {
            return;
        }
        // A field that could not be read may decide between two others, or belong to this value. A conflict is
        // reported only where no such field can matter.
        let UnreadSelectors::At(doubt) = lost.doubt(&path, T::NAME.unwrap_or_default(), T::BLOCK, profile)
        else {
            return;
        };
        let search = ConflictSearch { path: &path, rules, voices: &voices, doubt: &doubt };
        if !search.run(work, findings) {
            findings.push(SearchBudget::used_up(first.rule.span));
            return;
        }
        if findings.problems().is_crowded() {
            return;
        }
    }
}

/// What the patterns say, value by value: within one selector the later file wins.
fn by_path<T: PrioritizedRule>(rules: &RuleList<T>) -> BTreeMap<String, Vec<PatternCandidate<'_, T>>> {
    let patterns = rules.all().iter().filter(|rule| !rule.selector.is_exact());
    let spoken: Vec<_> = patterns
        .map(|rule| {
            let mut entries = rule.layer.entries();
            entries.extend(rule.layer.conditional());
            (rule, entries)
        })
        .collect();
    let paths = spoken.iter().flat_map(|(_, entries)| entries).map(|(path, ..)| path);
    // The paths for one class, by the path for all classes that they override.
    let mut for_one: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in paths {
        if let Some(general) = for_all(path) {
            for_one.entry(general).or_default().insert(path.clone());
        }
    }
    let mut all: BTreeMap<String, Vec<PatternCandidate<'_, T>>> = BTreeMap::new();
    for (rule, entries) in spoken {
        let mut entries: Vec<_> =
            entries.into_iter().map(|(path, span, value)| (path, span, value, true)).collect();
        // A value for all classes also holds for each class without a value of its own.
        let said: BTreeSet<String> = entries.iter().map(|(path, ..)| path.clone()).collect();
        let mut of_each = Vec::new();
        let mut known = BTreeSet::new();
        for (general, span, value, _) in entries.iter().filter(|(path, ..)| known.insert(path.as_str())) {
            let unsaid = for_one.get(general).into_iter().flatten().filter(|path| !said.contains(*path));
            of_each.extend(unsaid.map(|path| (path.clone(), *span, value.clone(), false)));
        }
        entries.extend(of_each);
        for (path, span, value, own) in entries {
            let voice = PatternCandidate { rule, span, value, own };
            let voices = all.entry(path).or_default();
            match voices.last_mut() {
                // Rules of one selector are neighbours. A later file replaces an earlier one; an edit builds on it
                // instead.
                Some(last) if last.rule.selector == rule.selector && edit(&voice.value).is_none() => {
                    *last = voice;
                }
                _ => voices.push(voice),
            }
        }
    }
    all
}

/// The search for those that disagree on one value.
struct ConflictSearch<'a, 'r, T> {
    path: &'a str,
    rules: &'r RuleList<T>,
    voices: &'a [PatternCandidate<'r, T>],
    /// Selectors that may decide, and it is unknown what they say.
    doubt: &'a [&'a Selector],
}

/// Voices sorted by one end of their patterns: the end, the voice, and up to where ends continue this one.
type SortedCandidates = Vec<(String, usize, usize)>;

impl<T: PrioritizedRule> ConflictSearch<'_, '_, T> {
    /// `false`: there is too much to look at.
    fn run(&self, work: &mut SearchBudget, findings: &mut Findings) -> bool {
        let by_beginning = self.sorted(|selector| selector.beginning().to_owned());
        let by_ending = self.sorted(|selector| selector.ending().chars().rev().collect());
        // Sorting by the end that differs more leaves fewer pairs to compare.
        let sorted = if pairs(&by_beginning) <= pairs(&by_ending) { by_beginning } else { by_ending };
        if !work.spend(pairs(&sorted)) {
            return false;
        }
        for (i, (_, one, end)) in sorted.iter().enumerate() {
            for (_, other, _) in sorted.get(i.saturating_add(1)..*end).unwrap_or_default() {
                let (Some(a), Some(b)) = (self.voices.get(*one), self.voices.get(*other)) else { continue };
                // Two edits that commute make the same list in either order, so they do not disagree.
                let alike = a.value == b.value || commute(&a.value, &b.value);
                // Both values come from the path for all classes and are compared there. Reporting them here too
                // would repeat one conflict for every class.
                let elsewhere = !a.own && !b.own;
                let decided = alike || elsewhere || a.rule.priority != b.rule.priority;
                if decided || !a.rule.selector.may_overlap(&b.rule.selector) {
                    continue;
                }
                // The message names the more general pattern first, whatever the order of the files.
                let (a, b) = if a.rule.selector <= b.rule.selector { (a, b) } else { (b, a) };
                if !self.compare(a, b, work, findings) {
                    return false;
                }
                if findings.problems().is_crowded() {
                    return true;
                }
            }
        }
        true
    }

    fn sorted(&self, end: impl Fn(&Selector) -> String) -> SortedCandidates {
        let ends = self.voices.iter().enumerate().map(|(i, voice)| (end(&voice.rule.selector), i, 0));
        let mut sorted: SortedCandidates = ends.collect();
        sorted.sort();
        let until = |i: usize, (text, ..): &(String, usize, usize)| {
            let after = i.saturating_add(1);
            let rest = sorted.get(after..).unwrap_or_default();
            after.saturating_add(rest.partition_point(|(next, ..)| next.starts_with(text.as_str())))
        };
        let until: Vec<usize> = sorted.iter().enumerate().map(|(i, entry)| until(i, entry)).collect();
        sorted.iter_mut().zip(until).for_each(|((.., held), until)| *held = until);
        sorted
    }

    /// Reports two voices that differ, unless one pattern is more specific or a more specific rule decides.
    fn compare(
        &self,
        a: &PatternCandidate<'_, T>,
        b: &PatternCandidate<'_, T>,
        work: &mut SearchBudget,
        findings: &mut Findings,
    ) -> bool {
        let (one, other) = (&a.rule.selector, &b.rule.selector);
        let (long, wide) = (one.as_str().len(), other.as_str().len());
        if !work.spend(long.saturating_add(wide).div_euclid(16)) {
            return false;
        }
        // The more specific one wins by the order of selectors: this is what patterns are for.
        if one.includes(other) || other.includes(one) {
            return true;
        }
        if !work.spend(long.saturating_mul(wide).div_euclid(4)) {
            return false;
        }
        let Some(witness) = one.overlaps(other) else { return true };
        let candidates = self.rules.candidates(&witness);
        if !work.spend(candidates.len().saturating_add(self.doubt.len())) {
            return false;
        }
        if self.doubt.iter().any(|selector| selector.matches(&witness)) {
            return true;
        }
        // A name in a rule of its own may be written with a lower priority, and then it would not win.
        let own = candidates.iter().rfind(|rule| rule.selector.as_str() == witness);
        let own = own.map_or_else(SelectorPriority::default, |rule| rule.priority);
        // A more specific rule that says something of the value decides for both, so their difference has no effect.
        let decided = candidates.into_iter().any(|narrow| {
            let selector = &narrow.selector;
            narrow.priority >= a.rule.priority
                && selector.matches(&witness)
                && one.includes(selector)
                && other.includes(selector)
                && says(&*narrow.layer, self.path)
        });
        if !decided {
            findings.push(self.conflict(&witness, own, a, b));
        }
        true
    }

    /// `own`: the priority of the rules for the name itself.
    fn conflict(
        &self,
        witness: &str,
        own: SelectorPriority,
        a: &PatternCandidate<'_, T>,
        b: &PatternCandidate<'_, T>,
    ) -> Diagnostic {
        let (one, other, path) = (a.rule.selector.as_str(), b.rule.selector.as_str(), self.path);
        let message = format!(
            "`{one}` and `{other}` both match `{witness}`, neither is more specific, and they disagree on `{path}`"
        );
        let priority = a.rule.priority;
        let with = if own < priority { format!(" with `priority: {}`", priority.0) } else { String::new() };
        Diagnostic::error(Code::CONFLICT, b.span, message)
            .label(format!("`{other}` says {}", short(&b.value)))
            .also(a.span, format!("`{one}` says {}", short(&a.value)))
            .help(format!(
                "set `{path}` under `{witness}`{with} too, give one of the two a higher `priority`, or make one more specific"
            ))
    }
}

/// How many pairs there are to look at.
fn pairs(sorted: &SortedCandidates) -> usize {
    let each = sorted.iter().enumerate().map(|(i, (.., end))| end.saturating_sub(i.saturating_add(1)));
    each.fold(0, usize::saturating_add)
}

fn says<T: PrioritizedRule>(layer: &T, path: &str) -> bool {
    let mut entries = layer.entries();
    entries.extend(layer.conditional());
    let general = for_all(path);
    entries.iter().any(|(said, ..)| said == path || Some(said) == general.as_ref())
}

/// What a value adds to a list and removes from it, if it edits one.
fn edit(value: &Value) -> Option<[&[Value]; 2]> {
    let edit = value.as_object().filter(|edit| !edit.is_empty())?;
    let known = edit.iter().all(|(key, list)| matches!(key.as_str(), "add" | "remove") && list.is_array());
    let part = |key: &str| edit.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    known.then(|| [part("add"), part("remove")])
}

/// Whether two edits make the same of a list, whichever comes first: neither removes what the other adds.
fn commute(a: &Value, b: &Value) -> bool {
    let (Some([add, remove]), Some([adds, removes])) = (edit(a), edit(b)) else { return false };
    // If one adds what the other removes, the later of the two decides.
    let apart = |one: &[Value], other: &[Value]| !one.iter().any(|class| other.contains(class));
    apart(add, removes) && apart(adds, remove)
}

/// A value in a few words, as it is written.
pub(crate) fn short(value: &Value) -> String {
    excerpt(&flow(value), 60)
}
