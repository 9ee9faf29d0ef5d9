//! How deep values may be nested: records of the session nest them further, and have to be read back.

use serde_json::Value;

/// The deepest value that is taken from a model or a tool.
pub(crate) const MOST_LEVELS: usize = 64;

/// Whether a value has at most so many levels. Looks no deeper than that.
pub(crate) fn shallow(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| shallow(item, below)),
        Value::Object(fields) => fields.values().all(|field| shallow(field, below)),
        _ => true,
    }
}
