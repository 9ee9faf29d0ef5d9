//! Objects and arrays, read with a stack of their own.

use serde_json::{Map, Value};

use super::cursor::{Choice, Cursor, Misfit};
use super::quote::{Quote, colon_is_missing, key_follows, name_follows};
use super::{MAX_DEPTH, Reason, Refusal, Repair, bare, quote, string};

/// An object or array that is open.
pub(super) enum Frame {
    Object {
        map: Map<String, Value>,
        /// The key whose value is due.
        key: String,
        /// Where the key stands.
        at: usize,
        /// It began with two braces.
        doubled: bool,
    },
    Array(Vec<Value>),
}

/// What is due next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The first member, or the end.
    First,
    /// A member after a comma.
    Member,
    /// The value of a key.
    Value,
    /// A comma or the end.
    Next,
    /// A comma or the end, after `...`.
    AfterEllipsis,
}

impl Frame {
    fn object() -> Self {
        Self::Object { map: Map::new(), key: String::new(), at: 0, doubled: false }
    }

    const fn bracket(&self) -> u8 {
        match self {
            Self::Object { .. } => b'{',
            Self::Array(_) => b'[',
        }
    }

    fn take(&mut self, cursor: &mut Cursor<'_>, value: Value) -> Result<(), Refusal> {
        match self {
            Self::Object { map, key, at, .. } => {
                let key = std::mem::take(key);
                match map.get(&key) {
                    Some(known) if *known == value => cursor.repaired(Repair::RepeatedKey),
                    Some(_) if cursor.choose(Reason::DuplicateKey, *at)? != Choice::Second => return Ok(()),
                    _ => {}
                }
                map.insert(key, value);
            }
            Self::Array(list) => list.push(value),
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Object { map, .. } => map.is_empty(),
            Self::Array(list) => list.is_empty(),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Object { map, .. } => Value::Object(map),
            Self::Array(list) => Value::Array(list),
        }
    }
}

/// What a value stands in: the objects and arrays that are open, innermost last.
#[derive(Clone, Copy)]
pub(super) struct Open<'s>(pub(super) &'s [Frame]);

impl Open<'_> {
    /// The bracket of the innermost.
    pub(super) fn inside(self) -> Option<u8> {
        self.0.last().map(Frame::bracket)
    }

    /// The brackets that close what is open, innermost last.
    pub(super) fn closing(self) -> Vec<u8> {
        self.0.iter().map(|frame| if frame.bracket() == b'{' { b'}' } else { b']' }).collect()
    }

    /// Whether the innermost is an object, right inside of what `bracket` opens.
    pub(super) fn is_object_in(self, bracket: u8) -> bool {
        let mut innermost = self.0.iter().rev().map(Frame::bracket);
        innermost.next() == Some(b'{') && innermost.next() == Some(bracket)
    }

    /// Whether closing brackets close the innermost, and so on.
    pub(super) fn closed_by(self, mut brackets: impl Iterator<Item = u8>) -> bool {
        let mut open = self.0.iter().rev().map(|frame| if frame.bracket() == b'{' { b'}' } else { b']' });
        brackets.all(|bracket| open.next() == Some(bracket))
    }
}

/// Reads the object or array the cursor stands at.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    let mut parser = Parser { cursor, stack: Vec::new(), due: Due::First, end: 0 };
    parser.open()?;
    parser.run()
}

/// Reads the members of an object whose first brace is missing.
pub(super) fn unopened(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    cursor.repaired(Repair::MissingBracket);
    Parser { cursor, stack: vec![Frame::object()], due: Due::First, end: 0 }.run()
}

struct Parser<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    /// What is open, innermost last; never empty while it runs.
    stack: Vec<Frame>,
    due: Due,
    /// Where the last value ended.
    end: usize,
}

impl Parser<'_, '_> {
    fn run(&mut self) -> Result<Value, Refusal> {
        loop {
            self.cursor.skip()?;
            self.cursor.check_work()?;
            let ended = match self.due {
                Due::First | Due::Member => self.member()?,
                Due::Value => {
                    self.value()?;
                    None
                }
                Due::Next | Due::AfterEllipsis => self.next()?,
            };
            if let Some(value) = ended {
                return Ok(value);
            }
        }
    }

    fn inside(&self) -> u8 {
        self.stack.last().map_or(b'[', Frame::bracket)
    }

    fn member(&mut self) -> Result<Option<Value>, Refusal> {
        let Some(byte) = self.cursor.peek() else { return self.cut() };
        if matches!(byte, b'}' | b']') {
            if self.due == Due::Member {
                self.cursor.repaired(Repair::TrailingComma);
            }
            return self.close(byte);
        }
        if matches!(byte, b'.' | 0xe2) && (self.cursor.take("...") || self.cursor.take("…")) {
            self.cursor.repaired(Repair::Ellipsis);
            self.due = Due::AfterEllipsis;
            return Ok(None);
        }
        if byte == b',' {
            self.extra_comma()?;
            return Ok(None);
        }
        let open = Open(&self.stack);
        if self.due == Due::Member && quote::lost_brace(self.cursor, self.cursor.at, open)
            || self.inside() == b'[' && self.list_is_over()
        {
            self.mended(Repair::MissingBracket);
            self.pop()?;
            self.due = Due::Member;
            return Ok(None);
        }
        if self.inside() == b'[' {
            self.value()?;
            return Ok(None);
        }
        match byte {
            b'{' if self.due == Due::First => self.second_brace()?,
            _ => self.key()?,
        }
        Ok(None)
    }

    /// Goes past a comma where a member is due. Before the first one, a member may be missing.
    fn extra_comma(&mut self) -> Result<(), Refusal> {
        if self.due == Due::First {
            let next = self.cursor.after_blanks(self.cursor.at.saturating_add(1));
            if matches!(self.cursor.byte(next), None | Some(b'}' | b']' | b',')) {
                return self.cursor.refuse(Reason::MissingValue);
            }
            self.cursor.must_close = true;
        }
        self.cursor.repaired(Repair::ExtraComma);
        self.cursor.advance(1);
        Ok(())
    }

    /// Whether a key comes next in a list that is a member of an object.
    fn list_is_over(&mut self) -> bool {
        let inside_object = self.stack.iter().rev().nth(1).is_some_and(|frame| frame.bracket() == b'{');
        self.cursor.misfit == Misfit::Missing
            && self.due == Due::Member
            && inside_object
            && key_follows(self.cursor, self.cursor.at)
    }

    /// Notes a repair of brackets in the middle of the text.
    fn mended(&mut self, repair: Repair) {
        self.cursor.repaired(repair);
        self.cursor.must_close = true;
    }

    fn second_brace(&mut self) -> Result<(), Refusal> {
        match self.stack.last_mut() {
            Some(Frame::Object { doubled, .. }) if !*doubled => *doubled = true,
            _ => return self.cursor.refuse(Reason::NotAMember),
        }
        self.cursor.repaired(Repair::ExtraBracket);
        self.cursor.advance(1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Refusal> {
        let start = self.cursor.at;
        let read = if Quote::opened_by(self.cursor.rest().as_bytes()).is_some() {
            string::key(self.cursor)?
        } else {
            bare::key(self.cursor)?
        };
        self.cursor.skip()?;
        match self.cursor.peek() {
            Some(b':') => self.cursor.advance(1),
            None => return self.cursor.refuse(Reason::CutOff),
            Some(_) if colon_is_missing(self.cursor, self.cursor.at) => {
                self.cursor.repaired(Repair::MissingColon);
            }
            Some(_) => return self.cursor.refuse(Reason::NotAMember),
        }
        let Some(Frame::Object { key, at, .. }) = self.stack.last_mut() else { return Ok(()) };
        *key = read;
        *at = start;
        self.due = Due::Value;
        Ok(())
    }

    fn value(&mut self) -> Result<(), Refusal> {
        let open = Open(&self.stack);
        let value = match self.cursor.peek() {
            None => return self.cursor.refuse(Reason::CutOff),
            Some(b'{' | b'[') => return self.open(),
            Some(b'"' | b'\'') => Value::String(string::value(self.cursor, open)?),
            Some(0xe2) if Quote::opened_by(self.cursor.rest().as_bytes()).is_some() => {
                Value::String(string::value(self.cursor, open)?)
            }
            Some(_) => bare::value(self.cursor, open)?,
        };
        self.take(value)
    }

    fn next(&mut self) -> Result<Option<Value>, Refusal> {
        let ellipsis = self.due == Due::AfterEllipsis;
        match self.cursor.peek() {
            None | Some(b'`') if ellipsis => self.cursor.refuse(Reason::CutOff),
            None => self.close_all(Repair::MissingBracket),
            Some(b'`') if self.cursor.rest().starts_with("```") => self.close_all(Repair::MissingBracket),
            Some(b',') => {
                self.close_early()?;
                self.cursor.advance(1);
                self.due = Due::Member;
                Ok(None)
            }
            Some(byte @ (b'}' | b']')) => self.close(byte),
            Some(byte) if !ellipsis && self.comma_is_missing(byte) => Ok(self.missing_comma()),
            Some(_) => self.cursor.refuse(Reason::Unexpected),
        }
    }

    /// Whether the next byte begins a member that no comma stands before.
    fn comma_is_missing(&mut self, byte: u8) -> bool {
        let at = self.cursor.at;
        let next_line = self.cursor.between(self.end, at).contains('\n');
        match (self.inside(), byte) {
            (_, b'"') => true,
            (b'{', b'\'') => key_follows(self.cursor, at),
            (b'{', _) => name_follows(self.cursor, at),
            (_, b'{' | b'[' | b'\'') => true,
            (_, b'0'..=b'9' | b'-') if next_line => true,
            (b'[', b'0'..=b'9' | b'-' | b't' | b'f' | b'n' | b'T' | b'F' | b'N')
                if self.end < at && self.after_word() =>
            {
                let before = self.cursor.between(0, self.end);
                quote::next_in_list(self.cursor, before, at)
            }
            _ => {
                let text = self.end.checked_sub(1).and_then(|at| self.cursor.byte(at));
                let after_text = matches!(text, Some(b'"' | b'\''));
                after_text && quote::comma_is_missing(self.cursor, self.end, Open(&self.stack))
            }
        }
    }

    /// Whether the last value was a number or a literal.
    fn after_word(&self) -> bool {
        let last = self.end.checked_sub(1).and_then(|at| self.cursor.byte(at));
        last.is_some_and(|byte| byte.is_ascii_alphanumeric())
    }

    fn missing_comma(&mut self) -> Option<Value> {
        self.cursor.repaired(Repair::MissingComma);
        self.due = Due::Member;
        None
    }

    fn open(&mut self) -> Result<(), Refusal> {
        if self.stack.len() >= MAX_DEPTH {
            return self.cursor.refuse(Reason::TooDeep);
        }
        let object = self.cursor.peek() == Some(b'{');
        self.stack.push(if object { Frame::object() } else { Frame::Array(Vec::new()) });
        self.cursor.advance(1);
        self.due = Due::First;
        Ok(())
    }

    /// Closes the innermost; the value, if it was the outermost.
    fn close(&mut self, bracket: u8) -> Result<Option<Value>, Refusal> {
        let fits = matches!((self.inside(), bracket), (b'{', b'}') | (b'[', b']'));
        if !fits {
            return self.close_mismatched(bracket);
        }
        self.cursor.advance(1);
        self.pop()
    }

    /// Ends the innermost; the value, if it was the outermost.
    fn pop(&mut self) -> Result<Option<Value>, Refusal> {
        let Some(frame) = self.stack.pop() else { return self.cursor.refuse(Reason::Unexpected) };
        if matches!(frame, Frame::Object { doubled: true, .. }) {
            self.cursor.take("}");
        }
        let value = frame.into_value();
        if self.stack.is_empty() {
            return Ok(Some(value));
        }
        self.take(value)?;
        Ok(None)
    }

    /// At the end of the text, where a member is due: what is open is closed, unless it is nothing but open.
    fn cut(&mut self) -> Result<Option<Value>, Refusal> {
        if self.stack.first().is_none_or(Frame::is_empty) && self.stack.len() < 2 {
            return self.cursor.refuse(Reason::CutOff);
        }
        self.cursor.repaired(Repair::ClosedAtEnd);
        self.close_all(Repair::MissingBracket)
    }

    /// At the end of the text, brackets in the wrong order can only mean the end of everything.
    fn close_mismatched(&mut self, bracket: u8) -> Result<Option<Value>, Refusal> {
        let at = self.cursor.at;
        match self.cursor.misfit {
            Misfit::Refused => {}
            Misfit::Missing => return self.close_up_to(bracket),
            Misfit::Mistyped => {
                self.mended(Repair::MismatchedBracket);
                self.cursor.advance(1);
                return self.pop();
            }
        }
        let mut written = 0_usize;
        while matches!(self.cursor.peek(), Some(b'}' | b']')) {
            written = written.saturating_add(1);
            self.cursor.advance(1);
            self.cursor.skip()?;
        }
        match self.cursor.peek() {
            None | Some(b'`') => {
                let closed = self.close_all(Repair::MismatchedBracket);
                self.cursor.missing = self.cursor.missing.saturating_sub(written);
                closed
            }
            Some(_) => Err(Refusal { reason: Reason::MismatchedBrackets, at }),
        }
    }

    /// Closes before a comma what a reading closes there.
    fn close_early(&mut self) -> Result<(), Refusal> {
        let here = self.cursor.commas;
        self.cursor.commas = here.saturating_add(1);
        for _ in self.cursor.early.iter().filter(|place| **place == here) {
            if self.stack.len() < 2 {
                return self.cursor.refuse(Reason::MismatchedBrackets);
            }
            self.cursor.repaired(Repair::MissingBracket);
            self.put_in();
            self.pop()?;
        }
        Ok(())
    }

    const fn put_in(&mut self) {
        self.cursor.missing = self.cursor.missing.saturating_add(1);
    }

    /// Closes what is inside of the innermost that `bracket` closes, and that.
    fn close_up_to(&mut self, bracket: u8) -> Result<Option<Value>, Refusal> {
        let opening = if bracket == b'}' { b'{' } else { b'[' };
        if !self.stack.iter().any(|frame| frame.bracket() == opening) {
            return self.cursor.refuse(Reason::MismatchedBrackets);
        }
        self.mended(Repair::MissingBracket);
        while self.inside() != opening {
            self.put_in();
            self.pop()?;
        }
        self.cursor.advance(1);
        self.pop()
    }

    fn close_all(&mut self, repair: Repair) -> Result<Option<Value>, Refusal> {
        // The brackets may be in what was taken for a comment.
        if self.cursor.must_close || self.cursor.repairs.contains(Repair::Comment) {
            return self.cursor.refuse(Reason::MismatchedBrackets);
        }
        self.cursor.repaired(repair);
        self.cursor.missing = self.cursor.missing.saturating_add(self.stack.len());
        let Some(innermost) = self.stack.pop().map(Frame::into_value) else { return Ok(None) };
        let mut value = innermost;
        while let Some(mut outer) = self.stack.pop() {
            outer.take(self.cursor, value)?;
            value = outer.into_value();
        }
        Ok(Some(value))
    }

    fn take(&mut self, value: Value) -> Result<(), Refusal> {
        if let Some(frame) = self.stack.last_mut() {
            frame.take(self.cursor, value)?;
        }
        self.end = self.cursor.at;
        self.due = Due::Next;
        Ok(())
    }
}
