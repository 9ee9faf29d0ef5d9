//! Between the columns of a session and what is known of it.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Row;

use super::link::SqlValues;
use crate::session::Usage;
use crate::store::{META_FORMAT, SessionId, SessionInfo, SessionMeta, SessionStatus};
use crate::time::Instant;

macro_rules! select {
    ($($end:literal)?) => {
        concat!(
            "select meta_version, title, named, created, agent, status, model, runs, turns, messages, tokens::text, ",
            "id, (extract(epoch from updated) * 1000000)::bigint, bytes, ",
            "coalesce(holder is not null and lease_until > clock_timestamp(), false) from unfazed_session ",
            $($end)?
        )
    };
}

/// One session.
pub(super) const META: &str = select!("where id = $1");
/// All of them, the one that was written last first.
pub(super) const ALL: &str = select!("order by updated desc, id desc");

/// The columns of what is known, in the order of the statements that write them.
pub(super) fn columns(meta: &SessionMeta) -> SqlValues {
    let version = i32::try_from(meta.v).unwrap_or(i32::MAX);
    vec![
        Box::new(version),
        Box::new(text(&meta.title)),
        Box::new(meta.agent.as_deref().map(text)),
        Box::new(meta.status.name()),
        Box::new(meta.model.as_deref().map(text)),
        Box::new(i64::from(meta.runs)),
        Box::new(i64::from(meta.turns)),
        Box::new(i64::try_from(meta.messages).unwrap_or(i64::MAX)),
        Box::new(serde_json::to_value(meta.tokens).unwrap_or_default().to_string()),
    ]
}

/// What is known of a session.
pub(super) fn meta(row: &Row) -> Result<SessionMeta, String> {
    let (version, status): (i32, String) = (row.get(0), row.get(5));
    let version = u32::try_from(version).unwrap_or_default();
    if version > META_FORMAT {
        return Err(format!("it was written by a later version ({version}, this one reads {META_FORMAT})"));
    }
    let status: SessionStatus = serde_json::from_value(Value::String(status))
        .map_err(|error| format!("its status cannot be read: {error}"))?;
    let tokens: Usage = serde_json::from_str(&row.get::<_, String>(10))
        .map_err(|error| format!("its tokens cannot be read: {error}"))?;
    Ok(SessionMeta {
        v: version,
        title: row.get(1),
        named: row.get(2),
        created: Instant(number(row, 3)),
        agent: row.get(4),
        status,
        model: row.get(6),
        runs: u32::try_from(number(row, 7)).unwrap_or(u32::MAX),
        turns: u32::try_from(number(row, 8)).unwrap_or(u32::MAX),
        messages: number(row, 9),
        tokens,
    })
}

/// A session as it is listed; and what it is called, if it cannot be.
pub(super) fn info(row: &Row) -> Result<SessionInfo, (Option<SessionId>, String)> {
    let id: String = row.get(11);
    let id: SessionId = id.parse().map_err(|error| (None, format!("{error}")))?;
    let mut meta = meta(row).map_err(|why| (Some(id.clone()), why))?;
    let held: bool = row.get(14);
    // A host that broke down leaves its status behind; its lease runs out.
    meta.status = meta.status.now(held);
    let updated = Instant(number(row, 12).saturating_mul(1000)).max(meta.created);
    Ok(SessionInfo { id, meta, updated, bytes: number(row, 13) })
}

/// The database cannot hold zero characters.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

fn number(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}
