//! All problems of the documents that were read together.

use core::fmt;
use std::collections::HashSet;

use super::lost::{Lost, Within};
use super::{Code, Diagnostic, Fix, Severity, Sources, Span, visible};

/// The most problems a report shows unless it is told otherwise. The rest is counted.
const SHOWN: usize = 100;
/// The most errors, and the most warnings, that are kept while reading, so that hostile input cannot fill the memory.
const KEPT: usize = 5_000;

/// Problems as they are found.
#[derive(Debug, Default)]
pub struct Findings {
    errors: Kind,
    warnings: Kind,
    lost: Lost,
    /// The slices that messages read, each with the place where.
    slices: Vec<(String, Span)>,
    /// Other repairs of the text that is no YAML: its fields decide which is meant.
    readings: Vec<Fix>,
}

/// The errors, or the warnings.
#[derive(Debug, Default)]
struct Kind {
    kept: Vec<Diagnostic>,
    found: usize,
}

/// All problems of the documents that were read together, in the order of the text, with the texts.
///
/// As an [`Error`](std::error::Error) it reads as one line per problem; [`Report::human`] shows the text with
/// carets and [`Report::to_json`] is for machines.
#[derive(Clone, Debug)]
pub struct Report {
    sources: Sources,
    /// Those that are shown, in the order of the text, then those that are not.
    diagnostics: Vec<Diagnostic>,
    shown: usize,
    /// Errors and warnings that were not kept.
    dropped: (usize, usize),
}

impl Findings {
    /// Writes a problem down.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let kind = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        kind.found = kind.found.saturating_add(1);
        if kind.kept.len() < KEPT {
            kind.kept.push(diagnostic.capped());
        }
    }

    /// A message reads that slice.
    pub(super) fn reads_slice(&mut self, name: &str, span: Span) {
        if self.slices.len() < KEPT {
            self.slices.push((name.to_owned(), span));
        }
    }

    /// The slices that messages read.
    pub(super) fn slices_read(&mut self) -> Vec<(String, Span)> {
        core::mem::take(&mut self.slices)
    }

    /// The text that is no YAML can be repaired in those ways, too.
    pub(super) fn may_be_read(&mut self, readings: impl IntoIterator<Item = Fix>) {
        self.readings.extend(readings);
    }

    /// The other repairs of the text that is no YAML.
    pub(super) fn readings(&mut self) -> Vec<Fix> {
        core::mem::take(&mut self.readings)
    }

    /// Whether any of them is an error.
    pub const fn has_errors(&self) -> bool {
        self.errors.found > 0
    }

    /// How many errors there are.
    pub const fn errors(&self) -> usize {
        self.errors.found
    }

    /// Whether there are so many errors that nobody wants to know why each one is there.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.errors.found >= SHOWN
    }

    /// The last of the first errors for which that holds.
    pub(crate) fn recent(&mut self, holds: impl Fn(&Diagnostic) -> bool) -> Option<&mut Diagnostic> {
        self.errors.kept.iter_mut().take(SHOWN).rfind(|problem| holds(problem))
    }

    /// Forgets the errors of that part of a text, which come of another one.
    pub(super) fn forget_within(&mut self, part: Span) {
        let before = self.errors.kept.len();
        self.errors.kept.retain(|problem| {
            problem.span.source != part.source
                || problem.span.start < part.start
                || part.end < problem.span.end
        });
        let gone = before.saturating_sub(self.errors.kept.len());
        self.errors.found = self.errors.found.saturating_sub(gone);
    }

    /// Whether something was too large to be looked at further.
    pub(crate) fn is_overrun(&self) -> bool {
        self.errors.kept.iter().take(SHOWN).any(|problem| problem.code == Code::TOO_LARGE)
    }

    /// What could not be read.
    pub(crate) const fn lost(&self) -> &Lost {
        &self.lost
    }

    /// A field could not be read, or an entry of that type.
    pub(crate) fn lose(&mut self, name: &str, within: &Within) {
        self.lost.field(name, within);
    }

    /// A whole file could not be read.
    pub(crate) const fn lose_file(&mut self) {
        self.lost.file();
    }

    /// Ends the reading.
    pub fn into_report(self, sources: Sources) -> Report {
        let Self { errors, warnings, lost: _, slices: _, readings: _ } = self;
        let dropped = (errors.dropped(), warnings.dropped());
        let mut diagnostics = errors.kept;
        diagnostics.extend(warnings.kept);
        if !diagnostics.is_empty() {
            let secrets = sources.secrets();
            diagnostics = diagnostics.into_iter().map(|problem| problem.without(&secrets)).collect();
        }
        let mut seen = HashSet::new();
        diagnostics.retain(|d| seen.insert((d.code, d.span, d.message.clone())));
        Report { sources, diagnostics, shown: 0, dropped }.at_most(SHOWN)
    }
}

impl Kind {
    const fn dropped(&self) -> usize {
        self.found.saturating_sub(self.kept.len())
    }
}

impl Report {
    /// The report with at most so many problems shown; errors come before warnings. It keeps 5,000 of each.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.diagnostics.sort_by_key(|d| (d.severity, d.span, d.code));
        self.shown = most.min(self.diagnostics.len());
        if let Some(shown) = self.diagnostics.get_mut(..self.shown) {
            shown.sort_by_key(|d| (d.span, d.code));
        }
        self
    }

    /// The problems that are shown, in the order of the text; at most 100 unless it was told otherwise.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.diagnostics.get(..self.shown).unwrap_or_default()
    }

    /// The problems that are kept, whether they are shown or not.
    pub fn all(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// How many more there are than those that are shown.
    pub const fn more(&self) -> usize {
        let kept = self.diagnostics.len().saturating_sub(self.shown);
        kept.saturating_add(self.dropped.0).saturating_add(self.dropped.1)
    }

    /// How many errors and how many warnings there are, shown or not.
    pub fn count(&self) -> (usize, usize) {
        let errors = self.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        let warnings = self.diagnostics.len().saturating_sub(errors);
        (errors.saturating_add(self.dropped.0), warnings.saturating_add(self.dropped.1))
    }

    /// One line per problem, as it is displayed, with what to do at its end. A long list is said once.
    pub fn lines(&self, said: &mut Said) -> String {
        let mut text = String::new();
        for d in self.diagnostics() {
            let one = one_line(d, &self.sources);
            text.push_str(&one);
            for help in said.new_of(d) {
                text.extend(["; help: ", &*visible(help)]);
            }
            text.push('\n');
        }
        if self.more() > 0 {
            text.extend(["and ", &self.more().to_string(), " more\n"]);
        }
        text
    }

    /// The texts.
    pub const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Whether any of them is an error, shown or not.
    pub fn has_errors(&self) -> bool {
        self.dropped.0 > 0 || self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }
}

impl fmt::Display for Report {
    /// One line per problem: `team.yaml:5:7: error[P0101]: unknown field ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.diagnostics().iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}", one_line(d, &self.sources))?;
        }
        if self.more() > 0 {
            write!(f, "\nand {} more", self.more())?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// A problem in a line: `team.yaml:5:7: error[P0101]: unknown field ...`.
fn one_line(d: &Diagnostic, sources: &Sources) -> String {
    let place = sources.place_of(d.span).to_string();
    let label = d.label.as_ref().map(|label| format!(" ({})", visible(label))).unwrap_or_default();
    format!("{}: {}[{}]: {}{label}", visible(&place), d.severity, d.code, visible(&d.message))
}

/// The long helps that were given already: nobody reads a list of all classes twice.
#[derive(Debug, Default)]
pub struct Said(HashSet<String>);

/// Longer helps are given once.
const LONG: usize = 200;
/// So is a list of all that could be written, where it is longer than this.
const LONG_LIST: usize = 100;

impl Said {
    /// Whether a help is given once.
    pub(super) fn is_long(help: &str) -> bool {
        help.len() > LONG || help.len() > LONG_LIST && help.starts_with("expected one of ")
    }

    /// What is to be done about a problem, without what was said at length already.
    pub(super) fn new_of<'d>(&mut self, d: &'d Diagnostic) -> impl Iterator<Item = &'d str> + use<'_, 'd> {
        let is_new = |help: &&String| !Self::is_long(help) || self.0.insert((*help).clone());
        d.help.iter().filter(is_new).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Code, SourceId, Span};

    fn report(problems: impl IntoIterator<Item = Diagnostic>) -> Report {
        let mut findings = Findings::default();
        problems.into_iter().for_each(|problem| findings.push(problem));
        let mut sources = Sources::new();
        sources.add("a.yaml", "x".repeat(100_000));
        findings.into_report(sources)
    }

    fn at(at: u32) -> Span {
        Span::new(SourceId(0), at, at)
    }

    fn warning(place: u32) -> Diagnostic {
        Diagnostic::warning(Code::SHADOWED, at(place), "lost")
    }

    fn error(place: u32) -> Diagnostic {
        Diagnostic::error(Code::SYNTAX, at(place), "broken")
    }

    #[test]
    fn many_warnings_are_no_error() {
        for count in [101, 6_000] {
            let report = report((0..count).map(warning));
            assert!(!report.has_errors());
            assert_eq!((report.diagnostics().len(), report.more()), (100, count as usize - 100));
        }
    }

    #[test]
    fn no_number_of_warnings_hides_an_error() {
        let report = report((0..6_000).map(warning).chain([error(9_000)]));
        assert!(report.has_errors());
        let shown = report.diagnostics();
        assert_eq!(shown.len(), 100);
        assert_eq!(shown[99], error(9_000), "it is shown, in its place");
        assert_eq!(shown[0], warning(0));
    }

    #[test]
    fn what_a_file_says_begins_no_line_of_its_own() {
        let problem =
            Diagnostic::error(Code::SYNTAX, at(0), "a\u{1b}[31mX\nb.yaml:1:1: error").label("\u{7}\u{2028}");
        let said = report([problem]).to_string();
        assert_eq!(said, "a.yaml:1:1: error[P0001]: a\\u001b[31mX\\nb.yaml:1:1: error (\\u0007\\u2028)");
    }

    #[test]
    fn a_report_shows_as_many_as_it_is_told_to() {
        let report = report((0..150).map(error));
        assert_eq!(report.more(), 50);
        let report = report.at_most(1);
        assert_eq!((report.diagnostics().len(), report.more()), (1, 149));
        let report = report.at_most(1_000);
        assert_eq!((report.diagnostics().len(), report.more()), (150, 0));
        let none = report.at_most(0);
        assert!(none.diagnostics().is_empty() && none.has_errors() && !none.is_empty());
    }
}
