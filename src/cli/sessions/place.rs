//! Where sessions are kept: in a folder, or in a database.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use unfazed::host::agent_file::AgentFile;
use unfazed::store::{Fsync, JsonlStore, SessionId, Store};

#[cfg(feature = "postgres")]
use super::find::failed;
use crate::cli::exit::Failed;
use crate::cli::run::sessions_url;
use crate::cli::settings::Settings;

/// Where sessions are kept if nobody says otherwise.
const DIR: &str = ".unfazed/sessions";

/// Where sessions are kept.
#[derive(Clone)]
pub(crate) struct Place {
    /// The folder of the sessions, or of what is kept on this machine of those in the database.
    dir: PathBuf,
    /// The address of the database.
    url: Option<SecretString>,
}

/// Where the sessions of a run are kept: as the settings say, or the agent file, or where they usually are.
pub(crate) fn of_run(settings: &Settings, agent: Option<(&AgentFile, &Path)>) -> Result<Place, Failed> {
    let said = agent.map(|(file, _)| PathBuf::from(&file.session.dir));
    let dir = settings.sessions.clone().or(said).unwrap_or_else(|| PathBuf::from(DIR));
    let url = match (&settings.sessions_url, &settings.sessions) {
        (Some(url), _) => Some(url.clone()),
        // The settings go before the agent file, whatever it says.
        (None, Some(_)) => None,
        (None, None) => agent.and_then(|(file, folder)| sessions_url(file, folder)).transpose()?,
    };
    Ok(Place { dir, url })
}

impl Place {
    /// A folder or a database that was named on the command line, or where the settings say.
    pub(in crate::cli) fn named(
        dir: Option<&Path>,
        url: Option<&str>,
        settings: &Settings,
    ) -> Result<Self, Failed> {
        let usual = of_run(settings, None)?;
        Ok(match (dir, url) {
            (_, Some(url)) => Self { url: Some(SecretString::from(url)), ..usual },
            (Some(dir), None) => Self { dir: dir.to_path_buf(), url: None },
            (None, None) => usual,
        })
    }

    /// What keeps them.
    pub(crate) fn open(&self, fsync: Fsync) -> Result<Box<dyn Store>, Failed> {
        match &self.url {
            Some(url) => database(url, &self.dir, fsync),
            None => Ok(Box::new(JsonlStore::new(&self.dir, fsync))),
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
    pub(super) fn migrate(&self) -> Result<String, Failed> {
        let Some(url) = &self.url else {
            return Err(Failed::Usage(
                "only a database is migrated; name it with --url URL, or in UNFAZED_SESSIONS_URL".into(),
            ));
        };
        migrated(url)
    }
}

#[cfg(feature = "postgres")]
fn config(url: &SecretString) -> Result<unfazed::store::PgConfig, Failed> {
    use secrecy::ExposeSecret as _;
    unfazed::store::PgConfig::parse(url.expose_secret()).map_err(|error| Failed::Usage(error.to_string()))
}

#[cfg(feature = "postgres")]
fn database(url: &SecretString, dir: &Path, fsync: Fsync) -> Result<Box<dyn Store>, Failed> {
    let store = unfazed::store::PgStore::connect(config(url)?.fsync(fsync).results(dir));
    Ok(Box::new(store.map_err(|error| failed(&error))?))
}

#[cfg(feature = "postgres")]
fn migrated(url: &SecretString) -> Result<String, Failed> {
    let unfazed::store::Migrated { from, to } =
        unfazed::store::PgStore::migrate(&config(url)?).map_err(|error| failed(&error))?;
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
fn database(_url: &SecretString, _dir: &Path, _fsync: Fsync) -> Result<Box<dyn Store>, Failed> {
    Err(Failed::Usage(WITHOUT.into()))
}

#[cfg(not(feature = "postgres"))]
fn migrated(_url: &SecretString) -> Result<String, Failed> {
    Err(Failed::Usage(WITHOUT.into()))
}

#[cfg(not(feature = "postgres"))]
const fn password(_url: &SecretString) -> Option<SecretString> {
    None
}
