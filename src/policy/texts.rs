//! The texts that the rows of an error table look for, searched for all at once, whatever their case.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{RegexSet, RegexSetBuilder};

/// Room for many thousands of texts; more are refused.
const MOST_BYTES: usize = 64 << 20;
/// Up to this many bytes of texts the faster of two ways to search takes little room.
const FEW_BYTES: usize = 16 << 10;
/// What is no ASCII and yet an ASCII letter in another case: the sign for Kelvin, and the long s.
const OTHER_CASES: [(char, &str); 2] = [('\u{212a}', "k"), ('\u{17f}', "s")];

/// Texts to be searched for.
#[derive(Clone)]
pub(super) struct Texts {
    search: Search,
    count: usize,
}

#[derive(Clone)]
enum Search {
    /// All are ASCII, as nearly always.
    Ascii(AhoCorasick),
    Any(RegexSet),
}

impl Texts {
    /// These texts; `None`: they are too many.
    pub(super) fn new(texts: &[&str]) -> Option<Self> {
        let search = if texts.is_empty() {
            Search::Any(RegexSet::empty())
        } else if texts.iter().all(|text| text.is_ascii()) {
            let bytes = texts.iter().fold(0_usize, |sum, text| sum.saturating_add(text.len()));
            let kind = if bytes <= FEW_BYTES { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
            let search = AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(kind)).build(texts);
            Search::Ascii(search.ok().filter(|search| search.memory_usage() <= MOST_BYTES)?)
        } else {
            let literal = texts.iter().map(|text| regex::escape(text));
            let set = RegexSetBuilder::new(literal).case_insensitive(true).size_limit(MOST_BYTES).build();
            Search::Any(set.ok()?)
        };
        Some(Self { search, count: texts.len() })
    }

    /// Which of them are in one of `texts`, by their numbers.
    pub(super) fn found_in<T: AsRef<str>>(&self, texts: &[T]) -> Vec<bool> {
        let mut found = vec![false; self.count];
        let mut mark = |number: usize| {
            if let Some(found) = found.get_mut(number) {
                *found = true;
            }
        };
        for text in texts {
            match &self.search {
                Search::Ascii(search) => {
                    let text = in_ascii_cases(text.as_ref());
                    search.find_overlapping_iter(&*text).for_each(|text| mark(text.pattern().as_usize()));
                }
                Search::Any(set) => set.matches(text.as_ref()).iter().for_each(&mut mark),
            }
        }
        found
    }
}

/// The text with what is another case of an ASCII letter as that letter.
fn in_ascii_cases(text: &str) -> Cow<'_, str> {
    let mut told = Cow::Borrowed(text);
    if !text.is_ascii() {
        for (odd, letter) in OTHER_CASES {
            if told.contains(odd) {
                told = Cow::Owned(told.replace(odd, letter));
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], inside: &[&str]) -> Vec<usize> {
        let found = Texts::new(texts).unwrap().found_in(inside);
        found.iter().enumerate().filter_map(|(number, found)| found.then_some(number)).collect()
    }

    #[test]
    fn texts_inside_each_other_are_all_found() {
        assert_eq!(found(&["abcd", "bc", "C", "x", "cde"], &["xABCDE"]), [0, 1, 2, 3, 4]);
        assert_eq!(found(&["ab", "x", "bc", "ca"], &["ab", "c"]), [0]);
        assert_eq!(found(&[], &["a"]), [0; 0]);
    }

    #[test]
    fn case_is_no_matter_beyond_ascii_either() {
        assert_eq!(found(&["tasks", "überlastet"], &["TA\u{17f}\u{212a}S"]), [0]);
        assert_eq!(found(&["tasks"], &["é TA\u{17f}\u{212a}S"]), [0]);
        assert_eq!(found(&["tasks", "überlastet"], &["tas", "ÜBERLASTET"]), [1]);
    }

    #[test]
    fn many_texts_are_searched_for_as_few_are() {
        let many: Vec<_> = (0..3000).map(|number| format!("text {number};")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&many, &["Text 7; TEXT 2999;"]), [7, 2999]);
    }
}
