//! Halves of surrogate pairs in JSON: a text with one cannot be decoded, and some servers write them all the same, also with the two
//! halves of one pair in texts that follow each other.

use std::borrow::Cow;

/// What a half is shown as.
const REPLACEMENT: &str = "\\ufffd";
/// How long an escape of a unit is.
const LENGTH: usize = 6;

/// JSON with the replacement character in the place of each half of a surrogate pair that stands alone.
pub(in crate::host) fn without_halves(json: &str) -> Cow<'_, str> {
    let (mut whole, mut rest, mut is_changed) = (String::new(), json, false);
    while let Some((before, escape)) = next_escape(rest) {
        whole.push_str(before);
        let unit = unit_of(escape);
        let length = if unit.is_some() { LENGTH } else { escape_length(escape) };
        let (this, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        let is_pair = unit.is_some_and(is_high) && unit_of(behind).is_some_and(is_low);
        if let (true, Some((low, behind))) = (is_pair, behind.split_at_checked(LENGTH)) {
            whole.push_str(this);
            whole.push_str(low);
            rest = behind;
            continue;
        }
        if unit.is_some_and(|unit| is_high(unit) || is_low(unit)) {
            whole.push_str(REPLACEMENT);
            is_changed = true;
        } else {
            whole.push_str(this);
        }
        rest = behind;
    }
    if !is_changed {
        return json.into();
    }
    whole.push_str(rest);
    whole.into()
}

/// Whether a text of the JSON ends with the first half of a pair.
pub(in crate::host) fn ends_in_pair(json: &str) -> bool {
    // Nearly no JSON does, and this finds out faster than a look at all texts.
    memchr::memchr_iter(b'\\', json.as_bytes()).any(|at| {
        let escape = json.get(at..).unwrap_or_default();
        unit_of(escape).is_some_and(is_high) && escape.get(LENGTH..).is_some_and(|rest| rest.starts_with('"'))
    }) && first_half(json).is_some()
}

/// Puts the first half of a pair, with which a text of the JSON ends, before the second half with which a text of the next JSON begins,
/// if both texts have one name.
pub(in crate::host) fn join_pair(first: &mut String, next: &mut String) {
    let Some((at, name)) = first_half(first) else { return };
    let second = texts(next).find(|text| unit_of(text.said).is_some_and(is_low) && text.name == name);
    let Some(to) = second.map(|text| text.at) else { return };
    let half: String = first.drain(at..at.saturating_add(LENGTH)).collect();
    next.insert_str(to, &half);
}

/// Where a text ends with the first half of a pair, and the name of that text.
fn first_half(json: &str) -> Option<(usize, &str)> {
    texts(json).find_map(|text| {
        let (before, half) = text.said.split_at_checked(text.said.len().checked_sub(LENGTH)?)?;
        // An odd number of backslashes before it would make it no escape.
        let backslashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let is_half = backslashes.is_multiple_of(2) && unit_of(half).is_some_and(is_high);
        is_half.then(|| (text.at.saturating_add(before.len()), text.name))
    })
}

/// A text that is a value, where its characters begin, and the name of the field before it.
struct TextValue<'j> {
    name: &'j str,
    said: &'j str,
    at: usize,
}

/// The texts of some JSON.
fn texts(json: &str) -> impl Iterator<Item = TextValue<'_>> {
    let (mut from, mut name) = (0_usize, "");
    core::iter::from_fn(move || {
        loop {
            let begin = json.get(from..)?.find('"')?.saturating_add(from).saturating_add(1);
            let said = text_at(json.get(begin..)?)?;
            from = begin.saturating_add(said.len()).saturating_add(1);
            if !json.get(from..)?.trim_ascii_start().starts_with(':') {
                return Some(TextValue { name, said, at: begin });
            }
            name = said;
        }
    })
}

/// The text up to its closing quote.
fn text_at(json: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = json.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    json.get(..end?)
}

/// What stands before the next backslash, and what begins with it.
fn next_escape(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(text.find('\\')?)
}

/// The length of an escape that names no unit: the backslash and the character behind it.
fn escape_length(escape: &str) -> usize {
    escape.chars().take(2).map(char::len_utf8).sum()
}

/// The unit of UTF-16 that an escape at the beginning of a text names.
fn unit_of(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_pairs_stay() {
        for (json, whole) in [
            (r#""\ud83d\ude00 \u00e9 \n""#, r#""\ud83d\ude00 \u00e9 \n""#),
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\u12"#, r#""\u12"#),
            ("\\", "\\"),
        ] {
            assert_eq!(without_halves(json), whole, "{json}");
        }
    }

    #[test]
    fn a_pair_is_joined_across_texts_of_one_name_alone() {
        for (first, next, joined) in [
            (
                r#"{"a":"x","delta":"hi \ud83d"}"#,
                r#"{"a":"\u00e9","delta": "\ude00!"}"#,
                Some((r#"{"a":"x","delta":"hi "}"#, r#"{"a":"\u00e9","delta": "\ud83d\ude00!"}"#)),
            ),
            (r#"["\\\ud83d"]"#, r#"["\ude00\ud83d"]"#, Some((r#"["\\"]"#, r#"["\ud83d\ude00\ud83d"]"#))),
            (r#"{"delta":"\ud83d"}"#, r#"{"other":"\ude00"}"#, None),
            (r#"{"delta":"\ud83d"}"#, r#"{"delta":"x\ude00"}"#, None),
            (r#"{"delta":"\\ud83d"}"#, r#"{"delta":"\ude00"}"#, None),
            (r#"{"delta":"\ud83d\""}"#, r#"{"delta":"\ude00"}"#, None),
            (r#"{"delta":"\ud83d"#, r#"{"delta":"\ude00"}"#, None),
        ] {
            let (mut before, mut after) = (first.to_owned(), next.to_owned());
            join_pair(&mut before, &mut after);
            let (expected_before, expected_after) = joined.unwrap_or((first, next));
            assert_eq!((before.as_str(), after.as_str()), (expected_before, expected_after));
            let ends = joined.is_some() || first.ends_with("\"\\ud83d\"}");
            assert_eq!(ends_in_pair(first), ends, "{first}");
        }
    }
}
