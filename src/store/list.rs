//! Lists the sessions in a folder, by the sidecar files of their logs.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{
    META_FORMAT, SessionId, SessionInfo, SessionListing, SessionMeta, SessionStatus, StoreError, beside,
    read_log,
};
use crate::engine::{DirectiveKind, Event, Record, Work};
use crate::time::Instant;

/// The path of the sidecar file with the metadata of a session.
pub(super) fn meta_path(log: &Path) -> PathBuf {
    log.with_extension("meta.json")
}

/// The path of the sidecar file with the last states of a session.
pub(super) fn state_path(log: &Path) -> PathBuf {
    log.with_extension("state")
}

/// All sessions in a folder, the last written first.
pub(super) fn list(dir: &Path) -> Result<SessionListing, StoreError> {
    let mut listing = SessionListing::default();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
        entries => entries.map_err(|source| StoreError::io("read the folder", dir.display(), source))?,
    };
    for entry in entries {
        let entry = entry.map_err(|source| StoreError::io("read the folder", dir.display(), source))?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|id| id.parse().ok());
        let Some(id): Option<SessionId> = id else { continue };
        match info(&id, &entry.path()) {
            Ok(info) => listing.sessions.push(info),
            // Another process may delete a session between the listing of the folder and the opening of its log.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => listing.damaged.push((id, error.to_string())),
        }
    }
    listing.sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
    listing.damaged.sort();
    Ok(listing)
}

/// The metadata of a session.
pub(super) fn info(id: &SessionId, log: &Path) -> Result<SessionInfo, StoreError> {
    let stat = fs::metadata(log).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone(), place: log.display().to_string() },
        _ => StoreError::io("open", log.display(), source),
    })?;
    if !stat.is_file() {
        return Err(StoreError::io("open", log.display(), io::Error::other("it is not a file")));
    }
    let mut meta = match read_meta(log) {
        // A run that was killed at its start may only be in the log.
        Some(meta) if meta.status != SessionStatus::New => meta,
        Some(known) if known.named => SessionMeta { title: known.title, named: true, ..of_log(log)? },
        _ => of_log(log)?,
    };
    meta.status = meta.status.now(is_written(log));
    let updated = stat.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let updated = updated.and_then(|since| u64::try_from(since.as_nanos()).ok()).map(Instant);
    Ok(SessionInfo {
        id: id.clone(),
        updated: updated.unwrap_or(meta.created).max(meta.created),
        meta,
        bytes: stat.len(),
    })
}

/// The metadata from the sidecar file; `None`: it cannot be read.
pub(super) fn read_meta(log: &Path) -> Option<SessionMeta> {
    // A later version may use the same fields with another meaning; the log is read instead.
    let meta: SessionMeta = serde_json::from_slice(&beside::read(&meta_path(log))?).ok()?;
    (meta.v <= META_FORMAT).then_some(meta)
}

/// Replaces the sidecar file with the metadata.
pub(super) fn write_meta(log: &Path, meta: &SessionMeta, sync: bool) -> io::Result<()> {
    let text = serde_json::to_vec(meta).map_err(io::Error::from)?;
    beside::replace(&meta_path(log), &[&text, b"\n"], sync)
}

/// The metadata computed from the log.
pub(super) fn of_log(log: &Path) -> Result<SessionMeta, StoreError> {
    let file = File::open(log).map_err(|source| StoreError::io("open", log.display(), source))?;
    let mut meta: Option<SessionMeta> = None;
    for record in read_log(BufReader::new(file)) {
        match (record, &mut meta) {
            (Ok(Record::Session(header)), _) => meta = Some(SessionMeta::of(&header)),
            (Ok(Record::Event(envelope)), Some(meta)) => {
                meta.happened(&envelope);
                match envelope.event {
                    Event::RunStarted(_) => (meta.turns, meta.tokens) = Default::default(),
                    Event::ModelResponded { reply, .. } => {
                        meta.tokens = meta.tokens.plus(reply.usage.unwrap_or_default());
                    }
                    _ => {}
                }
            }
            (Ok(Record::Directives { list, .. }), Some(meta)) => {
                for directive in &list.0 {
                    match &directive.order {
                        DirectiveKind::Note(note) => meta.decided(note),
                        DirectiveKind::Work(Work::CallModel(call)) => meta.turns = call.turn,
                        DirectiveKind::Work(_) => {}
                    }
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => return Err(StoreError::read(error, log.display())),
        }
    }
    meta.ok_or_else(|| StoreError::io("read", log.display(), io::Error::other("it has no header")))
}

/// Whether a process writes to the session.
fn is_written(log: &Path) -> bool {
    // A reader requests the shared lock, which is refused only while a writer holds its own.
    let locked = File::open(log).map(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    locked.unwrap_or(false)
}
