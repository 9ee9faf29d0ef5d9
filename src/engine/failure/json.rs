//! Read-only JSON. Error bodies are read into [`LazyJson`], which borrows its strings from the body and costs a
//! fraction of a [`Value`]; JSON that is already parsed is a [`Value`]. Both implement [`JsonNode`].

use core::fmt;
use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Number, Value};

/// In objects of up to this many fields, duplicate keys are found by linear search.
// Errors have few fields, and a linear search is faster than a table; a hostile body may have a million fields.
const FEW: usize = 16;

/// A JSON value, borrowed or owned.
pub(in crate::engine) trait JsonNode: Serialize + Sized {
    /// The kind of the value, with its content.
    fn shape(&self) -> NodeShape<'_, Self>;

    /// The field of this name, if the value is an object that has one.
    fn get(&self, key: &str) -> Option<&Self>;

    /// The fields of an object in their order; empty for other values.
    fn fields(&self) -> impl Iterator<Item = (&str, &Self)>;

    /// The string, if the value is one.
    fn text(&self) -> Option<&str> {
        match self.shape() {
            NodeShape::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if the value is a whole number of at least zero.
    fn count(&self) -> Option<u64> {
        match self.shape() {
            NodeShape::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Whether the value is `null` or `false`.
    fn is_blank(&self) -> bool {
        matches!(self.shape(), NodeShape::Null | NodeShape::Bool(false))
    }

    /// The value as JSON text.
    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The kind of a node, with its content.
pub(in crate::engine) enum NodeShape<'n, N> {
    Null,
    Bool(bool),
    Number(&'n Number),
    Text(&'n str),
    List(&'n [N]),
    Object,
}

impl JsonNode for Value {
    fn shape(&self) -> NodeShape<'_, Self> {
        match self {
            Self::Null => NodeShape::Null,
            Self::Bool(value) => NodeShape::Bool(*value),
            Self::Number(number) => NodeShape::Number(number),
            Self::String(text) => NodeShape::Text(text),
            Self::Array(items) => NodeShape::List(items),
            Self::Object(_) => NodeShape::Object,
        }
    }

    fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}

/// JSON whose strings are borrowed from the source, except those with escapes.
#[derive(Debug)]
pub(in crate::engine) enum LazyJson<'t> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'t, str>),
    List(Vec<Self>),
    /// The fields, without duplicate keys.
    Object(Vec<(Cow<'t, str>, Self)>),
}

impl<'t> LazyJson<'t> {
    /// Parses a text; `None`: it is not JSON.
    pub(in crate::engine) fn read(text: &'t [u8]) -> Option<Self> {
        serde_json::from_str(core::str::from_utf8(text).ok()?).ok()
    }

    /// An object of these fields, without duplicate keys.
    pub(in crate::engine) fn unique(fields: Vec<(Cow<'t, str>, Self)>) -> Self {
        Self::Object(unique(fields))
    }
}

impl JsonNode for LazyJson<'_> {
    fn shape(&self) -> NodeShape<'_, Self> {
        match self {
            Self::Null => NodeShape::Null,
            Self::Bool(value) => NodeShape::Bool(*value),
            Self::Number(number) => NodeShape::Number(number),
            Self::Text(text) => NodeShape::Text(text),
            Self::List(items) => NodeShape::List(items),
            Self::Object(_) => NodeShape::Object,
        }
    }

    // There are few fields, and each is read once: a table would cost more than it saves.
    fn get(&self, key: &str) -> Option<&Self> {
        self.fields().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        let fields = if let Self::Object(fields) = self { fields.as_slice() } else { &[] };
        fields.iter().map(|(key, value)| (key.as_ref(), value))
    }
}

impl<'de: 't, 't> Deserialize<'de> for LazyJson<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonReader)
    }
}

struct JsonReader;

impl<'de> Visitor<'de> for JsonReader {
    type Value = LazyJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(LazyJson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(LazyJson::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(LazyJson::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(LazyJson::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        // JSON cannot represent infinity and NaN (RFC 8259, section 6), so they never occur.
        Ok(Number::from_f64(value).map_or(LazyJson::Null, LazyJson::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(LazyJson::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(LazyJson::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(LazyJson::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        // Like `serde_json`: of a duplicate key the last value counts (RFC 8259, section 4, leaves this open).
        while let Some(key) = map.next_key()? {
            let LazyJson::Text(key) = key else { return Err(A::Error::custom("a key is a text")) };
            fields.push((key, map.next_value()?));
        }
        Ok(LazyJson::unique(fields))
    }
}

/// The fields without duplicate keys: the last value at the position of the first, as in a [`Value`].
fn unique<'t>(fields: Vec<(Cow<'t, str>, LazyJson<'t>)>) -> Vec<(Cow<'t, str>, LazyJson<'t>)> {
    let twice = |(at, (key, _)): (usize, &(Cow<'_, str>, _))| {
        fields.iter().take(at).any(|(earlier, _)| earlier == key)
    };
    if fields.len() <= FEW && !fields.iter().enumerate().any(twice) {
        return fields;
    }
    // Only for larger objects, where comparing all pairs would take quadratic time.
    let mut places = BTreeMap::new();
    let mut kept: Vec<(Cow<'t, str>, LazyJson<'t>)> = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        let place = *places.entry(key.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some((_, earlier)) => *earlier = value,
            None => kept.push((key, value)),
        }
    }
    kept
}

impl Serialize for LazyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_read_is_what_a_value_would_be() {
        let many = (0..40).map(|i| format!(r#""k{}":{i}"#, i % 30)).collect::<Vec<_>>().join(",");
        for text in [
            r#" {"a": [1, -2, 3.50, 1e400], "b\u0065": "x\ny", "c": null, "d": true} "#,
            r#"{"a": 1e3, "be": "x\ny \u00e9 é", "c": [null, {}], "d": [true, false], "n": 18446744073709551615}"#,
            r#"{"a": 1, "b": 2, "a": 3}"#,
            r#"{"a": 1} x"#,
            "-0.0",
            "",
            &format!("{{{many}}}"),
            &"[".repeat(1000),
        ] {
            let value = serde_json::from_str::<Value>(text).ok();
            let read = LazyJson::read(text.as_bytes());
            assert_eq!(read.map(|json| json.written()), value.map(|value| value.to_string()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_a_value_would_be(text in r#"([\[\]{},: ]|"[ab]"|"\\u00e9"|"a":|-?[0-9]\.?[0-9]?|true|null){0,12}"#) {
            let value = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(LazyJson::read(text.as_bytes()).map(|json| json.written()), value.map(|value| value.to_string()));
        }
    }
}
