//! Sidecar files of a log: replaced completely or not at all, and readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The maximum size of a file in bytes.
const MOST: u64 = 256 << 20;
/// The suffix of a file while its next version is written.
const NEXT: &str = ".next";

/// Replaces the file. Concurrent readers see the old or the new version.
pub(super) fn replace(path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
    // rename(2) replaces the file in one step, so a reader sees the old one or the new one.
    let next = with_suffix(path, NEXT);
    let written = write(&next, parts, sync).and_then(|()| fs::rename(&next, path));
    if written.is_err() {
        // A half-written file must not remain. The first error is reported, so an error of the removal adds nothing.
        let _ = fs::remove_file(&next);
    }
    written
}

/// The content of the file; `None`: it cannot be read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe could wait for ever.
    if !fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Removes the file, and a next version left by a killed process.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    remove_one(&with_suffix(path, NEXT))?;
    remove_one(path)
}

fn remove_one(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The path with a suffix.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn write(path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // Sessions hold what users said and tools returned.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    // Before the rename: otherwise a loss of power may leave the new name with an empty file.
    if sync { file.sync_data() } else { Ok(()) }
}
