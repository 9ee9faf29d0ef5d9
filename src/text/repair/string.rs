//! Strings: their end, their escapes, and the quotes inside them.
//!
//! A quote ends a string only where something follows that may follow a string. Other quotes belong to the text, if
//! they come in pairs that look like pairs; else it is not clear what the model meant.

use super::cursor::{ReadingChoice, TextCursor};
use super::open_structure::OpenStructure;
use super::quote::{
    EndQuote, before_a_key, colon, colon_is_missing, comma_is_missing, ends_here, key_follows,
    unopened_follows,
};
use super::{RefusalReason, RepairKind, RepairRefusal, RepairSet, words};

/// What may stand before the first quote of a pair inside a text.
const OPENING: &str = "([{<=:/-*_~|>«¿¡";

/// A string while it is read.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was met, in any order")]
struct StringReading {
    text: String,
    /// Quotes that belong to the text.
    inner: usize,
    doubled: bool,
    /// A backslash that begins no escape was kept.
    kept: bool,
    /// An escape by two hexadecimal digits was read.
    hex: bool,
    /// An escape was read that a path or a pattern may hold by chance: `\n`, `\t`, `\u0041`.
    letters: bool,
}

/// Reads a string inside what is `open`.
pub(super) fn value(cursor: &mut TextCursor<'_>, open: OpenStructure<'_>) -> Result<String, RepairRefusal> {
    let quote = EndQuote::open(cursor);
    let (start, before) = (cursor.at, cursor.repairs);
    let mut reading = StringReading::default();
    if quote.stands_at(cursor, cursor.at) {
        let after = cursor.at.saturating_add(quote.len());
        if !ends_here(cursor, after, open) && !comma_is_missing(cursor, after, open) {
            reading.doubled = true;
            cursor.advance(quote.len());
        }
    }
    loop {
        if let Err(refusal) = reading.run(cursor, quote) {
            return if cursor.at_end() && reading.is_plain() {
                reading.close_at_end(cursor, open)
            } else {
                Err(refusal)
            };
        }
        let after = cursor.at.saturating_add(quote.len());
        // A missing comma is believed only while the quotes are in order: two repairs at one place are a guess.
        if ends_here(cursor, after, open) || reading.is_plain() && comma_is_missing(cursor, after, open) {
            cursor.advance(quote.len());
            return reading.finish(cursor);
        }
        if reading.is_plain() && unopened_follows(cursor, after, open) {
            cursor.advance(quote.len());
            return reading.finish(cursor);
        }
        if reading.is_plain()
            && key_follows(cursor, cursor.at)
            && let Some(punctuation) = before_a_key(cursor, open, start)
        {
            return reading.unclosed(cursor, punctuation, start, before);
        }
        let twice = quote.stands_at(cursor, after) && !reading.text.ends_with(is_measure);
        let past = after.saturating_add(quote.len());
        if twice && reading.inner.is_multiple_of(2) && ends_here(cursor, past, open) {
            if open.inside() == Some(b'[') && reading.text.contains(',') {
                // The first of the two quotes may begin the next text.
                return cursor.refuse(RefusalReason::UnclearQuotes);
            }
            return reading.finish_twice(cursor, quote, past);
        }
        reading.inner_quote(cursor, quote)?;
    }
}

/// Quotes of all kinds.
const QUOTES: [char; 7] = ['"', '\'', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{201e}'];

/// Whether a text has what looks like the next member: `, "key":`, in quotes of any kind. The string may have ended before
/// it, with another quote than the one it began with.
fn has_member(text: &str) -> bool {
    text.match_indices(',').any(|(at, comma)| {
        let next = text.get(at..).and_then(|rest| rest.strip_prefix(comma)).unwrap_or_default();
        let inside = next.trim_start().strip_prefix(QUOTES);
        let after = inside.and_then(|inside| inside.split_once(QUOTES));
        after.is_some_and(|(_, after)| after.trim_start().starts_with(':'))
    })
}

/// After a number, a quote may stand for inches or seconds: `5'10""`.
const fn is_measure(char: char) -> bool {
    char.is_ascii_digit()
}

/// Reads a key in quotes.
pub(super) fn key(cursor: &mut TextCursor<'_>) -> Result<String, RepairRefusal> {
    let (start, before) = (cursor.at, cursor.repairs);
    let quote = EndQuote::open(cursor);
    let mut reading = StringReading::default();
    reading.run(cursor, quote)?;
    cursor.advance(quote.len());
    if reading.text.is_empty() && !colon(cursor, cursor.at) {
        reading.doubled = true;
        reading.run(cursor, quote)?;
        cursor.advance(quote.len());
    }
    let after = cursor.at.saturating_add(quote.len());
    if quote.stands_at(cursor, cursor.at) && colon(cursor, after) {
        reading.doubled = true;
        cursor.advance(quote.len());
    }
    if colon(cursor, cursor.at) || reading.is_plain() && colon_is_missing(cursor, cursor.at) {
        return reading.finish(cursor);
    }
    unclosed_key(cursor, start, before)
}

/// A key whose last quote is missing: a name and a colon.
fn unclosed_key(
    cursor: &mut TextCursor<'_>,
    start: usize,
    before: RepairSet,
) -> Result<String, RepairRefusal> {
    cursor.at = start.saturating_add(1);
    cursor.repairs = before;
    let key = cursor.rest().get(..words::name(cursor.rest())).unwrap_or_default();
    if key.is_empty() || !colon(cursor, cursor.at.saturating_add(key.len())) {
        return cursor.refuse(RefusalReason::NotAMember);
    }
    cursor.advance(key.len());
    cursor.repaired(RepairKind::MissingQuote);
    Ok(key.to_owned())
}

impl StringReading {
    /// Reads up to the next quote, and leaves the cursor there.
    fn run(&mut self, cursor: &mut TextCursor<'_>, quote: EndQuote) -> Result<(), RepairRefusal> {
        let first = quote.first();
        loop {
            let rest = cursor.rest();
            let special = |byte: &u8| *byte == first || *byte == b'\\' || *byte < 0x20;
            let length = rest.as_bytes().iter().position(special).unwrap_or(rest.len());
            self.text.push_str(rest.get(..length).unwrap_or_default());
            cursor.advance(length);
            match cursor.peek() {
                None => return cursor.refuse(RefusalReason::CutInString),
                Some(b'\\') => self.escape(cursor, quote)?,
                Some(byte) if byte == first => {
                    if quote.stands_at(cursor, cursor.at) {
                        return Ok(());
                    }
                    // Another sign whose UTF-8 begins with the same byte.
                    let sign = cursor.rest().chars().next().unwrap_or_default();
                    self.text.push(sign);
                    cursor.advance(sign.len_utf8());
                }
                Some(control) => {
                    cursor.repaired(RepairKind::ControlCharacter);
                    self.text.push(char::from(control));
                    cursor.advance(1);
                }
            }
        }
    }

    fn escape(&mut self, cursor: &mut TextCursor<'_>, quote: EndQuote) -> Result<(), RepairRefusal> {
        let Some(next) = cursor.byte(cursor.at.saturating_add(1)) else {
            return cursor.refuse(RefusalReason::CutInString);
        };
        let plain = match next {
            b'"' | b'\\' | b'/' => Some(next),
            b'\'' => {
                if quote.first() != next {
                    cursor.repaired(RepairKind::BadEscape);
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
        if let Some(sign) = typographic(cursor.rest_from(cursor.at.saturating_add(1))) {
            cursor.repaired(RepairKind::BadEscape);
            self.text.push(sign);
            cursor.advance(sign.len_utf8().saturating_add(1));
            return Ok(());
        }
        // RFC 8259, section 7, and the line end that other languages allow behind a backslash.
        let letter = match next {
            b'b' => Some('\u{8}'),
            b'f' => Some('\u{c}'),
            b'n' => Some('\n'),
            b'r' => Some('\r'),
            b't' => Some('\t'),
            // A line end behind a backslash continues the line in JavaScript, Python and shells.
            b'\n' => {
                cursor.repaired(RepairKind::BadEscape);
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
    fn code(&mut self, cursor: &mut TextCursor<'_>, next: u8) -> Result<(), RepairRefusal> {
        let digits = cursor.at.saturating_add(2);
        let code = match next {
            b'u' => hex(cursor, digits, 4),
            b'x' => hex(cursor, digits, 2),
            _ => None,
        };
        // A backslash before any other letter is most often that of a path or a pattern, and stays.
        let Some(code) = code else {
            cursor.repaired(RepairKind::BadEscape);
            self.kept = true;
            self.text.push('\\');
            cursor.advance(1);
            return Ok(());
        };
        self.letters = true;
        if next == b'x' {
            // After a drive it is a folder: `C:\x64`.
            if self.text.ends_with(':') {
                return cursor.refuse(RefusalReason::UnclearEscapes);
            }
            // JSON has no such escape; models know it from Python and JavaScript.
            self.hex = true;
            cursor.repaired(RepairKind::BadEscape);
        }
        let length = if next == b'x' { 4 } else { 6 };
        if let Some(char) = char::from_u32(code) {
            self.text.push(char);
            cursor.advance(length);
            return Ok(());
        }
        // RFC 8259, section 7: a character beyond U+FFFF is a pair of escapes, and half of one is none.
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
            _ => cursor.refuse(RefusalReason::LoneSurrogate),
        }
    }

    /// Takes a quote that does not end the string, if it can be one of a pair: the first has a blank or an opening sign
    /// before it and a word after it, the second a word or a closing sign before it and none after it.
    fn inner_quote(&mut self, cursor: &mut TextCursor<'_>, quote: EndQuote) -> Result<(), RepairRefusal> {
        let begins = self.inner.is_multiple_of(2);
        let after = cursor.rest_from(cursor.at.saturating_add(quote.len())).chars().next().unwrap_or(' ');
        let before = self.text.chars().next_back().unwrap_or('(');
        let one_of_a_pair = if begins {
            (before.is_whitespace() || OPENING.contains(before))
                && !(after.is_whitespace() || "+,:;)]}".contains(after))
        } else {
            !before.is_whitespace() && !after.is_alphanumeric()
        };
        // A colon behind the quote makes it look like the end of a key.
        if !one_of_a_pair || self.doubled || colon(cursor, cursor.at.saturating_add(quote.len())) {
            return cursor.refuse(RefusalReason::UnclearQuotes);
        }
        self.inner = self.inner.saturating_add(1);
        self.text.push_str(quote.as_str());
        cursor.advance(quote.len());
        cursor.check_work()
    }

    /// Whether nothing unusual about quotes was seen.
    const fn is_plain(&self) -> bool {
        self.inner == 0 && !self.doubled
    }

    /// Closes a string at the end of the text, before the brackets that close what is open.
    fn close_at_end(
        mut self,
        cursor: &mut TextCursor<'_>,
        open: OpenStructure<'_>,
    ) -> Result<String, RepairRefusal> {
        let text = self.text.trim_end();
        let text = text.strip_suffix("```").map_or(text, str::trim_end);
        let is_close = |char: char| matches!(char, '}' | ']') || char.is_whitespace();
        let kept = text.trim_end_matches(is_close);
        let brackets =
            text.get(kept.len()..).unwrap_or_default().bytes().filter(|byte| !byte.is_ascii_whitespace());
        let blank_end = self.text.len() > text.len() && kept.len() == text.len();
        // After an escaped quote, the backslash may be the last sign of a path; another quote may be the one that ends it.
        let quoted = kept.ends_with(QUOTES);
        let unclear = quoted || blank_end || !balanced(kept) || has_member(kept);
        if unclear || self.kept || kept.is_empty() || !open.closed_by(brackets) {
            return cursor.refuse(RefusalReason::CutInString);
        }
        let kept = kept.len();
        self.text.truncate(kept);
        cursor.repaired(RepairKind::MissingQuote);
        cursor.repaired(RepairKind::ClosedAtEnd);
        self.finish(cursor)
    }

    /// Ends a string at two quotes. If the first quote is single and a member follows, the text may end in a quote.
    fn finish_twice(
        mut self,
        cursor: &mut TextCursor<'_>,
        quote: EndQuote,
        past: usize,
    ) -> Result<String, RepairRefusal> {
        let next = cursor.after_blanks(past);
        let ends_in_a_quote = !self.doubled
            && cursor.byte(next) == Some(b',')
            && cursor.choose(RefusalReason::TwoReadings, cursor.at)? == ReadingChoice::Second;
        if ends_in_a_quote {
            self.text.push_str(quote.as_str());
        }
        self.doubled = true;
        cursor.at = past;
        cursor.work(quote.len());
        self.finish(cursor)
    }

    /// Ends a string whose last quote is missing, before the punctuation that is followed by a key.
    fn unclosed(
        mut self,
        cursor: &mut TextCursor<'_>,
        punctuation: usize,
        start: usize,
        before: RepairSet,
    ) -> Result<String, RepairRefusal> {
        let kept = self.text.len().saturating_sub(punctuation);
        let text = self.text.get(..kept).unwrap_or_default();
        // After an escaped quote, the backslash may be the last sign of a path; another kind of quote may be meant as the
        // one that is missing.
        if text.ends_with(QUOTES) || !balanced(text) {
            return cursor.refuse(RefusalReason::UnclearQuotes);
        }
        self.text.truncate(kept);
        cursor.at = cursor.at.saturating_sub(punctuation);
        // Line ends behind the text are no part of it.
        let control = cursor.between(start, cursor.at).bytes().any(|byte| byte < 0x20);
        if !control && !before.contains(RepairKind::ControlCharacter) {
            cursor.repairs.remove(RepairKind::ControlCharacter);
        }
        cursor.repaired(RepairKind::MissingQuote);
        cursor.must_close = true;
        cursor.unclosed = true;
        self.finish(cursor)
    }

    fn finish(self, cursor: &mut TextCursor<'_>) -> Result<String, RepairRefusal> {
        // One quote too many inside: it is not clear which of them ends the string.
        if !self.inner.is_multiple_of(2) || (self.inner > 0 && self.doubled) {
            return cursor.refuse(RefusalReason::UnclearQuotes);
        }
        // JSON has no escape by two digits; next to a backslash that belongs to the text it is a part of a path.
        let path = self.kept || (self.hex && self.text.contains('\\'));
        if path && self.letters {
            return cursor.refuse(RefusalReason::UnclearEscapes);
        }
        if self.inner > 0 {
            cursor.repaired(RepairKind::UnescapedQuote);
        }
        if self.doubled {
            cursor.repaired(RepairKind::DoubledQuote);
        }
        let quotes_inside = [RepairKind::UnescapedQuote, RepairKind::DoubledQuote];
        if cursor.unclosed && quotes_inside.iter().any(|repair| cursor.repairs.contains(*repair)) {
            return cursor.refuse(RefusalReason::UnclearQuotes);
        }
        Ok(self.text)
    }
}

/// The typographic quotation mark that a text begins with.
fn typographic(text: &str) -> Option<char> {
    text.chars().next().filter(|sign| "“”„‘’‚".contains(*sign))
}

/// Whether a text closes all the brackets that it opens.
fn balanced(text: &str) -> bool {
    let count = |sign: char| text.matches(sign).count();
    count('{') == count('}') && count('[') == count(']')
}

fn hex(cursor: &TextCursor<'_>, at: usize, digits: usize) -> Option<u32> {
    let digits = cursor.bytes().get(at..at.saturating_add(digits))?;
    digits.iter().try_fold(0_u32, |code, digit| {
        Some(code.saturating_mul(16).saturating_add(char::from(*digit).to_digit(16)?))
    })
}
