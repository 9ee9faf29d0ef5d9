//! The way to the database: connections on a thread of their own, for callers that wait. A connection that is lost is made
//! again, and what was asked is asked again: every statement is written so that it can be.

use std::sync::mpsc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime as PoolRuntime,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::PgConfig;
use super::config::CONNECT;
use super::tls::Tls;

/// The first wait before a database is asked again, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A caller without patience waits so long for a database that takes connections and does not answer; after that, or after
/// its patience, the statement is taken for lost with its connection.
const SHORTEST: Duration = Duration::from_secs(5);

/// What a statement is given.
pub(super) type Values = Vec<Value>;
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// Why a statement has failed.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// What is said about it; no values, no password.
    pub(super) why: String,
    /// It may go better soon.
    passing: bool,
    /// There is no such table.
    pub(super) no_table: bool,
}

/// The connections to one database.
pub(super) struct Link {
    /// Only `None` while it is dropped.
    runtime: Option<Runtime>,
    pool: Pool,
    patience: Duration,
}

impl Link {
    /// Does not connect yet.
    pub(super) fn new(config: &PgConfig) -> Result<Self, Trouble> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.database.clone(), Tls::default(), recycling);
        let pool = Pool::builder(manager)
            .max_size(config.connections.max(1))
            .runtime(PoolRuntime::Tokio1)
            .create_timeout(Some(CONNECT))
            .build()
            .map_err(|error| Trouble::lasting(error.to_string()))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("unfazed-postgres")
            .enable_all()
            .build()
            .map_err(|error| Trouble::lasting(error.to_string()))?;
        Ok(Self { runtime: Some(runtime), pool, patience: config.patience })
    }

    /// Asks, and waits for the answer. While the database is away it is asked again.
    pub(super) fn rows(&self, statement: &'static str, values: Values) -> Result<Vec<Row>, Trouble> {
        self.rows_within(self.patience, statement, values)
    }

    /// The same, but waits at most so long for a database that is away.
    pub(super) fn rows_within(
        &self,
        patience: Duration,
        statement: &'static str,
        values: Values,
    ) -> Result<Vec<Row>, Trouble> {
        let pool = self.pool.clone();
        self.wait(async move { asked(&pool, patience, statement, &values).await })
    }

    /// Asks once, and does not wait longer than that for an answer.
    pub(super) fn rows_if_soon(
        &self,
        longest: Duration,
        statement: &'static str,
        values: Values,
    ) -> Result<Vec<Row>, Trouble> {
        let pool = self.pool.clone();
        let late = || Trouble::lasting("it does not answer".to_owned());
        let asking = async move { asked(&pool, Duration::ZERO, statement, &values).await };
        self.start(asking)?.recv_timeout(longest).map_err(|_| late())?
    }

    /// The same, for who does not block while it waits.
    pub(super) async fn rows_soon(
        &self,
        patience: Duration,
        statement: &'static str,
        values: Values,
    ) -> Result<Vec<Row>, Trouble> {
        let pool = self.pool.clone();
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        let asking = runtime.spawn(async move { asked(&pool, patience, statement, &values).await });
        asking.await.map_err(|_| gone())?
    }

    /// Runs several statements as they stand, once.
    pub(super) fn script(&self, script: String) -> Result<(), Trouble> {
        let pool = self.pool.clone();
        self.wait(async move {
            let client = pool.get().await?;
            let done = client.batch_execute(&script).await;
            if done.is_err() {
                // It may be in the middle of a transaction.
                drop(Object::take(client));
            }
            Ok(done?)
        })
    }

    /// Asks again and again, so often, until no row comes back.
    pub(super) fn repeat(
        &self,
        every: Duration,
        statement: &'static str,
        values: impl Fn() -> Values + Send + 'static,
    ) -> Option<AbortHandle> {
        let pool = self.pool.clone();
        let task = async move {
            loop {
                sleep(every).await;
                // While the database is away there is nobody who could take the lease.
                if let Ok(rows) = asked(&pool, Duration::ZERO, statement, &values()).await
                    && rows.is_empty()
                {
                    return;
                }
            }
        };
        self.runtime.as_ref().map(|runtime| runtime.spawn(task).abort_handle())
    }

    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Result<T, Trouble> {
        self.start(work)?.recv().map_err(|_| gone())?
    }

    /// Has the work done on the thread of the connections. Its result comes through the channel.
    fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<mpsc::Receiver<T>, Trouble> {
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        let (send, result) = mpsc::channel();
        runtime.spawn(async move {
            // The caller may have stopped waiting.
            let _ = send.send(work.await);
        });
        Ok(result)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It may be dropped where nobody may wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn asked(
    pool: &Pool,
    patience: Duration,
    statement: &'static str,
    values: &Values,
) -> Result<Vec<Row>, Trouble> {
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
        pause = (pause * 2).min(LONGEST_WAIT);
    }
}

async fn once(
    pool: &Pool,
    statement: &'static str,
    values: &Values,
    end: Instant,
) -> Result<Vec<Row>, Trouble> {
    let silent = || Trouble { passing: true, ..Trouble::lasting("it does not answer".to_owned()) };
    let client = timeout_at(end, pool.get()).await.map_err(|_| silent())??;
    let asked = async {
        let statement = client.prepare_cached(statement).await?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value.as_ref() as _).collect();
        client.query(&statement, &values).await
    };
    if let Ok(done) = timeout_at(end, asked).await {
        return Ok(done?);
    }
    // What is asked next must not wait behind it.
    drop(Object::take(client));
    Err(silent())
}

fn gone() -> Trouble {
    Trouble::lasting("the connections are closed".to_owned())
}

impl Trouble {
    fn lasting(why: String) -> Self {
        Self { why, passing: false, no_table: false }
    }
}

impl From<PoolError> for Trouble {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from(error),
            PoolError::Timeout(_) => {
                Self { passing: true, ..Self::lasting("no connection has come about in time".to_owned()) }
            }
            error => Self::lasting(error.to_string()),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return Self { passing: !is_lasting(&error), why: causes(&error), no_table: false };
        };
        Self {
            why: said.message().to_owned(),
            passing: is_passing(said.code()),
            no_table: *said.code() == SqlState::UNDEFINED_TABLE,
        }
    }
}

/// What the server says it cannot do now, but may be able to do soon.
fn is_passing(code: &SqlState) -> bool {
    let known = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // Behind a switch to another server, the old one may take writes no more.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    known.contains(code) || code.code().starts_with("08")
}

/// What no waiting makes good: a certificate, a password that is missing, a value that cannot be sent.
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
