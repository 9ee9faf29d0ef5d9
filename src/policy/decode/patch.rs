//! Values with what surrounds them: a place, three states, one or many, those that can be used.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{Decode, NodeReader, SchemaOf};
use crate::text::Span;
use crate::text::yaml::{YamlData, YamlNode};

/// A field of a layer: left out, unset, or set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Left out: inherits.
    #[default]
    Absent,
    /// `null`: forgets what is inherited.
    Null(Span),
    /// A value.
    Set(T, Span),
}

/// A value and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub span: Span,
}

/// A single value, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneOrMany<T>(pub Vec<T>);

/// A list that continues without the entries that cannot be used. Whoever reads it asks the findings for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptList<T>(pub Vec<T>);

impl<T> Patch<T> {
    /// The value, if one is set.
    pub const fn as_set(&self) -> Option<&T> {
        match self {
            Self::Set(value, _) => Some(value),
            Self::Absent | Self::Null(_) => None,
        }
    }

    /// Where it is written, if it is.
    pub const fn span(&self) -> Option<Span> {
        match self {
            Self::Absent => None,
            Self::Null(span) | Self::Set(_, span) => Some(*span),
        }
    }
}

impl<T: Decode> Decode for Patch<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match node.data {
            YamlData::Null => Some(Self::Null(node.span)),
            YamlData::Reported => {
                reader.takes_null(node);
                T::decode(node, reader).map(|value| Self::Set(value, node.span))
            }
            _ => T::decode(node, reader).map(|value| Self::Set(value, node.span)),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::Absent)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<SchemaOf<T>>();
        let plain = schema.get("type").and_then(Value::as_str).map(str::to_owned);
        match plain {
            // `enum` and `const` refuse null whatever `type` says, because each keyword of JSON Schema counts by
            // itself.
            Some(name) if schema.get("enum").is_none() && schema.get("const").is_none() => {
                schema.insert("type".into(), json!([name, "null"]));
                schema
            }
            _ => json_schema!({"anyOf": [schema, {"type": "null"}]}),
        }
    }
}

impl<T: Decode> Decode for Spanned<T> {
    const NAME: Option<&'static str> = T::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        T::decode(node, reader).map(|value| Self { value, span: node.span })
    }

    fn stand_in(node: &YamlNode) -> Option<Self> {
        T::stand_in(node).map(|value| Self { value, span: Span { end: node.span.start, ..node.span } })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<T: Decode> Decode for KeptList<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::List(items) = &node.data else {
            return reader.wrong_type(node, "a list");
        };
        // All entries are read before one of them counts, so that all mistakes are reported.
        let decoded: Vec<Option<T>> = items.iter().map(|item| reader.value(item)).collect();
        if decoded.iter().any(Option::is_none) {
            reader.lose(T::NAME.unwrap_or_default());
        }
        Some(Self(decoded.into_iter().flatten().collect()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<T>>::schema(generator)
    }
}

impl<T: Decode> Decode for OneOrMany<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match node.data {
            YamlData::List(_) => Vec::decode(node, reader).map(Self),
            _ => T::decode(node, reader).map(|value| Self(vec![value])),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<SchemaOf<T>>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}
