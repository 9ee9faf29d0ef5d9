//! Strings: their end, their escapes, and the quotes inside them.
//!
//! A quote ends a string only where something follows that may follow a string. Other quotes belong to the text, if
//! they come in pairs that look like pairs; else it is not clear what the model meant.

use super::cursor::Cursor;
use super::{Reason, Refusal, Repair, Repairs, bare};

/// A string while it is read.
#[derive(Default)]
struct Reading {
    text: String,
    /// Quotes that belong to the text.
    inner: usize,
    doubled: bool,
    /// A backslash that begins no escape was kept.
    kept: bool,
    /// An escape was read that a path or a pattern may hold by chance: `\n`, `\t`, `\u0041`.
    letters: bool,
}

/// Reads a string; `inside` is the bracket of what it stands in.
pub(super) fn value(cursor: &mut Cursor<'_>, inside: Option<u8>) -> Result<String, Refusal> {
    let quote = open(cursor);
    let mut reading = Reading::default();
    if cursor.peek() == Some(quote) && !ends_here(cursor, cursor.at.saturating_add(1), inside) {
        reading.doubled = true;
        cursor.advance(1);
    }
    loop {
        reading.run(cursor, quote)?;
        let after = cursor.at.saturating_add(1);
        if ends_here(cursor, after, inside) {
            cursor.advance(1);
            return reading.finish(cursor);
        }
        let twice = cursor.byte(after) == Some(quote);
        if twice && reading.inner.is_multiple_of(2) && ends_here(cursor, after.saturating_add(1), inside) {
            reading.doubled = true;
            cursor.advance(2);
            return reading.finish(cursor);
        }
        reading.inner_quote(cursor, quote)?;
    }
}

/// Reads a key in quotes.
pub(super) fn key(cursor: &mut Cursor<'_>) -> Result<String, Refusal> {
    let (start, before) = (cursor.at, cursor.repairs);
    let quote = open(cursor);
    let mut reading = Reading::default();
    reading.run(cursor, quote)?;
    cursor.advance(1);
    if reading.text.is_empty() && !colon(cursor, cursor.at) {
        reading.doubled = true;
        reading.run(cursor, quote)?;
        cursor.advance(1);
    }
    let after = cursor.at.saturating_add(1);
    if cursor.peek() == Some(quote) && colon(cursor, after) {
        reading.doubled = true;
        cursor.advance(1);
    }
    if colon(cursor, cursor.at) {
        return reading.finish(cursor);
    }
    unclosed_key(cursor, start, before)
}

/// A key whose last quote is missing: a name and a colon.
fn unclosed_key(cursor: &mut Cursor<'_>, start: usize, before: Repairs) -> Result<String, Refusal> {
    cursor.at = start.saturating_add(1);
    cursor.repairs = before;
    let key = cursor.rest().get(..bare::name(cursor.rest())).unwrap_or_default();
    if key.is_empty() || !colon(cursor, cursor.at.saturating_add(key.len())) {
        return cursor.refuse(Reason::NotAMember);
    }
    cursor.advance(key.len());
    cursor.repaired(Repair::MissingQuote);
    Ok(key.to_owned())
}

fn open(cursor: &mut Cursor<'_>) -> u8 {
    let quote = cursor.peek().unwrap_or(b'"');
    if quote == b'\'' {
        cursor.repaired(Repair::SingleQuotes);
    }
    cursor.advance(1);
    quote
}

fn colon(cursor: &mut Cursor<'_>, at: usize) -> bool {
    let next = cursor.after_blanks(at);
    cursor.byte(next) == Some(b':')
}

/// Whether a string that ends before `after` is followed by what may follow one.
pub(super) fn ends_here(cursor: &mut Cursor<'_>, after: usize, inside: Option<u8>) -> bool {
    let next = cursor.after_blanks(after);
    let rest = cursor.bytes().get(next..).unwrap_or_default();
    match rest {
        [] | [b'/', b'/' | b'*', ..] | [b'#', ..] | [b'`', b'`', b'`', ..] => true,
        [b',', ..] => inside.is_some_and(|inside| member_follows(cursor, next.saturating_add(1), inside)),
        [b'}', ..] if inside == Some(b'{') => true,
        [b']', ..] if inside == Some(b'[') => true,
        [b'}' | b']', ..] => inside.is_some() && only_brackets_follow(cursor, rest),
        // A comma is missing at the end of a line.
        [b'"', ..] => inside.is_some() && cursor.between(after, next).contains('\n'),
        _ => false,
    }
}

/// Whether what follows a comma may be a member of an object or an array.
fn member_follows(cursor: &mut Cursor<'_>, at: usize, inside: u8) -> bool {
    let next = cursor.after_blanks(at);
    let rest = cursor.between(next, cursor.bytes().len());
    let Some(first) = rest.bytes().next() else { return true };
    let either = matches!(first, b'"' | b'\'' | b'/' | b'#' | b'.' | b'`') || rest.starts_with('…');
    if inside == b'[' {
        let literal = ["true", "false", "null", "True", "False", "None"];
        return either
            || matches!(first, b']' | b'{' | b'[' | b'-' | b'0'..=b'9')
            || literal.iter().any(|literal| rest.starts_with(literal));
    }
    if either || matches!(first, b'}' | b',') {
        return true;
    }
    let name = bare::name(rest);
    cursor.work(name);
    let end = next.saturating_add(name);
    let end = if cursor.byte(end) == Some(b'"') { end.saturating_add(1) } else { end };
    name > 0 && colon(cursor, end)
}

fn only_brackets_follow(cursor: &mut Cursor<'_>, rest: &[u8]) -> bool {
    let run =
        rest.iter().take_while(|byte| matches!(byte, b'}' | b']') || byte.is_ascii_whitespace()).count();
    cursor.work(run);
    matches!(rest.get(run), None | Some(b'`'))
}

impl Reading {
    /// Reads up to the next quote, where the cursor then stands.
    fn run(&mut self, cursor: &mut Cursor<'_>, quote: u8) -> Result<(), Refusal> {
        loop {
            let rest = cursor.rest();
            let special = |byte: &u8| *byte == quote || *byte == b'\\' || *byte < 0x20;
            let length = rest.as_bytes().iter().position(special).unwrap_or(rest.len());
            self.text.push_str(rest.get(..length).unwrap_or_default());
            cursor.advance(length);
            match cursor.peek() {
                None => return cursor.refuse(Reason::CutInString),
                Some(b'\\') => self.escape(cursor, quote)?,
                Some(byte) if byte == quote => return Ok(()),
                Some(control) => {
                    cursor.repaired(Repair::ControlCharacter);
                    self.text.push(char::from(control));
                    cursor.advance(1);
                }
            }
        }
    }

    fn escape(&mut self, cursor: &mut Cursor<'_>, quote: u8) -> Result<(), Refusal> {
        let Some(next) = cursor.byte(cursor.at.saturating_add(1)) else {
            return cursor.refuse(Reason::CutInString);
        };
        let plain = match next {
            b'"' | b'\\' | b'/' => Some(next),
            b'\'' => {
                if quote != next {
                    cursor.repaired(Repair::BadEscape);
                }
                Some(next)
            }
            _ => None,
        };
        if let Some(byte) = plain {
            self.text.push(char::from(byte));
            cursor.advance(2);
            return Ok(());
        }
        let letter = match next {
            b'b' => Some('\u{8}'),
            b'f' => Some('\u{c}'),
            b'n' => Some('\n'),
            b'r' => Some('\r'),
            b't' => Some('\t'),
            b'\n' => {
                cursor.repaired(Repair::BadEscape);
                Some('\n')
            }
            _ => None,
        };
        if let Some(letter) = letter {
            self.letters = true;
            self.text.push(letter);
            cursor.advance(2);
            return Ok(());
        }
        self.code(cursor, next)
    }

    /// Reads an escape by number, or keeps the backslash.
    fn code(&mut self, cursor: &mut Cursor<'_>, next: u8) -> Result<(), Refusal> {
        let digits = cursor.at.saturating_add(2);
        let code = match next {
            b'u' => hex(cursor, digits, 4),
            b'x' => hex(cursor, digits, 2),
            _ => None,
        };
        let Some(code) = code else {
            cursor.repaired(Repair::BadEscape);
            self.kept = true;
            self.text.push('\\');
            cursor.advance(1);
            return Ok(());
        };
        self.letters = true;
        if next == b'x' {
            cursor.repaired(Repair::BadEscape);
        }
        let length = if next == b'x' { 4 } else { 6 };
        if let Some(char) = char::from_u32(code) {
            self.text.push(char);
            cursor.advance(length);
            return Ok(());
        }
        // One half of a pair: the other has to follow.
        let second = digits.saturating_add(4);
        let follows =
            cursor.byte(second) == Some(b'\\') && cursor.byte(second.saturating_add(1)) == Some(b'u');
        let low = if follows { hex(cursor, second.saturating_add(2), 4) } else { None };
        let units =
            [u16::try_from(code).unwrap_or_default(), low.and_then(|low| low.try_into().ok()).unwrap_or(0)];
        match char::decode_utf16(units).next() {
            Some(Ok(char)) => {
                self.text.push(char);
                cursor.advance(12);
                Ok(())
            }
            _ => cursor.refuse(Reason::LoneSurrogate),
        }
    }

    /// Takes a quote that does not end the string.
    fn inner_quote(&mut self, cursor: &mut Cursor<'_>, quote: u8) -> Result<(), Refusal> {
        let begins = self.inner.is_multiple_of(2);
        let after = cursor.byte(cursor.at.saturating_add(1));
        let before = cursor.byte(cursor.at.saturating_sub(1));
        let blank = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_whitespace());
        // Two strings with something between them, or the end of a key, and no pair of quotes.
        let no_pair = if begins { blank(after) || after == Some(b'+') } else { blank(before) };
        if no_pair || self.doubled || colon(cursor, cursor.at.saturating_add(1)) {
            return cursor.refuse(Reason::UnclearQuotes);
        }
        self.inner = self.inner.saturating_add(1);
        self.text.push(char::from(quote));
        cursor.advance(1);
        cursor.check_work()
    }

    fn finish(self, cursor: &mut Cursor<'_>) -> Result<String, Refusal> {
        if !self.inner.is_multiple_of(2) || (self.inner > 0 && self.doubled) {
            return cursor.refuse(Reason::UnclearQuotes);
        }
        if self.kept && self.letters {
            return cursor.refuse(Reason::UnclearEscapes);
        }
        if self.inner > 0 {
            cursor.repaired(Repair::UnescapedQuote);
        }
        if self.doubled {
            cursor.repaired(Repair::DoubledQuote);
        }
        Ok(self.text)
    }
}

fn hex(cursor: &Cursor<'_>, at: usize, digits: usize) -> Option<u32> {
    let digits = cursor.bytes().get(at..at.saturating_add(digits))?;
    digits.iter().try_fold(0_u32, |code, digit| {
        Some(code.saturating_mul(16).saturating_add(char::from(*digit).to_digit(16)?))
    })
}
