//! `uniqueItems` in a time that the elements cannot choose: the validator hashes them so that numbers beyond 2^53, and arrays with
//! the same elements in other brackets, all meet in one place.

use std::collections::BTreeSet;

use jsonschema::{Keyword, ValidationError};
use serde_json::{Number, Value};

/// The keyword, if it is `true`.
pub(super) struct UniqueKeyword(pub(super) bool);

impl<'i> Keyword<'i> for UniqueKeyword {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("twice")) }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::Array(list) = instance else { return true };
        if !self.0 || list.len() < 2 {
            return true;
        }
        let mut seen = BTreeSet::new();
        list.iter().all(|element| {
            // Bytes and not hashes, which a model could make collide.
            let mut bytes = Vec::new();
            write(&mut bytes, element);
            seen.insert(bytes)
        })
    }
}

/// Equal values have equal bytes, whatever the order of their keys and however a number is written; others have others.
fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(b'n'),
        Value::Bool(flag) => bytes.push(if *flag { b't' } else { b'f' }),
        Value::Number(number) => write_number(bytes, number),
        Value::String(text) => write_text(bytes, text),
        Value::Array(list) => {
            bytes.push(b'[');
            for element in list {
                write(bytes, element);
            }
            bytes.push(b']');
        }
        Value::Object(entries) => {
            bytes.push(b'{');
            let mut entries: Vec<_> = entries.iter().collect();
            // JSON Schema 2020-12 core, section 4.2.2: the order of members makes no difference.
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, member) in entries {
                write_text(bytes, key);
                write(bytes, member);
            }
            bytes.push(b'}');
        }
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'"');
    // The length keeps `["ab", "c"]` apart from `["a", "bc"]`.
    bytes.extend_from_slice(&text.len().to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// `1.0` is `1`.
fn write_number(bytes: &mut Vec<u8>, number: &Number) {
    let whole = number.as_i128().or_else(|| {
        // A float of this size has more digits than it knows. Its text has the same digits for the same value.
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e38)?;
        format!("{float:.0}").parse().ok()
    });
    match (whole, number.as_f64()) {
        (Some(whole), _) => {
            bytes.push(b'i');
            bytes.extend_from_slice(&whole.to_le_bytes());
        }
        (None, float) => {
            bytes.push(b'd');
            bytes.extend_from_slice(&float.unwrap_or_default().to_bits().to_le_bytes());
        }
    }
}
