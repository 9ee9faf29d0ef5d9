//! A test file, read and ready to be played.

use std::collections::HashMap;
use std::sync::Arc;

use super::compare::{Mismatch, compare};
use super::coverage::Coverage;
use super::document::TestFile;
use super::expect::ExpectRule;
use super::proves::{Claim, Elsewhere, Source, UnmetClaim};
use super::run::{self, Setup};
use super::staging::Staging;
use super::timeline::{Line, timeline};
use crate::policy::decode;
use crate::policy::{Findings, Place, Policy, Report, Sources, Text};

/// Reads the files that test files name. Each policy is loaded once, however many cases it is for.
pub struct Loader<'a> {
    pub(super) open: Box<Open<'a>>,
    pub(super) policies: HashMap<PolicyKey, Policy>,
}

/// Opens a file: the test file that names it, and its path as it is written there. What it is to be called, and its
/// bytes; or why it cannot be read.
pub(super) type Open<'a> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// The files of a policy, and the profile that is chosen.
pub(super) type PolicyKey = (Vec<Text>, Option<String>);

/// The cases of one test file.
#[derive(Clone, Debug)]
pub struct Suite {
    pub(super) name: String,
    pub(super) about: Option<String>,
    pub(super) documents: Vec<Source>,
    pub(super) elsewhere: Vec<Elsewhere>,
    pub(super) unmet: Vec<UnmetClaim>,
    pub(super) cases: Vec<Case>,
    pub(super) warnings: Vec<Report>,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) file: Arc<str>,
    pub(super) name: String,
    pub(super) given: Option<String>,
    pub(super) proves: Vec<Claim>,
    pub(super) place: Place,
    pub(super) setup: Arc<Setup>,
    pub(super) expect: Arc<ExpectRule>,
}

/// What became of a case.
#[derive(Debug)]
pub struct Verdict {
    /// Every expectation that was not met; empty: the case passes.
    pub mismatches: Vec<Mismatch>,
    /// What happened; only of a case that does not pass.
    pub timeline: Vec<Line>,
}

impl<'a> Loader<'a> {
    /// A loader that opens files by `open`.
    pub fn new(open: impl FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a) -> Self {
        Self { open: Box::new(open), policies: HashMap::new() }
    }

    /// Reads a test file and everything it names.
    ///
    /// # Errors
    /// Every mistake in it, and in the policies it names.
    pub fn read(&mut self, name: &str, bytes: &[u8]) -> Result<Suite, Vec<Report>> {
        let (mut sources, mut findings) = (Sources::new(), Findings::default());
        let file = decode::read_into::<TestFile>(&mut sources, &mut findings, name, bytes);
        let mut staging = Staging::new(self, name, &sources, &mut findings);
        let suite = file.map(|(_, file)| staging.suite(&file));
        let mut reports = staging.reports();
        if findings.has_errors() {
            reports.insert(0, findings.into_report(sources));
        }
        match suite {
            Some(suite) if reports.is_empty() => Ok(suite),
            _ => Err(reports),
        }
    }
}

impl core::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Loader").field("policies", &self.policies.len()).finish_non_exhaustive()
    }
}

impl Suite {
    /// The test file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its cases are about, if it says so.
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// The documents it describes.
    pub fn documents(&self) -> &[Source] {
        &self.documents
    }

    /// The statements that are shown by tests outside of it.
    pub fn elsewhere(&self) -> &[Elsewhere] {
        &self.elsewhere
    }

    /// What is likely not meant: selectors of its policies that match none of its tools.
    pub fn warnings(&self) -> &[Report] {
        &self.warnings
    }

    /// The statements of documents that are not met.
    pub fn unmet(&self) -> &[UnmetClaim] {
        &self.unmet
    }

    /// Its cases, in order.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}

impl Case {
    /// What it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The situation in words, if it is told.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// The statements it proves.
    pub fn proves(&self) -> &[Claim] {
        &self.proves
    }

    /// Where it is written.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Plays it. The same case always has the same verdict.
    pub fn run(&self) -> Verdict {
        self.run_with(None)
    }

    /// Plays it and counts what it covers.
    pub fn run_counted(&self, coverage: &mut Coverage) -> Verdict {
        self.run_with(Some(coverage))
    }

    fn run_with(&self, coverage: Option<&mut Coverage>) -> Verdict {
        let record = run::run(&self.setup);
        if let Some(coverage) = coverage {
            coverage.add(&self.file, &self.setup, &record);
        }
        let mismatches = compare(&self.expect, &record);
        let timeline = if mismatches.is_empty() { Vec::new() } else { timeline(&record) };
        Verdict { mismatches, timeline }
    }
}

impl Verdict {
    /// Whether all that was expected came.
    pub const fn passed(&self) -> bool {
        self.mismatches.is_empty()
    }
}

impl Mismatch {
    /// The bytes of the test file that would have to be written anew for it to hold, and their new text; only of
    /// numbers and lists that are exact.
    pub fn update(&self) -> Option<(core::ops::Range<usize>, &str)> {
        let (span, text) = self.fix.as_ref()?;
        Some((span.range(), text))
    }
}
