//! What the sentences of a message say about waiting.

use super::Said;
use super::length::{decimal, duration, long_unit};

/// What stands before the length, in lower case.
const MARKERS: [&str; 4] = ["try again in ", "retry in ", "retry after ", "retry your request after "];
/// The most of a message that is looked at.
const MOST_CHARS: usize = 4096;

pub(super) fn wait(message: &str, said: &mut Said) {
    if !message.bytes().any(|byte| byte.is_ascii_digit()) {
        return;
    }
    let text: String = message.chars().take(MOST_CHARS).map(|c| c.to_ascii_lowercase()).collect();
    for marker in MARKERS {
        let Some((_, rest)) = text.split_once(marker) else { continue };
        let mut words = rest.split_whitespace();
        let word = words.next().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_punctuation());
        // `try again in a few minutes` is for people.
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let unit = || {
            let unit = words.next()?.trim_end_matches(|c: char| c.is_ascii_punctuation());
            decimal(word, long_unit(unit)?)
        };
        let shown: String = rest.chars().take(40).collect();
        said.take("message", shown.trim(), duration(word).or_else(unit), "a length of time");
        return;
    }
}
