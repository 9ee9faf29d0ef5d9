//! A value as it is written in a policy, on one line.

use serde_json::Value;

/// `{kind: exponential, base: 500ms}`.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Text in quotes, if it would be read as something else without them.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_alphanumeric())
        && text.chars().all(|c| c.is_alphanumeric() || " _-./".contains(c))
        && !text.ends_with(' ')
        && text.parse::<f64>().is_err();
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// As code in a cell of a table.
pub(super) fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// The id that a heading has in the guide.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
