//! `unfazed sessions migrate`: makes the tables of a database.

use super::place::SessionPlace;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::out;

/// Makes the tables of a database for sessions, or brings them to this version
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions migrate --url postgres://me@db.example/agents
  UNFAZED_SESSIONS_URL=postgres://me@db.example/agents unfazed sessions migrate

What is in the tables stays. Hosts that migrate at the same time wait for one another.")]
pub(super) struct MigrateArgs {}

pub(super) fn run(place: &SessionPlace) -> Result<ExitStatus, CommandFailure> {
    out::say(&place.migrate()?);
    Ok(ExitStatus::Clean)
}
