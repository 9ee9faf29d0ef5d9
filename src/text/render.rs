//! Reports for people, with the text and carets, and for machines, as JSON.

use core::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Patch, Renderer, Snippet};
use serde_json::{Value, json};

use super::source::Source;
use super::{Diagnostic, GivenHelps, Report, Severity, Sources, Span, columns};

/// Lines longer than this are not shown; the place is named instead.
const LONGEST_LINE: usize = 2_000;
/// How many columns a long list has where no terminal is.
const COLUMNS: usize = 100;
/// The columns before a help, and before a message.
const HELP: usize = 12;
const TITLE: usize = 16;
/// So much of a line is left to what is not marked.
const UNMARKED: usize = 24;
/// Narrower texts are not broken.
const NARROWEST: usize = 30;
/// Two places further apart than this are shown in two excerpts.
const SAME_EXCERPT: u32 = 40;

impl Report {
    /// With the text and carets. `styled` adds ANSI colours.
    pub fn human(&self, styled: bool) -> String {
        self.human_within(styled, None, &mut GivenHelps::default())
    }

    /// The same for a terminal of so many columns, beside other reports: a long list is given once in all. Where no terminal
    /// is, lines are as long as what is said, but for long lists.
    pub(crate) fn human_within(&self, styled: bool, width: Option<usize>, said: &mut GivenHelps) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let renderer = width.map_or_else(|| renderer.clone(), |width| renderer.clone().term_width(width));
        let mut out = String::new();
        let sources = self.sources().shown();
        for diagnostic in self.diagnostics() {
            let mut shown = diagnostic.clone();
            shown.help = said.new_of(diagnostic).map(str::to_owned).collect();
            for help in &mut shown.help {
                if width.is_some() || GivenHelps::is_long(help) {
                    *help = wrapped(help, width.unwrap_or(COLUMNS).saturating_sub(HELP));
                }
            }
            if let Some(width) = width {
                shown.message = wrapped(&shown.message, width.saturating_sub(TITLE));
            }
            let diagnostic = &shown;
            out.push_str(&renderer.render(&groups(diagnostic, &sources, width)));
            out.push_str("\n\n");
        }
        if self.more() > 0 {
            // Writing into a string does not fail.
            let _ = writeln!(out, "and {} more", self.more());
        }
        out
    }

    /// For machines. `format` counts up when a field is removed or changes its meaning.
    pub fn to_json(&self) -> Value {
        let diagnostics: Vec<Value> = self.diagnostics().iter().map(|d| one(d, self.sources())).collect();
        json!({"format": 1, "diagnostics": diagnostics, "more": self.more()})
    }
}

/// A text in lines of so many columns, broken at blanks.
fn wrapped(text: &str, width: usize) -> String {
    let width = width.max(NARROWEST);
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && columns(&line).saturating_add(columns(word)).saturating_add(1) > width {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line
}

fn groups<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources, width: Option<usize>) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut main = level
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.as_str())
        .elements(excerpts(diagnostic, sources, width));
    for help in &diagnostic.help {
        main = main.element(Level::HELP.message(help.as_str()));
    }
    let mut groups = vec![main];
    groups.extend(fix(diagnostic, sources));
    groups
}

/// The places of a problem: those near the first share its excerpt, the others get their own.
fn excerpts<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources, width: Option<usize>) -> Vec<Element<'a>> {
    let Some(source) = sources.get(diagnostic.span.source) else {
        return diagnostic.label.iter().map(|label| Level::NOTE.message(label.as_str()).into()).collect();
    };
    let first = line(source, diagnostic.span);
    let near = |span: &Span| {
        span.source == diagnostic.span.source && line(source, *span).abs_diff(first) <= SAME_EXCERPT
    };
    let mut marks = vec![(diagnostic.span, diagnostic.label.as_deref(), AnnotationKind::Primary)];
    let (close, far): (Vec<_>, Vec<_>) = diagnostic.also.iter().partition(|(span, _)| near(span));
    marks.extend(close.iter().map(|(span, label)| (*span, Some(label.as_str()), AnnotationKind::Context)));
    let mut elements = excerpt(source, &marks, width);
    for (span, label) in far {
        if let Some(source) = sources.get(span.source) {
            elements.extend(excerpt(
                source,
                &[(*span, Some(label.as_str()), AnnotationKind::Context)],
                width,
            ));
        }
    }
    elements
}

fn excerpt<'a>(
    source: &'a Source,
    marks: &[(Span, Option<&'a str>, AnnotationKind)],
    width: Option<usize>,
) -> Vec<Element<'a>> {
    let lines = marks.iter().map(|(span, ..)| line(source, *span));
    let first = lines.clone().min().unwrap_or(1);
    let last = lines.max().unwrap_or(1);
    let window = source.lines(first, last);
    let text = source.text().get(window.clone()).unwrap_or_default();
    // A text that was not read whole is empty here, and an excerpt of it would be wrong.
    if source.text().is_empty() || text.lines().any(|line| line.len() > LONGEST_LINE) {
        return marks.iter().flat_map(|(span, label, _)| bare(source, *span, *label)).collect();
    }
    let mut snippet = Snippet::source(text).path(source.name()).line_start(first as usize);
    for (span, label, kind) in marks {
        let range = narrow(text, clip(span.range(), &window, text), width);
        snippet = snippet.annotation(kind.span(range).label(*label));
    }
    vec![snippet.into()]
}

/// A place whose line is too long to show, or is not there.
fn bare<'a>(source: &'a Source, span: Span, label: Option<&'a str>) -> Vec<Element<'a>> {
    let (line, column) = source.line_column(span.start);
    let origin =
        annotate_snippets::Origin::path(source.name()).line(line as usize).char_column(column as usize);
    let mut elements: Vec<Element<'a>> = vec![origin.into()];
    elements.extend(label.map(|label| Element::from(Level::NOTE.message(label))));
    elements
}

/// A span within a window of its text, cut at the end of the span's first line.
fn clip(
    span: core::ops::Range<usize>,
    window: &core::ops::Range<usize>,
    text: &str,
) -> core::ops::Range<usize> {
    let start = span.start.clamp(window.start, window.end).saturating_sub(window.start);
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
    let length = span.end.saturating_sub(span.start).min(line);
    start..start.saturating_add(length)
}

/// The beginning of a mark that is wider than the terminal: a line is shown around its marks, and wraps if they do not fit.
fn narrow(text: &str, range: core::ops::Range<usize>, width: Option<usize>) -> core::ops::Range<usize> {
    let Some(width) = width else { return range };
    let most = width.saturating_sub(UNMARKED).max(1);
    let marked = text.get(range.clone()).unwrap_or_default();
    let mut wide = 0_usize;
    let end = marked.char_indices().find(|(_, c)| {
        wide = wide.saturating_add(columns(c.encode_utf8(&mut [0; 4])));
        wide > most
    });
    range.start..end.map_or(range.end, |(at, _)| range.start.saturating_add(at))
}

fn fix<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Option<Group<'a>> {
    let fix = diagnostic.fix.as_ref()?;
    let source = sources.get(fix.span.source)?;
    let at = line(source, fix.span);
    let window = source.lines(at, at);
    let text = source.text().get(window.clone())?;
    let inside = window.start <= fix.span.range().start && fix.span.range().end <= window.end;
    if !inside || text.len() > LONGEST_LINE {
        return None;
    }
    let range =
        fix.span.range().start.checked_sub(window.start)?..fix.span.range().end.checked_sub(window.start)?;
    let patch = Snippet::source(text)
        .path(source.name())
        .line_start(at as usize)
        .patch(Patch::new(range, fix.text.as_str()));
    // Without a title the label says it already.
    Some(Level::HELP.secondary_title(fix.title.as_deref()?).element(patch))
}

fn line(source: &Source, span: Span) -> u32 {
    source.line_column(span.start).0
}

fn one(d: &Diagnostic, sources: &Sources) -> Value {
    let also: Vec<Value> =
        d.also.iter().map(|(span, label)| json!({"at": place(*span, sources), "label": label})).collect();
    json!({
        "code": d.code.as_str(),
        "severity": d.severity.name(),
        "message": d.message,
        "at": place(d.span, sources),
        "label": d.label,
        "also": also,
        "help": d.help,
        "fix": d.fix.as_ref().map(|fix| {
            json!({"at": place(fix.span, sources), "title": fix.title, "text": fix.text})
        }),
    })
}

fn place(span: Span, sources: &Sources) -> Value {
    let place = sources.place_of(span);
    let end = sources.end_of(span);
    json!({
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_line": end.0,
        "end_column": end.1,
        "bytes": [span.start, span.end],
    })
}
