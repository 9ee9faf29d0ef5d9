//! What files say about the subjects that selectors name, in the order in which it counts.

use super::merge::At;
use super::selector_index::SelectorIndex;
use super::{Selector, Span};

/// What a file says about the subjects a selector names.
#[derive(Debug)]
pub(crate) struct Rule<T> {
    pub(crate) selector: Selector,
    pub(crate) span: Span,
    pub(crate) layer: Box<T>,
    pub(crate) at: At,
}

/// Rules, lowest first: less specific before more specific, within one selector in the order of the files.
#[derive(Debug)]
pub(crate) struct Rules<T> {
    all: Vec<Rule<T>>,
    index: SelectorIndex,
}

impl<T> Rules<T> {
    /// Puts rules, given in the order of the files, in their order.
    pub(crate) fn new(mut all: Vec<Rule<T>>) -> Self {
        // Stable: within one selector the order of the files stands.
        all.sort_by(|a, b| a.selector.cmp(&b.selector));
        let index = SelectorIndex::new(all.iter().map(|rule| &rule.selector));
        Self { all, index }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Rule<T>] {
        &self.all
    }

    /// Those that may match a name; finding the others takes no time.
    pub(crate) fn candidates(&self, name: &str) -> Vec<&Rule<T>> {
        let numbers = self.index.candidates(name).into_iter();
        numbers.filter_map(|number| self.all.get(usize::try_from(number).ok()?)).collect()
    }

    /// Those that match a name.
    pub(crate) fn matching(&self, name: &str) -> Vec<&Rule<T>> {
        let mut found = self.candidates(name);
        found.retain(|rule| rule.selector.matches(name));
        found
    }
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { all: Vec::new(), index: SelectorIndex::default() }
    }
}
