//! Words without quotes: where they end, and what they are.

use serde_json::Value;

use super::number;

/// Words that other languages have for values JSON does not know.
// JSON has no such values. Replacing them by `null` would invent an argument.
const NO_VALUES: [&str; 9] =
    ["undefined", "NaN", "nan", "Infinity", "inf", "nil", "NULL", "void", "NotImplemented"];
/// Words that may be meant as themselves, or as true, false and null.
const TRUE: [&str; 5] = ["TRUE", "yes", "Yes", "on", "On"];
const FALSE: [&str; 5] = ["FALSE", "no", "No", "off", "Off"];
const NULL: [&str; 2] = ["NULL", "Null"];

/// The value of a literal of JSON or of Python.
pub(super) fn literal(word: &str) -> Option<Value> {
    match word {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        "null" | "None" => Some(Value::Null),
        _ => None,
    }
}

/// Whether the first word of a line is a literal.
pub(super) fn begins_with_literal(line: &str) -> bool {
    line.get(..first_word(line)).is_some_and(|word| literal(word).is_some())
}

/// What a word may be meant as, if not as itself.
pub(super) fn meant(word: &str) -> Option<Value> {
    if TRUE.contains(&word) {
        return Some(Value::Bool(true));
    }
    if FALSE.contains(&word) {
        return Some(Value::Bool(false));
    }
    if NULL.contains(&word) {
        return Some(Value::Null);
    }
    number::other_form(word)
}

/// Whether words without quotes can only be meant as a text: one word without the signs of programs, or several without
/// any signs.
pub(super) fn is_text(words: &str) -> bool {
    let Some(first) = words.chars().next() else { return false };
    if !words.contains(char::is_whitespace) {
        return is_one_text(words, first);
    }
    let plain =
        |char: char| char.is_alphanumeric() || matches!(char, ' ' | '.' | '!' | '?' | '-' | '_' | '%' | '/');
    // A literal among the words may be a value of its own.
    let known = |word: &str| literal(word).is_some() || NO_VALUES.contains(&word);
    first.is_alphabetic() && words.chars().all(plain) && !words.contains("..") && !words.split(' ').any(known)
}

fn is_one_text(word: &str, first: char) -> bool {
    if NO_VALUES.contains(&word) || word.contains("..") || word.contains('…') {
        return false;
    }
    if first.is_ascii_digit() {
        return is_date_or_the_like(word);
    }
    // `/tmp/x` is a path, and `/x/` may be a pattern of a program.
    let path = word.starts_with('/')
        && !word.ends_with('/')
        && word.chars().nth(1).is_some_and(char::is_alphanumeric);
    let named = first.is_alphabetic() || first == '_';
    let of_text = |char: char| char.is_alphanumeric() || "._-/:@%?&=#~!".contains(char);
    (named || path) && word.chars().all(of_text) && !word.ends_with([':', '='])
}

/// A date, a time, a version, a unique id, an amount with its unit: digits with letters or separators between them, but
/// no number as programs write it.
fn is_date_or_the_like(word: &str) -> bool {
    let separators = word.chars().filter(|char| matches!(char, '-' | ':' | '.')).count();
    let letters = word.chars().filter(char::is_ascii_alphabetic).count();
    let signs = word.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | ':' | '.'));
    // `10n`, `1.5f`, `1e`, `0x1f`, `0b1`.
    let of_a_program =
        letters == 1 && separators <= 1 && word.ends_with(|char| "nNlLfFdDuUeE".contains(char))
            || ["0x", "0X", "0b", "0B", "0o", "0O"].iter().any(|prefix| word.starts_with(prefix));
    let between = word.contains(['-', ':']) || separators > 1 || letters > 0;
    signs && between && !of_a_program && word.ends_with(|char: char| char.is_ascii_alphanumeric())
}

/// The length of the name, or of the whole number, that `text` begins with.
pub(super) fn name(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    if first.is_ascii_digit() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        // A number with a zero before it may be octal, and then it is another key.
        return if first == '0' && digits > 1 { 0 } else { digits };
    }
    if !first.is_alphabetic() && !matches!(first, '_' | '$') {
        return 0;
    }
    let bytes = text.as_bytes();
    let dot = |at: usize| bytes.get(at.saturating_add(1)).is_some_and(u8::is_ascii_alphanumeric);
    let part = |(at, char): &(usize, char)| {
        char.is_alphanumeric() || matches!(char, '_' | '$' | '-') || *char == '.' && dot(*at)
    };
    text.char_indices().take_while(part).map(|(_, char)| char.len_utf8()).sum()
}

/// The length of the first word of a line.
pub(super) fn first_word(line: &str) -> usize {
    let bytes = line.as_bytes();
    let ends = |at: usize, byte: u8| {
        let next = bytes.get(at.saturating_add(1)).copied();
        byte.is_ascii_whitespace() || matches!((byte, next), (b'#' | b':', _) | (b'/', Some(b'/' | b'*')))
    };
    bytes.iter().enumerate().find(|(at, byte)| ends(*at, **byte)).map_or(line.len(), |(at, _)| at)
}

/// The line up to a comment: one after a blank.
pub(super) fn before_comment(line: &str) -> &str {
    let begins = |(at, sign): (usize, &str)| {
        let before = line.get(..at).unwrap_or_default();
        (sign.len() > 1 || sign == "#") && before.ends_with([' ', '\t'])
    };
    let slashes = line.match_indices("//").chain(line.match_indices("/*")).chain(line.match_indices('#'));
    let first = slashes.filter(|found| begins(*found)).map(|(at, _)| at).min();
    line.get(..first.unwrap_or(line.len())).unwrap_or_default()
}

/// Whether a byte cannot be part of a text without quotes.
pub(super) const fn is_border(byte: u8) -> bool {
    matches!(byte, b',' | b'{' | b'}' | b'[' | b']' | b'"' | b'\'' | b'\n' | b'\r' | b'`')
}
