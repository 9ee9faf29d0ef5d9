//! A header of requests, as an agent file writes it.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::key_source::KeySource;
use crate::policy::decode::{Decode, NodeReader, SchemaOf, Spanned};
use crate::text::yaml::{YamlData, YamlNode};

/// The value of a header.
#[derive(Clone, Debug)]
pub(crate) enum HeaderEntry {
    /// It is in the file: no secret.
    Text(Spanned<String>),
    /// A secret, which is elsewhere.
    From(KeySource),
}

impl Decode for HeaderEntry {
    const NAME: Option<&'static str> = Some("HeaderEntry");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match node.data {
            YamlData::Map(_) => KeySource::decode(node, reader).map(Self::From),
            YamlData::Text(_) => Spanned::decode(node, reader).map(Self::Text),
            _ => reader.wrong_type(node, "a string, `{env: NAME}` or `{file: PATH}`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<SchemaOf<KeySource>>();
        json_schema!({"anyOf": [{"type": "string"}, source]})
    }
}
