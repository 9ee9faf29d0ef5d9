//! JSON that was escaped once too often: `{\"a\": 1}`, or `{\n  "a": 1\n}` with a backslash and a letter for each new
//! line.

use serde_json::Value;

use super::number::too_long;

/// The value of a text whose first bracket is followed by an escape, if it is JSON without its escapes.
pub(super) fn read(text: &str) -> Option<Value> {
    let text = text.trim_ascii();
    let inside = text.strip_prefix(['{', '['])?.trim_ascii_start();
    let plain = match inside.as_bytes() {
        [b'\\', b'"', ..] => unescaped(text)?,
        [b'\\', b'n' | b'r' | b't', ..] => unescaped(text).or_else(|| between_strings(text))?,
        _ => return None,
    };
    // An integer that changes when it is read is refused, however often it was escaped.
    if too_long(&plain).is_some() {
        return None;
    }
    serde_json::from_str(&plain).ok()
}

/// The text as the inside of one string of JSON: no quote in it is without a backslash.
fn unescaped(text: &str) -> Option<String> {
    let lines = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    serde_json::from_str(&format!("\"{lines}\"")).ok()
}

/// The text with blanks for the escapes that stand outside of its strings.
fn between_strings(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for char in text.chars() {
        match (char, quoted, escaped) {
            ('\\', _, false) => escaped = true,
            ('n' | 'r' | 't', false, true) => {
                plain.push(' ');
                escaped = false;
            }
            (_, false, true) => return None,
            (_, true, true) => {
                plain.extend(['\\', char]);
                escaped = false;
            }
            (_, _, false) => {
                quoted ^= char == '"';
                plain.push(char);
            }
        }
    }
    Some(plain)
}
