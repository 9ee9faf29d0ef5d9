//! What hosts share by scope: values that change only if nobody else has changed them meanwhile.

use serde_json::Value;

use super::{PgStore, table};
use crate::store::StoreError;

const GET: &str = "select version, value from unfazed_shared where scope = $1";

const BEGIN: &str = "
insert into unfazed_shared (scope, version, value) values ($1, 1, $2)
on conflict (scope) do nothing returning version";

const CHANGE: &str = "
update unfazed_shared set version = version + 1, value = $2, updated = clock_timestamp()
where scope = $1 and version = $3 returning version";

/// A value that hosts share.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Which change of it this is; the first is 1.
    pub version: u64,
    /// The value.
    pub value: Value,
}

impl PgStore {
    /// What hosts share under that name: the state of a breaker or a budget of a host of your own. Names are free.
    ///
    /// # Errors
    /// The database cannot be asked, or holds what is no JSON.
    pub fn shared(&self, scope: &str) -> Result<Option<Shared>, StoreError> {
        let rows = self.ask("read", GET, vec![Box::new(table::text(scope))])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let text: String = row.get(1);
        let value = serde_json::from_str(&text).map_err(|error| {
            self.failed("read", format!("the value shared as `{scope}` is no JSON: {error}"))
        })?;
        Ok(Some(Shared { version: version(row.get(0)), value }))
    }

    /// Shares a value, if `known` is still the version that the others see; 0: if there is none. Returns whether it was. Where
    /// it was not, read again and decide again. A database that was away may have taken the value and lost the answer:
    /// then this returns `false` though the value is there.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub fn share(&self, scope: &str, known: u64, value: &Value) -> Result<bool, StoreError> {
        let (scope, text) = (table::text(scope), value.to_string());
        let rows = match i64::try_from(known) {
            Ok(0) => self.ask("write to", BEGIN, vec![Box::new(scope), Box::new(text)])?,
            Ok(known) => {
                self.ask("write to", CHANGE, vec![Box::new(scope), Box::new(text), Box::new(known)])?
            }
            // No value was ever changed so often.
            Err(_) => Vec::new(),
        };
        Ok(!rows.is_empty())
    }
}

fn version(version: i64) -> u64 {
    u64::try_from(version).unwrap_or_default()
}
