//! Halves of surrogate pairs in JSON: a text with one cannot be decoded, and some servers write them all the same.

use std::borrow::Cow;

/// What a half is shown as.
const REPLACEMENT: &str = "\\ufffd";

/// JSON with the replacement character in the place of each half of a surrogate pair that stands alone.
pub(in crate::host) fn without_halves(json: &str) -> Cow<'_, str> {
    let (mut whole, mut rest, mut is_changed) = (String::new(), json, false);
    while let Some((before, escape)) = next_escape(rest) {
        whole.push_str(before);
        let unit = unit_of(escape);
        let length = if unit.is_some() { 6 } else { escape_length(escape) };
        let (this, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        let is_pair = unit.is_some_and(is_high) && unit_of(behind).is_some_and(is_low);
        if let (true, Some((low, behind))) = (is_pair, behind.split_at_checked(6)) {
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
}
