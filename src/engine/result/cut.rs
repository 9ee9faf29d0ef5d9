//! Cuts a text to a size: its head, its tail or both, with lines about errors from the rest and a notice.
//!
//! The text is borrowed and scanned a few times, never copied; the output is no larger than the size.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input};

use crate::policy::{KeptPart, SizeUnit, TextSize};

/// Words that mark lines about errors, in any case.
const WORDS: [&str; 7] = ["error", "exception", "failed", "failure", "fatal", "panic", "traceback"];
/// The maximum length in bytes of a line about errors, and of its part before the word.
const LINE_BYTES: usize = 200;
const BEFORE_WORD: usize = 80;
/// The divisor for the share of lines about errors.
// supyagent keeps 40 % at each end; a fifth is left for errors from the middle.
const ERROR_SHARE: u64 = 5;

static SEARCH: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(WORDS).ok());

/// How a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutRules {
    /// The maximum size, notice included.
    pub max: TextSize,
    /// Which part is kept.
    pub keep: KeptPart,
    /// The maximum number of lines about errors from the dropped part.
    pub error_lines: u32,
}

/// The kept part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptText {
    /// The kept text, with the notice.
    pub text: String,
    /// The size of the kept original text, in the unit of the rules.
    pub shown: u64,
}

/// Cuts a text that is larger than the rules allow; `None`: it is not.
///
/// `notice` makes the notice from the size shown. It is called twice, first with a larger size than the final one. A
/// notice that is itself too large is cut, too: the output never exceeds the size.
///
/// ```
/// use unfazed::engine::{CutRules, cut_text};
/// use unfazed::policy::{KeptPart, TextSize, SizeUnit};
/// let max = TextSize { count: 24, unit: SizeUnit::Chars };
/// let rules = CutRules { max, keep: KeptPart::Head, error_lines: 0 };
/// let piece = cut_text(&"x".repeat(100), &rules, &mut |shown| format!("[{shown} of 100]")).unwrap();
/// assert_eq!(piece.text, "xxxxxxxxxxx\n[11 of 100]");
/// ```
pub fn cut_text(text: &str, rules: &CutRules, notice: &mut dyn FnMut(u64) -> String) -> Option<KeptText> {
    // Without a cut there is no notice, as it would only cost tokens.
    if rules.max.holds(text) {
        return None;
    }
    let piece = cut_to(text, rules, rules.max.of_prose(), notice);
    if rules.max.holds(&piece.text) {
        return Some(piece);
    }
    // The text has more tokens per byte than prose, as JSON does (2.8 characters per token, LocalCowork): it is cut
    // again with that ratio.
    Some(cut_to(text, rules, rules.max.of_json(), notice))
}

/// `limit` is in characters or bytes.
fn cut_to(text: &str, rules: &CutRules, limit: TextSize, notice: &mut dyn FnMut(u64) -> String) -> KeptText {
    // The notice must fit, too, and its length depends on its numbers: the longest is assumed first.
    let most = notice(rules.max.unit.measure(text));
    let breaks: u64 = if rules.keep == KeptPart::Both { 2 } else { 1 };
    let taken = limit.unit.measure(&most).saturating_add(breaks);
    let room = limit.count.saturating_sub(taken);
    // Only the notice fits: it still shows that there was a result.
    if room == 0 {
        let text = head_of(&notice(0), limit).to_owned();
        return KeptText { text, shown: 0 };
    }
    // Errors in the middle help a model most, and a cut would lose them: supyagent keeps twenty such lines, too.
    let for_errors = if rules.error_lines == 0 { 0 } else { room.checked_div(ERROR_SHARE).unwrap_or(0) };
    let (head, middle, tail) = ends_of(text, rules.keep, limit.unit, room.saturating_sub(for_errors));
    let lines = error_lines(middle, rules.error_lines, TextSize { count: for_errors, unit: limit.unit });
    // Without such lines their share goes to the ends.
    let (head, tail) = if lines.is_empty() {
        let (head, _, tail) = ends_of(text, rules.keep, limit.unit, room);
        (head, tail)
    } else {
        (head, tail)
    };
    let shown = [head, &lines, tail].map(|part| rules.max.unit.measure(part));
    let shown = shown.into_iter().fold(0, u64::saturating_add);
    let exact = notice(shown);
    // The exact notice may be longer than the estimated one; the size holds in either case.
    let told = if limit.unit.measure(&exact) <= limit.unit.measure(&most) { exact } else { most };
    let mut text = String::with_capacity(
        [head, &told, &lines, tail].iter().fold(2, |sum: usize, part| sum.saturating_add(part.len())),
    );
    if rules.keep != KeptPart::Tail {
        text.push_str(head);
        text.push('\n');
    }
    text.push_str(&told);
    text.push_str(&lines);
    if rules.keep != KeptPart::Head {
        text.push('\n');
        text.push_str(tail);
    }
    KeptText { text, shown }
}

/// The head and the tail of a text with a common size, and the part between them.
fn ends_of(text: &str, keep: KeptPart, unit: SizeUnit, room: u64) -> (&str, &str, &str) {
    let for_head = match keep {
        KeptPart::Head => room,
        KeptPart::Tail => 0,
        KeptPart::Both => room.div_ceil(2),
    };
    let head = head_of(text, TextSize { count: for_head, unit });
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail = tail_of(rest, TextSize { count: room.saturating_sub(for_head), unit });
    let middle = rest.get(..rest.len().saturating_sub(tail.len())).unwrap_or_default();
    (head, middle, tail)
}

/// The start of a text within the size, cut at a character boundary.
pub(crate) fn head_of(text: &str, size: TextSize) -> &str {
    let most = usize::try_from(size.count).unwrap_or(usize::MAX);
    let end = match size.unit {
        SizeUnit::Chars => match text.as_bytes().get(..most) {
            // In ASCII every byte is a character, so the end is found without a scan.
            Some(head) if head.is_ascii() => most,
            Some(_) => text.char_indices().nth(most).map_or(text.len(), |(at, _)| at),
            None => text.len(),
        },
        SizeUnit::Bytes | SizeUnit::Tokens => floor(text, most),
    };
    text.get(..end).unwrap_or_default()
}

/// The end of a text within the size, cut at a character boundary.
pub(crate) fn tail_of(text: &str, size: TextSize) -> &str {
    let most = usize::try_from(size.count).unwrap_or(usize::MAX);
    let start = match size.unit {
        SizeUnit::Chars if most == 0 => text.len(),
        // Scanned backwards, so that the head of a large text is not visited.
        SizeUnit::Chars => text.char_indices().rev().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at),
        SizeUnit::Bytes | SizeUnit::Tokens => {
            let start = text.len().saturating_sub(most);
            (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
        }
    };
    text.get(start..).unwrap_or_default()
}

/// The last character boundary that is not after `at`.
fn floor(text: &str, at: usize) -> usize {
    // LocalCowork cut at bytes, and panicked within a character.
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first lines about errors, each after a line break, within a total size.
fn error_lines(text: &str, most: u32, room: TextSize) -> String {
    let mut lines = String::new();
    let (Some(search), mut left) = (SEARCH.as_ref(), room.count) else { return lines };
    let mut from = 0;
    for _ in 0..most {
        // A bounded number of searches, each from the end of the last: the text is scanned once.
        let Some(found) = search.find(Input::new(text).range(from..text.len())) else { break };
        let before = text.get(from..found.start()).unwrap_or_default();
        let start = before.rfind('\n').map_or(from, |at| from.saturating_add(at).saturating_add(1));
        let after = text.get(found.end()..).unwrap_or_default();
        let end = after.find('\n').map_or(text.len(), |at| found.end().saturating_add(at));
        let line = around(text, start, found.start(), end).trim();
        let cost = room.unit.measure(line).saturating_add(1);
        // Lines keep their order, so the first that does not fit is the end: a later, shorter line may only be a
        // consequence.
        if cost > left {
            break;
        }
        left = left.saturating_sub(cost);
        lines.push('\n');
        lines.push_str(line);
        from = end;
    }
    lines
}

/// The line from `start` to `end`, or the allowed part of it around the word.
fn around(text: &str, start: usize, word: usize, end: usize) -> &str {
    // A log line can be megabytes long; the reason is near the word.
    let start = if end.saturating_sub(start) <= LINE_BYTES {
        start
    } else {
        floor(text, start.max(word.saturating_sub(BEFORE_WORD)))
    };
    let end = floor(text, end.min(start.saturating_add(LINE_BYTES)));
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHARS: SizeUnit = SizeUnit::Chars;

    fn cut(text: &str, count: u64, unit: SizeUnit, keep: KeptPart, error_lines: u32) -> Option<KeptText> {
        let total = unit.measure(text);
        let rules = CutRules { max: TextSize { count, unit }, keep, error_lines };
        cut_text(text, &rules, &mut |shown| format!("[{shown} of {total}]"))
    }

    #[test]
    fn a_text_of_exactly_the_size_is_not_cut() {
        assert_eq!(cut(&"x".repeat(6000), 6000, CHARS, KeptPart::Head, 0), None);
        assert!(cut(&"x".repeat(6001), 6000, CHARS, KeptPart::Head, 0).is_some());
    }

    #[test]
    fn the_notice_is_inside_the_size_and_has_both_sizes() {
        let piece = cut(&"x".repeat(32_613), 6000, CHARS, KeptPart::Head, 0).unwrap();
        assert_eq!(piece.text.chars().count(), 5999);
        assert!(piece.text.ends_with("\n[5983 of 32613]"), "{}", piece.text);
    }

    #[test]
    fn a_character_of_several_bytes_at_the_edge_is_not_split() {
        for edge in 0..4 {
            let text = "x".repeat(60 - edge) + &"€".repeat(100);
            let piece = cut(&text, 80, SizeUnit::Bytes, KeptPart::Both, 0).unwrap();
            assert!(piece.text.len() <= 80 && piece.text.ends_with('€'), "{}", piece.text);
        }
    }

    #[test]
    fn both_ends_share_the_room() {
        let text = format!("{}{}", "a".repeat(50), "z".repeat(50));
        let piece = cut(&text, 34, CHARS, KeptPart::Both, 0).unwrap();
        assert_eq!(piece.text, "aaaaaaaaaa\n[20 of 100]\nzzzzzzzzzz");
    }

    #[test]
    fn the_tail_comes_after_the_notice() {
        let text = format!("{}{}", "a".repeat(50), "z".repeat(50));
        assert_eq!(cut(&text, 24, CHARS, KeptPart::Tail, 0).unwrap().text, "[11 of 100]\nzzzzzzzzzzz");
    }

    #[test]
    fn lines_about_errors_are_kept_from_the_middle() {
        let filler = "all is well here\n".repeat(100);
        let text = format!("begin\n{filler}ERROR: disk full\n{filler}thread panicked at x.rs\n{filler}end");
        let piece = cut(&text, 400, CHARS, KeptPart::Both, 20).unwrap();
        assert!(piece.text.contains("\nERROR: disk full\nthread panicked at x.rs\n"), "{}", piece.text);
        assert!(piece.text.starts_with("begin\n") && piece.text.ends_with("end"));
        assert!(!cut(&text, 400, CHARS, KeptPart::Both, 0).unwrap().text.contains("disk full"));
        assert!(!cut(&text, 400, CHARS, KeptPart::Both, 1).unwrap().text.contains("panicked"));
    }

    #[test]
    fn of_a_long_line_what_is_around_the_word_is_kept() {
        let text = format!("begin {} Error: here {} end", "x".repeat(5000), "y".repeat(5000));
        let piece = cut(&text, 1200, CHARS, KeptPart::Both, 5).unwrap();
        assert!(piece.text.contains("xxx Error: here yyy"), "{}", piece.text);
    }

    #[test]
    fn a_notice_that_is_too_large_is_cut_itself() {
        let shown = |count| cut(&"x".repeat(100), count, CHARS, KeptPart::Both, 5).unwrap().text;
        assert_eq!([shown(0), shown(1), shown(5)], ["", "[", "[0 of"]);
    }

    #[test]
    fn many_errors_in_a_large_text_take_no_more_than_reading_it() {
        let text = "error ".repeat(2_000_000);
        let piece = cut(&text, 1000, CHARS, KeptPart::Both, 20).unwrap();
        assert!(piece.text.len() <= 1000);
    }

    fn keeps() -> impl Strategy<Value = KeptPart> {
        prop_oneof![Just(KeptPart::Head), Just(KeptPart::Tail), Just(KeptPart::Both)]
    }

    fn units() -> impl Strategy<Value = SizeUnit> {
        prop_oneof![Just(SizeUnit::Chars), Just(SizeUnit::Bytes), Just(SizeUnit::Tokens)]
    }

    proptest! {
        #[test]
        fn what_is_left_never_exceeds_the_size(
            text in "([\\[{ ]|\\PC|error\n){0,300}", count in 0_u64..200, unit in units(), keep in keeps(),
            lines in 0_u32..4, notice in "\\PC{0,40}",
        ) {
            let max = TextSize { count, unit };
            let rules = CutRules { max, keep, error_lines: lines };
            match cut_text(&text, &rules, &mut |shown| format!("{notice}{shown}")) {
                None => prop_assert!(unit.measure(&text) <= count),
                Some(piece) => {
                    prop_assert!(unit.measure(&text) > count);
                    prop_assert!(max.holds(&piece.text), "{} of {count}: {}", unit.measure(&piece.text), piece.text);
                    prop_assert_eq!(cut_text(&piece.text, &rules, &mut |_| "again".into()), None);
                }
            }
        }

        #[test]
        fn what_stays_is_the_beginning_and_the_end(text in "\\PC{200,400}", count in 60_u64..150, unit in units(), keep in keeps()) {
            if let Some(KeptText { text: left, shown }) = cut(&text, count, unit, keep, 0) {
                prop_assert!(shown > 0);
                let at = left.find(&format!("[{shown} of ")).unwrap();
                let head = left[..at].trim_end_matches('\n');
                prop_assert!(text.starts_with(head) && head.is_empty() == (keep == KeptPart::Tail));
                let tail = left[at..].split_once('\n').map_or("", |(_, tail)| tail);
                prop_assert!(text.ends_with(tail) && tail.is_empty() == (keep == KeptPart::Head));
            }
        }
    }
}
