//! Server delays in the sentences of a message.

use super::super::failure::sentence::with_number;
use super::StatedHints;
use super::length::{decimal, duration, long_unit};
use crate::time::Nanos;

/// The number of bytes searched for a number at once.
const STRIDE: usize = 512;
/// The words before the duration, in lower case. A colon may follow them.
// Wordings of providers: "Please try again in 4.77s" (OpenAI, Groq), "Please retry after 86400 seconds" (Azure),
// "Please retry in 58.2s" (Gemini). A number without such words may be a token count.
const MARKERS: [&str; 15] = [
    "try again in",
    "retry in",
    "retry after",
    "retry your request after",
    "try again after",
    "please wait",
    "reset after",
    "resets in",
    "reset in",
    "come back after",
    "come back in",
    "wait at least",
    "wait for",
    "expected available in",
    "refills in",
];

pub(super) fn wait(message: &str, said: &mut StatedHints) {
    let Some(text) = with_number(message) else { return };
    let marked = numbers(&text).find(|(before, _)| MARKERS.iter().any(|marker| before.ends_with(marker)));
    let Some((_, rest)) = marked else { return };
    let shown: String = rest.chars().take(40).collect();
    said.take("message", shown.trim(), length(rest), "a length of time");
}

/// The numbers after a possible marker: the text before each, and the text from it on. `try again in a few minutes`
/// has none.
fn numbers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let bytes = text.as_bytes();
    let parts = (0..bytes.len()).step_by(STRIDE).filter_map(|from| {
        // Parts overlap by three bytes, so that a number at a border is seen with the bytes before it.
        let end = from.saturating_add(STRIDE).saturating_add(3).min(bytes.len());
        Some((from, bytes.get(from..end)?))
    });
    // An early exit would prevent vectorization; most messages have no number, and every one is searched.
    let parts = parts.filter(|(_, part)| fours(part).fold(false, |found, four| found | may_begin(four)));
    let ends = parts.flat_map(|(from, part)| {
        let ends = fours(part).enumerate().filter(|(_, four)| may_begin(*four));
        ends.map(move |(at, _)| from.saturating_add(at).saturating_add(2))
    });
    ends.filter_map(|end| {
        let (before, rest) = text.split_at_checked(end)?;
        let before = before.trim_end();
        Some((before.strip_suffix(':').unwrap_or(before), rest.trim_start()))
    })
}

/// Each byte with the three after it.
fn fours(part: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|from| part.get(from..).unwrap_or_default().iter());
    first.zip(second).zip(third).zip(fourth).map(|(((a, b), c), d)| [*a, *b, *c, *d])
}

/// Whether the last byte begins a number, after a space and the last letters of a marker.
#[expect(clippy::needless_bitwise_bool, reason = "many bytes at a time have no branches")]
fn may_begin([a, b, space, digit]: [u8; 4]) -> bool {
    let after_or_for = ((a == b'e') | (a == b'o')) & (b == b'r');
    let in_wait_or_least = ((a == b'i') | (a == b's')) & ((b == b'n') | (b == b't'));
    let colon = ((a == b'n') | (a == b'r') | (a == b't')) & (b == b':');
    (after_or_for | in_wait_or_least | colon | (b == b' ')) & (space == b' ') & digit.is_ascii_digit()
}

/// The duration at the start of a text: `2s.`, `1 minute and 30 seconds`, `1h 30m`.
fn length(text: &str) -> Option<Nanos> {
    let mut words = text.split_whitespace();
    let mut sum = None;
    let mut ended = false;
    while let Some(word) = words.next().filter(|_| !ended) {
        if word == "and" && sum.is_some() {
            continue;
        }
        let mut last = word;
        let part = duration(bare(word)).or_else(|| {
            last = words.next()?;
            decimal(bare(word), long_unit(bare(last))?)
        });
        // A wrong duration is worse than none: an unreadable word ends it.
        let Some(part) = part else { break };
        sum = Some(sum.unwrap_or(Nanos::ZERO).saturating_add(part));
        // The sentence is over, so the next number is something else: a limit, or a count.
        ended = last.ends_with(['.', ';', ')', '!']);
    }
    sum
}

/// A word without trailing punctuation.
fn bare(word: &str) -> &str {
    word.trim_end_matches(|c: char| c.is_ascii_punctuation())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WaitSource;

    #[test]
    fn every_marker_is_seen_wherever_it_stands() {
        for marker in MARKERS {
            for between in [" ", ": ", "  "] {
                for before in [0, 1, 505, 509, 512, 1020] {
                    let text = format!("{}{marker}{between}7s, 3 of 5", "é".repeat(before));
                    let mut said = StatedHints { source: WaitSource::Body, ..StatedHints::default() };
                    wait(&text, &mut said);
                    let found = said.waits.at(WaitSource::Body);
                    assert_eq!(found, Some(Nanos::from_secs(7)), "{marker}{between}");
                }
            }
        }
    }
}
