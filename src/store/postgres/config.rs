//! Where the database is, and how it is used.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::store::{FsyncMode, StoreError};

/// How long a session stays its writer's after the last sign of life.
const LEASE: Duration = Duration::from_secs(30);
/// How long a database that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many connections there are at most.
const CONNECTIONS: usize = 8;
/// How long a connection may take to come about.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// Where the database is, and how it is used. Its password is shown nowhere.
#[derive(Clone, Debug)]
pub struct PgConfig {
    pub(super) database: Config,
    /// The address without user and password.
    pub(super) place: String,
    pub(super) lease: Duration,
    pub(super) patience: Duration,
    pub(super) connections: usize,
    pub(super) results: Option<PathBuf>,
}

impl PgConfig {
    /// The database at that address: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `?sslmode=require` where it must be
    /// reached by TLS. A password that is not in it is taken from `PGPASSWORD`.
    ///
    /// # Errors
    /// It is no such address.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        // Why it cannot be read is not reported: that could show a part of the password.
        let url = url.trim();
        let parsed: Option<Config> = url.parse().ok().filter(|_| is_address(url));
        let mut database = parsed.ok_or(StoreError::Address)?;
        if database.get_hosts().is_empty() || database.get_hosts().iter().any(is_torn) {
            return Err(StoreError::Address);
        }
        // As libpq does, so that no password need stand in an address.
        if database.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            database.password(password);
        }
        if database.get_application_name().is_none() {
            database.application_name("unfazed");
        }
        if database.get_connect_timeout().is_none() {
            database.connect_timeout(CONNECT);
        }
        // A connection through a firewall that forgot it would otherwise wait for hours.
        database.keepalives_idle(Duration::from_secs(30));
        let place = place(&database);
        Ok(Self {
            database,
            place,
            lease: LEASE,
            patience: PATIENCE,
            connections: CONNECTIONS,
            results: None,
        })
    }

    /// The password, to be kept out of what is shown.
    pub fn password(&self) -> Option<SecretString> {
        let password = self.database.get_password()?;
        Some(SecretString::from(String::from_utf8_lossy(password).into_owned()))
    }

    /// What is appended is safe before `append` returns, whatever happens to the server; but for [`FsyncMode::Never`], which
    /// lets a server that breaks down lose the last moments. The session then cannot be written any further.
    #[must_use]
    pub fn fsync(mut self, fsync: FsyncMode) -> Self {
        if fsync == FsyncMode::Never {
            let options = self.database.get_options().unwrap_or_default();
            // PostgreSQL, "Asynchronous Commit": a crash may lose the last commits, and never leaves half of one.
            let options = format!("{options} -c synchronous_commit=off");
            self.database.options(options.trim());
        }
        self
    }

    /// How long a session stays its writer's after the last sign of life, by the clock of the database: a host that has
    /// broken down keeps it so long. 30 seconds, if nobody says.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a database that is away is waited for before a run stops. 30 seconds, if nobody says.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How many connections there are at most. 8, if nobody says.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// The folder in which this host keeps large results of tools, one folder for each session: those of a session that is
    /// deleted are deleted with it.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = Some(folder.into());
        self
    }
}

fn is_address(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// A password with an `@` that is not written as `%40` ends up in the name of the host.
fn is_torn(host: &Host) -> bool {
    matches!(host, Host::Tcp(name) if name.contains(|c: char| c == '@' || c == '/' || c.is_whitespace()))
}

/// The address without user and password.
fn place(database: &Config) -> String {
    let hosts = database.get_hosts().iter().enumerate().map(|(index, host)| {
        let ports = database.get_ports();
        let port = ports.get(index).or_else(|| ports.first()).map(|port| format!(":{port}"));
        let name = match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        name + &port.unwrap_or_default()
    });
    let hosts: Vec<String> = hosts.collect();
    let name = database.get_dbname().or_else(|| database.get_user()).unwrap_or_default();
    format!("postgres://{}/{name}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_has_neither_user_nor_password() {
        for (url, place) in [
            (
                "postgres://me:hunter2@db.example:5433/agents?sslmode=require",
                "postgres://db.example:5433/agents",
            ),
            ("postgresql://me@db.example", "postgres://db.example:5432/me"),
            ("postgres://me:hunter2@one,two:5433/agents", "postgres://one:5432,two:5433/agents"),
            ("postgres://me@%2Fvar%2Frun/agents", "postgres:///var/run:5432/agents"),
        ] {
            let config = PgConfig::parse(url).unwrap();
            assert_eq!(config.place, place);
            assert!(!format!("{config:?}").contains("hunter2"));
        }
    }

    #[test]
    fn no_part_of_a_password_is_shown_whatever_is_written() {
        for url in [
            "",
            "hunter2",
            "mysql://me:hunter2@host/agents",
            "postgres://me:hunter2@ret@host/agents",
            "postgres://me:hunter2/x@host/agents",
            "postgres://me@host/agents?hunter2=1",
            "host=db password=hunter2",
        ] {
            let said =
                PgConfig::parse(url).map_or_else(|error| error.to_string(), |config| format!("{config:?}"));
            assert!(!said.contains("hunter2") && !said.contains("ret@"), "{url}: {said}");
        }
    }
}
