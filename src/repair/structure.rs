//! Objects and arrays, read with a stack of their own.

use serde_json::{Map, Value};

use super::cursor::Cursor;
use super::{MAX_DEPTH, Reason, Refusal, Repair, bare, string};

/// An object or array that is open.
enum Frame {
    Object {
        map: Map<String, Value>,
        /// The key whose value is due.
        key: String,
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
        Self::Object { map: Map::new(), key: String::new(), doubled: false }
    }

    const fn bracket(&self) -> u8 {
        match self {
            Self::Object { .. } => b'{',
            Self::Array(_) => b'[',
        }
    }

    fn take(&mut self, value: Value) {
        match self {
            Self::Object { map, key, .. } => {
                map.insert(std::mem::take(key), value);
            }
            Self::Array(list) => list.push(value),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Object { map, .. } => Value::Object(map),
            Self::Array(list) => Value::Array(list),
        }
    }
}

/// Reads the object or array the cursor stands at.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    let mut parser = Parser { cursor, stack: Vec::new(), due: Due::First };
    parser.open()?;
    parser.run()
}

/// Reads the members of an object whose first brace is missing.
pub(super) fn unopened(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
    cursor.repaired(Repair::MissingBracket);
    Parser { cursor, stack: vec![Frame::object()], due: Due::First }.run()
}

struct Parser<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    /// What is open, innermost last; never empty while it runs.
    stack: Vec<Frame>,
    due: Due,
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
        let Some(byte) = self.cursor.peek() else { return self.cursor.refuse(Reason::CutOff) };
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
        if self.inside() == b'[' {
            self.value()?;
            return Ok(None);
        }
        match byte {
            b',' => {
                self.cursor.repaired(Repair::ExtraComma);
                self.cursor.advance(1);
                self.due = Due::Member;
            }
            b'{' if self.due == Due::First => self.second_brace()?,
            _ => self.key(byte)?,
        }
        Ok(None)
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

    fn key(&mut self, first: u8) -> Result<(), Refusal> {
        let at = self.cursor.at;
        let read = match first {
            b'"' | b'\'' => string::key(self.cursor)?,
            _ => bare::key(self.cursor)?,
        };
        self.cursor.skip()?;
        match self.cursor.peek() {
            Some(b':') => self.cursor.advance(1),
            None => return self.cursor.refuse(Reason::CutOff),
            Some(_) => return self.cursor.refuse(Reason::NotAMember),
        }
        let Some(Frame::Object { map, key, .. }) = self.stack.last_mut() else { return Ok(()) };
        if map.contains_key(&read) {
            return Err(Refusal { reason: Reason::DuplicateKey, at });
        }
        *key = read;
        self.due = Due::Value;
        Ok(())
    }

    fn value(&mut self) -> Result<(), Refusal> {
        let inside = Some(self.inside());
        let value = match self.cursor.peek() {
            None => return self.cursor.refuse(Reason::CutOff),
            Some(b'{' | b'[') => return self.open(),
            Some(b'"' | b'\'') => Value::String(string::value(self.cursor, inside)?),
            Some(_) => bare::value(self.cursor, inside)?,
        };
        self.take(value);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Value>, Refusal> {
        let ellipsis = self.due == Due::AfterEllipsis;
        match self.cursor.peek() {
            None | Some(b'`') if ellipsis => self.cursor.refuse(Reason::CutOff),
            None => self.close_all(Repair::MissingBracket),
            Some(b'`') if self.cursor.rest().starts_with("```") => self.close_all(Repair::MissingBracket),
            Some(b',') => {
                self.cursor.advance(1);
                self.due = Due::Member;
                Ok(None)
            }
            Some(byte @ (b'}' | b']')) => self.close(byte),
            Some(b'"') if !ellipsis => Ok(self.missing_comma()),
            Some(b'{' | b'[') if !ellipsis && self.inside() == b'[' => Ok(self.missing_comma()),
            Some(_) => self.cursor.refuse(Reason::Unexpected),
        }
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
            return self.close_mismatched();
        }
        self.cursor.advance(1);
        let Some(frame) = self.stack.pop() else { return self.cursor.refuse(Reason::Unexpected) };
        if matches!(frame, Frame::Object { doubled: true, .. }) {
            self.cursor.take("}");
        }
        let value = frame.into_value();
        if self.stack.is_empty() {
            return Ok(Some(value));
        }
        self.take(value);
        Ok(None)
    }

    /// At the end of the text, brackets in the wrong order can only mean the end of everything.
    fn close_mismatched(&mut self) -> Result<Option<Value>, Refusal> {
        let at = self.cursor.at;
        while matches!(self.cursor.peek(), Some(b'}' | b']')) {
            self.cursor.advance(1);
            self.cursor.skip()?;
        }
        match self.cursor.peek() {
            None | Some(b'`') => self.close_all(Repair::MismatchedBracket),
            Some(_) => Err(Refusal { reason: Reason::MismatchedBrackets, at }),
        }
    }

    fn close_all(&mut self, repair: Repair) -> Result<Option<Value>, Refusal> {
        // The brackets may be in what was taken for a comment.
        if self.cursor.repairs.contains(Repair::Comment) {
            return self.cursor.refuse(Reason::MismatchedBrackets);
        }
        self.cursor.repaired(repair);
        let Some(innermost) = self.stack.pop().map(Frame::into_value) else { return Ok(None) };
        let close = |inner: Value, mut outer: Frame| {
            outer.take(inner);
            outer.into_value()
        };
        Ok(Some(self.stack.drain(..).rev().fold(innermost, close)))
    }

    fn take(&mut self, value: Value) {
        if let Some(frame) = self.stack.last_mut() {
            frame.take(value);
        }
        self.due = Due::Next;
    }
}
