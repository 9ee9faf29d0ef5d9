//! A test file, read and ready to be played.

use std::sync::Arc;

use super::compare::{ExpectationMismatch, compare};
use super::coverage::PolicyCoverage;
use super::expect::ExpectRule;
use super::proves::{ExternalProof, ProofSource, ProvedClaim, UnmetClaim};
use super::run::{self, CaseSetup};
use super::timeline::{TimelineLine, timeline};
use crate::text::{Place, Report};

/// The cases of one test file.
#[derive(Clone, Debug)]
pub struct TestSuite {
    pub(super) name: String,
    pub(super) about: Option<String>,
    pub(super) documents: Vec<ProofSource>,
    pub(super) elsewhere: Vec<ExternalProof>,
    pub(super) unmet: Vec<UnmetClaim>,
    pub(super) cases: Vec<TestCase>,
    pub(super) warnings: Vec<Report>,
}

/// One case.
#[derive(Clone, Debug)]
pub struct TestCase {
    pub(super) file: Arc<str>,
    pub(super) name: String,
    pub(super) given: Option<String>,
    pub(super) proves: Vec<ProvedClaim>,
    pub(super) place: Place,
    pub(super) setup: Arc<CaseSetup>,
    pub(super) expect: Arc<ExpectRule>,
}

/// What became of a case.
#[derive(Debug)]
pub struct CaseVerdict {
    /// Every expectation that was not met; empty: the case passes.
    pub mismatches: Vec<ExpectationMismatch>,
    /// What happened; only of a case that does not pass.
    pub timeline: Vec<TimelineLine>,
}

impl TestSuite {
    /// The test file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its cases are about, if it says so.
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// The documents it describes.
    pub(crate) fn documents(&self) -> &[ProofSource] {
        &self.documents
    }

    /// The statements that are shown by tests outside of it.
    pub fn elsewhere(&self) -> &[ExternalProof] {
        &self.elsewhere
    }

    /// What is likely not meant: selectors of its policies that match none of its tools.
    pub fn warnings(&self) -> &[Report] {
        &self.warnings
    }

    /// The statements of documents that are not met.
    pub(crate) fn unmet(&self) -> &[UnmetClaim] {
        &self.unmet
    }

    /// Its cases, in order.
    pub fn cases(&self) -> &[TestCase] {
        &self.cases
    }
}

impl TestCase {
    /// What it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The situation in words, if there is one.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// The statements it proves.
    pub fn proves(&self) -> &[ProvedClaim] {
        &self.proves
    }

    /// Where it is written.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Plays it. The same case always has the same verdict.
    pub fn run(&self) -> CaseVerdict {
        self.run_with(None)
    }

    /// Plays it and counts what it covers.
    pub fn run_counted(&self, coverage: &mut PolicyCoverage) -> CaseVerdict {
        self.run_with(Some(coverage))
    }

    fn run_with(&self, coverage: Option<&mut PolicyCoverage>) -> CaseVerdict {
        let record = run::run(&self.setup);
        if let Some(coverage) = coverage {
            coverage.add(&self.file, &self.setup, &record);
        }
        let mismatches = compare(&self.expect, &record);
        let timeline = if mismatches.is_empty() { Vec::new() } else { timeline(&record) };
        CaseVerdict { mismatches, timeline }
    }
}

impl CaseVerdict {
    /// Whether all that was expected came.
    pub const fn passed(&self) -> bool {
        self.mismatches.is_empty()
    }
}

impl ExpectationMismatch {
    /// The bytes of the test file that would have to change for it to hold, and their new text; only of
    /// numbers and lists that are exact.
    pub fn update(&self) -> Option<(core::ops::Range<usize>, &str)> {
        let (span, text) = self.fix.as_ref()?;
        Some((span.range(), text))
    }
}
