//! What files say about the subjects that selectors name, in the order in which it counts.

use std::sync::Arc;

use super::Selector;
use super::decode::Patch;
use super::document::{PrioritizedRule, SelectorPriority};
use super::merge::LayerPosition;
use super::selector_index::SelectorIndex;
use crate::text::Span;

/// What a file says about the subjects a selector names.
#[derive(Debug)]
pub(crate) struct SelectorRule<T> {
    pub(crate) selector: Selector,
    pub(crate) span: Span,
    pub(crate) layer: Arc<T>,
    pub(crate) at: LayerPosition,
    /// The priority of the selector; the same for all its rules.
    pub(crate) priority: SelectorPriority,
}

/// Rules, lowest first: by priority, then less specific before more specific, then in the order of the files.
#[derive(Debug)]
pub(crate) struct RuleList<T> {
    all: Vec<SelectorRule<T>>,
    index: SelectorIndex,
}

impl<T: PrioritizedRule> RuleList<T> {
    /// Puts rules, given in the order of the files, in their order.
    pub(crate) fn new(mut all: Vec<SelectorRule<T>>) -> Self {
        // The sort is stable: within one selector the order of the files is kept.
        all.sort_by(|a, b| a.selector.cmp(&b.selector));
        let mut ordered = true;
        for rules in all.chunk_by_mut(|a, b| a.selector == b.selector) {
            let priority =
                rules.iter().fold(SelectorPriority::default(), |held, rule| match rule.layer.priority() {
                    Patch::Absent => held,
                    // `priority: null` in a later file takes back the priority that an earlier one gave.
                    Patch::Null(_) => SelectorPriority::default(),
                    Patch::Set(priority, _) => priority,
                });
            if priority != SelectorPriority::default() {
                ordered = false;
                for rule in rules {
                    rule.priority = priority;
                    rule.at.name = format!("{} (priority {})", rule.at.name, priority.0).into();
                }
            }
        }
        // Few policies have priorities, so the list is rarely sorted a second time.
        if !ordered {
            all.sort_by(|a, b| (a.priority, &a.selector).cmp(&(b.priority, &b.selector)));
        }
        let index = SelectorIndex::new(all.iter().map(|rule| &rule.selector));
        Self { all, index }
    }
}

impl<T> SelectorRule<T> {
    /// A rule of a selector whose priority is not known yet.
    pub(crate) fn new(selector: Selector, span: Span, layer: Arc<T>, at: LayerPosition) -> Self {
        Self { selector, span, layer, at, priority: SelectorPriority::default() }
    }
}

impl<T> RuleList<T> {
    /// All of them.
    pub(crate) fn all(&self) -> &[SelectorRule<T>] {
        &self.all
    }

    /// Those that may match a name; finding the others takes no time.
    pub(crate) fn candidates(&self, name: &str) -> Vec<&SelectorRule<T>> {
        let numbers = self.index.candidates(name).into_iter();
        numbers.filter_map(|number| self.all.get(usize::try_from(number).ok()?)).collect()
    }

    /// What it costs to visit those that may match a name, in comparisons of two short texts.
    pub(crate) fn cost(&self, name: &str) -> usize {
        const HEARD: usize = 16;
        let costs = self.candidates(name).into_iter().map(|rule| HEARD.saturating_add(rule.selector.stars()));
        costs.fold(HEARD, usize::saturating_add)
    }

    /// Those that match a name.
    pub(crate) fn matching(&self, name: &str) -> Vec<&SelectorRule<T>> {
        let mut found = self.candidates(name);
        found.retain(|rule| rule.selector.matches(name));
        found
    }
}

impl<T> Default for RuleList<T> {
    fn default() -> Self {
        Self { all: Vec::new(), index: SelectorIndex::default() }
    }
}
