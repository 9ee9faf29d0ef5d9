//! Long runs of one character, or of white space: vocabularies take very long for them, or do not take them at all, and they
//! say nothing that their beginning does not.

use super::head;

/// A run of so many bytes is a long one.
pub(super) const LONG: usize = 4 << 10;
/// So much of it is looked at.
const SAMPLE: usize = 1 << 10;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPart<'t> {
    /// It has no long run in it.
    Plain(&'t str),
    /// One character again and again, or white space only.
    Run(&'t str),
}

impl<'t> TextPart<'t> {
    pub(super) const fn text(self) -> &'t str {
        match self {
            Self::Plain(text) | Self::Run(text) => text,
        }
    }

    /// What a vocabulary is asked about.
    pub(super) fn looked_at(self) -> &'t str {
        match self {
            Self::Plain(text) => text,
            Self::Run(text) => head(text, SAMPLE),
        }
    }
}

/// The parts of a text, in their order; together they are the text.
pub(super) fn parts(text: &str) -> impl Iterator<Item = TextPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (from, to) = first_run(rest).unwrap_or((rest.len(), rest.len()));
        let (part, after) = if from > 0 {
            let (plain, after) = rest.split_at(from);
            (TextPart::Plain(plain), after)
        } else {
            let (run, after) = rest.split_at(to);
            (TextPart::Run(run), after)
        };
        rest = after;
        Some(part)
    })
}

/// A long run holds at least one block of so many bytes, wherever it begins.
const BLOCK: usize = LONG / 2;

/// Where the first long run begins and ends. Of a text without one, little more than the beginnings of its blocks is read.
fn first_run(text: &str) -> Option<(usize, usize)> {
    let mut blocks = (0..text.len()).step_by(BLOCK);
    blocks.find_map(|block| run_through(text, block).filter(|(from, to)| to - from >= LONG))
}

/// The run that all of a block is a part of.
fn run_through(text: &str, block: usize) -> Option<(usize, usize)> {
    let start = (block..text.len()).find(|at| text.is_char_boundary(*at))?;
    let (before, after) = text.split_at(start);
    let kind = kind_of(after.chars().next()?);
    let end = after.char_indices().find(|(_, letter)| kind_of(*letter) != kind);
    let to = end.map_or(text.len(), |(at, _)| start + at);
    if to < (block + BLOCK).min(text.len()) {
        return None;
    }
    let same = before.char_indices().rev().take_while(|(_, letter)| kind_of(*letter) == kind);
    Some((same.last().map_or(start, |(at, _)| at), to))
}

/// What makes characters parts of one run: white space of any kind does.
fn kind_of(letter: char) -> char {
    if letter.is_whitespace() { ' ' } else { letter }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many bytes a vocabulary is asked about.
    fn work(text: &str) -> usize {
        parts(text).map(|part| part.looked_at().len()).sum()
    }

    /// The first long run, character by character.
    fn slowly(text: &str) -> Option<(usize, usize)> {
        let ends = text.char_indices().map(|(at, letter)| (at, Some(kind_of(letter))));
        let (mut from, mut kind) = (0, None);
        for (at, here) in ends.chain([(text.len(), None)]) {
            if here != kind {
                if at - from >= LONG {
                    return Some((from, at));
                }
                (from, kind) = (at, here);
            }
        }
        None
    }

    #[test]
    fn a_long_run_costs_as_much_as_its_beginning_however_long_it_is() {
        for run in [" ", "a", "=", "\n", "\t \r\n", "漢"] {
            let of = |bytes: usize| work(&run.repeat(bytes / run.len()));
            assert!(of(1_500_000) <= SAMPLE && of(1_500_000) == of(15_000), "{run:?}");
        }
    }

    #[test]
    fn what_is_between_runs_is_looked_at_whole() {
        let text = format!("{}word{}{}", " ".repeat(100_000), "-".repeat(70_000), "other words");
        let found: Vec<_> = parts(&text).map(|part| (part.text().len(), part.looked_at().len())).collect();
        assert_eq!(found, [(100_000, SAMPLE), (4, 4), (70_000, SAMPLE), (11, 11)]);
    }

    #[test]
    fn what_is_no_long_run_is_one_part() {
        for text in ["", "a", "two words", &"ab".repeat(LONG), &" ".repeat(LONG - 1)] {
            assert!(parts(text).all(|part| matches!(part, TextPart::Plain(_))), "{}", text.len());
            assert!(parts(text).count() <= 1);
        }
    }

    proptest! {
        #[test]
        fn parts_lose_nothing_and_are_read_once(
            pieces in prop::collection::vec(("[ \\na=漢b]", 1_usize..9000), 0..12),
        ) {
            let text: String = pieces.iter().map(|(letter, times)| letter.repeat(*times)).collect();
            prop_assert_eq!(parts(&text).map(TextPart::text).collect::<String>(), text.clone());
            prop_assert!(parts(&text).count() <= 2 * pieces.len() + 1);
            prop_assert!(work(&text) <= text.len());
            prop_assert_eq!(first_run(&text), slowly(&text));
        }
    }
}
