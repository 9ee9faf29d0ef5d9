//! `unfazed sessions delete-all`: deletes all sessions that are meant, after a question.

use crate::store::{SessionId, StoreError};

use super::failed;
use super::filter::SessionFilter;
use super::open_store::OpenStore;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::{out, question};

/// Deletes all sessions, or those that are meant, after a question
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions delete-all --before 30d
  unfazed sessions delete-all --status failed --yes     # without a question")]
pub(super) struct DeleteAllArgs {
    #[command(flatten)]
    filter: SessionFilter,
    /// Deletes without a question.
    #[arg(long, short)]
    yes: bool,
    /// Deletes those that are damaged too.
    #[arg(long)]
    damaged: bool,
}

pub(super) fn run(args: &DeleteAllArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    let listing = store.list().map_err(|error| failed(&error))?;
    let meant = listing.sessions.into_iter().filter(|info| args.filter.takes(info)).map(|info| info.id);
    let mut ids: Vec<SessionId> = meant.collect();
    ids.extend(listing.damaged.into_iter().filter(|_| args.damaged).map(|(id, _)| id));
    if ids.is_empty() {
        out::say(&format!("no such sessions in {}\n", store.place()));
        return Ok(ExitStatus::Nothing);
    }
    if !args.yes && !question::deletes(&sessions(ids.len()), &store.place())? {
        out::say("nothing is deleted\n");
        return Ok(ExitStatus::Nothing);
    }
    let mut deleted = 0_usize;
    for id in &ids {
        match store.delete(id) {
            Ok(()) => deleted += 1,
            // Deleted meanwhile.
            Err(StoreError::NotFound { .. }) => {}
            Err(StoreError::InUse { .. }) => out::say(&format!("passed over  {id}: it is in use\n")),
            Err(error) => return Err(failed(&error)),
        }
    }
    out::say(&format!("deleted  {}\n", sessions(deleted)));
    Ok(ExitStatus::Clean)
}

fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}
