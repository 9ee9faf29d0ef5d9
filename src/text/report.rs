//! All problems of the documents that were read together.

use core::fmt;
use std::collections::BTreeSet;

use super::{Code, Diagnostic, Severity, Sources, visible};

/// The most problems a report shows unless it is informed otherwise. The rest is counted.
pub(super) const SHOWN: usize = 100;

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

impl Report {
    /// The problems in those texts, and how many errors and warnings were not kept.
    pub(super) fn new(sources: Sources, mut diagnostics: Vec<Diagnostic>, dropped: (usize, usize)) -> Self {
        let mut seen = BTreeSet::new();
        // A file that is reached twice would report each of its problems twice.
        diagnostics.retain(|d| seen.insert((d.code, d.span, d.message.clone())));
        Self { sources, diagnostics, shown: 0, dropped }.at_most(SHOWN)
    }

    /// The report with at most so many problems shown; errors come before warnings. It keeps 5,000 of each.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        // Errors first, so that a hundred warnings cannot hide the one that matters.
        self.diagnostics.sort_by_key(|d| (d.severity, d.span, d.code));
        self.shown = most.min(self.diagnostics.len());
        if let Some(shown) = self.diagnostics.get_mut(..self.shown) {
            shown.sort_by_key(|d| (d.span, d.code));
        }
        self
    }

    /// The problems that are shown, in the order of the text; at most 100 unless it was informed otherwise.
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

    /// One line per problem, as it is displayed, with what to do at its end. A long list is given once.
    pub(crate) fn lines(&self, said: &mut GivenHelps) -> String {
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

    /// The problems of one code alone.
    #[must_use]
    pub(crate) fn only(mut self, code: Code) -> Self {
        self.diagnostics.retain(|d| d.code == code);
        self.shown = self.diagnostics.len();
        self.dropped = (0, 0);
        self
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

/// The long helps already shown; a list of all classes is shown only once.
#[derive(Debug, Default)]
pub(crate) struct GivenHelps(BTreeSet<String>);

/// Longer helps are given once.
const LONG: usize = 200;
/// So is a list of all that could be written, where it is longer than this.
const LONG_LIST: usize = 100;

impl GivenHelps {
    /// Whether a help is given once.
    pub(super) fn is_long(help: &str) -> bool {
        help.len() > LONG || help.len() > LONG_LIST && help.starts_with("expected one of ")
    }

    /// What is to be done about a problem, without the messages at length already.
    pub(super) fn new_of<'d>(&mut self, d: &'d Diagnostic) -> impl Iterator<Item = &'d str> + use<'_, 'd> {
        let is_new = |help: &&String| !Self::is_long(help) || self.0.insert((*help).clone());
        d.help.iter().filter(is_new).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Code, Problems, SourceId, Span};

    fn report(problems: impl IntoIterator<Item = Diagnostic>) -> Report {
        let mut found = Problems::default();
        problems.into_iter().for_each(|problem| found.push(problem));
        let mut sources = Sources::new();
        sources.add("a.yaml", "x".repeat(100_000));
        found.into_report(sources)
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
