//! What comes before and after the value: prose, fences, brackets too many, the same value again.

use serde_json::Value;

use super::cursor::TextCursor;
use super::open_structure::OpenStructure;
use super::{RefusalReason, RepairKind, RepairRefusal, string, structure, words};

const FENCE: &str = "```";

/// Reads the one value of the text.
pub(super) fn read(cursor: &mut TextCursor<'_>) -> Result<Value, RepairRefusal> {
    cursor.skip()?;
    open_fence(cursor)?;
    let value = first(cursor)?;
    finish(cursor, &value)?;
    // `[word]` within a sentence is no list of arguments.
    let made_of_words = cursor.repairs.contains(RepairKind::UnquotedText) && value.is_array();
    if made_of_words && cursor.repairs.contains(RepairKind::TextAround) {
        return cursor.refuse(RefusalReason::NoValue);
    }
    Ok(value)
}

/// Goes past a fence that opens before the value.
fn open_fence(cursor: &mut TextCursor<'_>) -> Result<(), RepairRefusal> {
    let rest = cursor.rest();
    let Some(fence) = rest.find(FENCE) else { return Ok(()) };
    let before = rest.get(..fence).unwrap_or_default();
    // The fence may stand inside of a string.
    let in_a_string = before.starts_with(['"', '\'']) || before.matches('"').count() % 2 == 1;
    if before.contains(['{', '[']) || in_a_string {
        return Ok(());
    }
    cursor.work(before.len());
    prose_before(cursor, before)?;
    cursor.advance(fence.saturating_add(FENCE.len()));
    let language = cursor.rest().bytes().take_while(u8::is_ascii_alphanumeric).count();
    cursor.advance(language);
    cursor.repaired(RepairKind::CodeFence);
    cursor.skip()
}

fn first(cursor: &mut TextCursor<'_>) -> Result<Value, RepairRefusal> {
    let rest = cursor.rest();
    match cursor.peek() {
        Some(b'{' | b'[') => return structure::value(cursor),
        Some(quote @ (b'"' | b'\'')) => {
            return if is_key(cursor, quote) {
                structure::unopened(cursor)
            } else {
                string::value(cursor, OpenStructure(&[])).map(Value::String)
            };
        }
        _ => {}
    }
    let word = rest.get(..rest.bytes().take_while(u8::is_ascii_alphabetic).count()).unwrap_or_default();
    // A lone `True` is the whole answer only where no bracket begins another one.
    if let Some(value) = python(word).filter(|_| !rest.contains(['{', '['])) {
        cursor.repaired(RepairKind::PythonLiteral);
        cursor.advance(word.len());
        return Ok(value);
    }
    let Some(start) = rest.find(['{', '[']) else { return cursor.refuse(RefusalReason::NoValue) };
    prose_before(cursor, rest.get(..start).unwrap_or_default())?;
    cursor.advance(start);
    structure::value(cursor)
}

fn python(word: &str) -> Option<Value> {
    match word {
        "True" => Some(Value::Bool(true)),
        "False" => Some(Value::Bool(false)),
        "None" => Some(Value::Null),
        _ => None,
    }
}

/// Whether the text begins with a key and a colon.
fn is_key(cursor: &mut TextCursor<'_>, quote: u8) -> bool {
    let inside = cursor.bytes().get(cursor.at.saturating_add(1)..).unwrap_or_default();
    let Some(length) = inside.iter().position(|byte| *byte == quote) else { return false };
    let next = cursor.after_blanks(cursor.at.saturating_add(length).saturating_add(2));
    cursor.byte(next) == Some(b':')
}

/// As [`prose`], of text before the value: two names with colons may be members of an object without its brace.
fn prose_before(cursor: &mut TextCursor<'_>, text: &str) -> Result<(), RepairRefusal> {
    let named = |part: &&str| {
        let part = part.trim_start();
        let name = words::name(part);
        name > 0 && part.get(name..).is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    cursor.work(text.len());
    // Two names with colons may be members of an object whose brace is missing.
    if text.split([',', '\n']).filter(named).count() > 1 {
        return cursor.refuse(RefusalReason::UnclearSurroundings);
    }
    prose(cursor, text)
}

/// Refuses text around the value that may be part of it.
fn prose(cursor: &mut TextCursor<'_>, text: &str) -> Result<(), RepairRefusal> {
    cursor.work(text.len());
    let looks_like_members = text.contains(['}', ']'])
        || ["\":", "\",", "':", "',", "\" :", "' :"].iter().any(|sign| text.contains(sign))
        || text.trim_end().ends_with(',');
    if looks_like_members {
        return cursor.refuse(RefusalReason::UnclearSurroundings);
    }
    // Blanks that JSON does not know are text too.
    if !text.trim_ascii().is_empty() {
        cursor.repaired(RepairKind::TextAround);
    }
    Ok(())
}

/// Looks at what follows the value.
fn finish(cursor: &mut TextCursor<'_>, value: &Value) -> Result<(), RepairRefusal> {
    loop {
        trailing(cursor)?;
        let rest = cursor.rest();
        match rest.bytes().next() {
            None => return Ok(()),
            Some(b',' | b':' | b'"' | b'\'') => return cursor.refuse(RefusalReason::UnclearSurroundings),
            Some(_) => {}
        }
        let Some(start) = rest.find(['{', '[']) else { return prose(cursor, rest) };
        prose(cursor, rest.get(..start).unwrap_or_default())?;
        cursor.advance(start);
        let at = cursor.at;
        // Another value may be the one that counts, or an example; nothing tells which.
        if structure::value(cursor).ok().as_ref() != Some(value) {
            return Err(RepairRefusal { reason: RefusalReason::TwoValues, at });
        }
        cursor.repaired(RepairKind::RepeatedValue);
    }
}

/// Goes past brackets too many, a last comma, and the end of a fence.
fn trailing(cursor: &mut TextCursor<'_>) -> Result<(), RepairRefusal> {
    match cursor.skip() {
        // After the value, a comment may be cut off.
        Err(refusal) if refusal.reason == RefusalReason::OpenComment => {
            cursor.repaired(RepairKind::Comment);
            cursor.advance(cursor.rest().len());
            return Ok(());
        }
        skipped => skipped?,
    }
    while matches!(cursor.peek(), Some(b'}' | b']')) {
        // An earlier repair holds only if all brackets are there, and this one is too many.
        if cursor.must_close {
            return cursor.refuse(RefusalReason::MismatchedBrackets);
        }
        cursor.repaired(RepairKind::ExtraBracket);
        cursor.advance(1);
        cursor.skip()?;
    }
    if cursor.peek() == Some(b',') {
        let (at, repairs) = (cursor.at, cursor.repairs);
        cursor.advance(1);
        cursor.skip()?;
        if cursor.at_end() || cursor.rest().starts_with(FENCE) {
            cursor.repaired(RepairKind::TrailingComma);
        } else {
            (cursor.at, cursor.repairs) = (at, repairs);
            return cursor.refuse(RefusalReason::UnclearSurroundings);
        }
    }
    if cursor.take(FENCE) {
        cursor.repaired(RepairKind::CodeFence);
        cursor.skip()?;
    }
    Ok(())
}
