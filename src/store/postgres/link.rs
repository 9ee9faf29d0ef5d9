//! The connections to the database. A lost connection is replaced, and the statement is repeated: every statement can
//! be repeated safely.

use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime as PoolRuntime,
};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::PgConfig;
use super::config::CONNECT;
use super::tls::TlsSetup;
use crate::ErrorCause;

/// The first delay before a retry, and the maximum delay.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A caller without patience waits so long for a database that takes connections and does not answer; after that, or after
/// its patience, the statement is taken for lost with its connection.
const SHORTEST: Duration = Duration::from_secs(5);

/// The values of a statement.
pub(super) type SqlValues = Vec<SqlValue>;
pub(super) type SqlValue = Box<dyn ToSql + Sync + Send>;

/// Why a statement failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub(super) struct SqlFailure {
    /// The message for people: no values, no password.
    pub(super) why: String,
    /// The error of the driver.
    source: Option<ErrorCause>,
    /// Whether a retry may succeed soon.
    passing: bool,
    /// Whether the table does not exist.
    pub(super) no_table: bool,
}

/// The connections to one database.
#[derive(Clone)]
pub(super) struct DatabaseLink {
    pool: Pool,
    patience: Duration,
}

impl DatabaseLink {
    /// Prepares connections without opening one.
    pub(super) fn new(config: &PgConfig) -> Result<Self, SqlFailure> {
        // A dead connection shows at the next statement, which is asked again anyway.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.database.clone(), TlsSetup::default(), recycling);
        let pool = Pool::builder(manager)
            .max_size(config.connections.max(1))
            .runtime(PoolRuntime::Tokio1)
            .create_timeout(Some(CONNECT))
            .build()
            .map_err(SqlFailure::of)?;
        Ok(Self { pool, patience: config.patience })
    }

    /// Runs a statement and returns its rows. Retried while the database is unreachable.
    pub(super) async fn rows(
        &self,
        statement: &'static str,
        values: SqlValues,
    ) -> Result<Vec<Row>, SqlFailure> {
        self.rows_within(self.patience, statement, values).await
    }

    /// The same, with a limit on the time to wait for an unreachable database.
    pub(super) async fn rows_within(
        &self,
        patience: Duration,
        statement: &'static str,
        values: SqlValues,
    ) -> Result<Vec<Row>, SqlFailure> {
        asked(&self.pool, patience, statement, &values).await
    }

    /// Runs a statement once, with a limit on the time to wait for its answer.
    pub(super) async fn rows_if_soon(
        &self,
        longest: Duration,
        statement: &'static str,
        values: SqlValues,
    ) -> Result<Vec<Row>, SqlFailure> {
        let asking = self.rows_within(Duration::ZERO, statement, values);
        let late = |_| SqlFailure::lasting("it does not answer".to_owned());
        timeout(longest, asking).await.map_err(late)?
    }

    /// Runs several statements once, without values.
    pub(super) async fn script(&self, script: &str) -> Result<(), SqlFailure> {
        let client = self.pool.get().await?;
        let done = client.batch_execute(script).await;
        if done.is_err() {
            // It may be in the middle of a transaction.
            drop(Object::take(client));
        }
        Ok(done?)
    }

    /// Repeats a statement at an interval until it returns no row.
    pub(super) fn repeat(
        &self,
        every: Duration,
        statement: &'static str,
        values: impl Fn() -> SqlValues + Send + 'static,
    ) -> AbortHandle {
        let link = self.clone();
        let task = async move {
            loop {
                sleep(every).await;
                // While the database is unreachable, no other process can take the lease.
                if let Ok(rows) = link.rows_within(Duration::ZERO, statement, values()).await
                    && rows.is_empty()
                {
                    return;
                }
            }
        };
        tokio::spawn(task).abort_handle()
    }
}

async fn asked(
    pool: &Pool,
    patience: Duration,
    statement: &'static str,
    values: &SqlValues,
) -> Result<Vec<Row>, SqlFailure> {
    let begin = Instant::now();
    let (end, mut pause) = (begin + patience, FIRST_WAIT);
    loop {
        let trouble = match once(pool, statement, values, begin + patience.max(SHORTEST)).await {
            Err(trouble) if trouble.passing => trouble,
            done => return done,
        };
        if Instant::now() + pause > end {
            return Err(trouble);
        }
        tracing::warn!(error = %trouble.why, "the database of sessions is away; it is asked again");
        sleep(pause).await;
        // Doubled up to a bound: a database that comes back is found soon, and one that stays away is not flooded.
        pause = (pause * 2).min(LONGEST_WAIT);
    }
}

async fn once(
    pool: &Pool,
    statement: &'static str,
    values: &SqlValues,
    end: Instant,
) -> Result<Vec<Row>, SqlFailure> {
    let silent = || SqlFailure { passing: true, ..SqlFailure::lasting("it does not answer".to_owned()) };
    let client = timeout_at(end, pool.get()).await.map_err(|_| silent())??;
    let asked = async {
        let statement = client.prepare_cached(statement).await?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value.as_ref() as _).collect();
        client.query(&statement, &values).await
    };
    if let Ok(done) = timeout_at(end, asked).await {
        return Ok(done?);
    }
    // A later statement on this connection would wait behind this one.
    drop(Object::take(client));
    Err(silent())
}

impl SqlFailure {
    fn lasting(why: String) -> Self {
        Self { why, source: None, passing: false, no_table: false }
    }

    fn of(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let why = error.to_string();
        Self { source: Some(error.into()), ..Self::lasting(why) }
    }
}

impl From<PoolError> for SqlFailure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from(error),
            PoolError::Timeout(_) => {
                Self { passing: true, ..Self::lasting("no connection has come about in time".to_owned()) }
            }
            error => Self::of(error),
        }
    }
}

impl From<Error> for SqlFailure {
    fn from(error: Error) -> Self {
        let (why, passing, no_table) = match error.as_db_error() {
            None => (causes(&error), !is_lasting(&error), false),
            Some(said) => {
                let no_table = *said.code() == SqlState::UNDEFINED_TABLE;
                (said.message().to_owned(), is_passing(said.code()), no_table)
            }
        };
        Self { why, source: Some(error.into()), passing, no_table }
    }
}

/// Whether the error of the server is temporary.
fn is_passing(code: &SqlState) -> bool {
    let known = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // After a switch to another server, the old one may refuse writes.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    // Class 08 has the connection exceptions (PostgreSQL, appendix A).
    known.contains(code) || code.code().starts_with("08")
}

/// Whether the error is permanent: a certificate, a missing password, a value that cannot be sent.
fn is_lasting(error: &Error) -> bool {
    let said = error.to_string();
    ["TLS", "authentication", "configuration", "serializing", "deserializing", "column"]
        .iter()
        .any(|word| said.contains(word))
}

/// The message with those of its causes.
fn causes(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let said: Vec<String> =
        std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect();
    let said = said.join(": ");
    if said.contains("certificate") {
        format!("{said}; SSL_CERT_FILE names a file of certificates that are trusted")
    } else {
        said
    }
}
