//! `unfazed sessions rename`: gives a session a title.

use unfazed::store::Store;

use super::find::{failed, one};
use crate::cli::exit::{Exit, Failed};
use crate::cli::out;

/// Gives a session a title
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions rename latest 'desk lamps'")]
pub(super) struct Args {
    /// The session.
    #[arg(value_name = "ID")]
    id: String,
    /// Its title.
    #[arg(value_name = "TITLE")]
    title: String,
}

pub(super) fn run(args: &Args, store: &dyn Store) -> Result<Exit, Failed> {
    let title = args.title.trim();
    if title.is_empty() {
        return Err(Failed::Usage("the title is empty: say what the session is to be called".into()));
    }
    let id = one(store, &args.id)?;
    store.rename(&id, title).map_err(|error| failed(&error))?;
    out::say(&format!("renamed  {id}\n"));
    Ok(Exit::Clean)
}
