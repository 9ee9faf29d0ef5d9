//! Problems as they are found while texts are read.

use super::report::SHOWN;
use super::{Code, Diagnostic, Fix, Report, Severity, Sources, Span};

/// The most errors, and the most warnings, that are kept while reading, so that hostile input cannot fill the memory.
const KEPT: usize = 5_000;

/// Problems as they are found.
#[derive(Debug, Default)]
pub struct Problems {
    errors: Kind,
    warnings: Kind,
    /// Other repairs of the text that is no YAML: its fields decide which is meant.
    readings: Vec<Fix>,
}

/// The errors, or the warnings.
#[derive(Debug, Default)]
struct Kind {
    kept: Vec<Diagnostic>,
    found: usize,
}

impl Problems {
    /// Writes a problem down.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let kind = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        // Counted also when it is not kept, so that the report says how many there are.
        kind.found = kind.found.saturating_add(1);
        if kind.kept.len() < KEPT {
            kind.kept.push(diagnostic.capped());
        }
    }

    /// The text that is no YAML can be repaired in those ways, too.
    pub(super) fn may_be_read(&mut self, readings: impl IntoIterator<Item = Fix>) {
        self.readings.extend(readings);
    }

    /// The other repairs of the text that is no YAML.
    pub(crate) fn readings(&mut self) -> Vec<Fix> {
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

    /// Whether there are too many errors to explain each one.
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

    /// Ends the reading.
    pub fn into_report(self, sources: Sources) -> Report {
        let Self { errors, warnings, readings: _ } = self;
        let dropped = (errors.dropped(), warnings.dropped());
        let mut diagnostics = errors.kept;
        diagnostics.extend(warnings.kept);
        if !diagnostics.is_empty() {
            let secrets = sources.secrets();
            diagnostics = diagnostics.into_iter().map(|problem| problem.without(&secrets)).collect();
        }
        Report::new(sources, diagnostics, dropped)
    }
}

impl Kind {
    const fn dropped(&self) -> usize {
        self.found.saturating_sub(self.kept.len())
    }
}
