//! `unfazed sessions delete`: deletes sessions with all that belongs to them.

use unfazed::store::{SessionId, Store};

use super::find::{failed, one};
use crate::cli::exit::{Exit, Failed};
use crate::cli::out;

/// Deletes sessions with all that belongs to them
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions delete 1f0a7c
  unfazed sessions delete 1f0a7c 9b22e0")]
pub(super) struct Args {
    /// The sessions.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn run(args: &Args, store: &dyn Store) -> Result<Exit, Failed> {
    // Nothing is deleted before all are known.
    let ids: Vec<SessionId> = args.ids.iter().map(|id| one(store, id)).collect::<Result<_, _>>()?;
    for id in ids {
        store.delete(&id).map_err(|error| failed(&error))?;
        out::say(&format!("deleted  {id}\n"));
    }
    Ok(Exit::Clean)
}
