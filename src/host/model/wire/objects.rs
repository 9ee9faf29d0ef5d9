//! Structures that are read from JSON objects alone. Serde reads them from lists too, field by field, so that a frame of the wrong
//! type would become an answer.

use serde::Deserializer;
use serde::de::Visitor;
use serde::forward_to_deserialize_any;

/// A deserializer that takes a structure for a map.
pub(crate) struct ObjectReader<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectReader<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    // Nothing but structures is read through it.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Implements `Deserialize` for structures that derive it with `#[serde(remote = "Self")]`, which gives them a function of
/// the same name instead of the trait.
macro_rules! of_objects {
    ($($name:ident),+) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $name::deserialize($crate::host::model::wire::objects::ObjectReader(deserializer))
            }
        }
    )+};
}
pub(crate) use of_objects;
