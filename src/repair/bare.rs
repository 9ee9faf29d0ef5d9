//! What stands without quotes: numbers, literals, keys, texts, and strings that lack a quote.

use serde_json::Value;

use super::cursor::{Choice, Cursor};
use super::quote::{ends_here, key_follows, unopened_follows};
use super::structure::Open;
use super::{Reason, Refusal, Repair, number};

/// Words that other languages have for values JSON does not know.
const NO_VALUES: [&str; 9] =
    ["undefined", "NaN", "nan", "Infinity", "inf", "nil", "NULL", "void", "NotImplemented"];
/// Words that may be meant as themselves, or as true, false and null.
const TRUE: [&str; 5] = ["TRUE", "yes", "Yes", "on", "On"];
const FALSE: [&str; 5] = ["FALSE", "no", "No", "off", "Off"];
const NULL: [&str; 2] = ["NULL", "Null"];

/// Reads a value that begins with none of the signs that begin one.
pub(super) fn value(cursor: &mut Cursor<'_>, open: Open<'_>) -> Result<Value, Refusal> {
    let (start, rest) = (cursor.at, cursor.rest());
    if let Some(value) = before_a_blank(cursor, start)? {
        return Ok(value);
    }
    let length = rest.bytes().take_while(|byte| !is_border(*byte)).count();
    cursor.work(length);
    let line = rest.get(..length).unwrap_or_default();
    let first = line.get(..first_word(line)).unwrap_or_default();
    if first.is_empty() {
        return cursor.refuse(Reason::MissingValue);
    }
    let border = cursor.byte(start.saturating_add(length));
    let quoted = border == Some(b'"') && first.len() == length;
    cursor.at = start.saturating_add(first.len());
    if !quoted && let Some(value) = literal(first) {
        if matches!(first, "True" | "False" | "None") {
            cursor.repaired(Repair::PythonLiteral);
        }
        return Ok(value);
    }
    let number = number::read(cursor, first, start)?;
    let ends =
        line.len() == first.len() || line.as_bytes().get(first.len()).is_some_and(|byte| *byte != b':');
    if let (Some(number), false, true) = (&number, quoted, ends) {
        if cursor.at_end() {
            // More digits may follow: half a number is another number, and holds the same schema.
            return cursor.refuse(Reason::CutInScalar);
        }
        return Ok(number.clone());
    }
    text(cursor, Line { start, text: line, border, number }, open)
}

/// The number or literal that a blank ends: what follows on its line need not be looked at.
fn before_a_blank(cursor: &mut Cursor<'_>, start: usize) -> Result<Option<Value>, Refusal> {
    let rest = cursor.rest();
    let length = rest.bytes().take_while(|byte| !is_border(*byte) && !byte.is_ascii_whitespace()).count();
    cursor.work(length);
    let word = rest.get(..length).unwrap_or_default();
    if !matches!(cursor.byte(start.saturating_add(length)), Some(b' ' | b'\t')) {
        return Ok(None);
    }
    let found = match literal(word) {
        Some(value) => Some(value),
        None => number::read(cursor, word, start)?,
    };
    if found.is_some() {
        if matches!(word, "True" | "False" | "None") {
            cursor.repaired(Repair::PythonLiteral);
        }
        cursor.at = start.saturating_add(length);
    }
    Ok(found)
}

/// What stands without quotes up to a sign that cannot be part of it.
struct Line<'t> {
    start: usize,
    text: &'t str,
    border: Option<u8>,
    /// What its first word is, if it is a number.
    number: Option<Value>,
}

fn text(cursor: &mut Cursor<'_>, found: Line<'_>, open: Open<'_>) -> Result<Value, Refusal> {
    let Line { start, text: line, border, number } = found;
    let commented = before_comment(line);
    let word = commented.trim_ascii_end();
    let end = start.saturating_add(word.len());
    let not_a_value = Err(Refusal { reason: Reason::NotAValue, at: start });
    if border == Some(b'"') && commented.len() == line.len() {
        let quote = start.saturating_add(line.len());
        if word.len() == line.len() {
            return unopened(cursor, Line { start, text: line, border, number }, open);
        }
        if open.inside() != Some(b'{') || !key_follows(cursor, quote) {
            return not_a_value;
        }
    } else if matches!(border, Some(b'{' | b'[' | b'\'' | b'"' | b'`')) && commented.len() == line.len() {
        return not_a_value;
    }
    if border.is_none() && commented.len() == line.len() {
        return Err(Refusal { reason: Reason::CutInScalar, at: end });
    }
    cursor.at = end;
    if let Some(meant) = meant(word) {
        return Ok(match cursor.choose(Reason::TwoReadings, start)? {
            Choice::Second => Value::String(word.to_owned()),
            Choice::Octal => number::octal(word).map_or(meant, Value::from),
            Choice::First | Choice::Neither => meant,
        });
    }
    if !is_text(word) {
        return not_a_value;
    }
    cursor.repaired(Repair::UnquotedText);
    Ok(Value::String(word.to_owned()))
}

/// A string whose first quote is missing, up to its last; or a number with a quote too many.
fn unopened(cursor: &mut Cursor<'_>, found: Line<'_>, open: Open<'_>) -> Result<Value, Refusal> {
    let Line { start, text: line, number, .. } = found;
    let quote = start.saturating_add(line.len());
    cursor.at = quote;
    let after = quote.saturating_add(1);
    if !ends_here(cursor, after, open) && !unopened_follows(cursor, after, open) {
        return Err(Refusal { reason: Reason::NotAValue, at: start });
    }
    if line.contains('\\') {
        return cursor.refuse(Reason::UnclearEscapes);
    }
    let guessed =
        [Repair::MissingComma, Repair::UnquotedKey].iter().all(|repair| cursor.repairs.contains(*repair));
    if guessed || open.inside() == Some(b'[') && !follows_a_quote(cursor, start) {
        // What stands before the comma, or the key, may be the beginning of the text.
        return Err(Refusal { reason: Reason::UnclearQuotes, at: start });
    }
    cursor.advance(1);
    if let Some(other) = number.or_else(|| literal(line))
        && cursor.choose(Reason::TwoReadings, start)? != Choice::Second
    {
        cursor.repaired(Repair::DoubledQuote);
        return Ok(other);
    }
    cursor.repaired(Repair::MissingQuote);
    Ok(Value::String(line.to_owned()))
}

/// Whether the comma before `start`, if there is one, follows a quote.
fn follows_a_quote(cursor: &mut Cursor<'_>, start: usize) -> bool {
    let before = cursor.between(0, start).trim_ascii_end();
    cursor.work(start.saturating_sub(before.len()));
    let Some(before) = before.strip_suffix(',') else { return true };
    let end = before.trim_ascii_end();
    cursor.work(before.len().saturating_sub(end.len()));
    end.ends_with('"')
}

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
fn meant(word: &str) -> Option<Value> {
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

/// Reads a key without quotes, or with a last quote only.
pub(super) fn key(cursor: &mut Cursor<'_>) -> Result<String, Refusal> {
    let length = name(cursor.rest());
    if length == 0 {
        return cursor.refuse(Reason::NotAMember);
    }
    let key = cursor.rest().get(..length).unwrap_or_default().to_owned();
    cursor.advance(length);
    if cursor.take("\"") {
        cursor.repaired(Repair::MissingQuote);
    } else {
        cursor.repaired(Repair::UnquotedKey);
    }
    Ok(key)
}

/// The length of the name, or of the whole number, that `text` begins with.
pub(super) fn name(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    if first.is_ascii_digit() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
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
fn first_word(line: &str) -> usize {
    let bytes = line.as_bytes();
    let ends = |at: usize, byte: u8| {
        let next = bytes.get(at.saturating_add(1)).copied();
        byte.is_ascii_whitespace() || matches!((byte, next), (b'#' | b':', _) | (b'/', Some(b'/' | b'*')))
    };
    bytes.iter().enumerate().find(|(at, byte)| ends(*at, **byte)).map_or(line.len(), |(at, _)| at)
}

/// The line up to a comment: one that a blank stands before.
fn before_comment(line: &str) -> &str {
    let begins = |(at, sign): (usize, &str)| {
        let before = line.get(..at).unwrap_or_default();
        (sign.len() > 1 || sign == "#") && before.ends_with([' ', '\t'])
    };
    let slashes = line.match_indices("//").chain(line.match_indices("/*")).chain(line.match_indices('#'));
    let first = slashes.filter(|found| begins(*found)).map(|(at, _)| at).min();
    line.get(..first.unwrap_or(line.len())).unwrap_or_default()
}

/// Whether a byte cannot be part of what stands without quotes.
pub(super) const fn is_border(byte: u8) -> bool {
    matches!(byte, b',' | b'{' | b'}' | b'[' | b']' | b'"' | b'\'' | b'\n' | b'\r' | b'`')
}
