//! Where sessions are kept: in a folder, or in a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host::SharedState;
use crate::host::agent_file::AgentFile;
#[cfg(feature = "postgres")]
use crate::store::Store as _;
use crate::store::{FsyncMode, SessionId};
use secrecy::SecretString;

#[cfg(feature = "postgres")]
use super::failed;
use super::open_store::OpenStore;
use crate::cli::exit::CommandFailure;
#[cfg(feature = "postgres")]
use crate::cli::runtime::Waiting;
use crate::cli::settings::CliSettings;

/// Where sessions are kept if nobody says otherwise.
const DIR: &str = ".unfazed/sessions";

/// Where sessions are kept.
#[derive(Clone)]
pub(crate) struct SessionPlace {
    /// The folder of the sessions, or of what is kept on this machine of those in the database.
    dir: PathBuf,
    /// The address of the database.
    url: Option<SecretString>,
}

/// Where the sessions of a run are kept: as the settings say, or the agent file, or where they usually are.
pub(crate) fn of_run(
    settings: &CliSettings,
    agent: Option<(&AgentFile, &Path)>,
) -> Result<SessionPlace, CommandFailure> {
    let said = agent.map(|(file, _)| PathBuf::from(&file.session.dir));
    let dir = settings.sessions.clone().or(said).unwrap_or_else(|| PathBuf::from(DIR));
    let url = match (&settings.sessions_url, &settings.sessions) {
        (Some(url), _) => Some(url.clone()),
        // The settings take precedence over the agent file, whatever it says.
        (None, Some(_)) => None,
        (None, None) => match agent {
            Some((file, folder)) => address(file, folder)?,
            None => None,
        },
    };
    Ok(SessionPlace { dir, url })
}

/// The address of the database that the file keeps its sessions in, if it does.
fn address(file: &AgentFile, folder: &Path) -> Result<Option<SecretString>, CommandFailure> {
    let Some(url) = &file.session.url else { return Ok(None) };
    url.secret("the address of the database", folder)
        .map_err(|error| CommandFailure::Usage(format!("session: {error}")))
}

impl SessionPlace {
    /// A folder or a database that was named on the command line, or where the settings say.
    pub(in crate::cli) fn named(
        dir: Option<&Path>,
        url: Option<&str>,
        settings: &CliSettings,
    ) -> Result<Self, CommandFailure> {
        let usual = of_run(settings, None)?;
        Ok(match (dir, url) {
            (_, Some(url)) => Self { url: Some(SecretString::from(url)), ..usual },
            (Some(dir), None) => Self { dir: dir.to_path_buf(), url: None },
            (None, None) => usual,
        })
    }

    /// What keeps them.
    pub(in crate::cli) fn open(&self, fsync: FsyncMode) -> Result<OpenStore, CommandFailure> {
        match &self.url {
            Some(url) => database(url, &self.dir, fsync),
            None => OpenStore::folder(&self.dir, fsync),
        }
    }

    /// The database, and what hosts share in it; `None`: sessions are in a folder. A database that is away is asked later.
    #[cfg(feature = "postgres")]
    pub(crate) async fn shared_state(
        &self,
    ) -> Result<Option<(String, Arc<dyn SharedState>)>, CommandFailure> {
        let Some(url) = &self.url else { return Ok(None) };
        // One that is open answers sooner than another one comes about.
        let config = config(url)?.connections(1);
        let store = crate::store::PgStore::connect_or_wait(config, crate::host::reached::SOON).await;
        let store = store.map_err(|error| failed(&error))?;
        Ok(Some((store.place(), Arc::new(store))))
    }

    /// Sessions are in a folder.
    #[cfg(not(feature = "postgres"))]
    pub(crate) async fn shared_state(
        &self,
    ) -> Result<Option<(String, Arc<dyn SharedState>)>, CommandFailure> {
        match &self.url {
            Some(_) => Err(CommandFailure::Usage(WITHOUT.into())),
            None => std::future::ready(Ok(None)).await,
        }
    }

    /// Where large results of tools are kept: on this machine, in any case.
    pub(crate) fn results(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.results"))
    }

    /// What nobody may see.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let mut secrets: Vec<SecretString> = self.url.iter().cloned().collect();
        secrets.extend(self.url.as_ref().and_then(password));
        secrets
    }

    /// Makes the tables of the database, or brings them to the version of this program. Returns what is said about it.
    pub(super) fn migrate(&self) -> Result<String, CommandFailure> {
        let Some(url) = &self.url else {
            return Err(CommandFailure::Usage(
                "only a database is migrated; name it with --url URL, or in UNFAZED_SESSIONS_URL".into(),
            ));
        };
        migrated(url)
    }
}

#[cfg(feature = "postgres")]
fn config(url: &SecretString) -> Result<crate::store::PgConfig, CommandFailure> {
    use secrecy::ExposeSecret as _;
    crate::store::PgConfig::parse(url.expose_secret())
        .map_err(|error| CommandFailure::Usage(error.to_string()))
}

#[cfg(feature = "postgres")]
fn database(url: &SecretString, dir: &Path, fsync: FsyncMode) -> Result<OpenStore, CommandFailure> {
    let config = config(url)?.fsync(fsync).results(dir);
    OpenStore::open(async { crate::store::PgStore::connect(config).await.map_err(|error| failed(&error)) })
}

#[cfg(feature = "postgres")]
fn migrated(url: &SecretString) -> Result<String, CommandFailure> {
    let config = config(url)?;
    let migrated = Waiting::new()?.wait(crate::store::PgStore::migrate(&config));
    let crate::store::MigrationReport { from, to } = migrated.map_err(|error| failed(&error))?;
    Ok(if from == to {
        format!("up to date  version {to}\n")
    } else {
        format!("migrated  from version {from} to {to}\n")
    })
}

#[cfg(feature = "postgres")]
fn password(url: &SecretString) -> Option<SecretString> {
    config(url).ok()?.password()
}

#[cfg(not(feature = "postgres"))]
const WITHOUT: &str =
    "sessions cannot be kept in PostgreSQL: this program was built without the feature `postgres`";

#[cfg(not(feature = "postgres"))]
fn database(_url: &SecretString, _dir: &Path, _fsync: FsyncMode) -> Result<OpenStore, CommandFailure> {
    Err(CommandFailure::Usage(WITHOUT.into()))
}

#[cfg(not(feature = "postgres"))]
fn migrated(_url: &SecretString) -> Result<String, CommandFailure> {
    Err(CommandFailure::Usage(WITHOUT.into()))
}

#[cfg(not(feature = "postgres"))]
const fn password(_url: &SecretString) -> Option<SecretString> {
    None
}
