//! Secrets as JSON may spell them: a server that repeats what it was sent escapes what it likes (RFC 8259, section 7), and whoever reads
//! its answer has the secret again.

use core::ops::Range;

use memchr::memchr_iter;

/// Where JSON spells a secret, with any of its characters as it is or as `\/`, `\"`, `\\` or `\uXXXX`. JSON that is a text within JSON
/// has these backslashes several times.
pub(super) fn spelled(text: &[u8], secret: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let Some(first) = secret.as_bytes().first().filter(|_| may_spell(text, secret)) else { return found };
    let (mut from, mut before) = (0, 0);
    for (start, byte) in text.iter().enumerate() {
        // A run of backslashes is looked at from its beginning.
        let begins = byte == first || (*byte == b'\\' && before != b'\\');
        before = *byte;
        if begins
            && start >= from
            && let Some(end) = end(text, start, secret)
        {
            found.push(start..end);
            from = end;
        }
    }
    found
}

/// Whether there is an escape that could spell a part of it. Nearly all texts have none, and are only looked through.
fn may_spell(text: &[u8], secret: &str) -> bool {
    let marks = if secret.contains(['"', '\\']) { &b"u/\"\\"[..] } else { b"u/" };
    let next = |at: usize| text.get(at.saturating_add(1));
    memchr_iter(b'\\', text).any(|at| next(at).is_some_and(|next| marks.contains(next)))
}

/// Where the secret ends that begins there.
fn end(text: &[u8], start: usize, secret: &str) -> Option<usize> {
    let (mut at, mut before) = (start, None);
    for wanted in secret.chars() {
        // Several of them are one run, however often each is escaped.
        if wanted != '\\' || before != Some('\\') {
            at = after(text, at, wanted)?;
        }
        before = Some(wanted);
    }
    Some(at)
}

/// Where a character ends that is spelled there.
fn after(text: &[u8], at: usize, wanted: char) -> Option<usize> {
    let run = run(text, at);
    let next = at.saturating_add(run);
    let has_escape = run > 0 || at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\\');
    if wanted == '\\' {
        let mut end = next;
        while run > 0 && unit(text, end) == Some(0x5c) {
            end = end.saturating_add(5);
            end = end.saturating_add(self::run(text, end));
        }
        return (run > 0).then_some(end);
    }
    let mut buffer = [0; 4];
    let plain = wanted.encode_utf8(&mut buffer).as_bytes();
    if text.get(next..)?.starts_with(plain) && (run == 0 || matches!(wanted, '/' | '"')) {
        return next.checked_add(plain.len());
    }
    let (mut at, mut is_escaped) = (next, has_escape);
    for wanted in wanted.encode_utf16(&mut [0; 2]).iter() {
        let run = self::run(text, at);
        at = at.saturating_add(run);
        if !(is_escaped || run > 0) || unit(text, at) != Some(*wanted) {
            return None;
        }
        (at, is_escaped) = (at.saturating_add(5), false);
    }
    Some(at)
}

/// How many backslashes there are.
fn run(text: &[u8], at: usize) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b'\\').count()
}

/// The code unit of an escape, from its `u` on.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix(b"u")?.get(..4)?;
    let digits = core::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One of the ways to write a character.
    fn written(c: char, way: u8) -> String {
        let units = |upper: bool| {
            let unit = |unit: &u16| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
            c.encode_utf16(&mut [0; 2]).iter().map(unit).collect()
        };
        match (way % 3, c) {
            (1, _) => units(false),
            (2, _) => units(true),
            (_, '/') if way > 100 => "\\/".to_owned(),
            (_, '"' | '\\') => format!("\\{c}"),
            _ => c.to_string(),
        }
    }

    #[test]
    fn a_text_that_spells_something_else_is_none() {
        let table = [
            (r#"{"a":"ab/cd+"}"#, "ab/cd+", 0),
            (r#"{"a":"ab\/cd+","b":"\u0061b/cd+ ab\/cd+"}"#, "ab/cd+", 3),
            // A line feed and a backslash are no character of it.
            (r#"{"a":"a\nb\u0078\/"}"#, "anb", 0),
            (r#"{"a":"\\u0061b"}"#, "ab", 1),
            (r#"{"a":"\\ab\/"}"#, "ab/", 1),
            (r#"{"a":"u0061b\/"}"#, "ab/", 0),
            (r#"{"a":"\u+061b"}"#, "ab", 0),
            (r#"{"a":"\u006"#, "ab", 0),
            ("\\", "\\", 0),
        ];
        for (text, secret, expected) in table {
            let found = spelled(text.as_bytes(), secret);
            // Where there is no escape, nothing is looked for.
            assert_eq!(found.len(), expected, "{text} {found:?}");
        }
    }

    proptest! {
        #[test]
        fn every_spelling_of_a_secret_is_found(
            secret in "[a-c/\"\\\\ü😀+]{1,8}",
            ways in prop::collection::vec(any::<u8>(), 8),
            depth in 0..3,
        ) {
            let text: String = secret.chars().zip(ways).map(|(c, way)| written(c, way)).collect();
            prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{text}\"")).unwrap(), secret.clone());
            let within = (0..depth).fold(format!("\"{text}\""), |text, _| serde_json::to_string(&text).unwrap());
            let found = spelled(within.as_bytes(), &secret);
            if text == secret && depth == 0 {
                prop_assert!(found.len() <= 1);
            } else if within.contains('\\') && may_spell(within.as_bytes(), &secret) {
                prop_assert!(!found.is_empty(), "{}", within);
            } else {
                prop_assert!(within.contains(&secret), "{}", within);
            }
        }

        #[test]
        fn no_text_is_too_odd(text in "[\\\\u0-9a/\"]{0,40}", secret in "[a/\\\\\"u0]{1,5}") {
            let mut last = 0;
            for place in spelled(text.as_bytes(), &secret) {
                prop_assert!(last <= place.start && place.start < place.end && place.end <= text.len());
                last = place.end;
            }
        }
    }
}
