//! `unfazed sessions migrate`: makes the tables of a database.

use super::place::Place;
use crate::cli::exit::{Exit, Failed};
use crate::cli::out;

/// Makes the tables of a database for sessions, or brings them to this version
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions migrate --url postgres://me@db.example/agents
  UNFAZED_SESSIONS_URL=postgres://me@db.example/agents unfazed sessions migrate

What is in the tables stays. Hosts that migrate at the same time wait for one another.")]
pub(super) struct Args {}

pub(super) fn run(place: &Place) -> Result<Exit, Failed> {
    out::say(&place.migrate()?);
    Ok(Exit::Clean)
}
