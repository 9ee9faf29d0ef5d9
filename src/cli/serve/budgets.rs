//! What keys have spent, kept in a file while the gateway serves; of gateways that share it, what the others do not know yet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cli::out;
use crate::host::agent_file::LimitedKeys;
use crate::host::gateway::{Gateway, SpentRecord};
use crate::store::{SpentFile, SpentFileError};

/// So often it is written, if anything was spent: what a killed process forgets.
const EVERY: Duration = Duration::from_secs(1);

/// Keeps what keys have spent.
pub(super) struct BudgetKeeper {
    gateway: Arc<Gateway>,
    /// `None`: it is not kept.
    place: Option<SpentPlace>,
    kept: Mutex<KeptBudgets>,
}

/// The file of a gateway.
pub(super) enum SpentPlace {
    /// No other one counts there.
    Own(PathBuf),
    /// Gateways that share count elsewhere; each of them keeps beside it what the others do not know yet.
    Shared(PathBuf),
}

#[derive(Default)]
struct KeptBudgets {
    /// `None`: no key has a budget, or it is not kept.
    file: Option<SpentFile>,
    /// What could not be written yet.
    unwritten: Option<SpentRecord>,
    was_told: bool,
}

/// Where it is kept: beside the sessions, under the name of the gateway's file.
pub(super) fn path(sessions: &Path, file: &Path) -> PathBuf {
    let beside = sessions.parent().unwrap_or(Path::new(""));
    let mut name = file.file_stem().unwrap_or(file.as_os_str()).to_owned();
    name.push(".json");
    beside.join("serve").join(name)
}

impl SpentPlace {
    fn is_wanted(&self, keys: &LimitedKeys) -> bool {
        match self {
            Self::Own(_) => keys.have_budgets(),
            // What is restored is restored before any key is counted.
            Self::Shared(_) => !keys.rules.is_empty(),
        }
    }

    fn open(&self) -> Result<(SpentFile, SpentRecord), SpentFileError> {
        let path = match self {
            Self::Own(path) => return SpentFile::open(path),
            Self::Shared(path) => path,
        };
        // The first one that no other gateway on this machine has.
        let mut number = 1_u32;
        loop {
            match SpentFile::open(&path.with_extension(format!("unshared-{number}.json"))) {
                Err(SpentFileError::InUse { .. }) => number = number.saturating_add(1),
                opened => return opened,
            }
        }
    }
}

impl BudgetKeeper {
    pub(super) fn new(gateway: Arc<Gateway>, place: Option<SpentPlace>) -> Self {
        Self { gateway, place, kept: Mutex::default() }
    }

    /// Takes the limits of these keys, and what was spent before, if any has a budget.
    ///
    /// # Errors
    /// What was spent cannot be read, or another gateway counts there; the limits before stay.
    pub(super) fn take(&self, keys: &LimitedKeys) -> Result<(), SpentFileError> {
        let mut kept = self.lock();
        let place = self.place.as_ref().filter(|place| kept.file.is_none() && place.is_wanted(keys));
        match place.map(SpentPlace::open).transpose() {
            Ok(Some((file, record))) => {
                self.gateway.restore_spent(record);
                kept.file = Some(file);
            }
            Ok(None) => {}
            // The database has all but what is used while it is away.
            Err(error @ SpentFileError::Io { .. }) if matches!(place, Some(SpentPlace::Shared(_))) => {
                let lost = "what they use while the database is away is lost if this gateway ends meanwhile";
                out::say(&format!("warning: {error}; {lost}\n"));
            }
            Err(error) => return Err(error),
        }
        self.gateway.set_key_rules(keys.rules.clone());
        Ok(())
    }

    /// Writes what was spent, again and again, as long as it is polled.
    pub(super) async fn keep(self: Arc<Self>) {
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            let keeper = Arc::clone(&self);
            // Files are written off the threads that serve.
            if tokio::task::spawn_blocking(move || keeper.write()).await.is_err() {
                return;
            }
        }
    }

    /// Writes what was spent since the last time.
    pub(super) fn write(&self) {
        let mut kept = self.lock();
        let KeptBudgets { file: Some(file), unwritten, was_told } = &mut *kept else { return };
        let Some(record) = self.gateway.spent().or_else(|| unwritten.take()) else { return };
        match file.write(&record) {
            Ok(()) => (*unwritten, *was_told) = (None, false),
            Err(error) => {
                *unwritten = Some(record);
                if !core::mem::replace(was_told, true) {
                    out::say(&format!("warning: {error}; it is tried again\n"));
                }
            }
        }
    }

    /// Tells the gateways that share it what was spent at last.
    pub(super) async fn tell(&self) {
        self.gateway.tell_used().await;
    }

    fn lock(&self) -> MutexGuard<'_, KeptBudgets> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_that_share_keep_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let shared = SpentPlace::Shared(folder.path().join("gateway.json"));
        let (one, _) = shared.open().unwrap();
        let (_other, _) = shared.open().unwrap();
        let names = ["gateway.unshared-1.lock", "gateway.unshared-2.lock"];
        assert!(names.iter().all(|name| folder.path().join(name).exists()));
        drop(one);
        let (_again, _) = shared.open().unwrap();
        assert!(!folder.path().join("gateway.unshared-3.lock").exists());
    }

    #[test]
    fn it_is_beside_the_sessions() {
        let of = |sessions: &str, file: &str| path(Path::new(sessions), Path::new(file));
        assert_eq!(of(".unfazed/sessions", "conf/gateway.yaml"), Path::new(".unfazed/serve/gateway.json"));
        assert_eq!(of("sessions", "team.eu.yaml"), Path::new("serve/team.eu.json"));
    }
}
