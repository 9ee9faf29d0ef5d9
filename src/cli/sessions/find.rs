//! Finding sessions by what people type of their ids.

use std::path::Path;

use crate::engine::{LogHeader, Record};
use crate::host::agent_file::AgentFile;
use crate::store::{FsyncMode, SessionId, SessionInfo, SessionListing, SessionStatus, StoreError};

use super::open_store::{OpenStore, SessionRecords};
use crate::cli::exit::CommandFailure;
use crate::cli::settings::CliSettings;
use crate::cli::{files, out};

use super::failed;
use super::last::LastRun;
use super::place::{self, SessionPlace};

/// The session that was written last.
const LATEST: &str = "latest";
/// So many are named where several are meant.
const SHOWN: usize = 5;

/// A session that was found.
#[derive(Clone)]
pub(crate) struct FoundSession {
    pub(crate) id: SessionId,
    pub(crate) place: SessionPlace,
    pub(crate) header: LogHeader,
    /// There is no run to continue with, and no task for the next one.
    pub(crate) is_over: bool,
}

/// The session that is meant: its id, the beginning or the end of it, or `latest`.
pub(in crate::cli) fn one(store: &OpenStore, wanted: &str) -> Result<SessionId, CommandFailure> {
    if wanted.is_empty() {
        let message = "the id of the session is empty; `unfazed sessions` lists the sessions, and `latest` is the one written last";
        return Err(CommandFailure::Usage(message.into()));
    }
    if let Ok(id) = wanted.parse::<SessionId>()
        && is_there(store, &id)
    {
        return Ok(id);
    }
    let listing = store.list().map_err(|error| failed(&error))?;
    if wanted == LATEST {
        return listing.sessions.first().map(|info| info.id.clone()).ok_or_else(|| none(store));
    }
    let all = listing.sessions.iter().map(|info| &info.id).chain(listing.damaged.iter().map(|(id, _)| id));
    let meant = |id: &&SessionId| id.as_str().starts_with(wanted) || id.as_str().ends_with(wanted);
    let found: Vec<&SessionId> = all.filter(meant).collect();
    match found.as_slice() {
        [id] => Ok((*id).clone()),
        [] => {
            let place = store.place();
            let file = if files::is_meant(wanted) && !Path::new(wanted).exists() {
                format!("no file `{wanted}`, and ")
            } else {
                String::new()
            };
            Err(CommandFailure::Usage(format!(
                "there is {file}no session `{wanted}` in {place}; `unfazed sessions` lists those there are, and UNFAZED_SESSIONS \
                 names another folder"
            )))
        }
        several => {
            let shown: Vec<&str> = several.iter().take(SHOWN).map(|id| id.as_str()).collect();
            let more = if several.len() > SHOWN { ", …" } else { "" };
            let count = several.len();
            Err(CommandFailure::Usage(format!(
                "`{wanted}` means {count} sessions: {}{more}; write more of the id",
                shown.join(", ")
            )))
        }
    }
}

/// The session that is meant, and its records.
pub(in crate::cli) fn records(
    settings: &CliSettings,
    wanted: &str,
) -> Result<(SessionId, SessionRecords), CommandFailure> {
    let store = place::of_run(settings, None)?.open(FsyncMode::Turn)?;
    let id = one(&store, wanted)?;
    let records = store.read(&id).map_err(|error| failed(&error))?;
    Ok((id, records))
}

/// Whether there is such a session, whatever state it is in.
fn is_there(store: &OpenStore, id: &SessionId) -> bool {
    !matches!(store.info(id), Err(StoreError::NotFound { .. }))
}

/// The session that is to continue.
pub(crate) fn to_go_on(
    settings: &CliSettings,
    agent: Option<&Path>,
    wanted: &str,
    has_task: bool,
) -> Result<FoundSession, CommandFailure> {
    // The agent file may say where its sessions are; problems with it are reported later.
    let file =
        agent.and_then(|path| AgentFile::read(&path.display().to_string(), &files::bytes(path).ok()?).ok());
    let folder = agent.and_then(Path::parent).unwrap_or(Path::new(""));
    let place = place::of_run(settings, file.as_ref().map(|file| (&file.value, folder)))?;
    let store = place.open(FsyncMode::Turn)?;
    let store = &store;
    let is_id = wanted.parse::<SessionId>().is_ok_and(|id| is_there(store, &id));
    let id = if wanted == LATEST && !is_id { latest(store, has_task)? } else { one(store, wanted)? };
    let info = store.info(&id).map_err(|error| failed(&error))?;
    let is_over =
        !has_task && !goes_on(info.meta.status) && !matches!(LastRun::of(store, &id)?, LastRun::Open);
    let first = store.read(&id).map_err(|error| failed(&error))?.next();
    match first {
        Some(Ok(Record::Session(header))) => Ok(FoundSession { id, place, header, is_over }),
        Some(Err(error)) => Err(failed(&error)),
        _ => Err(CommandFailure::Stopped(format!("session {id} has no header"))),
    }
}

/// The last session that can continue; without one and without a task, the last whose run is over. Those that are passed over are said. A task is for the conversation that was last; while
/// somebody else writes to that, it goes into no other one.
fn latest(store: &OpenStore, has_task: bool) -> Result<SessionId, CommandFailure> {
    let SessionListing { sessions, damaged } = store.list().map_err(|error| failed(&error))?;
    for (id, why) in damaged {
        out::say(&format!("passed over  {id}: {why}\n"));
    }
    let mut over = None;
    for SessionInfo { id, meta, .. } in sessions {
        match meta.status {
            SessionStatus::Running if has_task => {
                return Err(CommandFailure::Stopped(format!(
                    "session {id}, the latest, is in use by another process; wait for it, or name the session that is to \
                     have the task: unfazed run --resume ID '...'"
                )));
            }
            SessionStatus::Running => out::say(&format!("passed over  {id}: it is in use\n")),
            SessionStatus::New => {
                out::say(&format!("passed over  {id}: no run of it has begun\n"));
            }
            status if has_task || goes_on(status) => return Ok(id),
            _ => over = over.or(Some(id)),
        }
    }
    if let Some(id) = over {
        return Ok(id);
    }
    Err(CommandFailure::Usage(if has_task {
        format!("no session in {} can continue", store.place())
    } else {
        format!("no run in {} was broken off; give a task to begin the next one", store.place())
    }))
}

const fn goes_on(status: SessionStatus) -> bool {
    matches!(status, SessionStatus::New | SessionStatus::Running | SessionStatus::BrokenOff)
}

fn none(store: &OpenStore) -> CommandFailure {
    CommandFailure::Usage(format!("there are no sessions in {}", store.place()))
}
