//! The address and the settings of the database.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::store::{FsyncMode, StoreError};

/// The default time after which the lease of a silent writer ends.
const LEASE: Duration = Duration::from_secs(30);
/// The default time to wait for an unreachable database.
const PATIENCE: Duration = Duration::from_secs(30);
/// The default maximum number of connections.
const CONNECTIONS: usize = 8;
/// The maximum time to establish a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The address and the settings of the database. Its password is never shown.
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
    /// The database at this address: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `?sslmode=require` to
    /// require TLS. A missing password is taken from `PGPASSWORD`.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        // The parse error is not reported: it could contain a part of the password.
        let url = url.trim();
        let parsed: Option<Config> = url.parse().ok().filter(|_| is_address(url));
        let mut database = parsed.ok_or(StoreError::Address)?;
        if database.get_hosts().is_empty() || database.get_hosts().iter().any(is_torn) {
            return Err(StoreError::Address);
        }
        // Like libpq, so that an address need not contain a password.
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
        // A connection through a firewall that has dropped it would otherwise wait for hours.
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

    /// Sets when appended lines are safe: before `append` returns, or with [`FsyncMode::Never`] later, so that a
    /// crash of the server can lose the last lines. The session then cannot be written any further.
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

    /// Sets how long a lease lasts without renewal, by the clock of the database: a crashed host keeps its sessions
    /// this long. The default is 30 seconds.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long to wait for an unreachable database before a run stops. The default is 30 seconds.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum number of connections. The default is 8.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the folder in which this host stores large tool results, one folder per session; deleting a session
    /// deletes its results.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = Some(folder.into());
        self
    }
}

fn is_address(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Whether a password with an `@` that is not written as `%40` ended up in the host name.
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
