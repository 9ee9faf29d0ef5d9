//! The search for better values of a policy's keys, by simulation.
//!
//! A point gives each key one of its values; [`TuneSubject`] makes a policy of it, [`PlayLedger`] plays it, and
//! [`TuneSearch`] finds the points that lose least in the worst scenario.

mod candidate;
mod fit;
mod key;
mod layer;
mod measure;
mod objective;
mod plays;
mod range;
mod samples;
mod search;

use std::io;

pub(crate) use candidate::TuneSubject;
pub(crate) use key::TunedKey;
pub(crate) use measure::{PointMeasure, TunedFigure};
pub(crate) use objective::TuneObjective;
pub(crate) use plays::{PlayLedger, TuneScenario};
pub(crate) use range::RangeError;
pub(crate) use samples::{OpenSession, SessionSamples};
pub(crate) use search::{SearchSize, TuneResult, TuneSearch, TunedPoint};

use crate::engine::NameClash;

/// Why a search cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TuneError {
    /// A tool of a scenario has a name that the policy reserves.
    #[error("{0}")]
    Clash(#[source] NameClash),
    /// A play cannot be kept.
    #[error("a play cannot be kept: {0}")]
    Kept(#[source] io::Error),
    /// There is nothing to play.
    #[error("there is no scenario")]
    NoScenario,
}
