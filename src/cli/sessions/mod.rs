//! `unfazed sessions`: what was run, and what became of it.

mod delete;
mod delete_all;
mod export;
mod filter;
mod find;
mod last;
mod list;
mod migrate;
mod open_store;
mod place;
mod rename;
mod search;
mod show;
mod transcript;

use std::path::PathBuf;

use crate::store::{FsyncMode, StoreError};
use clap::Subcommand;

use super::exit::{CommandFailure, ExitStatus};
use super::settings::CliSettings;

pub(in crate::cli) use filter::SessionFilter;
pub(crate) use find::{FoundSession, to_go_on};
pub(in crate::cli) use find::{one, records};
pub(in crate::cli) use last::LastRun;
pub(in crate::cli) use open_store::OpenStore;
pub(crate) use place::{SessionPlace, of_run};

/// Lists, searches, shows, exports, renames and deletes sessions
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions                               # those there are, the latest first
  unfazed sessions search lamp --since 7d
  unfazed sessions show latest                   # the messages, and what was decided
  unfazed sessions export 1f0a7c --format openai
  unfazed sessions rename 1f0a7c 'desk lamps'
  unfazed sessions delete-all --before 30d --status failed

An ID is the id of a session, the beginning or the end of it, or `latest`.")]
pub(crate) struct SessionsArgs {
    /// The folder of the sessions, instead of the one of the settings.
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The database of the sessions (`postgres://USER@HOST/DATABASE`), instead of a folder. Others can read a command line: a
    /// password belongs into `UNFAZED_SESSIONS_URL` or `PGPASSWORD`.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "dir")]
    url: Option<String>,
    /// What is done; `list`, if nothing is said.
    #[command(subcommand)]
    command: Option<SessionsCommand>,
}

#[derive(Subcommand)]
enum SessionsCommand {
    List(list::ListArgs),
    Search(search::SearchArgs),
    Show(show::ShowArgs),
    Export(export::ExportArgs),
    Rename(rename::RenameArgs),
    Delete(delete::DeleteArgs),
    DeleteAll(delete_all::DeleteAllArgs),
    Migrate(migrate::MigrateArgs),
}

pub(crate) fn run(args: &SessionsArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let place = SessionPlace::named(args.dir.as_deref(), args.url.as_deref(), settings)?;
    if matches!(args.command, Some(SessionsCommand::Migrate(_))) {
        // The other commands need tables.
        return migrate::run(&place);
    }
    let store = place.open(FsyncMode::Turn)?;
    let store = &store;
    match &args.command {
        None => list::run(&list::ListArgs::default(), store),
        Some(SessionsCommand::List(args)) => list::run(args, store),
        Some(SessionsCommand::Search(args)) => search::run(args, store),
        Some(SessionsCommand::Show(args)) => show::run(args, store),
        Some(SessionsCommand::Export(args)) => export::run(args, store),
        Some(SessionsCommand::Rename(args)) => rename::run(args, store),
        Some(SessionsCommand::Delete(args)) => delete::run(args, store),
        Some(SessionsCommand::DeleteAll(args)) => delete_all::run(args, store),
        Some(SessionsCommand::Migrate(_)) => migrate::run(&place),
    }
}

/// The end of a command that could not read or write sessions.
pub(in crate::cli) fn failed(error: &StoreError) -> CommandFailure {
    CommandFailure::Stopped(error.to_string())
}
