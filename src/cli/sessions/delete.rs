//! `unfazed sessions delete`: deletes sessions with all that belongs to them.

use crate::store::SessionId;

use super::failed;
use super::find::one;
use super::open_store::OpenStore;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::{out, question};

/// Deletes sessions with all that belongs to them, after a question
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions delete 1f0a7c
  unfazed sessions delete 1f0a7c 9b22e0 --yes    # without a question")]
pub(super) struct DeleteArgs {
    /// The sessions.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Deletes without a question.
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &DeleteArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    // Nothing is deleted before all are known.
    let ids: Vec<SessionId> = args.ids.iter().map(|id| one(store, id)).collect::<Result<_, _>>()?;
    let named: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
    if !args.yes && !question::deletes(&format!("session {}", named.join(", ")), &store.place())? {
        out::say("nothing is deleted\n");
        return Ok(ExitStatus::Nothing);
    }
    for id in ids {
        store.delete(&id).map_err(|error| failed(&error))?;
        out::say(&format!("deleted  {id}\n"));
    }
    Ok(ExitStatus::Clean)
}
