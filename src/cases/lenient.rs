//! Parts of a document that may fail alone.

use schemars::{Schema, SchemaGenerator};

use crate::policy::decode::{Decode, NodeReader};
use crate::text::yaml::YamlNode;

/// A part of a document that is `None` if it cannot be read, so that the rest is still looked at. What is wrong with
/// it has been reported, and the document cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct LenientPart<T>(pub(crate) Option<T>);

impl<T: Decode> Decode for LenientPart<T> {
    const NAME: Option<&'static str> = T::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Some(Self(T::decode(node, reader)))
    }

    fn absent() -> Option<Self> {
        T::absent().map(|value| Self(Some(value)))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}
