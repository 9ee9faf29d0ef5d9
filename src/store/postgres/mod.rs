//! Sessions in a `PostgreSQL` database, for hosts that outgrow one machine: one writer at a time, whatever machine it is on.

mod config;
mod lines;
mod link;
mod log;
mod migrate;
mod said;
mod shared;
mod table;
mod tls;

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader};
use std::sync::Arc;
#[cfg(feature = "serve")]
use std::time::Duration;

use tokio_postgres::Row;

pub use config::PgConfig;
pub use migrate::MigrationReport;

use super::read::read_log;
use super::scan::LogScan;
use super::{
    LineVisitor, RecordStream, SessionId, SessionInfo, SessionListing, SessionLog, SessionMeta, Store,
    StoreError, StoreFuture, record_stream,
};
use crate::ErrorCause;
use crate::engine::{LogHeader, RecordError, RecordLine, RecordRef};
use crate::host::{SharedState, off_thread};
use lines::LogLines;
use link::{DatabaseLink, SqlFailure, SqlValues};
use log::{PgLog, WriteLease};

/// So much of a log is read at once.
const READ_AHEAD: usize = 256 << 10;

/// Begins a session that is ours.
const CREATE: &str = "
with made as (
    insert into unfazed_session
        (id, holder, meta_version, title, agent, status, model, runs, turns, messages, tokens, created, lease_until,
         records, bytes)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::jsonb, $12,
            clock_timestamp() + $13::bigint * interval '1 millisecond', 1, $14)
    on conflict (id) do nothing
    returning id
)
insert into unfazed_record (session, seq, line) select id, 0, $15 from made returning session";

/// Takes a session without a holder.
const TAKE: &str = "
update unfazed_session
set holder = $2, lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond'
where id = $1 and (holder is null or lease_until <= clock_timestamp() or holder = $2)
returning records";

const IS_OURS: &str = "select id from unfazed_session where id = $1 and holder = $2";

const SEARCH: &str = "
select distinct session from unfazed_message where session = any($1::text[]) and folded like $2";

const RENAME: &str = "update unfazed_session set title = $2, named = true where id = $1 returning id";

const DELETE: &str = "
delete from unfazed_session
where id = $1 and (holder is null or lease_until <= clock_timestamp()) returning id";

/// Keeps sessions in a `PostgreSQL` database.
#[derive(Clone)]
pub struct PgStore {
    link: DatabaseLink,
    config: PgConfig,
}

/// Without the address, which may have a password.
impl core::fmt::Debug for PgStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PgStore").finish_non_exhaustive()
    }
}

impl PgStore {
    /// Connects. The tables must have been made by [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// The database cannot be reached, or its tables are missing, or older or newer than this program knows them.
    pub async fn connect(config: PgConfig) -> Result<Self, StoreError> {
        let link = DatabaseLink::new(&config).map_err(|trouble| config.failed("open", &trouble))?;
        migrate::check(&link, &config).await?;
        Ok(Self { link, config })
    }

    /// The same for who works without the database meanwhile: one that has not answered `within` that time is asked later.
    #[cfg(feature = "serve")]
    pub(crate) async fn connect_or_wait(config: PgConfig, within: Duration) -> Result<Self, StoreError> {
        let link = DatabaseLink::new(&config).map_err(|trouble| config.failed("open", &trouble))?;
        // One that hangs takes a connection and never answers.
        match tokio::time::timeout(within, migrate::check(&link, &config)).await {
            Ok(Ok(()) | Err(StoreError::Io { .. })) | Err(_) => Ok(Self { link, config }),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Makes the tables, or brings them to the version of this program. What is in them stays.
    ///
    /// # Errors
    /// The database cannot be reached or refuses, or a later version has made the tables.
    pub async fn migrate(config: &PgConfig) -> Result<MigrationReport, StoreError> {
        let link = DatabaseLink::new(config).map_err(|trouble| config.failed("migrate", &trouble))?;
        migrate::migrate(&link, config).await
    }

    async fn ask(
        &self,
        what: &'static str,
        statement: &'static str,
        values: SqlValues,
    ) -> Result<Vec<Row>, StoreError> {
        self.link.rows(statement, values).await.map_err(|trouble| self.config.failed(what, &trouble))
    }

    fn failed(&self, what: &'static str, why: String) -> StoreError {
        StoreError::Io { what, place: self.config.place.clone(), source: io::Error::other(why) }
    }

    fn not_found(&self, id: &SessionId) -> StoreError {
        StoreError::NotFound { id: id.clone(), place: self.place_of(id) }
    }

    fn records(&self, id: &SessionId) -> BufReader<LogLines> {
        BufReader::with_capacity(READ_AHEAD, LogLines::new(self.link.clone(), id.clone()))
    }

    fn lease(&self, id: &SessionId, holder: String) -> WriteLease {
        WriteLease::new(self.link.clone(), id.clone(), holder, self.config.lease)
    }

    /// Results that were kept on this host.
    async fn delete_results(&self, id: &SessionId) -> Result<(), StoreError> {
        let Some(folder) = &self.config.results else { return Ok(()) };
        let path = folder.join(format!("{id}.results"));
        off_thread(move || match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("delete", path.display(), source))
            }
            _ => Ok(()),
        })
        .await
    }
}

impl PgConfig {
    fn failed(&self, what: &'static str, trouble: &SqlFailure) -> StoreError {
        StoreError::Io { what, place: self.place.clone(), source: io::Error::other(trouble.clone()) }
    }
}

impl Store for PgStore {
    fn place(&self) -> String {
        self.config.place.clone()
    }

    fn place_of(&self, id: &SessionId) -> String {
        format!("{}/{id}", self.config.place)
    }

    fn create<'a>(
        &'a self,
        id: &'a SessionId,
        header: &'a LogHeader,
    ) -> StoreFuture<'a, Box<dyn SessionLog>> {
        Box::pin(async move {
            let place = self.place_of(id);
            let line = RecordLine::new(RecordRef::Session(header))
                .map_err(|source| StoreError::Unwritable { place: place.clone(), source })?;
            let holder = holder();
            let mut values: SqlValues = vec![Box::new(id.to_string()), Box::new(holder.clone())];
            values.extend(table::columns(&SessionMeta::of(header)));
            values.push(Box::new(i64::try_from(header.created.0).unwrap_or(i64::MAX)));
            values.push(Box::new(table::millis(self.config.lease)));
            values.push(Box::new(table::count(line.with_end().len())));
            values.push(Box::new(line.as_str().to_owned()));
            if self.ask("write to", CREATE, values).await?.is_empty() {
                // The statement may have been run and only its answer lost. Then the session is ours.
                let ours = vec![Box::new(id.to_string()) as _, Box::new(holder.clone()) as _];
                if self.ask("write to", IS_OURS, ours).await?.is_empty() {
                    return Err(StoreError::Exists { id: id.clone(), place });
                }
            }
            Ok(Box::new(PgLog::new(self.lease(id, holder), place, 1)) as Box<dyn SessionLog>)
        })
    }

    fn open_with<'a>(
        &'a self,
        id: &'a SessionId,
        mut each: LineVisitor,
    ) -> StoreFuture<'a, Box<dyn SessionLog>> {
        Box::pin(async move {
            // A new name for each opening, so that a writer whose lease ran out cannot append behind another one.
            let (place, holder) = (self.place_of(id), holder());
            let length = table::millis(self.config.lease);
            let values: SqlValues =
                vec![Box::new(id.to_string()), Box::new(holder.clone()), Box::new(length)];
            let taken = self.ask("open", TAKE, values).await?;
            let Some(row) = taken.first() else {
                // Distinguishes a missing session from one in use.
                self.info(id).await?;
                return Err(StoreError::InUse { id: id.clone() });
            };
            // The lease is renewed from here on: reading a long log may take longer than one lease.
            let log = PgLog::new(self.lease(id, holder), place.clone(), row.get(0));
            let mut scan = LogScan::new(self.records(id));
            let read = off_thread(move || {
                while let Some(line) = scan.next() {
                    let told = line.map(&mut *each).map_err(|error| StoreError::read(error, &place))?;
                    told.map_err(|error| StoreError::read(scan.damaged(error), &place))?;
                }
                Ok::<(), StoreError>(())
            });
            match read.await {
                Ok(()) => Ok(Box::new(log) as Box<dyn SessionLog>),
                Err(error) => {
                    Box::new(log).close().await;
                    Err(error)
                }
            }
        })
    }

    fn read<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, RecordStream> {
        Box::pin(async move {
            self.info(id).await?;
            let place = self.place_of(id);
            let records = read_log(self.records(id));
            Ok(record_stream(
                records.map(move |record| record.map_err(|error| StoreError::read(error, &place))),
            ))
        })
    }

    fn list(&self) -> StoreFuture<'_, SessionListing> {
        Box::pin(async {
            let mut listing = SessionListing::default();
            for row in self.ask("read", table::ALL, Vec::new()).await? {
                match table::info(&row) {
                    Ok(info) => listing.sessions.push(info),
                    Err((Some(id), why)) => listing.damaged.push((id, why)),
                    // This store never writes such an id, so another program wrote the row, and nobody could name the
                    // session.
                    Err((None, _)) => {}
                }
            }
            listing.damaged.sort();
            Ok(listing)
        })
    }

    fn info<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, SessionInfo> {
        Box::pin(async move {
            let rows = self.ask("read", table::META, vec![Box::new(id.to_string())]).await?;
            let row = rows.first().ok_or_else(|| self.not_found(id))?;
            table::info(row).map_err(|(_, why)| StoreError::Damaged {
                place: self.place_of(id),
                line: 1,
                source: RecordError::Malformed(ErrorCause::new(why)),
            })
        })
    }

    fn search<'a>(&'a self, sessions: &'a [SessionId], text: &'a str) -> StoreFuture<'a, Vec<SessionId>> {
        Box::pin(async move {
            let ids: Vec<String> = sessions.iter().map(SessionId::to_string).collect();
            let rows = self.ask("search", SEARCH, vec![Box::new(ids), Box::new(said::pattern(text))]).await?;
            let found: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
            Ok(sessions.iter().filter(|id| found.contains(id.as_str())).cloned().collect())
        })
    }

    fn shared_state(&self) -> Option<Arc<dyn SharedState>> {
        Some(Arc::new(self.clone()))
    }

    fn rename<'a>(&'a self, id: &'a SessionId, title: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let values: SqlValues = vec![Box::new(id.to_string()), Box::new(table::text(title))];
            let renamed = self.ask("write to", RENAME, values).await?;
            if renamed.is_empty() { Err(self.not_found(id)) } else { Ok(()) }
        })
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            // Asked and deleted in one statement: the session could be opened in between.
            if self.ask("write to", DELETE, vec![Box::new(id.to_string())]).await?.is_empty() {
                self.info(id).await?;
                return Err(StoreError::InUse { id: id.clone() });
            }
            self.delete_results(id).await
        })
    }
}

/// A unique name for the holder of a lease.
fn holder() -> String {
    crate::host::new_uuid().to_string()
}
