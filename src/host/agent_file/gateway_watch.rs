//! The file of a gateway, looked at again while it serves.

use std::path::PathBuf;

use super::error::AgentFileError;
use super::gateway_error::GatewayFileError;
use super::named::NamedAgent;
use super::routes::LimitedKeys;
use crate::host::LivePolicy;
use crate::host::policy_files::{FileStamp, FileStamps};
use crate::host::read_file::{MOST, read_file};
use crate::policy::Loader;
use crate::text::Report;

/// The file of a gateway and those of its policy, and what they were when they were read last.
pub(crate) struct GatewayWatch {
    path: PathBuf,
    loader: Loader,
    live: LivePolicy,
    seen: FileStamps,
}

impl GatewayWatch {
    /// `seen`: the files of the policy.
    pub(super) fn new(path: PathBuf, loader: Loader, live: LivePolicy, mut seen: FileStamps) -> Self {
        seen.insert(path.clone(), FileStamp::of(&path));
        Self { path, loader, live, seen }
    }

    /// Reads the files again if one has changed: the policy is in effect from the next request on, and the keys are given back.
    /// `None`: none has.
    ///
    /// # Errors
    /// The files cannot be used; the policy stays. It is said once for each change of them.
    pub(crate) fn poll(&mut self) -> Option<Result<LimitedKeys, GatewayFileError>> {
        if self.seen.iter().all(|(path, seen)| FileStamp::of(path) == *seen) {
            return None;
        }
        // Whatever comes of it, this change is looked at once.
        for (path, seen) in &mut self.seen {
            *seen = FileStamp::of(path);
        }
        Some(self.read())
    }

    fn read(&mut self) -> Result<LimitedKeys, GatewayFileError> {
        let bytes = read_file(&self.path, MOST).map_err(|error| GatewayFileError::Unread {
            path: self.path.display().to_string(),
            source: error,
        })?;
        let (named, reports) = NamedAgent::read(&self.path, &bytes, &self.loader);
        let reports: Vec<Report> = reports.into_iter().filter(Report::has_errors).collect();
        let Some(named) = named.filter(|_| reports.is_empty()) else {
            return Err(AgentFileError::Mistakes(reports).into());
        };
        let (policy, seen) = named.gateway_policy()?;
        self.seen.extend(seen);
        self.live.replace(policy);
        Ok(LimitedKeys::of(&named.file))
    }
}
