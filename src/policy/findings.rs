//! What the reading of documents finds: their problems, and what could not be read.

use super::lost::{UnreadFields, UnreadScope};
use crate::text::{Diagnostic, Problems, Report, Sources, Span};

/// The most reads of slices that are kept.
const KEPT: usize = 5_000;

/// What the reading of documents finds.
#[derive(Debug, Default)]
pub struct Findings {
    problems: Problems,
    lost: UnreadFields,
    /// The slices that messages read, each with the place where.
    slices: Vec<(String, Span)>,
}

impl Findings {
    /// Writes a problem down.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.problems.push(diagnostic);
    }

    /// The problems.
    pub(crate) const fn problems(&self) -> &Problems {
        &self.problems
    }

    /// The problems, for who adds to them or changes one.
    pub(crate) const fn problems_mut(&mut self) -> &mut Problems {
        &mut self.problems
    }

    /// Whether any of them is an error.
    pub const fn has_errors(&self) -> bool {
        self.problems.has_errors()
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

    /// What could not be read.
    pub(crate) const fn lost(&self) -> &UnreadFields {
        &self.lost
    }

    /// A field could not be read, or an entry of that type.
    pub(crate) fn lose(&mut self, name: &str, within: &UnreadScope) {
        self.lost.field(name, within);
    }

    /// A whole file could not be read.
    pub(crate) const fn lose_file(&mut self) {
        self.lost.file();
    }

    /// Ends the reading.
    pub fn into_report(self, sources: Sources) -> Report {
        self.problems.into_report(sources)
    }
}
