//! Policies from files: those that are named and those they extend.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file_error;
use super::plain_path::plain;
use super::read_file::{MOST, read_file};
use super::similar_file::similar_file;
use crate::ErrorCause;
use crate::analysis::{ComparedNames, PolicyComparison};
use crate::policy::{Loader, Policy};
use crate::text::Report;

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
    /// What each path led to before it was read, also where it led nowhere.
    stamps: FileStamps,
}

/// What the paths that were looked at led to; `None`: nothing is there.
pub(super) type FileStamps = BTreeMap<PathBuf, Option<FileStamp>>;

/// What tells one content from the next without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    /// The file, whichever links lead to it.
    file: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
    /// Its number in the file system, and when that was written last: a copy that keeps times is another file.
    #[cfg(unix)]
    node: (u64, i64, i64),
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFilesError {
    /// A file that is named cannot be read.
    #[error("cannot read {path}: {}", file_error(source))]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The files have mistakes.
    #[error(transparent)]
    Report(#[from] Report),
    /// The policy does not fit what it is to be used with.
    #[error("the policy cannot be used here: {0}")]
    Unfit(#[source] ErrorCause),
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
        let named = self.read_all(paths)?;
        Ok(self.load_named(loader, named)?)
    }

    /// The names and bytes of files, in their order.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(crate) fn read_all<P: AsRef<Path>>(
        &mut self,
        paths: &[P],
    ) -> Result<Vec<(String, Vec<u8>)>, PolicyFilesError> {
        let read = |path: &P| {
            let path = path.as_ref();
            self.read(path)
                .map_err(|source| PolicyFilesError::Read { path: path.display().to_string(), source })
        };
        paths.iter().map(read).collect()
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

    /// What another text of a file makes different, as far as both can be read, mistakes or not; `None`: one of them cannot
    /// be read at all.
    pub(crate) fn compare(
        &mut self,
        loader: &Loader,
        name: &str,
        old: &[u8],
        new: &[u8],
    ) -> Option<PolicyComparison> {
        let loader = loader.clone().lenient();
        let mut load = |text: &[u8]| self.load_named(&loader, vec![(name.to_owned(), text.to_vec())]).ok();
        let (old, new) = (load(old)?, load(new)?);
        Some(old.diff(&new, &ComparedNames::default()))
    }

    /// The file at `path`, which the file `from` extends: its name and its bytes.
    ///
    /// # Errors
    /// If it cannot be read, in words for people.
    pub fn resolve(&mut self, from: &str, path: &str) -> Result<(String, Vec<u8>), String> {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        let path = plain(&folder.join(path));
        self.read(&path).map_err(|error| {
            let shown = path.display();
            match error.kind() {
                io::ErrorKind::NotFound => match similar_file(&path) {
                    Some(near) => format!("there is no file `{shown}`; did you mean `{}`?", near.display()),
                    None => format!(
                        "there is no file `{shown}`; paths start at the folder of the file that says them"
                    ),
                },
                _ => format!("cannot read `{shown}`: {}", file_error(&error)),
            }
        })
    }

    /// What the paths that were looked at led to, as it was before they were read.
    pub(super) fn into_stamps(self) -> FileStamps {
        self.stamps
    }

    fn read(&mut self, path: &Path) -> io::Result<(String, Vec<u8>)> {
        self.stamps.entry(path.to_path_buf()).or_insert_with(|| FileStamp::of(path));
        let identity = identity(path);
        if let Some(known) = self.known.get(&identity) {
            return Ok(known.clone());
        }
        let read = (path.display().to_string(), read_file(path, MOST)?);
        self.known.insert(identity, read.clone());
        Ok(read)
    }
}

impl FileStamp {
    /// What the path leads to now.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = path.canonicalize().ok()?;
        let meta = std::fs::metadata(&file).ok()?;
        Some(Self {
            file,
            length: meta.len(),
            modified: meta.modified().ok(),
            #[cfg(unix)]
            node: {
                use std::os::unix::fs::MetadataExt;
                (meta.ino(), meta.ctime(), meta.ctime_nsec())
            },
        })
    }
}

/// What the file is, whichever way leads to it.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
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
    fn a_file_that_is_most_likely_meant_is_named() {
        for (wanted, there, meant) in [
            ("bsae.yaml", "base.yaml", Some("base.yaml")),
            ("base", "base.yaml", Some("base.yaml")),
            ("base.yml", "base.yaml", Some("base.yaml")),
            ("base.yaml", "shared/base.yaml", Some("shared/base.yaml")),
            ("shared/base.yaml", "base.yaml", None),
            ("other.yaml", "base.yaml", None),
        ] {
            let folder = folder(&[
                ("team.yaml", &*format!("version: 1\nextends: {wanted}\n")),
                (there, "version: 1\n"),
            ]);
            let error =
                PolicyFiles::new().load(&Loader::new(), &[folder.path().join("team.yaml")]).unwrap_err();
            let said = error.to_string();
            match meant {
                Some(meant) => assert!(said.contains(&format!("{meant}`?")), "{said}"),
                None => assert!(!said.contains("did you mean"), "{said}"),
            }
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_with_its_path() {
        let folder = folder(&[("team.yaml", "version: 1\nextends: base.yaml\n")]);
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("team.yaml")]).unwrap_err();
        assert!(
            error.to_string().contains("there is no file `") && !error.to_string().contains("os error"),
            "{error}"
        );
        let error = PolicyFiles::new().load(&Loader::new(), &[folder.path().join("none.yaml")]).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
}
