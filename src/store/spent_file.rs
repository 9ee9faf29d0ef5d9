//! What the keys of a gateway have spent, as it survives the process: one small file, replaced as a whole.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{beside, lock};
use crate::host::file_error;
use crate::host::gateway::SpentRecord;

/// The file, which no other process writes meanwhile.
pub(crate) struct SpentFile {
    path: PathBuf,
    /// Locked as long as it is open. It is a file of its own, as the other one is replaced.
    _lock: File,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpentFileError {
    /// Another process counts into it.
    #[error("another gateway counts into {path}; stop it, or give each file of a gateway a name of its own")]
    InUse {
        /// The file.
        path: String,
    },
    /// It is there, and says nothing that can be read.
    #[error("cannot read what keys have spent: {path} is damaged; remove it to count from nothing")]
    Damaged {
        /// The file.
        path: String,
    },
    /// It is of another version of this program.
    #[error(
        "cannot read what keys have spent: another version of unfazed has written {path}; start that version, or remove the file to count from nothing"
    )]
    OtherVersion {
        /// The file.
        path: String,
    },
    /// The system refuses it.
    #[error("cannot keep what keys spend in {path}: {}", file_error(source))]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// What all versions of the file say.
#[derive(serde::Deserialize)]
struct SpentForm {
    version: u32,
}

impl SpentFile {
    /// Opens the file, and reads what it says.
    ///
    /// # Errors
    /// Another process has it, or it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<(Self, SpentRecord), SpentFileError> {
        let shown = || path.display().to_string();
        let failed = |source| SpentFileError::Io { path: shown(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let held = File::create(path.with_extension("lock")).map_err(failed)?;
        lock::lock(&held).map_err(|error| match error {
            TryLockError::WouldBlock => SpentFileError::InUse { path: shown() },
            TryLockError::Error(source) => failed(source),
        })?;
        let record = match beside::read(path) {
            Some(bytes) => match serde_json::from_slice::<SpentForm>(&bytes) {
                Ok(form) if form.version != SpentRecord::VERSION => {
                    return Err(SpentFileError::OtherVersion { path: shown() });
                }
                _ => serde_json::from_slice(&bytes).ok(),
            },
            // One that is there and cannot be read is no empty one.
            None if path.symlink_metadata().is_ok() => None,
            None => Some(SpentRecord::default()),
        };
        let record = record.ok_or_else(|| SpentFileError::Damaged { path: shown() })?;
        Ok((Self { path: path.to_owned(), _lock: held }, record))
    }

    /// Replaces what it says.
    ///
    /// # Errors
    /// It cannot be written; what it said before stays.
    pub(crate) fn write(&mut self, record: &SpentRecord) -> Result<(), SpentFileError> {
        // Somebody has removed the folder, and the lock with it.
        if self.path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            (*self, _) = Self::open(&self.path)?;
        }
        let failed = |source| SpentFileError::Io { path: self.path.display().to_string(), source };
        let bytes = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        beside::replace(&self.path, &[&bytes], true).map_err(failed)
    }
}
