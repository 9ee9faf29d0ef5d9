//! The texts that the rows of a table look for, searched for all at once.

use core::ops::Range;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind, StartKind, dfa::DFA};

use super::fold::{COUNTS_AS, plain};

/// Up to this many bytes of texts the faster of two ways to search takes little room.
const FEW_BYTES: usize = 48 << 10;

/// Texts to be searched for, folded.
#[derive(Debug)]
pub(super) enum Search {
    /// A table of all steps.
    Steps(DFA),
    /// For very many texts, which would make such a table too large.
    Many(NFA),
    /// There are none.
    Nothing,
}

impl Search {
    /// Searches for these.
    pub(super) fn new(texts: &[String]) -> Self {
        let bytes = texts.iter().fold(0_usize, |sum, text| sum.saturating_add(text.len()));
        if bytes == 0 {
            return Self::Nothing;
        }
        if bytes <= FEW_BYTES {
            let mut steps = DFA::builder();
            steps.match_kind(MatchKind::Standard).start_kind(StartKind::Unanchored).prefilter(false);
            if let Ok(steps) = steps.build(texts) {
                return Self::Steps(steps);
            }
        }
        let many = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(texts);
        many.map_or(Self::Nothing, Self::Many)
    }

    /// Calls `found` with the number of each text that is in `text`; of some several times.
    pub(super) fn each(&self, text: &str, found: impl FnMut(usize)) {
        match self {
            Self::Steps(steps) => walk(steps, text, found),
            Self::Many(many) => walk(many, text, found),
            Self::Nothing => {}
        }
    }

    /// As [`Self::each`], for a text that is [`plain`], with where in it the words of each stand.
    pub(super) fn each_at(&self, text: &str, found: impl FnMut(usize, Range<usize>)) {
        match self {
            Self::Steps(steps) => walk_at(steps, text, found),
            Self::Many(many) => walk_at(many, text, found),
            Self::Nothing => {}
        }
    }
}

/// The text begins and ends with the space between words.
fn walk(automaton: &impl Automaton, text: &str, mut found: impl FnMut(usize)) {
    let Ok(start) = automaton.start_state(Anchored::No) else { return };
    let text = plain(text);
    let mut state = automaton.next_state(Anchored::No, start, b' ');
    let mut before = b' ';
    for byte in text.bytes() {
        let byte = COUNTS_AS.get(usize::from(byte)).copied().unwrap_or(b' ');
        if byte == b' ' && before == b' ' {
            continue;
        }
        before = byte;
        state = automaton.next_state(Anchored::No, state, byte);
        if automaton.is_special(state) {
            tell(automaton, state, &mut found);
        }
    }
    if before != b' ' {
        state = automaton.next_state(Anchored::No, state, b' ');
        if automaton.is_special(state) {
            tell(automaton, state, &mut found);
        }
    }
}

/// As [`walk`], which does without the places.
fn walk_at(automaton: &impl Automaton, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
    let Ok(mut state) = automaton.start_state(Anchored::No) else { return };
    let counts_as = |byte: u8| COUNTS_AS.get(usize::from(byte)).copied().unwrap_or(b' ');
    let is_word = |at: &usize| text.as_bytes().get(*at).is_some_and(|byte| counts_as(*byte) != b' ');
    let around = |at| core::iter::once((at, b' '));
    let mut places = Vec::with_capacity(text.len());
    let mut before = None;
    for (at, byte) in around(0).chain(text.bytes().enumerate()).chain(around(text.len())) {
        let byte = counts_as(byte);
        if byte == b' ' && before == Some(b' ') {
            continue;
        }
        before = Some(byte);
        places.push(at);
        state = automaton.next_state(Anchored::No, state, byte);
        if !automaton.is_match(state) {
            continue;
        }
        for number in 0..automaton.match_len(state) {
            let pattern = automaton.match_pattern(state, number);
            let first = places.len().saturating_sub(automaton.pattern_len(pattern));
            let mut inside = places.get(first..).unwrap_or_default().iter().copied().filter(is_word);
            let Some(start) = inside.next() else { continue };
            let last = inside.next_back().unwrap_or(start);
            let end = (last..text.len()).find(|at| !is_word(at)).unwrap_or(text.len());
            found(pattern.as_usize(), start..end);
        }
    }
}

/// The texts that end at a state.
fn tell(automaton: &impl Automaton, state: StateID, found: &mut impl FnMut(usize)) {
    if automaton.is_match(state) {
        for number in 0..automaton.match_len(state) {
            found(automaton.match_pattern(state, number).as_usize());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(texts: &[&str], inside: &str) -> Vec<usize> {
        let texts: Vec<_> = texts.iter().map(|text| super::super::folded(text)).collect();
        let mut found = BTreeSet::new();
        Search::new(&texts).each(inside, |number| {
            found.insert(number);
        });
        found.into_iter().collect()
    }

    #[test]
    fn texts_inside_each_other_are_all_found() {
        assert_eq!(found(&["abcd", "bc", "C", "x", "cde"], "xABCDE"), [0, 1, 2, 3, 4]);
        assert_eq!(found(&["ab", "x", "bc", "ca"], "ab c"), [0]);
        assert_eq!(found(&[], "a"), [0; 0]);
        assert_eq!(found(&[" a ", "a b"], "a_\"b\""), [0, 1], "a text begins and ends between words");
        assert_eq!(found(&["b "], "a b"), [0]);
    }

    #[test]
    fn a_text_is_found_where_its_words_stand() {
        let texts = [" tool call", " day ", "l-c"].map(super::super::folded);
        for search in [Search::new(&texts), Search::Many(NFA::new(&texts).unwrap())] {
            let mut found = Vec::new();
            search.each_at("`Tool_calls`  a \"day\"", |number, at| found.push((number, at)));
            assert_eq!(found, [(2, 4..11), (0, 1..11), (1, 17..20)]);
        }
    }

    #[test]
    fn case_makes_no_difference_beyond_ascii_either() {
        assert_eq!(found(&["tasks", "überlastet"], "é TA\u{17f}\u{212a}S"), [0]);
        assert_eq!(found(&["tasks", "überlastet"], "ÜBERLASTET"), [1]);
    }

    #[test]
    fn many_texts_are_searched_for_as_few_are() {
        let many: Vec<_> = (0..9000).map(|number| format!("text {number};")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&many, "Text 7; TEXT 2999;"), [7, 2999]);
    }
}
