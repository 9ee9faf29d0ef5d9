//! Repairs lines damaged by a crash or a foreign writer: zero bytes, halves of surrogate pairs, invalid UTF-8.

use crate::engine::{Record, RecordError};

/// Parses a line. Unambiguous damage is repaired: zero bytes before the record are removed, and half a surrogate pair
/// or invalid UTF-8 becomes the replacement character.
pub(super) fn parse(line: &[u8]) -> Result<Record, RecordError> {
    // Only a line that cannot be parsed is repaired, so a valid line costs nothing.
    Record::parse(line).or_else(|error| match (&error, mended(line)) {
        (RecordError::Malformed(_), Some(mended)) => Record::parse(&mended).map_err(|_| error),
        _ => Err(error),
    })
}

/// The line without leading zero bytes.
pub(super) fn without_zeros(line: &[u8]) -> &[u8] {
    // After a loss of power a file system may have the new length without the new bytes, which are zeros then.
    let begin = line.iter().position(|byte| *byte != 0).unwrap_or(line.len());
    line.get(begin..).unwrap_or_default()
}

/// The repaired line; `None`: nothing can be repaired.
fn mended(line: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    let whole = whole_pairs(&text);
    match (text, whole) {
        (_, Some(whole)) => Some(whole.into_bytes()),
        (std::borrow::Cow::Owned(text), None) => Some(text.into_bytes()),
        (std::borrow::Cow::Borrowed(_), None) => None,
    }
}

/// The JSON text with `\ufffd` for each half of a surrogate pair; `None`: there is none.
fn whole_pairs(text: &str) -> Option<String> {
    let mut out: Option<String> = None;
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        let start = at + found;
        let Some(unit) = unit(text, start) else {
            // An escape of one character, which may be a backslash.
            at = text[start..].char_indices().nth(2).map_or(text.len(), |(length, _)| start + length);
            continue;
        };
        let low = || unit_in(text, start + 6, 0xdc00..=0xdfff);
        // A high surrogate followed by a low one is one character (RFC 8259, section 7).
        at = start + 6;
        match unit {
            0xd800..=0xdbff if low() => at += 6,
            0xd800..=0xdfff => {
                let out = out.get_or_insert_default();
                out.push_str(&text[kept..start]);
                out.push_str("\\ufffd");
                kept = at;
            }
            _ => {}
        }
    }
    out.map(|out| out + &text[kept..])
}

fn unit_in(text: &str, at: usize, range: std::ops::RangeInclusive<u16>) -> bool {
    unit(text, at).is_some_and(|unit| range.contains(&unit))
}

/// The value of the `\uXXXX` at this position.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_whole_pairs_stay() {
        for (text, expected) in [
            (r#""a\ud83db""#, Some(r#""a\ufffdb""#)),
            (r#""\ude00\ud83d\ude00\ud83d""#, Some(r#""\ufffd\ud83d\ude00\ufffd""#)),
            (r#""\ud83d\u0041""#, Some(r#""\ufffd\u0041""#)),
            (r#""\ud83d\ude00 é\n""#, None),
            (r#""\\ud83d""#, None),
            ("\"\\", None),
            (r#""\ud8"#, None),
        ] {
            assert_eq!(whole_pairs(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_record_with_half_a_pair_is_read() {
        let line = br#"{"v":1,"kind":"event","seq":1,"now":2,"event":"cancelled","reason":"a\ud83d"}"#;
        let Ok(Record::Event(envelope)) = parse(line) else { panic!("it is not read") };
        let reason = crate::engine::Event::Cancelled { reason: "a\u{fffd}".into() };
        assert_eq!(envelope.event, reason);
    }

    #[test]
    fn bytes_that_are_no_text_are_read() {
        let line = b"{\"v\":1,\"kind\":\"state\",\"seq\":1,\"hash\":\"a\xff\"}";
        assert_eq!(parse(line).unwrap(), Record::State { seq: 1, hash: "a\u{fffd}".into() });
    }

    #[test]
    fn what_cannot_be_mended_is_told_as_it_was() {
        assert!(parse(br#"{"v":1,"kind":"event","#).is_err());
        assert_eq!(parse(br#"{"v":3,"x":"\ud83d"}"#), Err(RecordError::Newer(3)));
    }
}
