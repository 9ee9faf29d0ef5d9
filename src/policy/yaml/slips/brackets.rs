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

/// The bracket or quote that is never closed, or the first that closes nothing. `stumbled`: where the reader gave up.
pub(super) fn find(text: &str, stumbled: usize) -> Option<Slip> {
    let mut scan = Scan { text, at: 0, open: Vec::new(), begins: true, line: 0 };
    let mut lost: Option<(char, usize)> = None;
    while let Some(c) = scan.rest().chars().next() {
        let at = scan.at;
        match c {
            '\n' => {
                scan.newline();
                // A key at the beginning of a line that is not indented enough is not meant to be inside.
                if let Some((bracket, open)) = scan.open.last().copied()
                    && lost.is_none()
                    && scan.outside(open)
                {
                    lost = Some((bracket, open));
                }
                continue;
            }
            '#' if scan.after_blank() => scan.skip_line(),
            '"' | '\'' if scan.begins => match scan.quoted(c) {
                Some(end) => scan.go(end),
                None => return (at <= stumbled).then(|| unquoted(c, at)),
            },
            '{' | '[' if scan.begins || !scan.open.is_empty() => {
                scan.open.push((c, at));
                scan.go(1);
                scan.begins = true;
                continue;
            }
            '}' | ']' if !scan.open.is_empty() => {
                let (bracket, open) = scan.open.pop()?;
                if (bracket == '{') != (c == '}') {
                    let place = at..at.saturating_add(1);
                    return Some(
                        never(text, bracket, open, lost).also(place, "this closes another kind of bracket"),
                    );
                }
                scan.go(1);
            }
            '|' | '>' if scan.begins && scan.open.is_empty() => scan.block(),
            _ => scan.go(c.len_utf8()),
        }
        scan.begins = match c {
            ',' | ':' | '-' | '?' => scan.rest().starts_with([' ', '\n', '\r', '"', '\'', '{', '[']),
            ' ' | '\t' => scan.begins,
            _ => false,
        };
    }
    let (bracket, open) = lost.or_else(|| scan.open.last().copied())?;
    Some(never(text, bracket, open, lost))
}

impl Scan<'_> {
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
