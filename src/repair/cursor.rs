//! A place in the text, the repairs so far, and the count of the work.

use super::{Reason, Refusal, Repair, Repairs};

/// A place in the text.
pub(super) struct Cursor<'t> {
    text: &'t str,
    pub(super) at: usize,
    pub(super) repairs: Repairs,
    /// How many bytes have been looked at, those looked at again included.
    pub(super) steps: usize,
}

/// How often a byte may be looked at on average. The parser stays well below; this is the net under it.
const LOOKS: usize = 16;

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, repairs: Repairs::default(), steps: 0 }
    }

    pub(super) fn refuse<T>(&self, reason: Reason) -> Result<T, Refusal> {
        Err(Refusal { reason, at: self.at })
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text between two places that are borders of characters.
    pub(super) fn between(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes().get(at).copied()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.byte(self.at)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Goes on by `count` bytes.
    pub(super) fn advance(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.text.len());
        self.work(count);
    }

    /// Goes on if `expected` comes next.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.advance(expected.len());
        }
        found
    }

    pub(super) fn work(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// Refuses if more was done than a text of this size takes.
    pub(super) fn check_work(&self) -> Result<(), Refusal> {
        if self.steps > self.text.len().saturating_mul(LOOKS).saturating_add(1024) {
            return self.refuse(Reason::TooMuchWork);
        }
        Ok(())
    }

    pub(super) fn repaired(&mut self, repair: Repair) {
        self.repairs.add(repair);
    }

    /// The next place from `at` on that is no blank space.
    pub(super) fn after_blanks(&mut self, at: usize) -> usize {
        let rest = self.bytes().get(at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.work(blanks.saturating_add(1));
        at.saturating_add(blanks)
    }

    /// Goes over blank space and comments.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<(), Refusal> {
        if self.peek().is_some_and(begins_token) {
            self.work(1);
            return Ok(());
        }
        self.skip_blanks()
    }

    fn skip_blanks(&mut self) -> Result<(), Refusal> {
        loop {
            let from = self.at;
            self.at = self.after_blanks(from);
            // A form feed is blank, but not to JSON.
            if self.bytes().get(from..self.at).is_some_and(|blanks| blanks.contains(&b'\x0c')) {
                self.repaired(Repair::TextAround);
            }
            let rest = self.rest();
            let length = match rest.as_bytes() {
                [b'/', b'/', ..] | [b'#', ..] => rest.find('\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => match rest.get(2..).and_then(|inside| inside.find("*/")) {
                    Some(inside) => inside.saturating_add(4),
                    None => return self.refuse(Reason::OpenComment),
                },
                // A byte order mark, or a blank that only Unicode knows.
                _ => match rest.chars().next() {
                    Some(blank) if !blank.is_ascii() && (blank == '\u{feff}' || blank.is_whitespace()) => {
                        self.repaired(Repair::TextAround);
                        self.advance(blank.len_utf8());
                        continue;
                    }
                    _ => return Ok(()),
                },
            };
            self.repaired(Repair::Comment);
            self.advance(length);
        }
    }
}

/// Whether a byte can neither be blank nor begin a comment.
const fn begins_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'/' | b'#')
}
