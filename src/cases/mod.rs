//! Cases that say how a policy behaves, played in virtual time: `unfazed test` for people, this module for code.
//!
//! A [`Suite`] is read from a test file. Each of its [`Case`]s is played by the interpreter itself, with tools and
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
mod why;

pub(crate) use answered::Answered;
pub use compare::{Mismatch, Row};
pub use coverage::{Coverage, Leaf};
pub(crate) use document::START;
pub(crate) use longest::{is_answer, longest};
pub(crate) use outcome::{OutcomeRule, of_class, outcomes};
pub use proves::{Claim, Elsewhere, Source, Unmet, UnmetClaim};
pub(crate) use record::Record;
pub(crate) use run::{PlannedCall, Plot, Setup, run as play};
pub use suite::{Case, Loader, Suite, Verdict};
pub use timeline::Line;
pub(crate) use timeline::timeline;
pub(crate) use tokens::Tokens;

/// The JSON Schema (2020-12) of test files.
pub fn json_schema() -> serde_json::Value {
    crate::policy::decode::schema::<document::TestFile>()
}
