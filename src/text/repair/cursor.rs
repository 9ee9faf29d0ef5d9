//! A place in the text, the repairs so far, and the count of the work.

use super::{RefusalReason, RepairKind, RepairRefusal, RepairSet};

/// Which reading is taken where a text has two that only a schema can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadingChoice {
    /// Neither: the text is refused.
    Neither,
    /// The number, the literal, the first of two members of the same name.
    First,
    /// As the first, with numbers that begin with a zero read as octal.
    Octal,
    /// The text, the last of two members of the same name.
    Second,
}

/// What a closing bracket means that does not fit what is open, where more than brackets follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BracketMisfit {
    /// Nothing: the text is refused.
    Refused,
    /// Brackets that close what is inside are missing before it.
    Missing,
    /// It was written for the other kind of bracket.
    Mistyped,
}

/// A place in the text.
pub(super) struct TextCursor<'t> {
    text: &'t str,
    pub(super) at: usize,
    pub(super) repairs: RepairSet,
    /// How many bytes have been looked at, those looked at again included.
    pub(super) steps: usize,
    pub(super) choice: ReadingChoice,
    /// There was something with two readings.
    pub(super) ambiguous: bool,
    pub(super) misfit: BracketMisfit,
    /// Something was repaired that is only certain if all brackets are there from then on.
    pub(super) must_close: bool,
    /// The last quote of a text in the middle was put in: other quotes are not repaired then.
    pub(super) unclosed: bool,
    /// How many commas between members were gone past.
    pub(super) commas: usize,
    /// Before which of them, counted from 0, a closing bracket is put in; one that comes twice, two.
    pub(super) early: &'t [usize],
    /// How many closing brackets were put in.
    pub(super) missing: usize,
}

/// How often a byte may be looked at on average. The parser stays well below; this is the net under it.
const LOOKS: usize = 16;

impl<'t> TextCursor<'t> {
    pub(super) fn new(text: &'t str, choice: ReadingChoice, misfit: BracketMisfit) -> Self {
        Self {
            text,
            at: 0,
            repairs: RepairSet::default(),
            steps: 0,
            choice,
            ambiguous: false,
            misfit,
            must_close: false,
            unclosed: false,
            commas: 0,
            early: &[],
            missing: 0,
        }
    }

    /// Which of two readings is taken.
    ///
    /// # Errors
    /// Neither is.
    pub(super) fn choose(
        &mut self,
        reason: RefusalReason,
        at: usize,
    ) -> Result<ReadingChoice, RepairRefusal> {
        // Noted even if the text is refused now: the caller then knows that a schema may decide.
        self.ambiguous = true;
        match self.choice {
            ReadingChoice::Neither => Err(RepairRefusal { reason, at }),
            taken => {
                self.repaired(RepairKind::ChosenBySchema);
                Ok(taken)
            }
        }
    }

    pub(super) fn refuse<T>(&self, reason: RefusalReason) -> Result<T, RepairRefusal> {
        Err(RepairRefusal { reason, at: self.at })
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn rest_from(&self, at: usize) -> &'t str {
        self.text.get(at..).unwrap_or_default()
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

    /// Continues by `count` bytes.
    pub(super) fn advance(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.text.len());
        self.work(count);
    }

    /// Continues if `expected` comes next.
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
    pub(super) fn check_work(&self) -> Result<(), RepairRefusal> {
        if self.steps > self.text.len().saturating_mul(LOOKS).saturating_add(1024) {
            return self.refuse(RefusalReason::TooMuchWork);
        }
        Ok(())
    }

    pub(super) fn repaired(&mut self, repair: RepairKind) {
        self.repairs.add(repair);
    }

    /// The next place from `at` on that is no blank space.
    pub(super) fn after_blanks(&mut self, at: usize) -> usize {
        let mut next = at;
        loop {
            let rest = self.bytes().get(next..).unwrap_or_default();
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let wide = wide_blank(rest.get(blanks..).unwrap_or_default());
            next = next.saturating_add(blanks).saturating_add(wide);
            if wide == 0 {
                self.work(next.saturating_sub(at).saturating_add(1));
                return next;
            }
        }
    }

    /// Goes over blank space and comments.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<(), RepairRefusal> {
        // The usual case: JSON without comments, where the next byte begins a value.
        if self.peek().is_some_and(begins_token) {
            self.work(1);
            return Ok(());
        }
        self.skip_blanks()
    }

    fn skip_blanks(&mut self) -> Result<(), RepairRefusal> {
        loop {
            let from = self.at;
            self.at = self.after_blanks(from);
            // RFC 8259, section 2: JSON's blanks are four. A form feed, a byte order mark and those of Unicode are
            // text to it.
            let blanks = self.bytes().get(from..self.at).unwrap_or_default();
            if blanks.iter().any(|byte| *byte == b'\x0c' || !byte.is_ascii()) {
                self.repaired(RepairKind::TextAround);
            }
            let rest = self.rest();
            let length = match rest.as_bytes() {
                [b'/', b'/', ..] | [b'#', ..] => rest.find('\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => match rest.get(2..).and_then(|inside| inside.find("*/")) {
                    Some(inside) => inside.saturating_add(4),
                    None => return self.refuse(RefusalReason::OpenComment),
                },
                _ => return Ok(()),
            };
            self.repaired(RepairKind::Comment);
            self.advance(length);
        }
    }
}

/// The length of a blank that only Unicode knows, or of a byte order mark, at the beginning of the bytes of a text.
fn wide_blank(bytes: &[u8]) -> usize {
    let length = match bytes.first() {
        Some(0xc2) => 2,
        Some(0xe1..=0xe3 | 0xef) => 3,
        _ => return 0,
    };
    let char = bytes.get(..length).and_then(|bytes| core::str::from_utf8(bytes).ok());
    let blank = char.is_some_and(|char| char.chars().all(|char| char == '\u{feff}' || char.is_whitespace()));
    if blank { length } else { 0 }
}

/// Whether a byte can neither be blank nor begin a comment.
const fn begins_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'/' | b'#')
}
