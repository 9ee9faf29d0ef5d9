//! How much of a stream is kept. What surrounds it on the wire, which may be forty times as much, is not counted.

use serde_json::{Map, Value};

/// What a value, a call or a block takes in addition to its texts, at least.
pub(super) const EACH: usize = 8;

/// About how many bytes a value takes.
pub(super) fn weight(value: &Value) -> usize {
    // `serde_json` refuses JSON of more than 128 levels, so the recursion is bounded.
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => entries_weight(entries),
    };
    EACH + within
}

/// The same of entries, without what is around them.
pub(super) fn entries_weight(entries: &Map<String, Value>) -> usize {
    entries.iter().map(|(key, value)| key.len() + weight(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_weighs_its_texts_and_a_little_for_each_value_in_it() {
        assert_eq!(weight(&json!("four")), EACH + 4);
        assert_eq!(weight(&json!({"key": ["four", 1, null]})), 5 * EACH + 3 + 4);
    }
}
