//! The texts that the rows of a table look for, searched for all at once.

use core::ops::Range;
use std::collections::HashMap;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

use super::fold::{COUNTS_AS, plain};

/// Up to this many bytes of texts the faster of two ways to search takes little room.
const FEW_BYTES: usize = 48 << 10;

/// Texts to be searched for, folded.
#[derive(Debug)]
pub(crate) struct TextSearch {
    lengths: Vec<usize>,
    way: SearchMethod,
}

#[derive(Debug)]
enum SearchMethod {
    Table(StepTable),
    /// For very many texts, which would make such a table too large.
    Many(NFA),
    Nothing,
}

/// All steps of an automaton over texts as they are written: a row for each state, a column for each kind of byte. Folding and
/// the skipping of repeated spaces are part of the steps.
#[derive(Debug)]
struct StepTable {
    columns: [u8; 256],
    width: usize,
    /// Where the row of the next state begins, and [`ENDS`] if a text ends there.
    steps: Vec<u32>,
    /// By the number of the row, the texts that end there.
    ends: Vec<Box<[usize]>>,
}

/// Marks a step to a state where a text ends.
const ENDS: u32 = 1 << 31;

/// The column of all bytes that no text has.
const OTHER: u8 = 1;

impl TextSearch {
    /// Searches for these.
    pub(crate) fn new(texts: &[String]) -> Self {
        let lengths: Vec<_> = texts.iter().map(String::len).collect();
        let bytes = lengths.iter().fold(0_usize, |sum, length| sum.saturating_add(*length));
        // The steps are walked here, with folding, so a prefilter over unfolded bytes would never run.
        let automaton = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(texts);
        let way = match automaton {
            Ok(automaton) if 0 < bytes && bytes <= FEW_BYTES => {
                StepTable::of(&automaton, texts).map_or(SearchMethod::Many(automaton), SearchMethod::Table)
            }
            Ok(automaton) if 0 < bytes => SearchMethod::Many(automaton),
            Ok(_) | Err(_) => SearchMethod::Nothing,
        };
        Self { lengths, way }
    }

    /// Calls `found` with the number of each text that is in `text`; of some several times.
    pub(crate) fn each(&self, text: &str, mut found: impl FnMut(usize)) {
        self.ends(&plain(text), |number, _| found(number));
    }

    /// As [`Self::each`], for a text that is [`plain`], with where in it the words of each stand.
    pub(crate) fn each_at(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        self.ends(text, |number, end| {
            let length = self.lengths.get(number).copied().unwrap_or_default();
            if let Some(words) = words(text.as_bytes(), end, length) {
                found(number, words);
            }
        });
    }

    /// Calls `found` with the number of each text that is in `text`, which is plain, and where it ends.
    fn ends(&self, text: &str, found: impl FnMut(usize, usize)) {
        match &self.way {
            SearchMethod::Table(table) => walk(text, table, found),
            SearchMethod::Many(automaton) => walk(text, automaton, found),
            SearchMethod::Nothing => {}
        }
    }
}

/// What reads a text byte by byte and knows which texts end there.
trait TextSteps {
    type State: Copy;

    /// The state before a text; no text is left when there is none.
    fn start(&self) -> Option<Self::State>;
    fn next(&self, state: Self::State, byte: u8) -> Option<Self::State>;
    fn is_end(&self, state: Self::State) -> bool;
    /// The numbers of the texts that end there.
    fn each_end(&self, state: Self::State, found: impl FnMut(usize));
}

/// Calls `found` with each text that ends in this one, and where. It begins and ends with the space between words.
fn walk<S: TextSteps>(text: &str, steps: &S, mut found: impl FnMut(usize, usize)) {
    // Both ends of the text count as spaces, because phrases are bounded by words.
    let first = (0_usize, steps.start());
    // `fold` over a chain compiles to two plain loops. A `for` loop would ask at each byte which half it is in.
    text.bytes().chain([b' ']).fold(first, |(at, state), byte| {
        let end = at.wrapping_add(1);
        let state = state.and_then(|state| steps.next(state, byte));
        if let Some(state) = state.filter(|state| steps.is_end(*state)) {
            steps.each_end(state, |number| found(number, end));
        }
        (end, state)
    });
}

impl TextSteps for StepTable {
    type State = u32;

    fn start(&self) -> Option<u32> {
        self.next(0, b' ')
    }

    #[inline]
    fn next(&self, step: u32, byte: u8) -> Option<u32> {
        let column = self.columns.get(usize::from(byte))?;
        self.steps.get(row(step).wrapping_add(usize::from(*column))).copied()
    }

    #[inline]
    fn is_end(&self, step: u32) -> bool {
        step & ENDS != 0
    }

    fn each_end(&self, step: u32, found: impl FnMut(usize)) {
        let ends = row(step).checked_div(self.width).and_then(|row| self.ends.get(row));
        ends.into_iter().flatten().copied().for_each(found);
    }
}

/// A state, and whether a space led to it: another one leads nowhere else.
impl TextSteps for NFA {
    type State = (StateID, bool);

    fn start(&self) -> Option<Self::State> {
        self.start_state(Anchored::No).ok().and_then(|root| TextSteps::next(self, (root, false), b' '))
    }

    fn next(&self, (state, after_space): Self::State, byte: u8) -> Option<Self::State> {
        let byte = folded(byte);
        // Texts hold single spaces, so a second space must not leave the state.
        let again = after_space && byte == b' ';
        let next = if again { state } else { self.next_state(Anchored::No, state, byte) };
        Some((next, byte == b' '))
    }

    fn is_end(&self, (state, _): Self::State) -> bool {
        self.is_match(state)
    }

    fn each_end(&self, (state, _): Self::State, found: impl FnMut(usize)) {
        matches(self, state).for_each(found);
    }
}

impl StepTable {
    /// The steps of the automaton of these texts, if they fit.
    fn of(automaton: &NFA, texts: &[String]) -> Option<Self> {
        let kinds = kinds(texts);
        let width = kinds.len();
        let mut columns = [OTHER; 256];
        for (byte, column) in (0_u8..=u8::MAX).zip(&mut columns) {
            let kind = kinds.iter().position(|kind| *kind == folded(byte)).unwrap_or(usize::from(OTHER));
            *column = u8::try_from(kind).ok()?;
        }
        let root = automaton.start_state(Anchored::No).ok()?;
        let mut states =
            AutomatonStates { rows: HashMap::from([(root, 0)]), found: vec![(root, false)], width };
        let mut steps = Vec::new();
        let mut ends = Vec::new();
        while let Some((state, after_space)) = states.found.get(ends.len()).copied() {
            for byte in &kinds {
                let again = after_space && *byte == b' ';
                let next = if again { state } else { automaton.next_state(Anchored::No, state, *byte) };
                let row = states.row(next, *byte == b' ')?;
                steps.push(row | if automaton.is_match(next) { ENDS } else { 0 });
            }
            ends.push(matches(automaton, state).collect());
        }
        Some(Self { columns, width, steps, ends })
    }
}

/// The states of an automaton as they are come upon.
struct AutomatonStates {
    rows: HashMap<StateID, u32>,
    /// And whether the last byte before each was a space; at the root it may have been any.
    found: Vec<(StateID, bool)>,
    width: usize,
}

impl AutomatonStates {
    /// Where the row of a state begins.
    fn row(&mut self, state: StateID, after_space: bool) -> Option<u32> {
        if let Some(row) = self.rows.get(&state) {
            return Some(*row);
        }
        // The top bit marks the end of a text and is no part of a row.
        let row = u32::try_from(self.found.len().checked_mul(self.width)?).ok().filter(|row| *row < ENDS)?;
        self.rows.insert(state, row);
        self.found.push((state, after_space));
        Some(row)
    }
}

/// The bytes that make a difference, a space first and one that no text has, folded, second.
fn kinds(texts: &[String]) -> Vec<u8> {
    let mut is_used = [false; 256];
    for byte in texts.iter().flat_map(|text| text.bytes()) {
        is_used.get_mut(usize::from(byte)).into_iter().for_each(|used| *used = true);
    }
    let used = (0_u8..=u8::MAX).zip(is_used).filter(|(byte, used)| *used && *byte != b' ');
    [b' ', b'\0'].into_iter().chain(used.map(|(byte, _)| byte)).collect()
}

/// The numbers of the texts that end at a state.
fn matches(automaton: &NFA, state: StateID) -> impl Iterator<Item = usize> {
    let count = if automaton.is_match(state) { automaton.match_len(state) } else { 0 };
    (0..count).map(move |number| automaton.match_pattern(state, number).as_usize())
}

/// Where the words stand of a text of this length, folded, that ends before `end`. The last one may be longer than that.
fn words(text: &[u8], end: usize, length: usize) -> Option<Range<usize>> {
    let is_space = |at: usize| text.get(at).is_none_or(|byte| folded(*byte) == b' ');
    // Backwards from the end: the message may hold more space than the phrase, so its beginning is not known.
    let (mut at, mut left, mut words) = (end, length, None);
    while let (Some(before), Some(fewer)) = (at.checked_sub(1), left.checked_sub(1)) {
        (at, left) = (before, fewer);
        if is_space(at) {
            while at.checked_sub(1).is_some_and(is_space) {
                at = at.saturating_sub(1);
            }
        } else {
            let (_, last) = words.unwrap_or((at, at));
            words = Some((at, last));
        }
    }
    let (first, last) = words?;
    let end = (last..text.len()).find(|at| is_space(*at)).unwrap_or(text.len());
    Some(first..end)
}

const fn row(step: u32) -> usize {
    (step & !ENDS) as usize
}

fn folded(byte: u8) -> u8 {
    COUNTS_AS.get(usize::from(byte)).copied().unwrap_or(b' ')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn found(texts: &[&str], inside: &str) -> Vec<usize> {
        let texts: Vec<_> = texts.iter().map(|text| super::super::folded(text)).collect();
        let mut found = BTreeSet::new();
        TextSearch::new(&texts).each(inside, |number| {
            found.insert(number);
        });
        found.into_iter().collect()
    }

    fn many(texts: &[String]) -> TextSearch {
        let way = SearchMethod::Many(NFA::new(texts).unwrap());
        TextSearch { lengths: texts.iter().map(String::len).collect(), way }
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
        for search in [TextSearch::new(&texts), many(&texts)] {
            let mut found = Vec::new();
            search.each_at("`Tool_calls`  a \"day\"", |number, at| found.push((number, at)));
            found.dedup();
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

    proptest! {
        #[test]
        fn both_ways_find_what_is_there(
            texts in vec("[ab ]{1,5}", 1..8), text in "[abAB _.c]{0,24}",
        ) {
            let texts: Vec<_> = texts.iter().map(|text| super::super::folded(text)).collect();
            let padded = super::super::folded(&format!(" {text} "));
            let there = (0..texts.len()).filter(|number| texts.get(*number).is_some_and(|text| padded.contains(text)));
            let there: BTreeSet<_> = there.collect();
            for search in [TextSearch::new(&texts), many(&texts)] {
                let (mut each, mut each_at) = (BTreeSet::new(), BTreeSet::new());
                search.each(&text, |number| { each.insert(number); });
                search.each_at(&text, |number, at| {
                    let words = texts.get(number).map_or("", |text| text.trim());
                    let starts = |text: &&str| super::super::folded(text).starts_with(words);
                    assert!(text.get(at).as_ref().is_some_and(starts), "the words stand there");
                    each_at.insert(number);
                });
                prop_assert_eq!(&each, &there);
                let spaces = there.iter().filter(|number| texts.get(**number).is_some_and(|text| text.trim() != ""));
                prop_assert_eq!(each_at, spaces.copied().collect::<BTreeSet<_>>());
            }
        }
    }
}
