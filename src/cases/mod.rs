//! Cases that say how a policy behaves, played in virtual time: `unfazed test` for people, this module for code.
//!
//! A [`TestSuite`] is read from a test file. Each of its [`TestCase`]s is played by the interpreter itself, with tools and
//! models that do what the case says; nothing sleeps, and nothing but the files is read.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod answered;
mod claims;
mod compare;
mod coverage;
mod document;
mod expect;
mod fields;
mod forms;
mod inline;
mod kinds;
mod lenient;
mod longest;
mod message;
mod outcome;
mod pattern;
mod proves;
mod reach;
mod record;
mod run;
mod staging;
mod suite;
mod timeline;
mod tokens;
mod virtual_run;
mod why;

pub(crate) use answered::TimedAnswer;
pub use compare::{ExpectationMismatch, MismatchRow};
pub use coverage::{CoveredValue, PolicyCoverage};
pub(crate) use document::START;
pub(crate) use longest::{is_answer, longest};
pub(crate) use outcome::{OutcomeRule, of_class, outcomes};
pub use proves::{ExternalProof, ProvedClaim};
pub(crate) use proves::{ProofSource, UnmetClaim, UnprovedClaim};
pub(crate) use record::CaseRecord;
pub(crate) use run::{CasePlot, CaseSetup, PlannedCall, run as play};
pub use staging::SuiteLoader;
pub use suite::{CaseVerdict, TestCase, TestSuite};
pub use timeline::TimelineLine;
pub(crate) use timeline::timeline;
pub(crate) use tokens::CaseTokens;
pub(crate) use virtual_run::VirtualRun;

/// The JSON Schema (2020-12) of test files.
pub fn json_schema() -> serde_json::Value {
    crate::policy::decode::schema::<document::TestFile>()
}
