//! Hashes of JSON values, independent of key order, white space and the notation of numbers.

use serde_json::{Number, Value};
use xxhash_rust::xxh3::xxh3_64;

/// The bytes to hash. They are hashed at once: for short inputs, the usual case, this is much faster than streaming.
struct HashedBytes(Vec<u8>);

impl HashedBytes {
    fn new() -> Self {
        Self(Vec::with_capacity(128))
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn digest(&self) -> u64 {
        xxh3_64(&self.0)
    }
}

/// The hash of a call.
pub(crate) fn call(tool: &str, arguments: &Value) -> u64 {
    let mut hash = HashedBytes::new();
    text(&mut hash, tool);
    value(&mut hash, arguments);
    hash.digest()
}

/// The hash of a call whose arguments are not JSON.
pub(super) fn raw_call(tool: &str, arguments: &str) -> u64 {
    let mut hash = HashedBytes::new();
    text(&mut hash, tool);
    hash.update(b"!");
    // Models change the white space of broken JSON with each repeat, but not the words.
    for word in arguments.split_whitespace() {
        text(&mut hash, word);
    }
    hash.digest()
}

/// The hash of a value.
pub(crate) fn of(json: &Value) -> u64 {
    let mut hash = HashedBytes::new();
    value(&mut hash, json);
    hash.digest()
}

/// The hash of several texts in their order.
pub(crate) fn of_texts(texts: &[&str]) -> u64 {
    let mut hash = HashedBytes::new();
    for one in texts {
        text(&mut hash, one);
    }
    hash.digest()
}

/// Each kind of value begins with its own letter, and compound values include their length, so that no two values
/// have the same bytes. The recursion is bounded because JSON readers limit nesting.
fn value(hash: &mut HashedBytes, json: &Value) {
    match json {
        Value::Null => hash.update(b"n"),
        Value::Bool(flag) => hash.update(if *flag { b"t" } else { b"f" }),
        Value::Number(one) => number(hash, one),
        Value::String(one) => text(hash, one),
        Value::Array(items) => {
            hash.update(b"[");
            // The length comes first, so that `["a"], "b"` and `["a", "b"]` have different bytes.
            length(hash, items.len());
            for item in items {
                value(hash, item);
            }
        }
        Value::Object(entries) => {
            hash.update(b"{");
            length(hash, entries.len());
            let mut entries: Vec<_> = entries.iter().collect();
            // Keys are sorted: their order has no meaning (RFC 8259, section 1), and models change it between calls.
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, entry) in entries {
                text(hash, key);
                value(hash, entry);
            }
        }
    }
}

/// Hashes a number; `1`, `1.0` and `1e0` have the same hash.
fn number(hash: &mut HashedBytes, number: &Number) {
    hash.update(b"#");
    match number.as_f64() {
        // Models write `1`, `1.0` and `1e0` for the same number; identical calls need identical bytes.
        Some(float) if number.is_f64() => hash.update(shortest(float).as_bytes()),
        _ => hash.update(number.to_string().as_bytes()),
    }
}

fn shortest(float: f64) -> String {
    // `-0.0` equals `0`, as for whole numbers.
    if float == 0.0 { "0".to_owned() } else { format!("{float}") }
}

fn text(hash: &mut HashedBytes, text: &str) {
    hash.update(b"\"");
    length(hash, text.len());
    hash.update(text.as_bytes());
}

fn length(hash: &mut HashedBytes, length: usize) {
    // A fixed width and byte order: the hash is part of the state, which must be identical on every machine.
    hash.update(&u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
            "[a-c\" {}]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// The same value with its keys in reverse order and additional white space.
    fn written_otherwise(json: &Value) -> String {
        match json {
            Value::Object(entries) => {
                let entries = entries.iter().rev();
                let entries: Vec<_> = entries
                    .map(|(key, value)| format!("\n {} :\t{}", Value::from(&**key), written_otherwise(value)))
                    .collect();
                format!(" {{{} }} ", entries.join(" ,"))
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(written_otherwise).collect();
                format!("[ {} ]", items.join(" , "))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn the_order_of_keys_and_white_space_make_no_difference(json in json()) {
            let other: Value = serde_json::from_str(&written_otherwise(&json)).unwrap();
            prop_assert_eq!(of(&json), of(&other));
        }

        #[test]
        fn values_that_differ_have_numbers_that_differ(a in json(), b in json()) {
            prop_assert_eq!(a == b || as_written(&a) == as_written(&b), of(&a) == of(&b));
        }
    }

    /// The value with sorted keys and whole numbers as integers: another way to compare values.
    fn as_written(json: &Value) -> String {
        match json {
            Value::Number(number) => number.as_f64().map_or_else(String::new, |float| {
                if number.is_f64() { format!("{}", float + 0.0) } else { number.to_string() }
            }),
            Value::Array(items) => {
                format!("[{}]", items.iter().map(as_written).collect::<Vec<_>>().join(","))
            }
            Value::Object(entries) => {
                let mut entries: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{key:?}:{}", as_written(value))).collect();
                entries.sort();
                format!("{{{}}}", entries.join(","))
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        let of = |text: &str| of(&serde_json::from_str(text).unwrap());
        assert_eq!(of("1"), of("1.0"));
        assert_eq!(of("[100]"), of("[1e2]"));
        assert_eq!(of("-0.0"), of("0"));
        assert_ne!(of("1"), of("\"1\""));
        assert_ne!(of("[[],[]]"), of("[[[]]]"));
    }

    #[test]
    fn white_space_makes_no_difference_to_arguments_that_are_not_json() {
        assert_eq!(raw_call("t", "{\"a\": 1,"), raw_call("t", " {\"a\":  1,\n"));
        assert_ne!(raw_call("t", "{\"a\": 1,"), raw_call("u", "{\"a\": 1,"));
    }
}
