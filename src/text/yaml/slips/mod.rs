//! What a text that is not YAML most likely lacks, in words of ours; and a repair where only one thing can be meant.
//!
//! A repair is tried before it is offered: with it the text is YAML, or its next mistake comes after that line.

mod brackets;
mod commas;
mod indent;
mod pairs;
mod past;
mod signs;

use core::ops::Range;

use granit_parser::{ErrorKind, Parser};

use super::{MAX_DEPTH, parse};
use crate::text::Problems;
use crate::text::SourceId;

pub(crate) use pairs::{TextPair, pair};
pub(super) use signs::{emphasis, pattern};

/// Longer texts are not looked at: each repair is tried by reading the text again.
const LONGEST: usize = 256 << 10;
/// The widths that readers give a tab.
const TABS: [usize; 3] = [2, 4, 8];
/// So many lines before the one where the reader stumbled may hold the slip.
const LINES_BEFORE: usize = 3;

/// A slip, by bytes of the text.
#[derive(Debug, Default)]
pub(super) struct YamlSlip {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) also: Option<(Range<usize>, &'static str)>,
    pub(super) help: Vec<String>,
    pub(super) repair: Option<TextRepair>,
    /// Other repairs: the fields decide which is meant.
    pub(super) or: Vec<TextRepair>,
}

/// A replacement of bytes.
#[derive(Debug)]
pub(super) struct TextRepair {
    pub(super) at: Range<usize>,
    pub(super) title: &'static str,
    pub(super) text: String,
}

/// A line of a text.
#[derive(Clone, Copy, Debug)]
struct TextLine<'t> {
    /// Its first byte.
    start: usize,
    /// Without its end.
    text: &'t str,
}

impl<'t> TextLine<'t> {
    fn end(&self) -> usize {
        self.start.saturating_add(self.text.len())
    }

    /// How many spaces and tabs it begins with.
    fn indent(&self) -> usize {
        self.text.len().saturating_sub(self.content().len())
    }

    fn content(&self) -> &'t str {
        self.text.trim_start_matches([' ', '\t'])
    }

    /// Without a comment and what is blank before it.
    fn said(&self) -> &'t str {
        let cut = self.text.len().saturating_sub(comment(self.text).len());
        self.text.get(..cut).unwrap_or_default().trim_end()
    }

    fn is_blank(&self) -> bool {
        self.said().trim().is_empty()
    }
}

/// The comment of a line, with its sign. A quote begins a text only where a value may begin: that of `it's` does not.
pub(super) fn comment(line: &str) -> &str {
    let (mut quote, mut begins, mut last) = (None, true, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) => quote = Some(open).filter(|open| *open != c || (c == '"' && last == '\\')),
            None if c == '#' && matches!(last, ' ' | '\t') => return line.get(at..).unwrap_or_default(),
            None if begins && matches!(c, '"' | '\'') => quote = Some(c),
            None => {}
        }
        begins = match c {
            '{' | '[' | ',' => true,
            ' ' | '\t' => begins || matches!(last, ':' | '-' | '?'),
            _ => false,
        };
        last = c;
    }
    ""
}

/// What is most likely wrong with a text whose reader stumbled at that byte.
pub(super) fn find(text: &str, at: usize, kind: &ErrorKind) -> Option<YamlSlip> {
    if text.len() > LONGEST {
        return None;
    }
    let lines = lines(text);
    let here = lines.iter().rposition(|line| line.start <= at).unwrap_or_default();
    // From the most certain slip to the least: the first that is found is reported.
    tab(text, &lines, here)
        .or_else(|| pattern(text, at))
        .or_else(|| brackets::find(text, at))
        .or_else(|| commas::find(text, &lines, here, at))
        .or_else(|| past::find(text, &lines, here))
        .or_else(|| pairs::find(text, &lines, here, at))
        .or_else(|| key(text, &lines, here))
        .or_else(|| colon_within(text, at, kind))
        .or_else(|| colon(text, &lines, here, at))
        .or_else(|| signs::find(text, &lines, here, at, kind))
        .or_else(|| indent::find(text, &lines, here))
}

/// What is wrong, by what the reader says alone.
pub(super) fn words(kind: &ErrorKind, info: &str) -> String {
    let said = match kind {
        ErrorKind::ExpectedBlockMappingKey => "a key that stands beside those above is expected here",
        ErrorKind::ExpectedBlockSequenceEntry => "an entry of the list (`- …`) is expected here",
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            "a `,` is missing before this, or the bracket before it is not closed"
        }
        ErrorKind::BlockEntryInFlowCollection | ErrorKind::BlockSequenceEntryNotAllowed => {
            "an entry of a list (`- …`) cannot begin here; write it on a line of its own, below its key"
        }
        ErrorKind::MisplacedFlowCollectionEnd => "this bracket closes nothing",
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey | ErrorKind::InvalidColonPlacement => {
            "a key with its value is expected here: `key: value`"
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::MappingKeyNotAllowed => {
            "a key cannot stand here: this line has one already, or the value before it has not ended"
        }
        ErrorKind::InvalidIndentation => "this line is indented less than what it belongs to",
        ErrorKind::CommentNotSeparated => "a space is missing before the `#` of the comment",
        ErrorKind::UnknownQuotedScalarEscape => {
            "there is no such escape in \"…\"; write `\\\\` for a backslash, or use '…'"
        }
        _ => return format!("this is not valid YAML: {info}"),
    };
    said.to_owned()
}

fn lines(text: &str) -> Vec<TextLine<'_>> {
    let start = |line: &str| line.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    text.split('\n').map(|line| TextLine { start: start(line), text: line.trim_end_matches('\r') }).collect()
}

/// The lines below that continue with a text of that line: those that are indented more than what it belongs to.
fn continued<'l, 't>(lines: &'l [TextLine<'t>], here: usize) -> &'l [TextLine<'t>] {
    let Some(first) = lines.get(here) else { return &[] };
    let below = lines.get(here.saturating_add(1)..).unwrap_or_default();
    let more = below.iter().take_while(|line| line.text.trim().is_empty() || line.indent() > first.indent());
    let count = more.count();
    let last = below.get(..count).unwrap_or_default().iter().rposition(|line| !line.text.trim().is_empty());
    below.get(..last.map_or(0, |last| last.saturating_add(1))).unwrap_or_default()
}

/// The first byte at which a reader stumbles.
fn error_at(text: &str) -> Option<usize> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 2,
        block_nesting_limit: MAX_DEPTH + 2,
    };
    let mut events = Parser::new_from_str_with_options(text, options);
    let error = events.find_map(Result::err)?;
    Some(error.marker().byte_offset().unwrap_or(text.len()))
}

/// The lines before the one in which a reader stumbles; `None`: in none.
pub(crate) fn readable(text: &str) -> Option<&str> {
    let before = text.get(..error_at(text)?)?;
    before.get(..before.rfind('\n').map_or(0, |end| end.saturating_add(1)))
}

/// The text with a repair.
fn with(text: &str, repair: &TextRepair) -> Option<String> {
    let (before, after) = (text.get(..repair.at.start)?, text.get(repair.at.end..)?);
    Some(format!("{before}{}{after}", repair.text))
}

/// Whether a text with the repair has no mistake up to the end of the line where it ends.
fn helps(text: &str, repair: &TextRepair) -> bool {
    let Some(after) = with(text, repair) else { return false };
    let end = repair.at.start.saturating_add(repair.text.len());
    let line = after
        .get(end..)
        .and_then(|rest| rest.find('\n'))
        .map_or(after.len(), |more| end.saturating_add(more));
    // A mistake at the end of the text may be the same one, pushed down.
    error_at(&after).is_none_or(|at| at > line && at < after.len())
}

/// Tabs that indent. They are spaces to whoever wrote them; how many is known if it makes no difference.
fn tab(text: &str, lines: &[TextLine<'_>], here: usize) -> Option<YamlSlip> {
    let tabbed = |line: &&TextLine<'_>| {
        let indent = line.text.get(..line.indent()).unwrap_or_default();
        indent.contains('\t') && !line.is_blank()
    };
    // The reader may have taken it for the rest of the line above.
    let first = lines.iter().take(here.saturating_add(2)).find(tabbed)?;
    let last = lines.iter().rfind(tabbed)?;
    let at = first.start.saturating_add(first.text.find('\t')?);
    let whole = first.start..last.end();
    let spaced = |width: usize| {
        let line = |line: &str| {
            let content = line.trim_start_matches([' ', '\t']);
            let indent = line.get(..line.len().saturating_sub(content.len())).unwrap_or_default();
            format!("{}{content}", indent.replace('\t', &" ".repeat(width)))
        };
        let text: Vec<String> = text.get(whole.clone())?.split('\n').map(line).collect();
        Some(TextRepair { at: whole.clone(), title: "indent with spaces", text: text.join("\n") })
    };
    // Behind the next mistake nothing can be read yet, so both readings are compared up to it.
    let read = |repair: &TextRepair| {
        let text = with(text, repair)?;
        let region = repair.at.start.saturating_add(repair.text.len());
        let end = match error_at(&text) {
            None => text.len(),
            Some(at) => text.get(..at)?.rfind('\n').filter(|line| *line >= region)?,
        };
        let tree = parse(SourceId(0), text.get(..end)?, &mut Problems::default())?.to_json();
        Some((tree, text.len().saturating_sub(end)))
    };
    let all: Vec<(TextRepair, (serde_json::Value, usize))> = TABS
        .into_iter()
        .filter_map(spaced)
        .filter_map(|repair| read(&repair).map(|read| (repair, read)))
        .collect();
    // Tabs are 2, 4 or 8 columns wide. The repair is certain if the document is the same with each.
    let same = all.windows(2).all(|pair| matches!(pair, [(_, one), (_, other)] if one == other));
    Some(YamlSlip {
        at: at..at.saturating_add(1),
        message: "a tab indents this line".to_owned(),
        help: vec!["indent with spaces; YAML forbids tabs for that".to_owned()],
        repair: all.into_iter().next().filter(|_| same).map(|(repair, _)| repair),
        ..YamlSlip::default()
    })
}

/// A key that holds `: `: what is indented more below it is its value.
fn key(text: &str, lines: &[TextLine<'_>], here: usize) -> Option<YamlSlip> {
    let line = lines.get(here)?;
    let name = line.said().strip_suffix(':')?.trim_start_matches([' ', '-']);
    let (first, _) = name.split_once(": ")?;
    let below = lines.get(here.saturating_add(1)..)?.iter().find(|line| !line.is_blank())?;
    if below.indent() <= line.indent() || name.starts_with(['"', '\'', '{', '[', '?', '&', '*', '!']) {
        return None;
    }
    let end = line.start.saturating_add(line.said().len()).saturating_sub(1);
    let whole = end.saturating_sub(name.len())..end;
    let message = format!("this key holds `: `, which ends a key after `{first}`");
    let repair = TextRepair { at: whole.clone(), title: "quote it", text: quoted(name) };
    // Two keys on one line, of which the second has the lines below, would look the same.
    let repair = Some(repair).filter(|repair| !is_key(first) && helps(text, repair));
    let help = match repair {
        Some(_) => Vec::new(),
        None => {
            vec!["quote it if it is one key; write each key on a line of its own if it is two".to_owned()]
        }
    };
    Some(YamlSlip { at: whole, message, help, repair, ..YamlSlip::default() })
}

/// A value that holds `: `, which begins another mapping.
fn colon(text: &str, lines: &[TextLine<'_>], here: usize, at: usize) -> Option<YamlSlip> {
    let line = lines.get(here)?;
    let said = line.said();
    let (key, value) = said.split_once(": ")?;
    let value = value.trim_start();
    let start = line.start.saturating_add(said.len().saturating_sub(value.len()));
    let (first, _) = value.split_once(": ").or_else(|| value.strip_suffix(':').map(|first| (first, "")))?;
    if at < start || value.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!']) {
        return None;
    }
    let name = key.trim_start_matches([' ', '-']);
    // In `{…}` a value ends before its line does.
    if name.contains(['{', '[']) {
        return None;
    }
    let column = key.len().saturating_sub(name.len());
    let next = NextKey { first, before: format!("\n{}", " ".repeat(column)), what: "on a line of its own" };
    if let Some(end) = signs::end_of(text, lines, here) {
        return Some(two_readings(text, name, start..end, &next));
    }
    // Some of the lines below may belong to the value.
    let slip = two_readings(text, name, start..start.saturating_add(value.len()), &next);
    let help = vec!["quote all of it if it is a text".to_owned()];
    Some(YamlSlip { help, repair: None, or: Vec::new(), ..slip })
}

/// A key that may begin in the midst of a value.
struct NextKey<'t> {
    /// The text before the `: `.
    first: &'t str,
    /// What has to stand before it.
    before: String,
    /// In words.
    what: &'static str,
}

/// A value that holds `: `: it is a text, a mapping, or a value and the next key.
fn two_readings(text: &str, name: &str, whole: Range<usize>, next: &NextKey<'_>) -> YamlSlip {
    let NextKey { first, before, what } = next;
    let value = text.get(whole.clone()).unwrap_or_default();
    let message = format!("the value of `{name}` holds `: `, which begins a mapping");
    let slip = YamlSlip { at: whole.clone(), message, ..YamlSlip::default() };
    let quote = TextRepair { at: whole.clone(), title: "quote it", text: quoted(value) };
    let quote = Some(quote).filter(|repair| helps(text, repair));
    // A text or a mapping: what the field takes decides which repair is offered.
    if is_key(first) {
        let written = format!("{{{value}}}");
        let help = format!("if it is a mapping, write `{written}`, or its keys on lines of their own");
        let mapping = TextRepair { at: whole, title: "write a mapping", text: written };
        let or = [quote, Some(mapping).filter(|repair| helps(text, repair))];
        let help = vec!["quote it if it is a text".to_owned(), help];
        return YamlSlip { help, or: or.into_iter().flatten().collect(), ..slip };
    }
    let key = first.rsplit(' ').next().filter(|key| is_key(key)).map(|key| {
        let end = whole.start.saturating_add(first.len());
        let start = end.saturating_sub(key.len());
        let blank = first.len().saturating_sub(key.len());
        let blank = blank.saturating_sub(first.get(..blank).unwrap_or_default().trim_end().len());
        let at = start.saturating_sub(blank)..end;
        let repair = TextRepair { at, title: "separate the keys", text: format!("{before}{key}") };
        (repair, format!("if `{key}` is the next key, write it {what}"))
    });
    let key = key.filter(|(repair, _)| helps(text, repair));
    let help = match (&quote, &key) {
        (Some(_), None) => Vec::new(),
        (_, key) => [Some("quote it if it is a text".to_owned()), key.as_ref().map(|(_, help)| help.clone())]
            .into_iter()
            .flatten()
            .collect(),
    };
    YamlSlip { help, repair: quote, or: key.into_iter().map(|(repair, _)| repair).collect(), ..slip }
}

/// A value within `{…}` that holds `: `.
fn colon_within(text: &str, at: usize, kind: &ErrorKind) -> Option<YamlSlip> {
    if !matches!(kind, ErrorKind::ExpectedFlowMappingSeparator) || !text.get(at..)?.starts_with(": ") {
        return None;
    }
    let before = text.get(..at)?;
    let opens = before
        .rfind(['{', ',', '\n'])
        .filter(|opens| !before.get(*opens..).unwrap_or_default().starts_with('\n'))?;
    let entry = before.get(opens.saturating_add(1)..)?;
    let (name, first) = entry.split_once(": ")?;
    let start = at.saturating_sub(first.trim_start().len());
    let rest = text.get(at..)?;
    let end = at.saturating_add(rest.find([',', '}', '\n', '#', '{', '[', '"', '\'', ']'])?);
    let value = text.get(start..end)?.trim_end();
    let closes = matches!(text.as_bytes().get(end), Some(b',' | b'}'));
    if !closes
        || first.contains(['"', '\'', '[', ']', '}', '#'])
        || value.starts_with(['|', '>', '&', '*', '!'])
    {
        return None;
    }
    let next = NextKey { first: first.trim_start(), before: ", ".to_owned(), what: "after a `,`" };
    Some(two_readings(text, name.trim(), start..start.saturating_add(value.len()), &next))
}

/// A text in quotes.
pub(super) fn quoted(value: &str) -> String {
    // In single quotes only the quote itself is special (YAML 1.2.2, section 7.3.2), so they change the text least.
    if value.contains('\'') {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("'{value}'")
    }
}

/// Whether a word looks like a key of a document.
fn is_key(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests;
