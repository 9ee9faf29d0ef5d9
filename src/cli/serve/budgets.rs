//! What keys have spent, kept in a file while the gateway serves, unless gateways share it.

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
    /// `None`: it is kept elsewhere.
    path: Option<PathBuf>,
    kept: Mutex<KeptBudgets>,
}

#[derive(Default)]
struct KeptBudgets {
    /// `None`: no key has a budget, or it is kept elsewhere.
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

impl BudgetKeeper {
    pub(super) fn new(gateway: Arc<Gateway>, path: Option<PathBuf>) -> Self {
        Self { gateway, path, kept: Mutex::default() }
    }

    /// Takes the limits of these keys, and what was spent before, if any has a budget.
    ///
    /// # Errors
    /// What was spent cannot be read, or another gateway counts there; the limits before stay.
    pub(super) fn take(&self, keys: &LimitedKeys) -> Result<(), SpentFileError> {
        let mut kept = self.lock();
        let path = self.path.as_ref().filter(|_| keys.have_budgets() && kept.file.is_none());
        if let Some(path) = path {
            let (file, record) = SpentFile::open(path)?;
            self.gateway.restore_spent(record);
            kept.file = Some(file);
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
    fn it_is_beside_the_sessions() {
        let of = |sessions: &str, file: &str| path(Path::new(sessions), Path::new(file));
        assert_eq!(of(".unfazed/sessions", "conf/gateway.yaml"), Path::new(".unfazed/serve/gateway.json"));
        assert_eq!(of("sessions", "team.eu.yaml"), Path::new("serve/team.eu.json"));
    }
}
