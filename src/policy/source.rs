//! The texts policies and other documents are read from, and what a byte offset in one of them means to people.

use core::fmt;
use core::ops::Range;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::{Origin, Place, SourceId, Spot, secret};

/// Texts by the order of loading. Number zero is the built-in default policy once one is loaded. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Arc<Source>>,
}

/// One named text.
#[derive(Clone)]
pub struct Source {
    name: String,
    text: String,
    /// Byte offsets at which lines start; the first is 0.
    lines: Vec<u32>,
    /// Whether each character is one byte; nobody has to count them then.
    narrow: bool,
    /// The lines before it in the file it is a part of.
    before: u32,
    /// The bytes that hold secrets, once somebody asked for them.
    hidden: OnceLock<Vec<Range<usize>>>,
}

/// A range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The source.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// The source of what a planner gives at run time. It is a single line of JSON, so its offsets are columns.
pub(crate) const PLANNER: SourceId = SourceId(u16::MAX);
/// The source of what is chosen on the command line or by the host. It has no text.
pub(crate) const CHOICE: SourceId = SourceId(u16::MAX - 1);

/// Without its text: there may be secrets in it.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text. A text longer than 4 GiB is not indexed past that point.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
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
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.texts.get(usize::from(id.0)).map(AsRef::as_ref)
    }

    /// All texts, in the order of loading.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
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
                lines: source.lines.clone(),
                narrow: source.narrow,
                before: source.before,
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

    /// Where a value was written, for people.
    pub fn place(&self, origin: Origin) -> Place {
        self.place_at(origin.source, origin.at)
    }

    /// Where a span starts, for people.
    pub fn place_of(&self, span: Span) -> Place {
        self.place_at(span.source, span.start)
    }

    /// Where a span ends, for people: the line, and the column after the last character.
    pub fn end_of(&self, span: Span) -> (u32, u32) {
        self.get(span.source).map_or((1, 1), |source| source.line_column(span.end))
    }

    /// Where a value was written, without the name of the text.
    pub(crate) fn spot(&self, origin: Origin) -> Spot {
        self.spot_at(origin.source, origin.at)
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

    fn place_at(&self, id: SourceId, at: u32) -> Place {
        self.place_in(self.spot_at(id, at))
    }

    fn spot_at(&self, id: SourceId, at: u32) -> Spot {
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
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0)
            .chain(starts.filter_map(|(at, _)| u32::try_from(at).ok().and_then(|at| at.checked_add(1))))
            .collect();
        let narrow = text.is_ascii();
        Self { name, text, lines, narrow, before: 0, hidden: OnceLock::new() }
    }

    /// The name it was loaded under, usually a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes that hold secrets.
    fn hidden(&self) -> &[Range<usize>] {
        self.hidden.get_or_init(|| secret::hidden(&self.text))
    }

    /// 1-based line and 1-based column in Unicode scalar values.
    pub fn line_column(&self, at: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
        if self.narrow {
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
        let line = self.lines.partition_point(|start| *start <= at);
        u32::try_from(line).unwrap_or(u32::MAX).saturating_add(self.before)
    }

    /// The bytes of the lines `first..=last` (1-based), clipped to the text, line breaks included.
    pub(crate) fn lines(&self, first: u32, last: u32) -> Range<usize> {
        let start = |line: u32| {
            let index = (line.saturating_sub(self.before) as usize).saturating_sub(1);
            self.lines.get(index).map_or(self.text.len(), |at| *at as usize)
        };
        start(first)..start(last.saturating_add(1))
    }
}

impl Span {
    /// The bytes `start..end` of a source.
    pub const fn new(source: SourceId, start: u32, end: u32) -> Self {
        Self { source, start, end }
    }

    /// The same place as the origin of a value of that layer.
    pub const fn origin(self, scope: super::Scope) -> Origin {
        Origin { source: self.source, at: self.start, scope }
    }

    pub(crate) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Scope;

    #[test]
    fn an_offset_is_a_line_and_a_column_in_characters() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "x: 1\nä: ö\n");
        let place = |at| sources.place(Origin { source: id, at, scope: Scope::Global }).to_string();
        assert_eq!(place(0), "a.yaml:1:1");
        assert_eq!(place(3), "a.yaml:1:4");
        assert_eq!(place(5), "a.yaml:2:1");
        assert_eq!(place(9), "a.yaml:2:4");
        assert_eq!(place(12), "a.yaml:3:1");
        assert_eq!(place(4_000_000), "a.yaml:3:1");
    }

    #[test]
    fn a_spot_is_the_same_in_a_text_of_another_name_and_below_other_lines() {
        let mut here = Sources::new();
        let id = here.add("a.yaml", "x: 1\ny: 2\n");
        let mut there = Sources::new();
        there.add("/srv/b.yaml", "x: 1\ny: 2\n");
        there.put_below(40);
        let spot = here.spot(Origin { source: id, at: 8, scope: Scope::Global });
        assert_eq!(there.spot(Origin { source: id, at: 8, scope: Scope::Global }), spot);
        assert_eq!(here.place_in(spot).to_string(), "a.yaml:2:4");
        assert_eq!(there.place_in(spot).to_string(), "/srv/b.yaml:42:4");
    }

    #[test]
    fn an_unknown_source_still_has_a_name() {
        assert_eq!(Sources::new().place(Origin::BUILTIN).to_string(), "(unknown):1:1");
    }

    #[test]
    fn the_text_is_not_in_the_debug_form_of_what_holds_it() {
        let text = "version: 1\napi_key: sk-proj-abcdefghijklmnopqrstuvwxyz012345\n";
        let report = crate::policy::Policy::from_yaml("p.yaml", text).unwrap_err();
        let shown = format!("{report:?} {report:#?}");
        assert!(shown.contains("p.yaml") && !shown.contains("sk-proj-abc"), "{shown}");
    }
}
