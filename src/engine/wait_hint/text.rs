//! What the sentences of a message say about waiting.

use super::super::failure::sentence::{holds, with_number};
use super::Said;
use super::length::{decimal, duration, long_unit};
use crate::time::Nanos;

/// What stands before the length, in lower case.
const MARKERS: [&str; 14] = [
    "try again in ",
    "retry in ",
    "retry after ",
    "retry your request after ",
    "try again after ",
    "please wait ",
    "reset after ",
    "resets in ",
    "reset in ",
    "come back after ",
    "wait for ",
    "expected available in ",
    "retry after: ",
    "refills in ",
];
/// Of these every marker holds one.
const IN_ALL: [&str; 6] = ["try ", "wait ", "reset", "back after ", "available in ", "refills "];

pub(super) fn wait(message: &str, said: &mut Said) {
    let Some(text) = with_number(message).filter(|text| IN_ALL.iter().any(|part| holds(text, part))) else {
        return;
    };
    for marker in MARKERS.into_iter().filter(|marker| holds(&text, marker)) {
        let Some((_, rest)) = text.split_once(marker) else { continue };
        // `try again in a few minutes` is for people.
        if !rest.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let shown: String = rest.chars().take(40).collect();
        said.take("message", shown.trim(), length(rest), "a length of time");
        return;
    }
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
