//! Policy files that are looked at again while work continues.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::policy_files::{FileStamp, FileStamps};
use super::{LivePolicy, PolicyFiles, PolicyFilesError};
use crate::ErrorCause;
use crate::policy::{Loader, Policy};

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
    seen: FileStamps,
    complaint: FileComplaint,
}

/// What is wrong with the files as they are now.
#[derive(Clone, Debug, Default)]
pub(super) struct FileComplaint {
    /// Grows with every new one.
    pub(super) number: u64,
    /// `None`: nothing is wrong.
    pub(super) error: Option<Arc<PolicyFilesError>>,
}

impl PolicyWatch {
    /// Loads the files.
    ///
    /// # Errors
    /// If one of them cannot be read, or every mistake in all of them.
    pub fn load<P: AsRef<Path>>(loader: Loader, paths: &[P]) -> Result<Self, PolicyFilesError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_path_buf()).collect();
        let mut files = PolicyFiles::new();
        let live = LivePolicy::new(files.load(&loader, &paths)?);
        Ok(Self { loader, paths, live, seen: files.into_stamps(), complaint: FileComplaint::default() })
    }

    /// Looks at the files as [`poll`](Self::poll) does, and logs what has become of them.
    pub(crate) fn look(&mut self) {
        match self.poll() {
            Ok(true) => tracing::info!("the policy was read again"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = %error, "the files of the policy cannot be used; the last good policy holds");
            }
        }
    }

    /// The effective policy.
    pub const fn live(&self) -> &LivePolicy {
        &self.live
    }

    /// Looks at the files, and loads them again if one has changed: one that is named, one that is extended, one that
    /// was missing, or a link that leads elsewhere now. Returns whether another policy is in effect now.
    ///
    /// # Errors
    /// If they cannot be loaded; the effective policy stays. It is reported once for each change of the files.
    pub fn poll(&mut self) -> Result<bool, Arc<PolicyFilesError>> {
        self.poll_for(|_| Ok(()))
    }

    /// As [`PolicyWatch::poll`], where a policy must also fit what it is used with.
    ///
    /// # Errors
    /// If they cannot be loaded, or what `fits` has against the policy; the effective one stays.
    pub fn poll_for(
        &mut self,
        fits: impl FnOnce(&Policy) -> Result<(), ErrorCause>,
    ) -> Result<bool, Arc<PolicyFilesError>> {
        if self.seen.iter().all(|(path, seen)| FileStamp::of(path) == *seen) {
            return Ok(false);
        }
        let mut files = PolicyFiles::new();
        let loaded = self.live.reload(|| {
            let policy = files.load(&self.loader, &self.paths)?;
            fits(&policy).map_err(PolicyFilesError::Unfit)?;
            Ok(policy)
        });
        let before = std::mem::replace(&mut self.seen, files.into_stamps());
        let error = match loaded {
            Ok(changed) => {
                self.complaint.error = None;
                return Ok(changed);
            }
            Err(error) => Arc::new(error),
        };
        // Those that were not reached this time may be what makes it good again.
        for (path, stamp) in before {
            self.seen.entry(path).or_insert(stamp);
        }
        self.complaint.number = self.complaint.number.saturating_add(1);
        self.complaint.error = Some(Arc::clone(&error));
        Err(error)
    }

    /// What is wrong with the files as they were seen last.
    pub(super) const fn complaint(&self) -> &FileComplaint {
        &self.complaint
    }
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

    #[test]
    fn an_edit_while_the_files_are_read_is_seen_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team.yaml");
        write(&path, 2);
        let mut watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
        write(&path, 3);
        // The check runs when the files have been read and before anything else is done with them.
        let edit = |_: &Policy| {
            write(&path, 4);
            Ok(())
        };
        assert!(watch.poll_for(edit).unwrap());
        assert_eq!(attempts(&watch), Some(3));
        assert!(watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(4));
    }

    #[test]
    fn a_policy_that_does_not_fit_never_gets_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team.yaml");
        write(&path, 2);
        let mut watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
        write(&path, 3);
        let error = watch.poll_for(|_| Err(ErrorCause::new("too big"))).unwrap_err();
        assert_eq!(error.to_string(), "the policy cannot be used here: too big");
        assert_eq!(attempts(&watch), Some(2));
        assert!(watch.live().status().last_error.is_some());
    }

    #[test]
    fn a_parent_that_appears_later_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (base, team) = (folder.path().join("base.yaml"), folder.path().join("team.yaml"));
        write(&team, 2);
        let mut watch = PolicyWatch::load(Loader::new(), &[&team]).unwrap();
        std::fs::write(&team, "version: 1\nextends: base.yaml\n").unwrap();
        assert!(watch.poll().unwrap_err().to_string().contains("base.yaml"));
        assert!(!watch.poll().unwrap(), "it is said once");
        write(&base, 7);
        assert!(watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(7));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_elsewhere_is_another_file_even_with_the_same_times() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, link] = ["one.yaml", "two.yaml", "team.yaml"].map(|name| folder.path().join(name));
        std::fs::write(&one, "version: 1\nretry: {max_attempts: 2}\n").unwrap();
        std::fs::write(&two, "version: 1\nretry: {max_attempts: 3}\n").unwrap();
        let time = std::fs::metadata(&one).unwrap().modified().unwrap();
        std::fs::File::options().append(true).open(&two).unwrap().set_modified(time).unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let mut watch = PolicyWatch::load(Loader::new(), &[&link]).unwrap();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&two, &link).unwrap();
        assert!(watch.poll().unwrap());
        assert_eq!(attempts(&watch), Some(3));
    }
}
