//! The tables, version by version.

use super::PgConfig;
use super::link::{DatabaseLink, SqlFailure};
use crate::store::StoreError;

/// What makes each version of the one before it.
const STEPS: [&str; 2] =
    [include_str!("migrations/0001_sessions.sql"), include_str!("migrations/0002_shared.sql")];
/// Who migrates holds this lock: "unfazed" in letters.
const LOCK: i64 = 0x0075_6e66_617a_6564;

const VERSION: &str = "select max(version) from unfazed_schema";

/// What was done to the tables of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The version they had; 0: there were none.
    pub from: u32,
    /// The version they have.
    pub to: u32,
}

/// Brings the tables to the version of this program. A concurrent migration waits.
pub(super) async fn migrate(link: &DatabaseLink, config: &PgConfig) -> Result<MigrationReport, StoreError> {
    let failed = |trouble: SqlFailure| config.failed("migrate", &trouble);
    let found = version(link).await.map_err(failed)?.unwrap_or_default();
    if found > newest() {
        return Err(newer(config, found));
    }
    link.script(&script()).await.map_err(failed)?;
    Ok(MigrationReport { from: found, to: newest() })
}

/// The tables must have the version of this program.
pub(super) async fn check(link: &DatabaseLink, config: &PgConfig) -> Result<(), StoreError> {
    // A wrong address must fail at once, so a database that does not answer is not waited for here.
    match version(link).await.map_err(|trouble| config.failed("open", &trouble))? {
        Some(found) if found == newest() => Ok(()),
        Some(found) if found > newest() => Err(newer(config, found)),
        found => {
            let place = &config.place;
            let why = found.map_or_else(
                || format!("the database {place} has no tables for sessions"),
                |found| {
                    format!("the tables in {place} have version {found}, this program needs {}", newest())
                },
            );
            Err(StoreError::Schema { why: format!("{why}; `unfazed sessions migrate` makes them") })
        }
    }
}

fn newer(config: &PgConfig, found: u32) -> StoreError {
    let (place, known) = (&config.place, newest());
    let why = format!(
        "the tables in {place} have version {found}, this program knows {known}: a later version made them; update first"
    );
    StoreError::Schema { why }
}

fn newest() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// `None`: there are no tables.
async fn version(link: &DatabaseLink) -> Result<Option<u32>, SqlFailure> {
    match link.rows_within(std::time::Duration::ZERO, VERSION, Vec::new()).await {
        Ok(rows) => {
            let found: Option<i32> = rows.first().and_then(|row| row.get(0));
            Ok(found.and_then(|found| u32::try_from(found).ok()))
        }
        Err(trouble) if trouble.no_table => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// All steps that have not been taken, in one transaction: all of them or none.
fn script() -> String {
    // Each step asks again whether it was taken: another process may have migrated before the lock was ours.
    let steps = (1_u32..).zip(STEPS).map(|(version, step)| {
        format!(
            "do $step$ begin
if not exists (select from unfazed_schema where version = {version}) then
{step}
insert into unfazed_schema (version) values ({version});
end if;
end $step$;
"
        )
    });
    let steps: String = steps.collect();
    format!(
        "begin;
select pg_advisory_xact_lock({LOCK});
create table if not exists unfazed_schema (version integer primary key, applied timestamptz not null default now());
{steps}commit;
"
    )
}
