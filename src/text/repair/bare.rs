//! What is written without quotes: numbers, literals, keys, texts, and strings that lack a quote.

use serde_json::Value;

use super::cursor::{ReadingChoice, TextCursor};
use super::open_structure::OpenStructure;
use super::quote::{ends_here, key_follows, unopened_follows};
use super::words::{before_comment, first_word, is_border, is_text, literal, meant, name};
use super::{RefusalReason, RepairKind, RepairRefusal, number};
/// Reads a value that begins with none of the signs that begin one.
pub(super) fn value(cursor: &mut TextCursor<'_>, open: OpenStructure<'_>) -> Result<Value, RepairRefusal> {
    let (start, rest) = (cursor.at, cursor.rest());
    if let Some(value) = before_a_blank(cursor, start)? {
        return Ok(value);
    }
    let length = rest.bytes().take_while(|byte| !is_border(*byte)).count();
    cursor.work(length);
    let line = rest.get(..length).unwrap_or_default();
    let first = line.get(..first_word(line)).unwrap_or_default();
    if first.is_empty() {
        return cursor.refuse(RefusalReason::MissingValue);
    }
    let border = cursor.byte(start.saturating_add(length));
    let quoted = border == Some(b'"') && first.len() == length;
    cursor.at = start.saturating_add(first.len());
    if !quoted && let Some(value) = literal(first) {
        if matches!(first, "True" | "False" | "None") {
            cursor.repaired(RepairKind::PythonLiteral);
        }
        return Ok(value);
    }
    let number = number::read(cursor, first, start)?;
    let ends =
        line.len() == first.len() || line.as_bytes().get(first.len()).is_some_and(|byte| *byte != b':');
    if let (Some(number), false, true) = (&number, quoted, ends) {
        if cursor.at_end() {
            // More digits may follow: half a number is another number, and holds the same schema.
            return cursor.refuse(RefusalReason::CutInScalar);
        }
        return Ok(number.clone());
    }
    text(cursor, BareText { start, text: line, border, number }, open)
}

/// The number or literal that a blank ends: what follows on its line need not be looked at.
fn before_a_blank(cursor: &mut TextCursor<'_>, start: usize) -> Result<Option<Value>, RepairRefusal> {
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
            cursor.repaired(RepairKind::PythonLiteral);
        }
        cursor.at = start.saturating_add(length);
    }
    Ok(found)
}

/// A text without quotes, up to a sign that cannot be part of it.
struct BareText<'t> {
    start: usize,
    text: &'t str,
    border: Option<u8>,
    /// What its first word is, if it is a number.
    number: Option<Value>,
}

fn text(
    cursor: &mut TextCursor<'_>,
    found: BareText<'_>,
    open: OpenStructure<'_>,
) -> Result<Value, RepairRefusal> {
    let BareText { start, text: line, border, number } = found;
    let commented = before_comment(line);
    let word = commented.trim_ascii_end();
    let end = start.saturating_add(word.len());
    let not_a_value = Err(RepairRefusal { reason: RefusalReason::NotAValue, at: start });
    if border == Some(b'"') && commented.len() == line.len() {
        let quote = start.saturating_add(line.len());
        if word.len() == line.len() {
            return unopened(cursor, BareText { start, text: line, border, number }, open);
        }
        if open.inside() != Some(b'{') || !key_follows(cursor, quote) {
            return not_a_value;
        }
    } else if matches!(border, Some(b'{' | b'[' | b'\'' | b'"' | b'`')) && commented.len() == line.len() {
        return not_a_value;
    }
    // At the end of the text more of the word may be missing.
    if border.is_none() && commented.len() == line.len() {
        return Err(RepairRefusal { reason: RefusalReason::CutInScalar, at: end });
    }
    cursor.at = end;
    if let Some(meant) = meant(word) {
        // `no` and `007` may be meant as themselves; only a schema can tell.
        return Ok(match cursor.choose(RefusalReason::TwoReadings, start)? {
            ReadingChoice::Second => Value::String(word.to_owned()),
            ReadingChoice::Octal => number::octal(word).map_or(meant, Value::from),
            ReadingChoice::First | ReadingChoice::Neither => meant,
        });
    }
    if !is_text(word) {
        return not_a_value;
    }
    cursor.repaired(RepairKind::UnquotedText);
    Ok(Value::String(word.to_owned()))
}

/// A string whose first quote is missing, up to its last; or a number with a quote too many.
fn unopened(
    cursor: &mut TextCursor<'_>,
    found: BareText<'_>,
    open: OpenStructure<'_>,
) -> Result<Value, RepairRefusal> {
    let BareText { start, text: line, number, .. } = found;
    let quote = start.saturating_add(line.len());
    cursor.at = quote;
    let after = quote.saturating_add(1);
    if !ends_here(cursor, after, open) && !unopened_follows(cursor, after, open) {
        return Err(RepairRefusal { reason: RefusalReason::NotAValue, at: start });
    }
    // Without its first quote it is unknown whether the text was escaped.
    if line.contains('\\') {
        return cursor.refuse(RefusalReason::UnclearEscapes);
    }
    let guessed = [RepairKind::MissingComma, RepairKind::UnquotedKey]
        .iter()
        .all(|repair| cursor.repairs.contains(*repair));
    if guessed || open.inside() == Some(b'[') && !follows_a_quote(cursor, start) {
        // What comes before the comma, or the key, may be the beginning of the text.
        return Err(RepairRefusal { reason: RefusalReason::UnclearQuotes, at: start });
    }
    cursor.advance(1);
    if let Some(other) = number.or_else(|| literal(line))
        && cursor.choose(RefusalReason::TwoReadings, start)? != ReadingChoice::Second
    {
        cursor.repaired(RepairKind::DoubledQuote);
        return Ok(other);
    }
    cursor.repaired(RepairKind::MissingQuote);
    Ok(Value::String(line.to_owned()))
}

/// Whether the comma before `start`, if there is one, follows a quote.
fn follows_a_quote(cursor: &mut TextCursor<'_>, start: usize) -> bool {
    let before = cursor.between(0, start).trim_ascii_end();
    cursor.work(start.saturating_sub(before.len()));
    let Some(before) = before.strip_suffix(',') else { return true };
    let end = before.trim_ascii_end();
    cursor.work(before.len().saturating_sub(end.len()));
    end.ends_with('"')
}

/// Reads a key without quotes, or with a last quote only.
pub(super) fn key(cursor: &mut TextCursor<'_>) -> Result<String, RepairRefusal> {
    let length = name(cursor.rest());
    if length == 0 {
        return cursor.refuse(RefusalReason::NotAMember);
    }
    let key = cursor.rest().get(..length).unwrap_or_default().to_owned();
    cursor.advance(length);
    if cursor.take("\"") {
        cursor.repaired(RepairKind::MissingQuote);
    } else {
        cursor.repaired(RepairKind::UnquotedKey);
    }
    Ok(key)
}
