//! The texts policies and other documents are read from, and what a byte offset in one of them means to people.

use core::fmt;
use core::ops::Range;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret;

/// Texts by the order of loading. Number zero is the built-in default policy once one is loaded. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Arc<Source>>,
}

/// One named text.
#[derive(Clone)]
pub(crate) struct Source {
    name: String,
    text: String,
    /// The start of each line, computed for the first location.
    lines: OnceLock<LineStarts>,
    /// The lines before it in the file it is a part of.
    before: u32,
    /// The bytes that hold secrets, computed at first use.
    hidden: OnceLock<Vec<Range<usize>>>,
}

/// Where the lines of a text are.
#[derive(Clone)]
struct LineStarts {
    /// Byte offsets at which lines start; the first is 0.
    starts: Vec<u32>,
    /// Whether each character is one byte, so that columns need no counting.
    narrow: bool,
}

/// One text, by the order of loading. The built-in default is number zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// A range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The source.
    pub(crate) source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A place in a text as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The file as it was named when it was loaded.
    /// Example: `policy.yaml`
    pub file: String,
    /// 1-based line.
    /// Example: `12`
    pub line: u32,
    /// 1-based column, in Unicode scalar values.
    /// Example: `5`
    pub column: u32,
}

/// A place in a text, whatever the text is called and wherever it is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spot {
    /// The text, by the order of loading.
    pub(crate) source: u16,
    /// 1-based line of the text.
    pub(crate) line: u32,
    /// 1-based column, in Unicode scalar values.
    pub(crate) column: u32,
}

/// The source of what a planner gives at run time. It is a single line of JSON, so its offsets are columns.
pub(crate) const PLANNER: SourceId = SourceId(u16::MAX);
/// The source of what is chosen on the command line or by the host. It has no text.
pub(crate) const CHOICE: SourceId = SourceId(u16::MAX - 1);

// Without its text: there may be secrets in it.
crate::debug_parts!(|this: Source| name: this.name, bytes: this.text.len());

impl Sources {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text. A text longer than 4 GiB is not indexed past that point.
    pub(crate) fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        // The last two numbers stand for the planner and for choices.
        let id = u16::try_from(self.texts.len()).unwrap_or(u16::MAX.saturating_sub(2));
        self.texts.push(Arc::new(Source::new(name.into(), text.into())));
        SourceId(id)
    }

    /// Says of the last text that it is a part of a file, with that many lines before it.
    pub(crate) fn put_below(&mut self, lines: u32) {
        if let Some(source) = self.texts.last_mut().map(Arc::make_mut) {
            source.before = lines;
        }
    }

    /// The text of that number.
    pub(crate) fn get(&self, id: SourceId) -> Option<&Source> {
        self.texts.get(usize::from(id.0)).map(AsRef::as_ref)
    }

    /// All texts, in the order of loading.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// The texts as they may be shown: without the secrets in them.
    pub(crate) fn shown(&self) -> Cow<'_, Self> {
        if self.iter().all(|source| source.hidden().is_empty()) {
            return Cow::Borrowed(self);
        }
        let shown = |source: &Arc<Source>| {
            if source.hidden().is_empty() {
                return Arc::clone(source);
            }
            Arc::new(Source {
                name: source.name.clone(),
                text: secret::masked(&source.text, source.hidden()),
                lines: OnceLock::from(source.line_starts().clone()),
                before: source.before,
                // Masked already, and not to be searched again.
                hidden: OnceLock::from(Vec::new()),
            })
        };
        Cow::Owned(Self { texts: self.texts.iter().map(shown).collect() })
    }

    /// The secrets in the texts, as messages may repeat them.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        self.iter().flat_map(|source| secret::values(&source.text, source.hidden())).collect()
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Where a span starts, for people.
    pub fn place_of(&self, span: Span) -> Place {
        self.place_at(span.source, span.start)
    }

    /// Where a span ends, for people: the line, and the column after the last character.
    pub fn end_of(&self, span: Span) -> (u32, u32) {
        self.get(span.source).map_or((1, 1), |source| source.line_column(span.end))
    }

    /// The same place with the name of the text.
    pub(crate) fn place_in(&self, Spot { source, line, column }: Spot) -> Place {
        let id = SourceId(source);
        let (file, before) = match self.get(id) {
            Some(source) => (source.name.as_str(), source.before),
            None if id == PLANNER => ("(planner)", 0),
            None if id == CHOICE => ("(choice)", 0),
            None => ("(unknown)", 0),
        };
        Place { file: file.into(), line: line.saturating_add(before), column }
    }

    /// Where a byte of a text is, for people.
    pub(crate) fn place_at(&self, id: SourceId, at: u32) -> Place {
        self.place_in(self.spot_at(id, at))
    }

    /// Where a byte of a text is, without the name of the text.
    pub(crate) fn spot_at(&self, id: SourceId, at: u32) -> Spot {
        let (line, column) = match self.get(id) {
            Some(source) => {
                let (line, column) = source.line_column(at);
                (line.saturating_sub(source.before), column)
            }
            None if id == PLANNER => (1, at.saturating_add(1)),
            None => (1, 1),
        };
        Spot { source: id.0, line, column }
    }
}

impl Source {
    fn new(name: String, text: String) -> Self {
        Self { name, text, lines: OnceLock::new(), before: 0, hidden: OnceLock::new() }
    }

    fn line_starts(&self) -> &LineStarts {
        self.lines.get_or_init(|| LineStarts::of(&self.text))
    }

    /// The name it was loaded under, usually a path.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The bytes that hold secrets.
    fn hidden(&self) -> &[Range<usize>] {
        self.hidden.get_or_init(|| secret::hidden(&self.text))
    }

    /// 1-based line and 1-based column in Unicode scalar values.
    pub(crate) fn line_column(&self, at: u32) -> (u32, u32) {
        let LineStarts { starts, narrow } = self.line_starts();
        let line = starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| starts.get(line)).copied().unwrap_or(0);
        // Policies are ASCII almost always, and then the column needs no counting of characters.
        if *narrow {
            let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            let column = if at <= end { at.saturating_sub(start) } else { 0 };
            return (self.line(at), column.saturating_add(1));
        }
        let before = self.text.get(start as usize..at as usize).unwrap_or_default();
        let column = u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
        (self.line(at), column)
    }

    /// The 1-based line of a byte.
    pub(crate) fn line(&self, at: u32) -> u32 {
        let line = self.line_starts().starts.partition_point(|start| *start <= at);
        u32::try_from(line).unwrap_or(u32::MAX).saturating_add(self.before)
    }

    /// The bytes of the lines `first..=last` (1-based), clipped to the text, line breaks included.
    pub(crate) fn lines(&self, first: u32, last: u32) -> Range<usize> {
        let start = |line: u32| {
            let index = (line.saturating_sub(self.before) as usize).saturating_sub(1);
            self.line_starts().starts.get(index).map_or(self.text.len(), |at| *at as usize)
        };
        start(first)..start(last.saturating_add(1))
    }
}

impl LineStarts {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let after = ends.filter_map(|(at, _)| u32::try_from(at).ok().and_then(|at| at.checked_add(1)));
        Self { starts: core::iter::once(0).chain(after).collect(), narrow: text.is_ascii() }
    }
}

impl Span {
    /// The bytes `start..end` of a source.
    pub(crate) const fn new(source: SourceId, start: u32, end: u32) -> Self {
        Self { source, start, end }
    }

    pub(crate) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
