//! Policy files that are looked at again while work goes on.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{LivePolicy, PolicyFiles, PolicyFilesError};
use crate::policy::Loader;

/// A policy from files, and a look at whether they have changed: those that are named and those they extend.
///
/// ```no_run
/// use unfazed::host::PolicyWatch;
/// use unfazed::policy::Loader;
/// let mut watch = PolicyWatch::load(Loader::new(), &["team.yaml"])?;
/// let live = watch.live().clone();
/// // Every now and then:
/// match watch.poll() {
///     Ok(changed) => { /* `live` has the newest */ }
///     Err(error) => eprintln!("{error}"),    // `live` keeps the last good one
/// }
/// # Ok::<(), unfazed::host::PolicyFilesError>(())
/// ```
#[derive(Debug)]
pub struct PolicyWatch {
    loader: Loader,
    paths: Vec<PathBuf>,
    live: LivePolicy,
    seen: Vec<(PathBuf, Stamp)>,
}

/// What tells one content of a file from the next without reading it; `None`: it is not there.
type Stamp = Option<(u64, Option<SystemTime>)>;

impl PolicyWatch {
    /// Loads the files.
    ///
    /// # Errors
    /// If one of them cannot be read, or every mistake in all of them.
    pub fn load<P: AsRef<Path>>(loader: Loader, paths: &[P]) -> Result<Self, PolicyFilesError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_path_buf()).collect();
        let mut files = PolicyFiles::new();
        let policy = files.load(&loader, &paths)?;
        Ok(Self { loader, paths, live: LivePolicy::new(policy), seen: stamps(&files) })
    }

    /// The policy in force.
    pub const fn live(&self) -> &LivePolicy {
        &self.live
    }

    /// Looks at the files, and loads them anew if one has changed. Returns whether another policy is in force now.
    ///
    /// # Errors
    /// If they cannot be loaded; the policy in force stays. It is said once for each change of the files.
    pub fn poll(&mut self) -> Result<bool, PolicyFilesError> {
        if self.seen.iter().all(|(path, seen)| stamp(path) == *seen) {
            return Ok(false);
        }
        let mut files = PolicyFiles::new();
        let (loader, paths) = (&self.loader, &self.paths);
        let outcome = self.live.reload(|| files.load(loader, paths));
        let missing = self.seen.iter().map(|(path, _)| path.clone()).filter(|path| !files.has_read(path));
        let missing: Vec<PathBuf> = missing.collect();
        self.seen = stamps(&files);
        // A file that cannot be read now may be there again later.
        self.seen.extend(
            missing.into_iter().filter(|_| outcome.is_err()).map(|path| (path.clone(), stamp(&path))),
        );
        outcome
    }
}

fn stamps(files: &PolicyFiles) -> Vec<(PathBuf, Stamp)> {
    files.files().map(|path| (path.to_path_buf(), stamp(path))).collect()
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.len(), meta.modified().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a policy with so many attempts. The length differs from number to number, so that no clock is asked.
    fn write(path: &Path, attempts: usize) {
        let text = format!("version: 1\nretry: {{max_attempts: {attempts}}}\n{}", "#".repeat(attempts));
        std::fs::write(path, text).unwrap();
    }

    fn attempts(watch: &PolicyWatch) -> Option<u32> {
        watch.live().current().tool("a").retry.max_attempts.value.limit()
    }

    #[test]
    fn a_file_that_changed_is_read_again_also_if_it_is_only_extended() {
        let folder = tempfile::tempdir().unwrap();
        let (base, team) = (folder.path().join("base.yaml"), folder.path().join("team.yaml"));
        write(&base, 2);
        std::fs::write(&team, "version: 1\nextends: base.yaml\n").unwrap();
        let mut watch = PolicyWatch::load(Loader::new(), &[&team]).unwrap();
        assert!(!watch.poll().unwrap());
        write(&base, 5);
        assert!(watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(5));
        assert!(!watch.poll().unwrap());
    }

    #[test]
    fn a_broken_file_changes_nothing_and_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team.yaml");
        write(&path, 2);
        let mut watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
        std::fs::write(&path, "version: 1\nretry: {max_attempts: many}\n").unwrap();
        assert!(watch.poll().unwrap_err().to_string().contains("many"));
        assert!(!watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(2));
        std::fs::remove_file(&path).unwrap();
        assert!(watch.poll().is_err());
        write(&path, 4);
        assert!(watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(4));
    }
}
