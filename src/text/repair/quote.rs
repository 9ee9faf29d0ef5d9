//! The quotes a string may stand in, and what may follow the last of them.

use super::cursor::{BracketMisfit, TextCursor};
use super::open_structure::OpenStructure;
use super::{RepairKind, words};

/// The quote that ends a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EndQuote(&'static str);

impl EndQuote {
    /// The quote that ends a string which begins like `bytes`.
    pub(super) fn opened_by(bytes: &[u8]) -> Option<Self> {
        Some(Self(match bytes {
            [b'"', ..] => "\"",
            [b'\'', ..] => "'",
            // “English” and ”Swedish”, „German“, and the same with single quotes.
            [0xe2, 0x80, 0x9c | 0x9d, ..] => "\u{201d}",
            [0xe2, 0x80, 0x9e, ..] => "\u{201c}",
            [0xe2, 0x80, 0x98 | 0x99, ..] => "\u{2019}",
            _ => return None,
        }))
    }

    /// Goes past a quote that opens a string, and tells which one ends it.
    pub(super) fn open(cursor: &mut TextCursor<'_>) -> Self {
        let quote = Self::opened_by(cursor.rest().as_bytes()).unwrap_or(Self("\""));
        match quote.0 {
            "\"" => {}
            "'" => cursor.repaired(RepairKind::SingleQuotes),
            _ => cursor.repaired(RepairKind::SmartQuotes),
        }
        cursor.advance(quote.len());
        quote
    }

    pub(super) const fn as_str(self) -> &'static str {
        self.0
    }

    pub(super) const fn len(self) -> usize {
        self.0.len()
    }

    /// Its first byte.
    pub(super) fn first(self) -> u8 {
        self.0.bytes().next().unwrap_or(b'"')
    }

    pub(super) fn stands_at(self, cursor: &TextCursor<'_>, at: usize) -> bool {
        cursor.bytes().get(at..).is_some_and(|rest| rest.starts_with(self.0.as_bytes()))
    }
}

/// Whether a colon comes next from `at` on.
pub(super) fn colon(cursor: &mut TextCursor<'_>, at: usize) -> bool {
    let next = cursor.after_blanks(at);
    cursor.byte(next) == Some(b':')
}

/// Whether a string that ends before `after` is followed by what may follow one.
pub(super) fn ends_here(cursor: &mut TextCursor<'_>, after: usize, open: OpenStructure<'_>) -> bool {
    let next = cursor.after_blanks(after);
    let rest = cursor.bytes().get(next..).unwrap_or_default();
    match (rest, open.inside()) {
        ([] | [b'/', b'/' | b'*', ..] | [b'#', ..] | [b'`', b'`', b'`', ..], _)
        | ([b'}', ..], Some(b'{'))
        | ([b']', ..], Some(b'[')) => true,
        ([b',', ..], Some(inside)) => {
            let member = next.saturating_add(1);
            member_follows(cursor, member, inside) || lost_brace(cursor, member, open)
        }
        ([b'}' | b']', ..], Some(_)) => {
            only_brackets_follow(cursor, rest)
                || cursor.misfit != BracketMisfit::Refused && misfit_follows(cursor, next, open)
        }
        // A member on the next line: only its comma is missing.
        ([b'"', ..], Some(_)) => cursor.between(after, next).contains('\n'),
        _ => false,
    }
}

/// Whether an object begins at `at` where a key is due in a list of objects: the brace of the last one is missing.
pub(super) fn lost_brace(cursor: &mut TextCursor<'_>, at: usize, open: OpenStructure<'_>) -> bool {
    let next = cursor.after_blanks(at);
    cursor.misfit == BracketMisfit::Missing && cursor.byte(next) == Some(b'{') && open.is_object_in(b'[')
}

/// Whether a bracket that does not fit is at `at`, and what may follow one.
fn misfit_follows(cursor: &mut TextCursor<'_>, at: usize, open: OpenStructure<'_>) -> bool {
    let next = cursor.after_blanks(at.saturating_add(1));
    match cursor.byte(next) {
        Some(b',') => open.0.len() > 1,
        Some(byte) => matches!(byte, b'}' | b']'),
        None => true,
    }
}

/// Whether what follows a comma may be a member of an object or an array.
fn member_follows(cursor: &mut TextCursor<'_>, at: usize, inside: u8) -> bool {
    let next = cursor.after_blanks(at);
    let rest = cursor.between(next, cursor.bytes().len());
    let Some(first) = rest.bytes().next() else { return true };
    // All that may begin a member, the slips that are repaired later included.
    let either = matches!(first, b'"' | b'\'' | b'/' | b'#' | b'.' | b'`' | b',')
        || rest.starts_with('…')
        || EndQuote::opened_by(rest.as_bytes()).is_some();
    if inside == b'[' {
        return either
            || matches!(first, b']' | b'{' | b'[' | b'-' | b'0'..=b'9')
            || word_follows(cursor, next, rest);
    }
    if either || first == b'}' {
        return true;
    }
    let name = words::name(rest);
    cursor.work(name);
    let end = next.saturating_add(name);
    // The first quote of the key may be missing.
    let end = if cursor.byte(end) == Some(b'"') { end.saturating_add(1) } else { end };
    name > 0 && colon(cursor, end)
}

/// Whether a word without quotes is a member of an array.
fn word_follows(cursor: &mut TextCursor<'_>, at: usize, rest: &str) -> bool {
    let length = rest.bytes().take_while(|byte| !words::is_border(*byte)).count();
    cursor.work(length);
    let border = cursor.byte(at.saturating_add(length));
    let word = rest.get(..length).unwrap_or_default().trim_ascii();
    words::begins_with_literal(word) || matches!(border, Some(b',' | b']' | b'\n')) && words::is_text(word)
}

fn only_brackets_follow(cursor: &mut TextCursor<'_>, rest: &[u8]) -> bool {
    let run =
        rest.iter().take_while(|byte| matches!(byte, b'}' | b']') || byte.is_ascii_whitespace()).count();
    cursor.work(run);
    matches!(rest.get(run), None | Some(b'`'))
}

/// Whether a comma is missing after a string that ends before `after`: a member follows that is whole.
pub(super) fn comma_is_missing(cursor: &mut TextCursor<'_>, after: usize, open: OpenStructure<'_>) -> bool {
    let next = cursor.after_blanks(after);
    match (cursor.byte(next), open.inside()) {
        (Some(b'"' | b'\''), Some(b'{')) => key_follows(cursor, next),
        // Without a blank between them, two quotes may be one that was written twice.
        (Some(b'"' | b'\''), Some(_)) => next > after && whole_string_follows(cursor, next, b']'),
        // On the same line the name may be a part of the text.
        (Some(_), Some(b'{')) => cursor.between(after, next).contains('\n') && name_follows(cursor, next),
        (Some(_), Some(_)) => next > after && whole_word_follows(cursor, next, b']'),
        _ => false,
    }
}

/// Whether a colon is missing after a key that ends before `after`: a value follows, and then the next member or the
/// end.
pub(super) fn colon_is_missing(cursor: &mut TextCursor<'_>, after: usize) -> bool {
    let next = cursor.after_blanks(after);
    match cursor.rest_from(next).as_bytes() {
        bytes @ [_, ..] if EndQuote::opened_by(bytes).is_some() => whole_string_follows(cursor, next, b'}'),
        _ => whole_word_follows(cursor, next, b'}'),
    }
}

/// Whether a key without quotes and its colon come next.
pub(super) fn name_follows(cursor: &mut TextCursor<'_>, at: usize) -> bool {
    let name = words::name(cursor.rest_from(at));
    cursor.work(name);
    name > 0 && colon(cursor, at.saturating_add(name))
}

/// Whether a string comes next that looks like a key, and a colon after it.
pub(super) fn key_follows(cursor: &mut TextCursor<'_>, at: usize) -> bool {
    let Some(end) = closing(cursor, at) else { return false };
    let key = cursor.between(at.saturating_add(1), end.saturating_sub(1));
    // With such signs in it, it is more often the rest of a text.
    let like_a_key = !key.is_empty() && !key.contains([',', '{', '}', '[', ']', ':', '\n']);
    like_a_key && colon(cursor, end)
}

/// Whether a string comes next, and after it a comma, `close`, or another string.
fn whole_string_follows(cursor: &mut TextCursor<'_>, at: usize, close: u8) -> bool {
    let Some(end) = closing(cursor, at) else { return false };
    let next = cursor.after_blanks(end);
    match cursor.byte(next) {
        Some(b'"') => close == b']' && next > end,
        Some(b'\'' | b':') | None => false,
        Some(byte) => byte == b',' || byte == close || close == b']' && next > end && byte.is_ascii_digit(),
    }
}

/// How long the punctuation is between a text without its last quote, which began at `start`, and the key at the
/// cursor: a comma, or the end of this object and the beginning of the next.
pub(super) fn before_a_key(
    cursor: &mut TextCursor<'_>,
    open: OpenStructure<'_>,
    start: usize,
) -> Option<usize> {
    let text = cursor.between(start, cursor.at);
    let kept = text.trim_end_matches(|char: char| char.is_ascii_whitespace() || ",{}[]".contains(char));
    cursor.work(text.len().saturating_sub(kept.len()).saturating_add(open.0.len() / 8));
    let punctuation = text.get(kept.len()..).unwrap_or_default();
    // A blank may be the end of the text, which must not be lost.
    if punctuation.starts_with([' ', '\t']) {
        return None;
    }
    let mut closing = open.closing();
    let mut due = false;
    for byte in punctuation.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        // Punctuation that does not fit what is open belongs to the text.
        let fits = match byte {
            b',' => !due,
            b'{' | b'[' => due,
            _ => !due && closing.pop() == Some(byte),
        };
        if !fits || closing.is_empty() {
            return None;
        }
        due = matches!(byte, b',' | b'{' | b'[');
        match byte {
            b'{' => closing.push(b'}'),
            b'[' => closing.push(b']'),
            _ => {}
        }
    }
    (due && !kept.is_empty() && closing.last() == Some(&b'}')).then_some(punctuation.len())
}

/// Whether a string that lacks its first quote comes after the comma that follows `after`: the next of a list.
pub(super) fn unopened_follows(cursor: &mut TextCursor<'_>, after: usize, open: OpenStructure<'_>) -> bool {
    let comma = cursor.after_blanks(after);
    if open.inside() != Some(b'[') || cursor.byte(comma) != Some(b',') {
        return false;
    }
    let at = cursor.after_blanks(comma.saturating_add(1));
    let rest = cursor.rest_from(at);
    let length = rest.bytes().take_while(|byte| !words::is_border(*byte)).count();
    cursor.work(length);
    let quote = at.saturating_add(length);
    let next = cursor.after_blanks(quote.saturating_add(1));
    cursor.byte(quote) == Some(b'"')
        && matches!(cursor.byte(next), Some(b',' | b']'))
        && words::is_text(rest.get(..length).unwrap_or_default())
}

/// Whether a number or a literal comes next in a list, after another one and a blank. Three digits may be a group of the
/// digits of one number: `10 000`.
pub(super) fn next_in_list(cursor: &mut TextCursor<'_>, before: &str, at: usize) -> bool {
    let rest = cursor.rest_from(at);
    let ends = |byte: &u8| words::is_border(*byte) || byte.is_ascii_whitespace();
    let length = rest.bytes().take_while(|byte| !ends(byte)).count();
    cursor.work(length);
    let word = rest.get(..length).unwrap_or_default();
    let next = cursor.after_blanks(at.saturating_add(length));
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let group = word.len() == 3 && digits(word) && before.ends_with(|last: char| last.is_ascii_digit());
    let whole = words::literal(word).is_some() || word.parse::<serde_json::Number>().is_ok();
    let follows = cursor.byte(next);
    let literal_or_digit =
        matches!(follows, Some(b'0'..=b'9' | b'-' | b't' | b'f' | b'n' | b'T' | b'F' | b'N'));
    whole && !group && (matches!(follows, Some(b',' | b']')) || literal_or_digit)
}

/// Whether a number or literal comes next, and after it a comma, `close`, or the end.
fn whole_word_follows(cursor: &mut TextCursor<'_>, at: usize, close: u8) -> bool {
    let rest = cursor.rest_from(at);
    let length = rest.bytes().take_while(|byte| !words::is_border(*byte)).count();
    cursor.work(length);
    let word = rest.get(..length).unwrap_or_default().trim_ascii_end();
    let border = cursor.byte(at.saturating_add(length));
    (border == Some(b',') || border == Some(close) || border.is_none() && close == b']')
        && (words::literal(word).is_some() || word.parse::<serde_json::Number>().is_ok())
}

/// Where the string that begins at `at` ends, if the next quote of its kind ends it.
fn closing(cursor: &mut TextCursor<'_>, at: usize) -> Option<usize> {
    let quote = EndQuote::opened_by(cursor.rest_from(at).as_bytes())?;
    let inside = at.saturating_add(quote.len());
    let mut next = inside;
    let end = loop {
        let rest = cursor.bytes().get(next..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == quote.first() || *byte == b'\\');
        let Some(length) = length else {
            next = cursor.bytes().len();
            break None;
        };
        next = next.saturating_add(length);
        if cursor.byte(next) == Some(b'\\') {
            next = next.saturating_add(2);
        } else if quote.stands_at(cursor, next) {
            next = next.saturating_add(quote.len());
            break Some(next);
        } else {
            next = next.saturating_add(1);
        }
    };
    cursor.work(next.saturating_sub(inside));
    end
}
