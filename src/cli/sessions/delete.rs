//! `unfazed sessions delete`: deletes sessions with all that belongs to them.

use unfazed::store::{SessionId, Store};

use super::find::{failed, one};
use crate::cli::exit::{Exit, Failed};
use crate::cli::{out, question};

/// Deletes sessions with all that belongs to them, after a question
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions delete 1f0a7c
  unfazed sessions delete 1f0a7c 9b22e0 --yes    # without a question")]
pub(super) struct Args {
    /// The sessions.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Deletes without a question.
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &Args, store: &dyn Store) -> Result<Exit, Failed> {
    // Nothing is deleted before all are known.
    let ids: Vec<SessionId> = args.ids.iter().map(|id| one(store, id)).collect::<Result<_, _>>()?;
    let named: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
    if !args.yes && !question::deletes(&format!("session {}", named.join(", ")), &store.place())? {
        out::say("nothing is deleted\n");
        return Ok(Exit::Nothing);
    }
    for id in ids {
        store.delete(&id).map_err(|error| failed(&error))?;
        out::say(&format!("deleted  {id}\n"));
    }
    Ok(Exit::Clean)
}
