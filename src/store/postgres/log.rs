//! The open log of a session. Its writer holds a lease, which every append checks and renews.

use std::future::ready;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::Row;

use super::link::{DatabaseLink, SqlFailure, SqlValue, SqlValues};
use super::said::said;
use super::table::{self, META};
use crate::engine::RecordLine;
use crate::host::BoxFuture;
use crate::store::{SessionId, SessionLog, SessionMeta, StoreError, StoreFuture};

/// The maximum time to wait for the release of the lease at the end of a session.
const RELEASE_WAIT: Duration = Duration::from_secs(1);
/// The number of renewals per lease time.
const RENEWALS: u32 = 3;

/// Appends lines, if the lease is still held and the log has the expected length.
const APPEND: &str = "
with held as (
    update unfazed_session
    set records = records + cardinality($4::text[]), bytes = bytes + $5, updated = clock_timestamp(),
        lease_until = clock_timestamp() + $6::bigint * interval '1 millisecond',
        state_before = case when $7::bytea is null then state_before else state end,
        state = coalesce($7::bytea, state)
    where id = $1 and holder = $2 and records = $3
    returning id
), lines as (
    insert into unfazed_record (session, seq, line)
    select held.id, $3 + line.at - 1, line.json
    from held, unnest($4::text[]) with ordinality as line (json, at)
), said as (
    insert into unfazed_message (session, seq, place, folded)
    select held.id, $3, said.at, said.folded
    from held, unnest($8::text[]) with ordinality as said (folded, at)
)
select id from held";

/// Determines why nothing was appended: the holder, the number of lines, and the last line to be appended.
const STANDING: &str = "
select coalesce(holder = $2, false), records,
       (select line from unfazed_record where session = $1 and seq = $3)
from unfazed_session where id = $1";

const RENEW: &str = "
update unfazed_session set lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond'
where id = $1 and holder = $2 returning id";

const RELEASE: &str =
    "update unfazed_session set holder = null, lease_until = null where id = $1 and holder = $2 returning id";

const STATES: &str = "select state_before, state from unfazed_session where id = $1";

/// Replaces the metadata, except a title given by hand.
const DESCRIBE: &str = "
update unfazed_session
set meta_version = $3, title = case when named then title else $4 end, agent = $5, status = $6, model = $7,
    runs = $8, turns = $9, messages = $10, tokens = $11::text::jsonb
where id = $1 and holder = $2 returning id";

/// The right to write to a session; it ends when it is dropped.
pub(super) struct WriteLease {
    link: DatabaseLink,
    id: SessionId,
    /// The holder, unique for every opening.
    holder: String,
    length: Duration,
    beat: AbortHandle,
    /// The runtime that releases the lease.
    runtime: Handle,
    /// Whether the lease was released.
    released: bool,
}

/// The open log of a session.
pub(super) struct PgLog {
    lease: WriteLease,
    place: String,
    /// The number of lines in the log.
    next: i64,
    /// The state to store with the next append.
    state: Option<Vec<u8>>,
}

impl WriteLease {
    /// The lease of an opened session; it is renewed until it is dropped.
    pub(super) fn new(link: DatabaseLink, id: SessionId, holder: String, length: Duration) -> Self {
        let (session, who, millis) = (id.to_string(), holder.clone(), table::millis(length));
        let values =
            move || -> SqlValues { vec![Box::new(session.clone()), Box::new(who.clone()), Box::new(millis)] };
        // A run may wait for a tool longer than the lease lasts, and must keep its session.
        let beat = link.repeat(length / RENEWALS, RENEW, values);
        Self { link, id, holder, length, beat, runtime: Handle::current(), released: false }
    }

    /// The first values of every statement that only the holder may run, and the others.
    fn values(&self, more: impl IntoIterator<Item = SqlValue>) -> SqlValues {
        let who: [SqlValue; 2] = [Box::new(self.id.to_string()), Box::new(self.holder.clone())];
        who.into_iter().chain(more).collect()
    }
}

impl WriteLease {
    /// Releases the lease. An unreachable database does not delay the end of a session: a lease ends by itself.
    fn release(&mut self) -> impl Future<Output = ()> + Send + use<> {
        self.beat.abort();
        self.released = true;
        let (link, id, values) = (self.link.clone(), self.id.clone(), self.values([]));
        async move {
            if let Err(trouble) = link.rows_if_soon(RELEASE_WAIT, RELEASE, values).await {
                tracing::warn!(session = %id, error = %trouble.why, "the lease of the session is left to run out");
            }
        }
    }
}

impl Drop for WriteLease {
    fn drop(&mut self) {
        if !self.released {
            let runtime = self.runtime.clone();
            runtime.spawn(self.release());
        }
    }
}

impl PgLog {
    pub(super) const fn new(lease: WriteLease, place: String, next: i64) -> Self {
        Self { lease, place, next, state: None }
    }

    /// Handles an append without effect: another process has the session, or the lines were already appended and only
    /// the answer was lost.
    async fn not_added(&self, lines: &[String]) -> Result<(), StoreError> {
        let next = self.next + table::count(lines.len());
        let last: SqlValue = Box::new(next - 1);
        let rows = self.lease.link.rows(STANDING, self.lease.values([last])).await;
        let rows = rows.map_err(|trouble| self.write_error(&trouble))?;
        let Some(row) = rows.first() else {
            return Err(self.lost("it was deleted meanwhile".to_owned()));
        };
        let (ours, records, last): (bool, i64, Option<String>) = (row.get(0), row.get(1), row.get(2));
        match ours {
            // The lease ended while the database was unreachable, and another process has taken the session.
            false => Err(StoreError::InUse { id: self.lease.id.clone() }),
            // The statement ran and its answer was lost, so the repeated statement changed nothing.
            true if records == next && last.as_ref() == lines.last() => Ok(()),
            true => Err(self.lost(format!(
                "the database has {records} of its lines, and had acknowledged {}; it has lost some, or was put back to an \
                 older state",
                self.next
            ))),
        }
    }

    /// The database's row for the session; `None`: there is no answer.
    async fn row(&self, statement: &'static str) -> Option<Row> {
        match self.lease.link.rows(statement, vec![Box::new(self.lease.id.to_string())]).await {
            Ok(rows) => rows.into_iter().next(),
            Err(trouble) => {
                tracing::warn!(session = %self.lease.id, error = %trouble.why, "the session cannot be looked at");
                None
            }
        }
    }

    fn write_error(&self, trouble: &SqlFailure) -> StoreError {
        StoreError::Write { place: self.place.clone(), source: std::io::Error::other(trouble.clone()) }
    }

    fn lost(&self, why: String) -> StoreError {
        StoreError::Write { place: self.place.clone(), source: std::io::Error::other(why) }
    }
}

impl SessionLog for PgLog {
    fn place(&self) -> String {
        self.place.clone()
    }

    /// Appends lines, which are safe when this ends.
    fn append(&mut self, added: Vec<RecordLine>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let lines: Vec<String> = added.iter().map(|line| line.as_str().to_owned()).collect();
            let more: [SqlValue; 6] = [
                Box::new(self.next),
                Box::new(lines.clone()),
                Box::new(table::count(added.iter().map(|line| line.with_end().len()).sum())),
                Box::new(table::millis(self.lease.length)),
                Box::new(self.state.clone()),
                Box::new(added.iter().flat_map(said).collect::<Vec<String>>()),
            ];
            let values = self.lease.values(more);
            let rows = self.lease.link.rows(APPEND, values).await;
            if rows.map_err(|trouble| self.write_error(&trouble))?.is_empty() {
                self.not_added(&lines).await?;
            }
            self.next += table::count(lines.len());
            self.state = None;
            Ok(())
        })
    }

    /// Stores the state with the next append.
    fn keep_state(&mut self, state: Vec<u8>) -> StoreFuture<'_, ()> {
        self.state = Some(state);
        Box::pin(ready(Ok(())))
    }

    fn kept_states(&mut self) -> BoxFuture<'_, Vec<Vec<u8>>> {
        Box::pin(async {
            let Some(row) = self.row(STATES).await else { return Vec::new() };
            [row.get(0), row.get(1), self.state.clone()].into_iter().flatten().collect()
        })
    }

    fn meta(&mut self) -> BoxFuture<'_, Option<SessionMeta>> {
        Box::pin(async { table::meta(&self.row(META).await?).ok() })
    }

    fn set_meta(&mut self, meta: SessionMeta) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let values = self.lease.values(table::columns(&meta));
            let rows = self.lease.link.rows(DESCRIBE, values).await;
            let rows = rows.map_err(|trouble| self.write_error(&trouble))?;
            if rows.is_empty() { Err(StoreError::InUse { id: self.lease.id.clone() }) } else { Ok(()) }
        })
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(self.lease.release())
    }
}
