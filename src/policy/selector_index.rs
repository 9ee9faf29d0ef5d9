//! Finds the selectors that may match a name without trying them all.
//!
//! Exact names are found by hash, patterns by the longer of the texts they begin and end with. Only patterns that
//! begin and end with `*` are tried for every name.

use std::collections::HashMap;
use std::sync::Arc;

use super::Selector;

/// Selectors by what they match. Numbers stand for selectors.
#[derive(Debug, Default)]
pub(crate) struct SelectorIndex {
    exact: HashMap<Arc<str>, Vec<u32>>,
    beginnings: PatternEnds,
    endings: PatternEnds,
    anywhere: Vec<u32>,
}

/// Patterns by the text at one of their ends.
#[derive(Debug, Default)]
struct PatternEnds {
    by_text: HashMap<Box<str>, Vec<u32>>,
    /// How many bytes these texts have, each length once.
    lengths: Vec<usize>,
}

impl SelectorIndex {
    /// The index of selectors, numbered in their order.
    pub(crate) fn new<'a>(selectors: impl Iterator<Item = &'a Selector>) -> Self {
        let mut index = Self::default();
        for (number, selector) in (0_u32..).zip(selectors) {
            if selector.is_exact() {
                index.exact.entry(selector.text()).or_default().push(number);
                continue;
            }
            let (beginning, ending) = (selector.beginning(), selector.ending());
            if beginning.is_empty() && ending.is_empty() {
                index.anywhere.push(number);
            // The longer end is shared by fewer patterns, so it is the better key.
            } else if beginning.len() >= ending.len() {
                index.beginnings.add(beginning, number);
            } else {
                index.endings.add(ending, number);
            }
        }
        index
    }

    /// The numbers of all selectors that may match `name`, in ascending order. Every one that does is there.
    pub(crate) fn candidates(&self, name: &str) -> Vec<u32> {
        let mut found = self.anywhere.clone();
        found.extend(self.exact.get(name).into_iter().flatten());
        // One lookup for each distinct length of an end, and not one for each pattern.
        self.beginnings.collect(|length| name.get(..length), &mut found);
        self.endings.collect(|length| name.get(name.len().checked_sub(length)?..), &mut found);
        // Callers fold rules in ascending order, which is their order of precedence.
        found.sort_unstable();
        found
    }
}

impl PatternEnds {
    fn add(&mut self, text: &str, number: u32) {
        self.by_text.entry(text.into()).or_default().push(number);
        if let Err(at) = self.lengths.binary_search(&text.len()) {
            self.lengths.insert(at, text.len());
        }
    }

    fn collect<'n>(&self, end: impl Fn(usize) -> Option<&'n str>, found: &mut Vec<u32>) {
        let texts = self.lengths.iter().filter_map(|length| end(*length));
        found.extend(texts.filter_map(|text| self.by_text.get(text)).flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_finds_what_trying_all_finds(
            patterns in proptest::collection::vec("[ab*é]{1,6}", 0..12), name in "[abé]{0,8}",
        ) {
            let selectors: Vec<_> = patterns.iter().filter_map(|text| Selector::parse(text).ok()).collect();
            let index = SelectorIndex::new(selectors.iter());
            let matches = |number: &u32| selectors[*number as usize].matches(&name);
            let found: Vec<u32> = index.candidates(&name).into_iter().filter(matches).collect();
            let all: Vec<u32> = (0..).take(selectors.len()).filter(matches).collect();
            prop_assert_eq!(found, all);
        }
    }

    #[test]
    fn few_are_tried() {
        let texts = (0..1000).flat_map(|i| [format!("n{i}"), format!("p{i}.*"), format!("*.s{i}")]);
        let selectors: Vec<_> = texts.map(|text| Selector::parse(&text).unwrap()).collect();
        let index = SelectorIndex::new(selectors.iter());
        assert_eq!(index.candidates("n7"), [21]);
        assert_eq!(index.candidates("p7.s9"), [22, 29]);
        assert!(index.candidates("other").is_empty());
    }
}
