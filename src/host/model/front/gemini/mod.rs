//! `generateContent` of Gemini, as clients speak it.

mod contents;
pub(super) mod reply;
pub(super) mod request;
pub(super) mod schema;
pub(super) mod stream;

use super::fields::{Fields, Unconvertible};

/// The objects of a list; protobuf's readers take one for a list of it.
fn objects(fields: &mut Fields, name: &str) -> Result<Vec<Fields>, Unconvertible> {
    let path = fields.path(name);
    let items = match fields.take(name) {
        None => return Ok(Vec::new()),
        Some(one @ serde_json::Value::Object(_)) => vec![one].into(),
        Some(items) => items,
    };
    Ok(Fields::list(&path, items)?.into_iter().map(Fields::in_camel_case).collect())
}

/// An object.
fn object(fields: &mut Fields, name: &str) -> Result<Option<Fields>, Unconvertible> {
    Ok(fields.object(name)?.map(Fields::in_camel_case))
}
