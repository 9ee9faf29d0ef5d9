//! What stands before and after the value: prose, fences, brackets too many, the same value again.

use serde_json::Value;

use super::cursor::Cursor;
use super::structure::Open;
use super::{Reason, Refusal, Repair, bare, string, structure};

const FENCE: &str = "```";

/// Reads the one value of the text.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    cursor.skip()?;
    open_fence(cursor)?;
    let value = first(cursor)?;
    finish(cursor, &value)?;
    // A word in brackets, within a sentence.
    let made_of_words = cursor.repairs.contains(Repair::UnquotedText) && value.is_array();
    if made_of_words && cursor.repairs.contains(Repair::TextAround) {
        return cursor.refuse(Reason::NoValue);
    }
    Ok(value)
}

/// Goes past a fence that opens before the value.
fn open_fence(cursor: &mut Cursor<'_>) -> Result<(), Refusal> {
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
    cursor.repaired(Repair::CodeFence);
    cursor.skip()
}

fn first(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    let rest = cursor.rest();
    match cursor.peek() {
        Some(b'{' | b'[') => return structure::value(cursor),
        Some(quote @ (b'"' | b'\'')) => {
            return if is_key(cursor, quote) {
                structure::unopened(cursor)
            } else {
                string::value(cursor, Open(&[])).map(Value::String)
            };
        }
        _ => {}
    }
    let word = rest.get(..rest.bytes().take_while(u8::is_ascii_alphabetic).count()).unwrap_or_default();
    if let Some(value) = python(word).filter(|_| !rest.contains(['{', '['])) {
        cursor.repaired(Repair::PythonLiteral);
        cursor.advance(word.len());
        return Ok(value);
    }
    let Some(start) = rest.find(['{', '[']) else { return cursor.refuse(Reason::NoValue) };
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
fn is_key(cursor: &mut Cursor<'_>, quote: u8) -> bool {
    let inside = cursor.bytes().get(cursor.at.saturating_add(1)..).unwrap_or_default();
    let Some(length) = inside.iter().position(|byte| *byte == quote) else { return false };
    let next = cursor.after_blanks(cursor.at.saturating_add(length).saturating_add(2));
    cursor.byte(next) == Some(b':')
}

/// As [`prose`], of text before the value: two names with colons may be members of an object without its brace.
fn prose_before(cursor: &mut Cursor<'_>, text: &str) -> Result<(), Refusal> {
    let named = |part: &&str| {
        let part = part.trim_start();
        let name = bare::name(part);
        name > 0 && part.get(name..).is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    cursor.work(text.len());
    if text.split([',', '\n']).filter(named).count() > 1 {
        return cursor.refuse(Reason::UnclearSurroundings);
    }
    prose(cursor, text)
}

/// Refuses text beside the value that may be part of it.
fn prose(cursor: &mut Cursor<'_>, text: &str) -> Result<(), Refusal> {
    cursor.work(text.len());
    let looks_like_members = text.contains(['}', ']'])
        || ["\":", "\",", "':", "',", "\" :", "' :"].iter().any(|sign| text.contains(sign))
        || text.trim_end().ends_with(',');
    if looks_like_members {
        return cursor.refuse(Reason::UnclearSurroundings);
    }
    // Blanks that JSON does not know are text, too.
    if !text.trim_ascii().is_empty() {
        cursor.repaired(Repair::TextAround);
    }
    Ok(())
}

/// Looks at what follows the value.
fn finish(cursor: &mut Cursor<'_>, value: &Value) -> Result<(), Refusal> {
    loop {
        trailing(cursor)?;
        let rest = cursor.rest();
        match rest.bytes().next() {
            None => return Ok(()),
            Some(b',' | b':' | b'"' | b'\'') => return cursor.refuse(Reason::UnclearSurroundings),
            Some(_) => {}
        }
        let Some(start) = rest.find(['{', '[']) else { return prose(cursor, rest) };
        prose(cursor, rest.get(..start).unwrap_or_default())?;
        cursor.advance(start);
        let at = cursor.at;
        if structure::value(cursor).ok().as_ref() != Some(value) {
            return Err(Refusal { reason: Reason::TwoValues, at });
        }
        cursor.repaired(Repair::RepeatedValue);
    }
}

/// Goes past brackets too many, a last comma, and the end of a fence.
fn trailing(cursor: &mut Cursor<'_>) -> Result<(), Refusal> {
    match cursor.skip() {
        // After the value, a comment may be cut off.
        Err(refusal) if refusal.reason == Reason::OpenComment => {
            cursor.repaired(Repair::Comment);
            cursor.advance(cursor.rest().len());
            return Ok(());
        }
        skipped => skipped?,
    }
    while matches!(cursor.peek(), Some(b'}' | b']')) {
        if cursor.must_close {
            return cursor.refuse(Reason::MismatchedBrackets);
        }
        cursor.repaired(Repair::ExtraBracket);
        cursor.advance(1);
        cursor.skip()?;
    }
    if cursor.peek() == Some(b',') {
        let (at, repairs) = (cursor.at, cursor.repairs);
        cursor.advance(1);
        cursor.skip()?;
        if cursor.at_end() || cursor.rest().starts_with(FENCE) {
            cursor.repaired(Repair::TrailingComma);
        } else {
            (cursor.at, cursor.repairs) = (at, repairs);
            return cursor.refuse(Reason::UnclearSurroundings);
        }
    }
    if cursor.take(FENCE) {
        cursor.repaired(Repair::CodeFence);
        cursor.skip()?;
    }
    Ok(())
}
