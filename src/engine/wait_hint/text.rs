//! What the sentences of a message say about waiting.

use super::super::failure::sentence::with_number;
use super::Said;
use super::length::{decimal, duration, long_unit};
use crate::time::Nanos;

/// The words before the length, in lower case. A colon may follow them.
const MARKERS: [&str; 13] = [
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
    "wait for",
    "expected available in",
    "refills in",
];

pub(super) fn wait(message: &str, said: &mut Said) {
    let Some(text) = with_number(message) else { return };
    let marked = numbers(&text).find(|(before, _)| MARKERS.iter().any(|marker| before.ends_with(marker)));
    let Some((_, rest)) = marked else { return };
    let shown: String = rest.chars().take(40).collect();
    said.take("message", shown.trim(), length(rest), "a length of time");
}

/// The numbers after a space and a letter with which a marker ends: what is before each, and the rest from it on.
/// `try again in a few minutes` is for people.
fn numbers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut from = 0_usize;
    core::iter::from_fn(move || {
        loop {
            let found = text.as_bytes().get(from..)?.iter().position(u8::is_ascii_digit)?;
            let at = from.checked_add(found)?;
            from = at.checked_add(1)?;
            let (before, rest) = text.split_at_checked(at)?;
            if let Some(before) = before.strip_suffix(' ') {
                let before = before.trim_end_matches(' ');
                let before = before.strip_suffix(':').unwrap_or(before);
                if before.ends_with(['n', 'r', 't']) {
                    return Some((before, rest));
                }
            }
        }
    })
}

/// The length at the beginning of a text: `2s.`, `1 minute and 30 seconds`, `1h 30m`.
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
        let Some(part) = part else { break };
        sum = Some(sum.unwrap_or(Nanos::ZERO).saturating_add(part));
        ended = last.ends_with(['.', ';', ')', '!']);
    }
    sum
}

/// A word without what ends a sentence, or a part of it.
fn bare(word: &str) -> &str {
    word.trim_end_matches(|c: char| c.is_ascii_punctuation())
}
