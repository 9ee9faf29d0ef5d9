//! Policies from files: those that are named and those they extend.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::policy::{Loader, Policy, Report};

/// The most bytes of a file that are read at all; loading has its own, smaller limit and names it.
const MOST: u64 = 64 << 20;

/// Reads policy files, each once. A path that a file says is relative to that file.
///
/// ```no_run
/// use unfazed::host::PolicyFiles;
/// use unfazed::policy::Loader;
/// let policy = PolicyFiles::new().load(&Loader::new().profile("ci"), &["team.yaml"])?;
/// # Ok::<(), unfazed::host::PolicyFilesError>(())
/// ```
#[derive(Debug, Default)]
pub struct PolicyFiles {
    known: HashMap<PathBuf, (String, Vec<u8>)>,
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFilesError {
    /// A file that is named cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The files have mistakes.
    #[error(transparent)]
    Report(#[from] Report),
}

impl PolicyFiles {
    /// No files are known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A policy of files in load order, with those they extend.
    ///
    /// # Errors
    /// If one of them cannot be read, or every mistake in all of them.
    pub fn load<P: AsRef<Path>>(&mut self, loader: &Loader, paths: &[P]) -> Result<Policy, PolicyFilesError> {
        let mut named = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let read = self.read(path);
            let path = path.display().to_string();
            named.push(read.map_err(|source| PolicyFilesError::Read { path, source })?);
        }
        Ok(self.load_named(loader, named)?)
    }

    /// A policy of texts that have been read already, with the files they extend. The names are paths.
    ///
    /// # Errors
    /// Every mistake in all of them.
    pub fn load_named(&mut self, loader: &Loader, named: Vec<(String, Vec<u8>)>) -> Result<Policy, Report> {
        for (name, bytes) in &named {
            self.known.insert(identity(Path::new(name)), (name.clone(), bytes.clone()));
        }
        let mut resolve = |from: &str, path: &str| self.resolve(from, path);
        loader.load_with(&mut resolve, named)
    }

    /// The file at `path`, which the file `from` extends: its name and its bytes.
    ///
    /// # Errors
    /// If it cannot be read, in words for people.
    pub fn resolve(&mut self, from: &str, path: &str) -> Result<(String, Vec<u8>), String> {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        let path = plain(&folder.join(path));
        self.read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
    }

    /// The files that were read, each once.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.known.keys().map(PathBuf::as_path)
    }

    /// Whether that file was read.
    pub(super) fn has_read(&self, path: &Path) -> bool {
        self.known.contains_key(path)
    }

    fn read(&mut self, path: &Path) -> io::Result<(String, Vec<u8>)> {
        let identity = identity(path);
        if let Some(known) = self.known.get(&identity) {
            return Ok(known.clone());
        }
        // Opening a pipe would wait for somebody to write, and a device may have no end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only regular files are read"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
        let read = (path.display().to_string(), bytes);
        self.known.insert(identity, read.clone());
        Ok(read)
    }
}

/// What the file is, whichever way leads to it.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The path without the steps that lead nowhere: `a/../b` is `b`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in path.components() {
        match step {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            step => plain.push(step),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_path_is_relative_to_the_file_that_says_it() {
        let folder = folder(&[
            ("teams/team.yaml", "version: 1\nextends: ../base/all.yaml\n"),
            ("base/all.yaml", "version: 1\nextends: ./more.yaml\n"),
            ("base/more.yaml", "version: 1\nturn: {max_turns: 3}\n"),
        ]);
        let policy =
            PolicyFiles::new().load(&Loader::new(), &[folder.path().join("teams/team.yaml")]).unwrap();
        assert_eq!(policy.turn().max_turns.value.get(), 3);
        let place = policy.place(policy.turn().max_turns.origin);
        assert_eq!(Path::new(&place.file), folder.path().join("base/more.yaml"));
    }

    #[test]
    fn only_files_are_read() {
        let folder = folder(&[("team.yaml", "version: 1\nextends: .\n")]);
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("team.yaml")]).unwrap_err();
        assert!(error.to_string().contains("only regular files are read"), "{error}");
    }

    #[test]
    fn a_circle_is_seen_whichever_way_leads_to_it() {
        let folder = folder(&[
            ("team.yaml", "version: 1\nextends: sub/../sub/base.yaml\n"),
            ("sub/base.yaml", "version: 1\nextends: ../team.yaml\n"),
        ]);
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("team.yaml")]).unwrap_err();
        assert!(error.to_string().contains("extends itself"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_is_told_with_its_path() {
        let folder = folder(&[("team.yaml", "version: 1\nextends: base.yaml\n")]);
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("team.yaml")]).unwrap_err();
        assert!(error.to_string().contains("base.yaml`: "), "{error}");
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("none.yaml")]).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
}
