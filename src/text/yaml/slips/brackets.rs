//! Brackets and quotes that are not closed, or close nothing.

use super::{TextRepair, YamlSlip, helps, lines};

/// What is read so far.
struct BracketScan<'t> {
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
enum MetSign {
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
pub(super) fn find(text: &str, stumbled: usize) -> Option<YamlSlip> {
    let mut scan = BracketScan::new(text);
    let mut lost: Option<(char, usize)> = None;
    loop {
        match scan.step() {
            MetSign::End => break,
            MetSign::Nothing => {}
            MetSign::Line => {
                // A key that is indented no more than the line with the bracket is not meant to be inside it.
                let open =
                    scan.open.last().copied().filter(|(_, open)| lost.is_none() && scan.outside(*open));
                lost = lost.or(open);
            }
            // A quote behind the place where the reader gave up cannot be the reason.
            MetSign::EndlessQuote(quote) => return (scan.at <= stumbled).then(|| unquoted(quote, scan.at)),
            MetSign::OtherBracket(bracket, open) => {
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

/// The innermost bracket that is open at a place, and its place.
pub(super) fn around(text: &str, at: usize) -> Option<(char, usize)> {
    let mut scan = BracketScan::new(text);
    while scan.at < at {
        if matches!(scan.step(), MetSign::End | MetSign::EndlessQuote(_) | MetSign::OtherBracket(..)) {
            return None;
        }
    }
    scan.open.last().copied()
}

impl<'t> BracketScan<'t> {
    const fn new(text: &'t str) -> Self {
        Self { text, at: 0, open: Vec::new(), begins: true, line: 0 }
    }

    /// Reads on by one character, or by a text in quotes, a comment or a block.
    fn step(&mut self) -> MetSign {
        let Some(c) = self.rest().chars().next() else { return MetSign::End };
        match c {
            '\n' => {
                self.newline();
                return MetSign::Line;
            }
            '#' if self.after_blank() => self.skip_line(),
            // A quote begins a text only where a value may begin: `it's` holds an apostrophe.
            '"' | '\'' if self.begins => match self.quoted(c) {
                Some(end) => self.go(end),
                None => return MetSign::EndlessQuote(c),
            },
            '{' | '[' if self.begins || !self.open.is_empty() => {
                self.open.push((c, self.at));
                self.go(1);
                self.begins = true;
                return MetSign::Nothing;
            }
            '}' | ']' => {
                if let Some((bracket, open)) = self.open.pop()
                    && (bracket == '{') != (c == '}')
                {
                    return MetSign::OtherBracket(bracket, open);
                }
                self.go(1);
            }
            // Within brackets there are no block scalars (YAML 1.2.2, section 7.4).
            '|' | '>' if self.begins && self.open.is_empty() => self.block(),
            _ => self.go(c.len_utf8()),
        }
        self.begins = match c {
            ',' | ':' | '-' | '?' => self.rest().starts_with([' ', '\n', '\r', '"', '\'', '{', '[']),
            ' ' | '\t' => self.begins,
            _ => false,
        };
        MetSign::Nothing
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
                // YAML 1.2.2, section 7.3.2: in single quotes a quote is written twice.
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

impl YamlSlip {
    fn also(mut self, at: core::ops::Range<usize>, label: &'static str) -> Self {
        self.also = Some((at, label));
        self
    }
}

fn unquoted(quote: char, at: usize) -> YamlSlip {
    YamlSlip {
        at: at..at.saturating_add(1),
        message: "the text that begins here has no end".to_owned(),
        help: vec![format!("end it with `{quote}`")],
        ..YamlSlip::default()
    }
}

/// The bracket that is never closed. It is closed at the end of its line if that is the only place.
fn never(text: &str, bracket: char, open: usize, lost: Option<(char, usize)>) -> YamlSlip {
    let close = if bracket == '{' { '}' } else { ']' };
    let line = lines(text).into_iter().rfind(|line| line.start <= open);
    let end = line.map(|line| line.start.saturating_add(line.said().len()));
    let inner = end.and_then(|end| text.get(open.saturating_add(1)..end)).unwrap_or_default();
    // Where others are inside, any of them may be the one that lacks its end.
    let alone = !inner.trim().is_empty()
        && !inner.contains(['{', '[', '}', ']'])
        && !inner.trim_end().ends_with([',', ':']);
    let ends_text = end.and_then(|end| text.get(end..)).is_some_and(|rest| rest.trim().is_empty());
    let repair = end
        .filter(|_| alone && (ends_text || lost.is_some_and(|(_, at)| at == open)))
        .map(|end| TextRepair { at: end..end, title: "close it", text: close.to_string() });
    let repair = repair.filter(|repair| helps(text, repair));
    let help = if repair.is_some() { Vec::new() } else { vec![format!("close it with `{close}`")] };
    YamlSlip {
        at: open..open.saturating_add(1),
        message: format!("`{bracket}` is never closed"),
        help,
        repair,
        ..YamlSlip::default()
    }
}
