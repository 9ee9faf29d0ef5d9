//! `unfazed sessions`: what was run, and what became of it.

mod delete;
mod delete_all;
mod export;
mod filter;
mod find;
mod last;
mod list;
mod migrate;
mod place;
mod rename;
mod search;
mod show;
mod transcript;

use std::path::PathBuf;

use clap::Subcommand;
use unfazed::store::Fsync;

use super::exit::{Exit, Failed};
use super::settings::Settings;

pub(in crate::cli) use filter::Filter;
pub(crate) use find::{Found, to_go_on};
pub(in crate::cli) use find::{failed, one, records};
pub(in crate::cli) use last::LastRun;
pub(crate) use place::{Place, of_run};

/// Lists, searches, shows, exports, renames and deletes sessions
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions                               # those there are, the latest first
  unfazed sessions search lamp --since 7d
  unfazed sessions show latest                   # what was said, and what was decided
  unfazed sessions export 1f0a7c --format openai
  unfazed sessions rename 1f0a7c 'desk lamps'
  unfazed sessions delete-all --before 30d --status failed

An ID is the id of a session, the beginning or the end of it, or `latest`.")]
pub(crate) struct Args {
    /// The folder of the sessions, instead of the one of the settings.
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The database of the sessions (`postgres://USER@HOST/DATABASE`), instead of a folder. Others can read a command line: a
    /// password belongs into `UNFAZED_SESSIONS_URL` or `PGPASSWORD`.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "dir")]
    url: Option<String>,
    /// What is done; `list`, if nothing is said.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    List(list::Args),
    Search(search::Args),
    Show(show::Args),
    Export(export::Args),
    Rename(rename::Args),
    Delete(delete::Args),
    DeleteAll(delete_all::Args),
    Migrate(migrate::Args),
}

pub(crate) fn run(args: &Args, settings: &Settings) -> Result<Exit, Failed> {
    let place = Place::named(args.dir.as_deref(), args.url.as_deref(), settings)?;
    if matches!(args.command, Some(Command::Migrate(_))) {
        // The other commands need tables.
        return migrate::run(&place);
    }
    let store = place.open(Fsync::Turn)?;
    let store = store.as_ref();
    match &args.command {
        None => list::run(&list::Args::default(), store),
        Some(Command::List(args)) => list::run(args, store),
        Some(Command::Search(args)) => search::run(args, store),
        Some(Command::Show(args)) => show::run(args, store),
        Some(Command::Export(args)) => export::run(args, store),
        Some(Command::Rename(args)) => rename::run(args, store),
        Some(Command::Delete(args)) => delete::run(args, store),
        Some(Command::DeleteAll(args)) => delete_all::run(args, store),
        Some(Command::Migrate(_)) => migrate::run(&place),
    }
}
