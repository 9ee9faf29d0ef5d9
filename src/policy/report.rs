//! All problems of the documents that were read together.

use core::fmt;
use std::collections::HashSet;

use super::{Diagnostic, Severity, Sources};

/// The most problems a report shows. The rest is counted.
const SHOWN: usize = 100;
/// The most problems that are kept while reading, so that hostile input cannot fill the memory.
const KEPT: usize = 5_000;

/// Problems as they are found.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
}

/// All problems of the documents that were read together, in the order of the text, with the texts.
///
/// As an [`Error`](std::error::Error) it reads as one line per problem; [`Report::human`] shows the text with
/// carets and [`Report::to_json`] is for machines.
#[derive(Clone, Debug)]
pub struct Report {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    more: usize,
}

impl Findings {
    /// Writes a problem down.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors = self.errors.saturating_add(1);
        }
        if self.found.len() < KEPT {
            self.found.push(diagnostic);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Whether any of them is an error.
    pub const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many errors there are.
    pub const fn errors(&self) -> usize {
        self.errors
    }

    /// Whether there are so many that nobody wants to know why each one is there.
    pub(crate) fn is_crowded(&self) -> bool {
        self.found.len() >= SHOWN
    }

    /// Ends the reading.
    pub fn into_report(self, sources: Sources) -> Report {
        let Self { mut found, dropped, .. } = self;
        found.sort_by_key(|d| (d.span, d.code));
        let mut seen = HashSet::new();
        found.retain(|d| seen.insert((d.code, d.span, d.message.clone())));
        let more = dropped.saturating_add(found.len().saturating_sub(SHOWN));
        found.truncate(SHOWN);
        Report { sources, diagnostics: found, more }
    }
}

impl Report {
    /// The problems, in the order of the text; at most 100.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// How many more there are.
    pub const fn more(&self) -> usize {
        self.more
    }

    /// The texts.
    pub const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.more > 0 || self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }
}

impl fmt::Display for Report {
    /// One line per problem: `team.yaml:5:7: error[P0101]: unknown field ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.diagnostics.iter().enumerate() {
            let place = self.sources.place_of(d.span);
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{place}: {}[{}]: {}", d.severity, d.code, d.message)?;
            if let Some(label) = &d.label {
                write!(f, " ({label})")?;
            }
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}
