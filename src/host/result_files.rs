//! Results that are too large for a model, kept whole in files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::engine::ResultSpill;

/// How files of known types end, so that people can open them.
const ENDINGS: &[(&str, &str)] = &[
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("video/mp4", "mp4"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
];
/// How all others do.
const OTHER: &str = "bin";

/// Where the results of one run are kept. Without a folder of its own it has a private one, which goes with it.
#[derive(Debug)]
pub(super) struct ResultFiles {
    folder: Option<PathBuf>,
    private: OnceLock<PathBuf>,
}

impl ResultFiles {
    pub(super) const fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, private: OnceLock::new() }
    }

    /// Keeps the result if it is too large. Returns whether it is kept. Blocks.
    pub(super) fn keep(&self, data: &Value, spill: &ResultSpill) -> io::Result<bool> {
        if spill.holds(data) {
            return Ok(false);
        }
        let path = self.path(&spill.handle).ok_or(io::ErrorKind::InvalidInput)?;
        self.put(&path, |file| write(file, data)).map(|()| true)
    }

    /// Keeps what is no text. Blocks.
    pub(super) fn keep_file(&self, handle: &str, media_type: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(handle).ok_or(io::ErrorKind::InvalidInput)?;
        self.put(&path.with_extension(ending(media_type)), |mut file| file.write_all(bytes))
    }

    /// Writes a file that is there as soon as it is whole, and no sooner.
    fn put(&self, path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder())?;
        let part = path.with_extension("part");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        let written = write(file).and_then(|()| fs::rename(&part, path));
        if written.is_err() {
            // What is half written is of no use; that it cannot be removed either is no news.
            let _ = fs::remove_file(&part);
        }
        written
    }

    /// Whether something is kept under the handle that is no text.
    pub(super) fn has_file(&self, handle: &str) -> bool {
        self.file(handle).is_some()
    }

    /// What is kept under the handle that is no text, if it has no more than so many bytes. Blocks.
    pub(super) fn bytes(&self, handle: &str, most: usize) -> Option<Vec<u8>> {
        let path = self.file(handle)?;
        let size = fs::metadata(&path).ok()?.len();
        if size > u64::try_from(most).unwrap_or(u64::MAX) { None } else { fs::read(path).ok() }
    }

    fn file(&self, handle: &str) -> Option<PathBuf> {
        let files = ENDINGS.iter().map(|(_, ending)| *ending).chain([OTHER]);
        let mut files = files.filter_map(|ending| Some(self.path(handle)?.with_extension(ending)));
        files.find(|path| path.exists())
    }

    /// The file of a handle; `None`: it is no handle.
    pub(super) fn path(&self, handle: &str) -> Option<PathBuf> {
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if handle.is_empty() || handle.len() > 64 || !handle.chars().all(named) {
            return None;
        }
        Some(self.folder().join(format!("{handle}.txt")))
    }

    fn folder(&self) -> &Path {
        let private = || std::env::temp_dir().join(format!("unfazed-{}", crate::host::new_uuid()));
        self.folder.as_deref().unwrap_or_else(|| self.private.get_or_init(private))
    }
}

impl Drop for ResultFiles {
    fn drop(&mut self) {
        if let Some(folder) = self.private.get() {
            // It may never have been made.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// The ending of a file of that type.
fn ending(media_type: &str) -> &'static str {
    let named = ENDINGS.iter().find(|(kind, _)| media_type.eq_ignore_ascii_case(kind));
    named.map_or(OTHER, |(_, ending)| ending)
}

fn write(file: File, data: &Value) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    if let Value::String(text) = data {
        file.write_all(text.as_bytes())?;
        return file.flush();
    }
    serde_json::to_writer(&mut file, data)?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::{SizeUnit, TextSize};

    fn spill() -> ResultSpill {
        ResultSpill { handle: "r1-0".into(), over: TextSize { count: 1, unit: SizeUnit::Bytes } }
    }

    #[test]
    fn a_private_folder_is_for_nobody_else_and_goes_with_the_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let results = ResultFiles::new(None);
        results.keep(&json!("0123456789"), &spill()).unwrap();
        let folder = results.folder().to_path_buf();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        drop(results);
        assert!(!folder.exists());
    }

    #[test]
    fn the_folder_of_a_session_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("s.results");
        let results = ResultFiles::new(Some(folder.clone()));
        results.keep(&json!("0123456789"), &spill()).unwrap();
        drop(results);
        assert_eq!(fs::read_to_string(folder.join("r1-0.txt")).unwrap(), "0123456789");
    }
}
