//! How deep values may be nested: records of the session nest them further, and have to be read back.

use serde_json::Value;

/// The deepest value that is taken from a model or a tool.
// JSON Schema, templates and reducers walk values by recursion; 64 levels are far more than tools have.
const MOST_LEVELS: usize = 64;

/// What is wrong with a value from a model or a tool that is nested too deep.
pub(super) fn too_deep(value: &Value) -> Option<String> {
    (!shallow(value, MOST_LEVELS)).then(|| format!("nested deeper than {MOST_LEVELS} levels"))
}

/// Whether a value has at most so many levels. Looks no deeper than that.
fn shallow(value: &Value, levels: usize) -> bool {
    // Stops at the limit, so that a hostile value costs no more than the levels that are allowed.
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| shallow(item, below)),
        Value::Object(fields) => fields.values().all(|field| shallow(field, below)),
        _ => true,
    }
}

/// How many levels a JSON text has, without reading it: what is between quotes does not count.
pub(crate) fn levels(text: &[u8]) -> usize {
    let (mut open, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            // Brackets inside of texts open nothing.
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open = open.saturating_add(1);
                most = most.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_texts() {
        for (text, deep) in [("{}", 1), (r#"{"a": [[1], "[[[[\"["]}"#, 3), ("]]][", 1), ("7", 0)] {
            assert_eq!(levels(text.as_bytes()), deep, "{text}");
        }
    }
}
