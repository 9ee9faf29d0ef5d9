//! A call that is to be explained, as a file.

use serde_json::{Map, Value};

use crate::policy::CallOverride;
use crate::policy::decode::{self, DecodedDocument, record};
use crate::text::Report;

record! {
    /// A call of a tool, for `unfazed explain --call`.
    pub struct CallFile {
        /// The arguments of the call.
        /// Example: `{"query": "brass lamp"}`
        pub arguments: Value = Value::Object(Map::new()),
        /// What the host's planner says about the call.
        pub planner: Option<CallOverride>,
    }
}

impl CallFile {
    /// Reads a call. `name` is how the file is called in reports.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<DecodedDocument<Self>, Report> {
        decode::read(name, bytes)
    }

    /// The JSON Schema (2020-12) of such files.
    pub fn json_schema() -> Value {
        decode::schema::<Self>()
    }
}
