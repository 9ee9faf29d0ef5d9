//! Objects and arrays, read with a stack of their own.

use serde_json::Value;

use super::cursor::{BracketMisfit, TextCursor};
use super::open_structure::{OpenFrame, OpenStructure};
use super::quote::{EndQuote, colon_is_missing, key_follows, name_follows};
use super::{MAX_DEPTH, RefusalReason, RepairKind, RepairRefusal, bare, quote, string};

/// What is due next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedNext {
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

/// Reads the object or array at the cursor.
pub(super) fn value(cursor: &mut TextCursor<'_>) -> Result<Value, RepairRefusal> {
    let mut parser = RepairParser { cursor, stack: Vec::new(), due: ExpectedNext::First, end: 0 };
    parser.open()?;
    parser.run()
}

/// Reads the members of an object whose first brace is missing.
pub(super) fn unopened(cursor: &mut TextCursor<'_>) -> Result<Value, RepairRefusal> {
    cursor.repaired(RepairKind::MissingBracket);
    RepairParser { cursor, stack: vec![OpenFrame::object()], due: ExpectedNext::First, end: 0 }.run()
}

struct RepairParser<'c, 't> {
    cursor: &'c mut TextCursor<'t>,
    /// What is open, innermost last; never empty while it runs.
    stack: Vec<OpenFrame>,
    due: ExpectedNext,
    /// Where the last value ended.
    end: usize,
}

impl RepairParser<'_, '_> {
    fn run(&mut self) -> Result<Value, RepairRefusal> {
        loop {
            self.cursor.skip()?;
            self.cursor.check_work()?;
            let ended = match self.due {
                ExpectedNext::First | ExpectedNext::Member => self.member()?,
                ExpectedNext::Value => {
                    self.value()?;
                    None
                }
                ExpectedNext::Next | ExpectedNext::AfterEllipsis => self.next()?,
            };
            if let Some(value) = ended {
                return Ok(value);
            }
        }
    }

    fn inside(&self) -> u8 {
        self.stack.last().map_or(b'[', OpenFrame::bracket)
    }

    fn member(&mut self) -> Result<Option<Value>, RepairRefusal> {
        let Some(byte) = self.cursor.peek() else { return self.cut() };
        if matches!(byte, b'}' | b']') {
            if self.due == ExpectedNext::Member {
                self.cursor.repaired(RepairKind::TrailingComma);
            }
            return self.close(byte);
        }
        // Models leave the `...` of an example in their answer; it is no member.
        if matches!(byte, b'.' | 0xe2) && (self.cursor.take("...") || self.cursor.take("…")) {
            self.cursor.repaired(RepairKind::Ellipsis);
            self.due = ExpectedNext::AfterEllipsis;
            return Ok(None);
        }
        if byte == b',' {
            self.extra_comma()?;
            return Ok(None);
        }
        let open = OpenStructure(&self.stack);
        if self.due == ExpectedNext::Member && quote::lost_brace(self.cursor, self.cursor.at, open)
            || self.inside() == b'[' && self.list_is_over()
        {
            self.mended(RepairKind::MissingBracket);
            self.pop()?;
            self.due = ExpectedNext::Member;
            return Ok(None);
        }
        if self.inside() == b'[' {
            self.value()?;
            return Ok(None);
        }
        match byte {
            b'{' if self.due == ExpectedNext::First => self.second_brace()?,
            _ => self.key()?,
        }
        Ok(None)
    }

    /// Goes past a comma where a member is due. Before the first one, a member may be missing.
    fn extra_comma(&mut self) -> Result<(), RepairRefusal> {
        if self.due == ExpectedNext::First {
            let next = self.cursor.after_blanks(self.cursor.at.saturating_add(1));
            if matches!(self.cursor.byte(next), None | Some(b'}' | b']' | b',')) {
                return self.cursor.refuse(RefusalReason::MissingValue);
            }
            // A member may be missing before this comma, so everything after it has to be in order.
            self.cursor.must_close = true;
        }
        self.cursor.repaired(RepairKind::ExtraComma);
        self.cursor.advance(1);
        Ok(())
    }

    /// Whether a key comes next in a list that is a member of an object.
    fn list_is_over(&mut self) -> bool {
        let inside_object = self.stack.iter().rev().nth(1).is_some_and(|frame| frame.bracket() == b'{');
        self.cursor.misfit == BracketMisfit::Missing
            && self.due == ExpectedNext::Member
            && inside_object
            && key_follows(self.cursor, self.cursor.at)
    }

    /// Notes a repair of brackets in the middle of the text.
    fn mended(&mut self, repair: RepairKind) {
        self.cursor.repaired(repair);
        self.cursor.must_close = true;
    }

    fn second_brace(&mut self) -> Result<(), RepairRefusal> {
        match self.stack.last_mut() {
            Some(OpenFrame::Object { doubled, .. }) if !*doubled => *doubled = true,
            _ => return self.cursor.refuse(RefusalReason::NotAMember),
        }
        self.cursor.repaired(RepairKind::ExtraBracket);
        self.cursor.advance(1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), RepairRefusal> {
        let start = self.cursor.at;
        let read = if EndQuote::opened_by(self.cursor.rest().as_bytes()).is_some() {
            string::key(self.cursor)?
        } else {
            bare::key(self.cursor)?
        };
        self.cursor.skip()?;
        match self.cursor.peek() {
            Some(b':') => self.cursor.advance(1),
            // The text ends at a key, and no value can be invented.
            None => return self.cursor.refuse(RefusalReason::CutOff),
            Some(_) if colon_is_missing(self.cursor, self.cursor.at) => {
                self.cursor.repaired(RepairKind::MissingColon);
            }
            Some(_) => return self.cursor.refuse(RefusalReason::NotAMember),
        }
        let Some(OpenFrame::Object { key, at, .. }) = self.stack.last_mut() else { return Ok(()) };
        *key = read;
        *at = start;
        self.due = ExpectedNext::Value;
        Ok(())
    }

    fn value(&mut self) -> Result<(), RepairRefusal> {
        let open = OpenStructure(&self.stack);
        let value = match self.cursor.peek() {
            None => return self.cursor.refuse(RefusalReason::CutOff),
            Some(b'{' | b'[') => return self.open(),
            Some(b'"' | b'\'') => Value::String(string::value(self.cursor, open)?),
            Some(0xe2) if EndQuote::opened_by(self.cursor.rest().as_bytes()).is_some() => {
                Value::String(string::value(self.cursor, open)?)
            }
            Some(_) => bare::value(self.cursor, open)?,
        };
        self.take(value)
    }

    fn next(&mut self) -> Result<Option<Value>, RepairRefusal> {
        let ellipsis = self.due == ExpectedNext::AfterEllipsis;
        match self.cursor.peek() {
            // After `...` at the end it is unknown what was left out.
            None | Some(b'`') if ellipsis => self.cursor.refuse(RefusalReason::CutOff),
            None => self.close_all(RepairKind::MissingBracket),
            Some(b'`') if self.cursor.rest().starts_with("```") => self.close_all(RepairKind::MissingBracket),
            Some(b',') => {
                self.close_early()?;
                self.cursor.advance(1);
                self.due = ExpectedNext::Member;
                // Closed before the comma is passed, as a reading with moved brackets wants it.
                Ok(None)
            }
            Some(byte @ (b'}' | b']')) => self.close(byte),
            Some(byte) if !ellipsis && self.comma_is_missing(byte) => Ok(self.missing_comma()),
            Some(_) => self.cursor.refuse(RefusalReason::Unexpected),
        }
    }

    /// Whether the next byte begins a member without a comma before it.
    fn comma_is_missing(&mut self, byte: u8) -> bool {
        let at = self.cursor.at;
        // A comma is lost most often at the end of a line. On one line two words may be one text.
        let next_line = self.cursor.between(self.end, at).contains('\n');
        match (self.inside(), byte) {
            // A quote cannot belong to a value that has ended.
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
                after_text && quote::comma_is_missing(self.cursor, self.end, OpenStructure(&self.stack))
            }
        }
    }

    /// Whether the last value was a number or a literal.
    fn after_word(&self) -> bool {
        let last = self.end.checked_sub(1).and_then(|at| self.cursor.byte(at));
        last.is_some_and(|byte| byte.is_ascii_alphanumeric())
    }

    fn missing_comma(&mut self) -> Option<Value> {
        self.cursor.repaired(RepairKind::MissingComma);
        self.due = ExpectedNext::Member;
        None
    }

    fn open(&mut self) -> Result<(), RepairRefusal> {
        // The parser does not recurse, but readers of the value do.
        if self.stack.len() >= MAX_DEPTH {
            return self.cursor.refuse(RefusalReason::TooDeep);
        }
        let object = self.cursor.peek() == Some(b'{');
        self.stack.push(if object { OpenFrame::object() } else { OpenFrame::Array(Vec::new()) });
        self.cursor.advance(1);
        self.due = ExpectedNext::First;
        Ok(())
    }

    /// Closes the innermost; the value, if it was the outermost.
    fn close(&mut self, bracket: u8) -> Result<Option<Value>, RepairRefusal> {
        let fits = matches!((self.inside(), bracket), (b'{', b'}') | (b'[', b']'));
        if !fits {
            return self.close_mismatched(bracket);
        }
        self.cursor.advance(1);
        self.pop()
    }

    /// Ends the innermost; the value, if it was the outermost.
    fn pop(&mut self) -> Result<Option<Value>, RepairRefusal> {
        let Some(frame) = self.stack.pop() else { return self.cursor.refuse(RefusalReason::Unexpected) };
        // An object that began with `{{` ends with `}}`.
        if matches!(frame, OpenFrame::Object { doubled: true, .. }) {
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
    fn cut(&mut self) -> Result<Option<Value>, RepairRefusal> {
        // A lone `{` may be the beginning of anything.
        if self.stack.first().is_none_or(OpenFrame::is_empty) && self.stack.len() < 2 {
            return self.cursor.refuse(RefusalReason::CutOff);
        }
        self.cursor.repaired(RepairKind::ClosedAtEnd);
        self.close_all(RepairKind::MissingBracket)
    }

    /// At the end of the text, brackets in the wrong order can only mean the end of everything.
    fn close_mismatched(&mut self, bracket: u8) -> Result<Option<Value>, RepairRefusal> {
        let at = self.cursor.at;
        match self.cursor.misfit {
            BracketMisfit::Refused => {}
            BracketMisfit::Missing => return self.close_up_to(bracket),
            BracketMisfit::Mistyped => {
                self.mended(RepairKind::MismatchedBracket);
                self.cursor.advance(1);
                return self.pop();
            }
        }
        // Where only brackets follow, their order is wrong and their meaning, the end of everything, is not.
        let mut written = 0_usize;
        while matches!(self.cursor.peek(), Some(b'}' | b']')) {
            written = written.saturating_add(1);
            self.cursor.advance(1);
            self.cursor.skip()?;
        }
        match self.cursor.peek() {
            None | Some(b'`') => {
                let closed = self.close_all(RepairKind::MismatchedBracket);
                self.cursor.missing = self.cursor.missing.saturating_sub(written);
                closed
            }
            Some(_) => Err(RepairRefusal { reason: RefusalReason::MismatchedBrackets, at }),
        }
    }

    /// Closes before a comma what a reading closes there.
    fn close_early(&mut self) -> Result<(), RepairRefusal> {
        let here = self.cursor.commas;
        self.cursor.commas = here.saturating_add(1);
        for _ in self.cursor.early.iter().filter(|place| **place == here) {
            // The outermost must stay open, or the comma would stand behind the value.
            if self.stack.len() < 2 {
                return self.cursor.refuse(RefusalReason::MismatchedBrackets);
            }
            self.cursor.repaired(RepairKind::MissingBracket);
            self.put_in();
            self.pop()?;
        }
        Ok(())
    }

    const fn put_in(&mut self) {
        self.cursor.missing = self.cursor.missing.saturating_add(1);
    }

    /// Closes what is inside of the innermost that `bracket` closes, and that.
    fn close_up_to(&mut self, bracket: u8) -> Result<Option<Value>, RepairRefusal> {
        let opening = if bracket == b'}' { b'{' } else { b'[' };
        // Nothing that is open is closed by it, so it is no sign of missing brackets.
        if !self.stack.iter().any(|frame| frame.bracket() == opening) {
            return self.cursor.refuse(RefusalReason::MismatchedBrackets);
        }
        self.mended(RepairKind::MissingBracket);
        while self.inside() != opening {
            self.put_in();
            self.pop()?;
        }
        self.cursor.advance(1);
        self.pop()
    }

    fn close_all(&mut self, repair: RepairKind) -> Result<Option<Value>, RepairRefusal> {
        // The missing brackets may be in what was taken for a comment.
        if self.cursor.must_close || self.cursor.repairs.contains(RepairKind::Comment) {
            return self.cursor.refuse(RefusalReason::MismatchedBrackets);
        }
        self.cursor.repaired(repair);
        self.cursor.missing = self.cursor.missing.saturating_add(self.stack.len());
        let Some(innermost) = self.stack.pop().map(OpenFrame::into_value) else { return Ok(None) };
        let mut value = innermost;
        while let Some(mut outer) = self.stack.pop() {
            outer.take(self.cursor, value)?;
            value = outer.into_value();
        }
        Ok(Some(value))
    }

    fn take(&mut self, value: Value) -> Result<(), RepairRefusal> {
        if let Some(frame) = self.stack.last_mut() {
            frame.take(self.cursor, value)?;
        }
        self.end = self.cursor.at;
        self.due = ExpectedNext::Next;
        Ok(())
    }
}
