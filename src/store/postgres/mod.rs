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
use std::path::PathBuf;
use std::sync::Arc;

use tokio_postgres::Row;

pub use config::PgConfig;
pub use migrate::Migrated;

use super::jsonl::read_error;
use super::read::read_log;
use super::scan::Scan;
use super::{Line, Listing, SessionId, SessionInfo, SessionLog, SessionMeta, Store, StoreError, written};
use crate::engine::{LogHeader, Record, RecordError, RecordRef};
use crate::host::SharedState;
use lines::Lines;
use link::{Link, Trouble, Values};
use log::{Lease, PgLog};

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

/// Takes a session that nobody has.
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
///
/// Its methods wait for the database, as those of [`JsonlStore`](super::JsonlStore) wait for the disk.
#[derive(Clone)]
pub struct PgStore {
    link: Arc<Link>,
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
    pub fn connect(config: PgConfig) -> Result<Self, StoreError> {
        let link = Link::new(&config).map_err(|trouble| config.failed("open", &trouble))?;
        migrate::check(&link, &config)?;
        Ok(Self { link: Arc::new(link), config })
    }

    /// Makes the tables, or brings them to the version of this program. What is in them stays.
    ///
    /// # Errors
    /// The database cannot be reached or refuses, or a later version has made the tables.
    pub fn migrate(config: &PgConfig) -> Result<Migrated, StoreError> {
        let link = Link::new(config).map_err(|trouble| config.failed("migrate", &trouble))?;
        migrate::migrate(&link, config)
    }

    fn ask(
        &self,
        what: &'static str,
        statement: &'static str,
        values: Values,
    ) -> Result<Vec<Row>, StoreError> {
        self.link.rows(statement, values).map_err(|trouble| self.config.failed(what, &trouble))
    }

    fn failed(&self, what: &'static str, why: String) -> StoreError {
        StoreError::Io { what, path: PathBuf::from(&self.config.place), source: io::Error::other(why) }
    }

    fn not_found(&self, id: &SessionId) -> StoreError {
        StoreError::NotFound { id: id.clone(), path: self.place_of(id) }
    }

    fn records(&self, id: &SessionId) -> BufReader<Lines> {
        BufReader::with_capacity(READ_AHEAD, Lines::new(Arc::clone(&self.link), id.clone()))
    }

    fn lease(&self, id: &SessionId, holder: String) -> Lease {
        Lease::new(Arc::clone(&self.link), id.clone(), holder, self.config.lease)
    }

    /// Results that were kept on this host.
    fn delete_results(&self, id: &SessionId) -> Result<(), StoreError> {
        let Some(folder) = &self.config.results else { return Ok(()) };
        let path = folder.join(format!("{id}.results"));
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Io { what: "delete", path, source })
            }
            _ => Ok(()),
        }
    }
}

impl PgConfig {
    fn failed(&self, what: &'static str, trouble: &Trouble) -> StoreError {
        StoreError::Io {
            what,
            path: PathBuf::from(&self.place),
            source: io::Error::other(trouble.why.clone()),
        }
    }
}

impl Store for PgStore {
    fn place(&self) -> String {
        self.config.place.clone()
    }

    fn place_of(&self, id: &SessionId) -> PathBuf {
        PathBuf::from(format!("{}/{id}", self.config.place))
    }

    fn create(&self, id: &SessionId, header: &LogHeader) -> Result<Box<dyn SessionLog>, StoreError> {
        let path = self.place_of(id);
        let mut line = Vec::new();
        written::add(RecordRef::Session(header), &mut line)
            .map_err(|why| StoreError::Unwritable { path: path.clone(), why })?;
        let bytes = table::count(line.len());
        let holder = holder();
        let mut values: Values = vec![Box::new(id.to_string()), Box::new(holder.clone())];
        values.extend(table::columns(&SessionMeta::of(header)));
        values.push(Box::new(i64::try_from(header.created.0).unwrap_or(i64::MAX)));
        values.push(Box::new(table::millis(self.config.lease)));
        values.push(Box::new(bytes));
        values.push(Box::new(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()));
        if self.ask("write to", CREATE, values)?.is_empty() {
            // Only the answer may have been lost.
            let ours = vec![Box::new(id.to_string()) as _, Box::new(holder.clone()) as _];
            if self.ask("write to", IS_OURS, ours)?.is_empty() {
                return Err(StoreError::Exists { id: id.clone(), path });
            }
        }
        Ok(Box::new(PgLog::new(self.lease(id, holder), path, 1)))
    }

    fn open_with(
        &self,
        id: &SessionId,
        each: &mut dyn FnMut(Line<'_>) -> Result<(), RecordError>,
    ) -> Result<Box<dyn SessionLog>, StoreError> {
        let (path, holder) = (self.place_of(id), holder());
        let length = table::millis(self.config.lease);
        let values: Values = vec![Box::new(id.to_string()), Box::new(holder.clone()), Box::new(length)];
        let taken = self.ask("open", TAKE, values)?;
        let Some(row) = taken.first() else {
            self.info(id)?;
            return Err(StoreError::InUse { id: id.clone() });
        };
        let log = PgLog::new(self.lease(id, holder), path.clone(), row.get(0));
        let mut scan = Scan::new(self.records(id));
        while let Some(line) = scan.next() {
            let told = line.map(&mut *each).map_err(|error| read_error(error, &path))?;
            told.map_err(|error| read_error(scan.damaged(error), &path))?;
        }
        Ok(Box::new(log))
    }

    fn read(
        &self,
        id: &SessionId,
    ) -> Result<Box<dyn Iterator<Item = Result<Record, StoreError>> + Send>, StoreError> {
        self.info(id)?;
        let path = self.place_of(id);
        let records = read_log(self.records(id));
        Ok(Box::new(records.map(move |record| record.map_err(|error| read_error(error, &path)))))
    }

    fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for row in self.ask("read", table::ALL, Vec::new())? {
            match table::info(&row) {
                Ok(info) => listing.sessions.push(info),
                Err((Some(id), why)) => listing.damaged.push((id, why)),
                // No session of ours has such an id.
                Err((None, _)) => {}
            }
        }
        listing.damaged.sort();
        Ok(listing)
    }

    fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let rows = self.ask("read", table::META, vec![Box::new(id.to_string())])?;
        let row = rows.first().ok_or_else(|| self.not_found(id))?;
        table::info(row).map_err(|(_, why)| StoreError::Damaged {
            path: self.place_of(id),
            line: 1,
            source: RecordError::Malformed(why),
        })
    }

    fn search(&self, sessions: &[SessionId], text: &str) -> Result<Vec<SessionId>, StoreError> {
        let ids: Vec<String> = sessions.iter().map(SessionId::to_string).collect();
        let rows = self.ask("search", SEARCH, vec![Box::new(ids), Box::new(said::pattern(text))])?;
        let found: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
        Ok(sessions.iter().filter(|id| found.contains(id.as_str())).cloned().collect())
    }

    fn shared_state(&self) -> Option<Arc<dyn SharedState>> {
        Some(Arc::new(self.clone()))
    }

    fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let values: Values = vec![Box::new(id.to_string()), Box::new(table::text(title))];
        let renamed = self.ask("write to", RENAME, values)?;
        if renamed.is_empty() { Err(self.not_found(id)) } else { Ok(()) }
    }

    fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        if self.ask("write to", DELETE, vec![Box::new(id.to_string())])?.is_empty() {
            self.info(id)?;
            return Err(StoreError::InUse { id: id.clone() });
        }
        self.delete_results(id)
    }
}

/// Nobody else is called so.
fn holder() -> String {
    crate::host::new_uuid().to_string()
}
