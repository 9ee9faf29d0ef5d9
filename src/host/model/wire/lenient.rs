//! Readers for fields that providers fill differently.

use core::fmt;
use core::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
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

/// A number of something, or a place in a list, if it is there. Some servers write whole floats, texts, or -1 where there is nothing.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(to_number(&Value::deserialize(from)?))
}

/// The number that a value is.
pub(super) fn to_number(said: &Value) -> Option<u64> {
    match said {
        // A whole float is written without a fraction.
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().and_then(|float| float.to_string().parse().ok()))
        }
        Value::String(text) => match serde_json::from_str(text.trim()) {
            Ok(number @ Value::Number(_)) => to_number(&number),
            _ => None,
        },
        _ => None,
    }
}

/// A list without what is null in it; null is an empty one, and one object a list of it (TGI 2 streams each call so).
pub(super) fn listed<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Listed<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Listed<T> {
        type Value = Vec<T>;

        fn expecting(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
            form.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = from.next_element::<Option<T>>()? {
                list.extend(element);
            }
            Ok(list)
        }

        fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(from)).map(|only| vec![only])
        }
    }
    from.deserialize_any(Listed(PhantomData))
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
