//! Shared values by scope, changed only if no other host has changed them meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Row;

use super::link::SqlValues;
use super::{PgStore, table};
use crate::host::{BoxFuture, SharedState, SharedStateError, SharedValue};
use crate::store::StoreError;

const GET: &str = "select scope, version, value from unfazed_shared where scope = any($1::text[])";

const BEGIN: &str = "
insert into unfazed_shared (scope, version, value) values ($1, 1, $2)
on conflict (scope) do nothing returning version";

const CHANGE: &str = "
update unfazed_shared set version = version + 1, value = $2, updated = clock_timestamp()
where scope = $1 and version = $3 returning version";

impl PgStore {
    /// What hosts share under that name: the state of a breaker or a budget of a host of your own. Names are free, but for those
    /// that begin with `breaker ` and `budget `, which are the agents', and with `gateway `.
    ///
    /// # Errors
    /// The database cannot be asked, or holds what is no JSON.
    pub async fn shared(&self, scope: &str) -> Result<Option<SharedValue>, StoreError> {
        let rows = self.ask("read", GET, vec![Box::new(vec![table::text(scope)])]).await?;
        let Some((_, version, value)) = rows.first().map(shared) else { return Ok(None) };
        let value = value.map_err(|error| {
            self.failed("read", format!("the value shared as `{scope}` is no JSON: {error}"))
        })?;
        Ok(Some(SharedValue { version, value }))
    }

    /// Shares a value, if `known` is still the version that the others see; 0: if there is none. Returns whether it was. Where
    /// it was not, read again and decide again. A database that was away may have taken the value and lost the answer:
    /// then this returns `false` though the value is there.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn share(&self, scope: &str, known: u64, value: &Value) -> Result<bool, StoreError> {
        let Some((statement, values)) = change(scope, known, value) else { return Ok(false) };
        let rows = self.ask("write to", statement, values).await?;
        Ok(!rows.is_empty())
    }

    /// Asks once: a run has better to do than to wait for a database that is away.
    async fn now(&self, statement: &'static str, values: SqlValues) -> Result<Vec<Row>, SharedStateError> {
        let rows = self.link.rows_within(Duration::ZERO, statement, values).await;
        rows.map_err(|trouble| SharedStateError(self.config.failed("reach", &trouble).into()))
    }
}

impl SharedState for PgStore {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        let names: Vec<String> = names.iter().map(|name| table::text(name)).collect();
        Box::pin(async move {
            let rows = self.now(GET, vec![Box::new(names.clone())]).await?;
            // A value that is no JSON is read as null, which no host knows, so it is decided and rewritten.
            let rows = rows.iter().map(shared).map(|(name, version, value)| {
                let value = value.unwrap_or_default();
                (name, SharedValue { version, value })
            });
            let mut found: HashMap<String, SharedValue> = rows.collect();
            Ok(names.iter().map(|name| found.remove(name)).collect())
        })
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        Box::pin(async move {
            let Some((statement, values)) = change(&name, known, &value) else { return Ok(false) };
            Ok(!self.now(statement, values).await?.is_empty())
        })
    }
}

/// The statement that changes a value, and what it is given; `None`: it was never changed so often.
fn change(scope: &str, known: u64, value: &Value) -> Option<(&'static str, SqlValues)> {
    let (scope, text) = (table::text(scope), value.to_string());
    Some(match i64::try_from(known).ok()? {
        0 => (BEGIN, vec![Box::new(scope), Box::new(text)]),
        known => (CHANGE, vec![Box::new(scope), Box::new(text), Box::new(known)]),
    })
}

/// A name, the version of its value, and the value.
fn shared(row: &Row) -> (String, u64, serde_json::Result<Value>) {
    let (name, version, text): (String, i64, String) = (row.get(0), row.get(1), row.get(2));
    (name, u64::try_from(version).unwrap_or_default(), serde_json::from_str(&text))
}
