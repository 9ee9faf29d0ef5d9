//! What stands without quotes: numbers, literals, keys, and strings that lack a quote.

use serde_json::{Number, Value};

use super::cursor::Cursor;
use super::{Reason, Refusal, Repair, number};

/// Reads a value that begins with none of the signs that begin one.
pub(super) fn value(cursor: &mut Cursor<'_>, inside: Option<u8>) -> Result<Value, Refusal> {
    let (start, rest) = (cursor.at, cursor.rest());
    let length = rest.bytes().take_while(|byte| !is_border(*byte)).count();
    cursor.advance(length);
    let word = rest.get(..length).unwrap_or_default().trim_ascii_end();
    if cursor.peek() == Some(b'"') && inside.is_some() && word.len() == length {
        return unopened(cursor, word, inside);
    }
    // Neither a number nor a literal holds the beginning of a comment.
    let comment = word.find(['#', '/']).unwrap_or(word.len());
    let word = word.get(..comment).unwrap_or_default().trim_ascii_end();
    let cut = cursor.at_end() && word.len() == length;
    cursor.at = start.saturating_add(word.len());
    if word.is_empty() {
        return cursor.refuse(Reason::MissingValue);
    }
    let value = match word {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "null" => Some(Value::Null),
        "True" | "False" | "None" => {
            cursor.repaired(Repair::PythonLiteral);
            Some(match word {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                _ => Value::Null,
            })
        }
        _ => None,
    };
    if let Some(value) = value {
        return Ok(value);
    }
    if cut {
        return cursor.refuse(Reason::CutInScalar);
    }
    match word.parse::<Number>() {
        Ok(number) if number::is_kept(word, &number) => Ok(Value::Number(number)),
        Ok(_) => Err(Refusal { reason: Reason::NumberChanges, at: start }),
        Err(_) => Err(Refusal { reason: Reason::NotAValue, at: start }),
    }
}

/// A string whose first quote is missing; the cursor stands at its last.
fn unopened(cursor: &mut Cursor<'_>, word: &str, inside: Option<u8>) -> Result<Value, Refusal> {
    let after = cursor.at.saturating_add(1);
    if word.is_empty() || !super::string::ends_here(cursor, after, inside) {
        return cursor.refuse(Reason::NotAValue);
    }
    if word.contains('\\') {
        return cursor.refuse(Reason::UnclearEscapes);
    }
    cursor.repaired(Repair::MissingQuote);
    cursor.advance(1);
    Ok(Value::String(word.to_owned()))
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

/// The length of the name that `text` begins with.
pub(super) fn name(text: &str) -> usize {
    let first = text.bytes().next();
    if !first.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$')) {
        return 0;
    }
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-')).count()
}

const fn is_border(byte: u8) -> bool {
    matches!(byte, b',' | b'{' | b'}' | b'[' | b']' | b'"' | b'\'' | b':' | b'\n' | b'\r' | b'`')
}
