//! `unfazed sessions delete-all`: deletes all sessions that are meant, after a question.

use std::io::{BufRead, IsTerminal};

use unfazed::store::{SessionId, Store, StoreError};

use super::filter::Filter;
use super::find::failed;
use crate::cli::exit::{Exit, Failed};
use crate::cli::out;

/// Deletes all sessions, or those that are meant, after a question
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions delete-all --before 30d
  unfazed sessions delete-all --status failed --yes     # without a question")]
pub(super) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Deletes without a question.
    #[arg(long, short)]
    yes: bool,
    /// Deletes those that are damaged too.
    #[arg(long)]
    damaged: bool,
}

pub(super) fn run(args: &Args, store: &dyn Store) -> Result<Exit, Failed> {
    let listing = store.list().map_err(|error| failed(&error))?;
    let meant = listing.sessions.into_iter().filter(|info| args.filter.takes(info)).map(|info| info.id);
    let mut ids: Vec<SessionId> = meant.collect();
    ids.extend(listing.damaged.into_iter().filter(|_| args.damaged).map(|(id, _)| id));
    if ids.is_empty() {
        out::say(&format!("no such sessions in {}\n", store.place()));
        return Ok(Exit::Nothing);
    }
    if !args.yes && !agreed(ids.len(), store)? {
        out::say("nothing is deleted\n");
        return Ok(Exit::Nothing);
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
    Ok(Exit::Clean)
}

/// Asks whether so many are to be deleted.
fn agreed(count: usize, store: &dyn Store) -> Result<bool, Failed> {
    let (what, dir) = (sessions(count), store.place());
    if !std::io::stdin().is_terminal() {
        let message =
            format!("{what} in {dir} would be deleted, and nobody is there to be asked; --yes deletes them");
        return Err(Failed::Usage(message));
    }
    out::say(&format!("delete {what} in {dir}? [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failed::io("cannot read the answer", error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}
