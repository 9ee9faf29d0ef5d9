//! The types every document is made of.

use core::num::{NonZeroU32, NonZeroU64};

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{Decode, KeptList, NodeReader, SchemaOf};
use crate::text::yaml::{YamlData, YamlNode};

impl Decode for bool {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match node.data {
            YamlData::Bool(value) => Some(value),
            _ => reader.wrong_type(node, "`true` or `false`"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "boolean"})
    }
}

impl Decode for String {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(_) if reader.is_ambiguous(node) => None,
            YamlData::Text(text) => Some(text.to_string()),
            _ => reader.wrong_type(node, "a string"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

impl Decode for u64 {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            // JSON Schema counts `3.0` as an integer. Here it is refused, because who writes a fraction expects one
            // to count.
            YamlData::Number(number) if number.is_f64() => reader.wrong_type(node, "a whole number"),
            YamlData::Number(number) => {
                number.as_u64().or_else(|| reader.out_of_range(node, "must be at least 0"))
            }
            _ => reader.wrong_type(node, "a whole number"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0})
    }
}

impl Decode for u32 {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let value = u64::decode(node, reader)?;
        Self::try_from(value).ok().or_else(|| reader.out_of_range(node, "must be at most 4294967295"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": Self::MAX})
    }
}

impl Decode for u16 {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let value = u64::decode(node, reader)?;
        Self::try_from(value).ok().or_else(|| reader.out_of_range(node, "must be at most 65535"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": Self::MAX})
    }
}

impl Decode for NonZeroU32 {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        // Zero and less are refused here, so the message names 1 as the least and not 0.
        if let YamlData::Number(number) = &node.data
            && number.as_i64().is_some_and(|number| number < 1)
        {
            return reader.out_of_range(node, "must be at least 1");
        }
        u32::decode(node, reader).and_then(Self::new)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": u32::MAX})
    }
}

impl Decode for NonZeroU64 {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        if let YamlData::Number(number) = &node.data
            && number.as_i64().is_some_and(|number| number < 1)
        {
            return reader.out_of_range(node, "must be at least 1");
        }
        u64::decode(node, reader).and_then(Self::new)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
}

/// Any JSON. The budgets of loading bound it.
impl Decode for Value {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        (!reader.has_ambiguous(node)).then(|| node.to_json())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        T::decode(node, reader).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<SchemaOf<T>>()
    }
}

impl<T: Decode> Decode for Box<T> {
    const NAME: Option<&'static str> = T::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        T::decode(node, reader).map(Self::new)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::List(items) = &node.data else {
            return reader.wrong_type(node, "a list");
        };
        // Entries of such a list stand alone, so those that can be read are kept for the checks that follow.
        if T::PART {
            return KeptList::decode(node, reader).map(|kept| kept.0);
        }
        // Every entry is read before any failure counts, so that all mistakes are reported.
        let decoded: Vec<Option<T>> = items.iter().map(|item| reader.value(item)).collect();
        decoded.into_iter().collect()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<SchemaOf<T>>();
        json_schema!({"type": "array", "items": items})
    }
}

impl<T: Decode> Decode for IndexMap<String, T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        let decoded: Vec<Option<(String, T)>> = entries
            .iter()
            .map(|(key, value)| {
                reader.check_name(key);
                reader.value::<T>(value).map(|value| (key.name.to_string(), value))
            })
            .collect();
        if !T::PART {
            return decoded.into_iter().collect();
        }
        if decoded.iter().any(Option::is_none) {
            reader.lose(T::NAME.unwrap_or_default());
        }
        Some(decoded.into_iter().flatten().collect())
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<SchemaOf<T>>();
        json_schema!({"type": "object", "additionalProperties": values})
    }
}
