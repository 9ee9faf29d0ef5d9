//! The open log of a session. Who has it open holds a lease, which every append asks for and renews.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::Row;

use super::link::{Link, Trouble, Value, Values};
use super::said::said;
use super::table::{self, META};
use crate::engine::RecordRef;
use crate::store::{SessionId, SessionLog, SessionMeta, StoreError, written};

/// How long the end of a session waits for its lease to be released.
const RELEASE_WAIT: Duration = Duration::from_secs(1);
/// So often is a lease renewed while it runs once.
const RENEWALS: u32 = 3;

/// Adds lines, if the log is still ours and has as many as we know of.
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

/// Why nothing was added: whose the log is, how many lines it has, and the last of those that were to be added.
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

/// Replaces what is known, but for a title that was given by hand.
const DESCRIBE: &str = "
update unfazed_session
set meta_version = $3, title = case when named then title else $4 end, agent = $5, status = $6, model = $7,
    runs = $8, turns = $9, messages = $10, tokens = $11::text::jsonb
where id = $1 and holder = $2 returning id";

/// The right to write to a session; it ends when it is dropped.
pub(super) struct Lease {
    link: Arc<Link>,
    id: SessionId,
    /// New with every opening.
    holder: String,
    length: Duration,
    beat: Option<AbortHandle>,
}

/// The open log of a session.
pub(super) struct PgLog {
    lease: Lease,
    path: PathBuf,
    /// How many lines the log has.
    next: i64,
    /// What is kept with the next append.
    state: Option<Vec<u8>>,
    /// Reused from append to append.
    lines: Vec<u8>,
}

impl Lease {
    /// The lease of who has opened the session; it is renewed until it is dropped.
    pub(super) fn new(link: Arc<Link>, id: SessionId, holder: String, length: Duration) -> Self {
        let (session, who, millis) = (id.to_string(), holder.clone(), table::millis(length));
        let values =
            move || -> Values { vec![Box::new(session.clone()), Box::new(who.clone()), Box::new(millis)] };
        let beat = link.repeat(length / RENEWALS, RENEW, values);
        Self { link, id, holder, length, beat }
    }

    /// The first values of every statement that only the holder may run, and the others.
    fn values(&self, more: impl IntoIterator<Item = Value>) -> Values {
        let who: [Value; 2] = [Box::new(self.id.to_string()), Box::new(self.holder.clone())];
        who.into_iter().chain(more).collect()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(beat) = &self.beat {
            beat.abort();
        }
        // If nobody hears it, the lease runs out.
        if let Err(trouble) = self.link.rows_if_soon(RELEASE_WAIT, RELEASE, self.values([])) {
            tracing::warn!(session = %self.id, error = %trouble.why, "the lease of the session is left to run out");
        }
    }
}

impl PgLog {
    pub(super) const fn new(lease: Lease, path: PathBuf, next: i64) -> Self {
        Self { lease, path, next, state: None, lines: Vec::new() }
    }

    /// Nothing was added: because somebody else has the session, or because it was added already, and only the answer was
    /// lost.
    fn not_added(&self, lines: &[String]) -> Result<(), StoreError> {
        let next = self.next + table::count(lines.len());
        let last: Value = Box::new(next - 1);
        let rows = self.lease.link.rows(STANDING, self.lease.values([last]));
        let rows = rows.map_err(|trouble| self.write_error(&trouble))?;
        let Some(row) = rows.first() else {
            return Err(self.lost("it was deleted meanwhile".to_owned()));
        };
        let (ours, records, last): (bool, i64, Option<String>) = (row.get(0), row.get(1), row.get(2));
        match ours {
            false => Err(StoreError::InUse { id: self.lease.id.clone() }),
            true if records == next && last.as_ref() == lines.last() => Ok(()),
            true => Err(self.lost(format!(
                "the database has {records} of its lines, and had acknowledged {}; it has lost some, or was put back to an \
                 older state",
                self.next
            ))),
        }
    }

    /// What the database knows of the session; `None`: it does not answer.
    fn row(&self, statement: &'static str) -> Option<Row> {
        match self.lease.link.rows(statement, vec![Box::new(self.lease.id.to_string())]) {
            Ok(rows) => rows.into_iter().next(),
            Err(trouble) => {
                tracing::warn!(session = %self.lease.id, error = %trouble.why, "the session cannot be looked at");
                None
            }
        }
    }

    fn write_error(&self, trouble: &Trouble) -> StoreError {
        self.lost(trouble.why.clone())
    }

    fn lost(&self, why: String) -> StoreError {
        StoreError::Write { path: self.path.clone(), source: std::io::Error::other(why) }
    }
}

impl SessionLog for PgLog {
    fn append(&mut self, records: &[RecordRef<'_>]) -> Result<(), StoreError> {
        self.lines.clear();
        let mut lines = Vec::with_capacity(records.len());
        for record in records {
            let start = self.lines.len();
            written::add(*record, &mut self.lines)
                .map_err(|why| StoreError::Unwritable { path: self.path.clone(), why })?;
            let line = self.lines.get(start..).unwrap_or_default().trim_ascii_end();
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        let more: [Value; 6] = [
            Box::new(self.next),
            Box::new(lines.clone()),
            Box::new(table::count(self.lines.len())),
            Box::new(table::millis(self.lease.length)),
            Box::new(self.state.clone()),
            Box::new(records.iter().flat_map(said).collect::<Vec<String>>()),
        ];
        let values = self.lease.values(more);
        let added = self.lease.link.rows(APPEND, values).map_err(|trouble| self.write_error(&trouble))?;
        if added.is_empty() {
            self.not_added(&lines)?;
        }
        self.next += table::count(lines.len());
        self.state = None;
        Ok(())
    }

    /// What was appended is safe already.
    fn turn_ended(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// It goes with the next append.
    fn keep_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.state = Some(state.to_vec());
        Ok(())
    }

    fn kept_states(&self) -> Vec<Vec<u8>> {
        let Some(row) = self.row(STATES) else { return Vec::new() };
        [row.get(0), row.get(1), self.state.clone()].into_iter().flatten().collect()
    }

    fn meta(&self) -> Option<SessionMeta> {
        table::meta(&self.row(META)?).ok()
    }

    fn set_meta(&mut self, meta: &SessionMeta) -> Result<(), StoreError> {
        let values = self.lease.values(table::columns(meta));
        let rows = self.lease.link.rows(DESCRIBE, values).map_err(|trouble| self.write_error(&trouble))?;
        if rows.is_empty() { Err(StoreError::InUse { id: self.lease.id.clone() }) } else { Ok(()) }
    }
}
