//! Limits the nesting of values: session records add further levels, and must be readable again.

use serde_json::Value;

/// The maximum nesting of a value from a model or a tool.
// JSON Schema, templates and reducers recurse over values; 64 levels are far more than tools need.
pub(super) const MOST_LEVELS: usize = 64;

/// The error message for a value nested too deep; `None`: the nesting is allowed.
pub(super) fn too_deep(value: &Value) -> Option<String> {
    (!shallow(value, MOST_LEVELS)).then(|| format!("nested deeper than {MOST_LEVELS} levels"))
}

/// Whether a value has at most `levels` levels.
fn shallow(value: &Value, levels: usize) -> bool {
    // The search stops at the limit, so that a hostile value costs no more than the allowed levels.
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| shallow(item, below)),
        Value::Object(fields) => fields.values().all(|field| shallow(field, below)),
        _ => true,
    }
}

/// The nesting of a JSON text, counted without parsing. Brackets within strings do not count.
pub(crate) fn levels(text: &[u8]) -> usize {
    let (mut open, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            // Brackets within strings do not count.
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
