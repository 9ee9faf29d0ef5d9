//! Readers for fields that providers fill differently.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A text; null and absent are none, numbers are taken as text.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Arguments of a tool call: text as it is, an object as its JSON.
pub(super) fn arguments<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

/// The input of a tool call as JSON; empty where it is missing ([`begun`](super::finish::begun)): an empty object is also what
/// stands there before the model has written any. A text is what was put together of a stream, broken or not.
pub(super) fn read_input(said: Option<&Value>) -> String {
    match said {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(input)) if input.is_empty() => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(input) => input.to_string(),
    }
}

/// A value for which null means the same as absent.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A value that is none if it cannot be read: nothing depends on it.
pub(super) fn if_readable<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}
