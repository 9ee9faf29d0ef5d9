//! The sessions that are meant.

use std::path::{Path, PathBuf};

use crate::engine::{LogHeader, Record};
use crate::store::{FsyncMode, SessionId, SessionListing};

use super::ReplayArgs;
use crate::cli::exit::CommandFailure;
use crate::cli::sessions::{OpenStore, SessionPlace, failed, one};
use crate::cli::settings::CliSettings;

/// A session that is meant.
pub(super) struct NamedSession {
    pub(super) id: SessionId,
    pub(super) title: String,
    pub(super) store: OpenStore,
    /// Why it cannot be looked at.
    pub(super) damage: Option<String>,
}

impl NamedSession {
    /// How it begins.
    pub(super) fn header(&self) -> Result<LogHeader, CommandFailure> {
        match self.store.read(&self.id).map_err(|error| failed(&error))?.next() {
            Some(Ok(Record::Session(header))) => Ok(header),
            Some(Err(error)) => Err(failed(&error)),
            _ => Err(CommandFailure::Stopped(format!("session {} has no header", self.id))),
        }
    }
}

/// The sessions that are meant, and whether there may be several of them.
pub(super) fn sessions(
    args: &ReplayArgs,
    settings: &CliSettings,
) -> Result<(Vec<NamedSession>, bool), CommandFailure> {
    let place = SessionPlace::named(args.dir.as_deref(), None, settings)?;
    if args.sessions.is_empty() {
        return Ok((all(args, &place.open(FsyncMode::Turn)?)?, true));
    }
    if args.filter.is_given() {
        let message = "name sessions, or say which are meant by --agent, --status, --since and --before";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let (mut meant, mut several) = (Vec::new(), args.sessions.len() > 1);
    for wanted in &args.sessions {
        let path = Path::new(wanted);
        if path.is_dir() {
            several = true;
            meant.extend(all(args, &folder(path)?)?);
        } else if path.is_file() {
            meant.push(of_file(path)?);
        } else {
            let store = place.open(FsyncMode::Turn)?;
            let id = one(&store, wanted)?;
            meant.push(named(store, id));
        }
    }
    Ok((meant, several))
}

/// The sessions in that folder.
fn folder(path: &Path) -> Result<OpenStore, CommandFailure> {
    OpenStore::folder(path, FsyncMode::Turn)
}

fn all(args: &ReplayArgs, store: &OpenStore) -> Result<Vec<NamedSession>, CommandFailure> {
    let SessionListing { sessions, damaged } = store.list().map_err(|error| failed(&error))?;
    let meant = sessions.into_iter().filter(|info| args.filter.takes(info));
    let store = || store.clone();
    let meant =
        meant.map(|info| NamedSession { id: info.id, title: info.meta.title, store: store(), damage: None });
    let damaged = damaged.into_iter().filter(|_| !args.filter.is_given());
    let damaged =
        damaged.map(|(id, why)| NamedSession { id, title: String::new(), store: store(), damage: Some(why) });
    Ok(meant.chain(damaged).collect())
}

/// The session whose log that file is.
fn of_file(path: &Path) -> Result<NamedSession, CommandFailure> {
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|_| path.extension().is_some_and(|end| end == "jsonl"));
    let id = stem.and_then(|stem| stem.parse::<SessionId>().ok()).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{} is not the log of a session: its name must be an id and `.jsonl`",
            path.display()
        ))
    })?;
    let parent = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
    Ok(named(folder(&parent)?, id))
}

fn named(store: OpenStore, id: SessionId) -> NamedSession {
    // A session that cannot be read is reported when it is read.
    let title = store.info(&id).map(|info| info.meta.title).unwrap_or_default();
    NamedSession { id, title, store, damage: None }
}
