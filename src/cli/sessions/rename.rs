//! `unfazed sessions rename`: gives a session a title.

use super::failed;
use super::find::one;
use super::open_store::OpenStore;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::out;

/// Gives a session a title
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions rename latest 'desk lamps'")]
pub(super) struct RenameArgs {
    /// The session.
    #[arg(value_name = "ID")]
    id: String,
    /// Its title.
    #[arg(value_name = "TITLE")]
    title: String,
}

pub(super) fn run(args: &RenameArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    let title = args.title.trim();
    if title.is_empty() {
        return Err(CommandFailure::Usage("the title is empty: say what the session is to be called".into()));
    }
    let id = one(store, &args.id)?;
    store.rename(&id, title).map_err(|error| failed(&error))?;
    out::say(&format!("renamed  {id}\n"));
    Ok(ExitStatus::Clean)
}
