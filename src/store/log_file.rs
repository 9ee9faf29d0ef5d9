//! The log of a session as a file: each append is complete or has no effect.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use super::{FsyncMode, SessionMeta, StoreError, beside, list};
use crate::engine::RecordLine;

/// The open log of a session; the lock ends with the file. Its methods block.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) fsync: FsyncMode,
    /// The end of the last whole record, in bytes.
    pub(super) length: u64,
    /// Whether a write failed and its partial data is not removed yet.
    pub(super) torn: bool,
    /// The buffer for appends.
    pub(super) lines: Vec<u8>,
    /// The last stored state: the next one is stored together with it.
    pub(super) state: Vec<u8>,
}

impl LogFile {
    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn append(&mut self, lines: &[RecordLine]) -> Result<(), StoreError> {
        self.lines.clear();
        for line in lines {
            self.lines.extend_from_slice(line.with_end().as_bytes());
        }
        let before = self.length;
        self.write_lines()?;
        if self.fsync != FsyncMode::Event {
            return Ok(());
        }
        self.sync().inspect_err(|_| {
            // After a failed fsync(2) the system may have dropped written data, so the content of the disk is
            // unknown.
            (self.length, self.torn) = (before, true);
            let _ = self.cut_off();
        })
    }

    pub(super) fn turn_ended(&mut self) -> Result<(), StoreError> {
        if self.fsync == FsyncMode::Turn { self.sync() } else { Ok(()) }
    }

    pub(super) fn keep_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        let path = list::state_path(&self.path);
        beside::replace(&path, &[&self.state, b"\n", state, b"\n"], false)
            .map_err(|source| StoreError::io("write", path.display(), source))?;
        self.state.clear();
        self.state.extend_from_slice(state);
        Ok(())
    }

    pub(super) fn kept_states(&self) -> Vec<Vec<u8>> {
        let kept = beside::read(&list::state_path(&self.path)).unwrap_or_default();
        kept.split(|byte| *byte == b'\n').filter(|state| !state.is_empty()).map(<[u8]>::to_vec).collect()
    }

    pub(super) fn meta(&self) -> Option<SessionMeta> {
        // The sidecar file may be lost or deleted; the log contains the same, except a title given by hand.
        list::read_meta(&self.path).or_else(|| list::of_log(&self.path).ok())
    }

    pub(super) fn set_meta(&mut self, meta: &SessionMeta) -> Result<(), StoreError> {
        let given = list::read_meta(&self.path).filter(|known| known.named);
        let titled = given.map(|known| SessionMeta { title: known.title, named: true, ..meta.clone() });
        // Written at every turn, so not synced: after a power failure, all but a title given by hand is in the log.
        list::write_meta(&self.path, titled.as_ref().unwrap_or(meta), false)
            .map_err(|source| StoreError::io("write", list::meta_path(&self.path).display(), source))
    }

    /// Writes all lines; after an error, none is kept.
    pub(super) fn write_lines(&mut self) -> Result<(), StoreError> {
        self.check_linked()?;
        if self.torn {
            self.cut_off()?;
        }
        if let Err(source) = (&self.file).write_all(&self.lines) {
            // A part of the lines may have been written, and the next append must not follow half a record.
            self.torn = true;
            // If this fails as well, the next append tries again, and readers ignore a torn end.
            let _ = self.cut_off();
            return Err(self.write_error(source));
        }
        self.length += self.lines.len() as u64;
        Ok(())
    }

    /// Checks that the file still has its name and its length. An append to a deleted file would be lost; an append
    /// to a moved or changed file would be unreachable or unreadable.
    fn check_linked(&self) -> Result<(), StoreError> {
        let stat = self.file.metadata().map_err(|source| self.write_error(source))?;
        let changed = |how| Err(StoreError::Changed { place: self.place(), how });
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            // The file has no name any more: an append would be lost when it is closed.
            if stat.nlink() == 0 {
                return Err(StoreError::Deleted { place: self.place() });
            }
            let same = |there: &fs::Metadata| (there.dev(), there.ino()) == (stat.dev(), stat.ino());
            if !fs::metadata(&self.path).is_ok_and(|there| same(&there)) {
                return changed("was moved");
            }
        }
        // Data that this process could not write completely is removed next.
        match stat.len() {
            length if length < self.length => changed("was cut off by somebody else"),
            length if length > self.length && !self.torn => changed("was added to by somebody else"),
            _ => Ok(()),
        }
    }

    /// Removes everything after the last whole record.
    pub(super) fn cut_off(&mut self) -> Result<(), StoreError> {
        self.file.set_len(self.length).map_err(|source| self.write_error(source))?;
        self.torn = false;
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        // fdatasync(2) also writes the length of the file, and a log needs no other metadata.
        self.file.sync_data().map_err(|source| self.write_error(source))
    }

    fn write_error(&self, source: io::Error) -> StoreError {
        StoreError::Write { place: self.place(), source }
    }
}

/// The options for opening a log for writing.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // With `O_APPEND` no write changes existing data.
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
