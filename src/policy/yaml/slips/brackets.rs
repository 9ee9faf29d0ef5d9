//! Brackets and quotes that are not closed, or close nothing.

use super::{Repair, Slip, helps, lines};

/// What is read so far.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// Brackets that are open, each with its place.
    open: Vec<(char, usize)>,
    /// Whether a value may begin here.
    begins: bool,
    /// Where the line begins.
    line: usize,
}

/// What the scan comes upon.
enum Met {
    Nothing,
    /// The beginning of a line.
    Line,
    /// A text in quotes without an end begins here.
    EndlessQuote(char),
    /// What closes here is not what was opened there.
    OtherBracket(char, usize),
    End,
}

/// The bracket or quote that is never closed, or the first that closes nothing. `stumbled`: where the reader gave up.
pub(super) fn find(text: &str, stumbled: usize) -> Option<Slip> {
    let mut scan = Scan::new(text);
    let mut lost: Option<(char, usize)> = None;
    loop {
        match scan.step() {
            Met::End => break,
            Met::Nothing => {}
            Met::Line => {
                // A key at the beginning of a line that is not indented enough is not meant to be inside.
                let open =
                    scan.open.last().copied().filter(|(_, open)| lost.is_none() && scan.outside(*open));
                lost = lost.or(open);
            }
            Met::EndlessQuote(quote) => return (scan.at <= stumbled).then(|| unquoted(quote, scan.at)),
            Met::OtherBracket(bracket, open) => {
                let place = scan.at..scan.at.saturating_add(1);
                return Some(
                    never(text, bracket, open, lost).also(place, "this closes another kind of bracket"),
                );
            }
        }
    }
    let (bracket, open) = lost.or_else(|| scan.open.last().copied())?;
    Some(never(text, bracket, open, lost))
}

/// The bracket that a place stands inside of, the last that is open there, and its place.
pub(super) fn around(text: &str, at: usize) -> Option<(char, usize)> {
    let mut scan = Scan::new(text);
    while scan.at < at {
        if matches!(scan.step(), Met::End | Met::EndlessQuote(_) | Met::OtherBracket(..)) {
            return None;
        }
    }
    scan.open.last().copied()
}

impl<'t> Scan<'t> {
    const fn new(text: &'t str) -> Self {
        Self { text, at: 0, open: Vec::new(), begins: true, line: 0 }
    }

    /// Reads on by one character, or by a text in quotes, a comment or a block.
    fn step(&mut self) -> Met {
        let Some(c) = self.rest().chars().next() else { return Met::End };
        match c {
            '\n' => {
                self.newline();
                return Met::Line;
            }
            '#' if self.after_blank() => self.skip_line(),
            '"' | '\'' if self.begins => match self.quoted(c) {
                Some(end) => self.go(end),
                None => return Met::EndlessQuote(c),
            },
            '{' | '[' if self.begins || !self.open.is_empty() => {
                self.open.push((c, self.at));
                self.go(1);
                self.begins = true;
                return Met::Nothing;
            }
            '}' | ']' => {
                if let Some((bracket, open)) = self.open.pop()
                    && (bracket == '{') != (c == '}')
                {
                    return Met::OtherBracket(bracket, open);
                }
                self.go(1);
            }
            '|' | '>' if self.begins && self.open.is_empty() => self.block(),
            _ => self.go(c.len_utf8()),
        }
        self.begins = match c {
            ',' | ':' | '-' | '?' => self.rest().starts_with([' ', '\n', '\r', '"', '\'', '{', '[']),
            ' ' | '\t' => self.begins,
            _ => false,
        };
        Met::Nothing
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn go(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes.max(1));
    }

    fn newline(&mut self) {
        self.go(1);
        self.line = self.at;
        self.begins = true;
    }

    fn after_blank(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        before.is_empty() || before.ends_with([' ', '\t', '\n'])
    }

    fn skip_line(&mut self) {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        self.go(length);
    }

    /// How long the quoted text is that begins here; `None`: it has no end.
    fn quoted(&self, quote: char) -> Option<usize> {
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if quote == '"' => {
                    chars.next();
                }
                '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                    chars.next();
                }
                _ if c == quote => return Some(at.saturating_add(1)),
                _ => {}
            }
        }
        None
    }

    /// Goes to the end of a text that begins with `|` or `>`: the lines that are indented more.
    fn block(&mut self) {
        let head = self.rest().split('\n').next().unwrap_or_default();
        let plain =
            head.trim_start_matches(['|', '>', '-', '+']).trim_start_matches(|c: char| c.is_ascii_digit());
        if !plain.trim_start().is_empty() && !plain.trim_start().starts_with('#') {
            return self.go(1);
        }
        let indent = |line: &str| line.len().saturating_sub(line.trim_start_matches(' ').len());
        let own =
            indent(self.text.get(self.line..).unwrap_or_default().split('\n').next().unwrap_or_default());
        self.skip_line();
        while let Some(next) = self.rest().strip_prefix('\n') {
            let line = next.split('\n').next().unwrap_or_default();
            if !line.trim().is_empty() && indent(line) <= own {
                break;
            }
            let length = line.len().saturating_add(1);
            self.go(length);
        }
    }

    /// Whether the line that begins here has a key and is indented no more than the one with that bracket.
    fn outside(&self, open: usize) -> bool {
        let line = self.rest().split('\n').next().unwrap_or_default();
        let content = line.trim_start_matches(' ');
        let indent = line.len().saturating_sub(content.len());
        let before = self.text.get(..open).unwrap_or_default();
        let first = before.rsplit('\n').next().unwrap_or_default();
        let own = first.len().saturating_sub(first.trim_start_matches([' ', '-']).len());
        let keyed = content.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"')
            && (content.contains(": ") || content.trim_end().ends_with(':'));
        // A bracket that begins its line belongs to a key above it.
        keyed && indent <= own && !first.trim().is_empty()
    }
}

impl Slip {
    fn also(mut self, at: core::ops::Range<usize>, label: &'static str) -> Self {
        self.also = Some((at, label));
        self
    }
}

fn unquoted(quote: char, at: usize) -> Slip {
    Slip {
        at: at..at.saturating_add(1),
        message: "the text that begins here has no end".to_owned(),
        help: vec![format!("end it with `{quote}`")],
        ..Slip::default()
    }
}

/// The bracket that is never closed. It is closed at the end of its line if that is the only place.
fn never(text: &str, bracket: char, open: usize, lost: Option<(char, usize)>) -> Slip {
    let close = if bracket == '{' { '}' } else { ']' };
    let line = lines(text).into_iter().rfind(|line| line.start <= open);
    let end = line.map(|line| line.start.saturating_add(line.said().len()));
    let inner = end.and_then(|end| text.get(open.saturating_add(1)..end)).unwrap_or_default();
    // Of a bracket with others in it, several may lack the end.
    let alone = !inner.trim().is_empty()
        && !inner.contains(['{', '[', '}', ']'])
        && !inner.trim_end().ends_with([',', ':']);
    let ends_text = end.and_then(|end| text.get(end..)).is_some_and(|rest| rest.trim().is_empty());
    let repair = end
        .filter(|_| alone && (ends_text || lost.is_some_and(|(_, at)| at == open)))
        .map(|end| Repair { at: end..end, title: "close it", text: close.to_string() });
    let repair = repair.filter(|repair| helps(text, repair));
    let help = if repair.is_some() { Vec::new() } else { vec![format!("close it with `{close}`")] };
    Slip {
        at: open..open.saturating_add(1),
        message: format!("`{bracket}` is never closed"),
        help,
        repair,
        ..Slip::default()
    }
}
