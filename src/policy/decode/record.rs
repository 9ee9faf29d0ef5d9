//! Mappings with known fields.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Decode, NodeReader, SchemaOf};
use crate::text::yaml::{YamlKey, YamlNode};

/// The fields of a record, which may also be those of one [`Form`](super::Form) of a mapping.
pub(crate) trait Fields: Sized {
    /// What the record is.
    const DOCS: &'static [&'static str];
    /// Their keys.
    #[cfg(feature = "host")]
    const FIELDS: &'static [&'static str];

    /// Reads them. `tag` is one more key that is known, or empty.
    fn decode_fields(
        node: &YamlNode,
        entries: &[(YamlKey, YamlNode)],
        reader: &mut NodeReader<'_>,
        tag: &str,
    ) -> Option<Self>;

    /// Adds them to a schema.
    fn describe_fields(object: &mut ObjectSchema, generator: &mut SchemaGenerator);
}

/// Declares a struct that is read from a mapping. See the [module](super) for an example.
macro_rules! record {
    ($(#[doc = $doc:literal])* $(#[derive($($derive:path),+)])? $(#[part($part:literal)])? $vis:vis struct $name:ident {
        $($(#[doc = $field_doc:literal])* $field_vis:vis $field:ident : $ty:ty $(= $default:expr)?),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug $($(, $derive)+)?)]
        $vis struct $name {
            $($(#[doc = $field_doc])* $field_vis $field: $ty,)*
        }

        impl $crate::policy::decode::Decode for $name {
            const NAME: Option<&'static str> = Some(stringify!($name));
            $(const PART: bool = $part;)?

            fn decode(
                node: &$crate::text::yaml::YamlNode,
                reader: &mut $crate::policy::decode::NodeReader<'_>,
            ) -> Option<Self> {
                let entries = reader.mapping(node)?;
                <Self as $crate::policy::decode::Fields>::decode_fields(node, entries, reader, "")
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut object = $crate::policy::decode::ObjectSchema::new(<Self as $crate::policy::decode::Fields>::DOCS);
                <Self as $crate::policy::decode::Fields>::describe_fields(&mut object, generator);
                object.finish()
            }
        }

        impl $crate::policy::decode::Fields for $name {
            const DOCS: &'static [&'static str] = &[$($doc),*];
            #[cfg(feature = "host")]
            const FIELDS: &'static [&'static str] =
                &[$($crate::policy::decode::field_name(stringify!($field))),*];

            fn decode_fields(
                node: &$crate::text::yaml::YamlNode,
                entries: &[($crate::text::yaml::YamlKey, $crate::text::yaml::YamlNode)],
                reader: &mut $crate::policy::decode::NodeReader<'_>,
                tag: &str,
            ) -> Option<Self> {
                $crate::policy::decode::decode_fields!(
                    node, entries, reader, tag, Self { $($field: $ty $(= $default)?),* }
                )
            }

            #[allow(unused_variables, reason = "a record may have no fields")]
            fn describe_fields(
                object: &mut $crate::policy::decode::ObjectSchema,
                generator: &mut schemars::SchemaGenerator,
            ) {
                $(object.field::<$ty>(
                    generator,
                    stringify!($field),
                    &[$($field_doc),*],
                    false $(|| { let _: fn() -> $ty = || $default; true })?,
                );)*
            }
        }
    };
}

/// Reads the fields of a mapping into a constructor. `$tag` is one more key that is known, or empty.
macro_rules! decode_fields {
    ($node:ident, $entries:ident, $reader:ident, $tag:expr, $($make:ident)::+ { $($field:ident : $ty:ty $(= $default:expr)?),* $(,)? }) => {{
        const FIELDS: &[&str] = &[$($crate::policy::decode::field_name(stringify!($field))),*];
        $(let mut $field: Option<Option<$ty>> = None;)*
        for (key, value) in $entries {
            if &*key.name == $tag {
                continue;
            }
            let Some(name) = $reader.field(key, FIELDS, $entries) else { continue };
            $(if name == const { $crate::policy::decode::field_name(stringify!($field)) } {
                $field = Some($reader.value::<$ty>(value));
                continue;
            })*
            // A record may have no fields.
            let _ = (name, value);
        }
        #[allow(unused_variables, reason = "a record may have no fields")]
        let part = <Self as $crate::policy::decode::Decode>::PART;
        // A part of a document continues without a field that cannot be read; a value does not.
        $(let lost = part && matches!($field, Some(None));
        if lost {
            $reader.lose($crate::policy::decode::field_name(stringify!($field)));
        }
        let $field = $field.filter(|_| !lost).unwrap_or_else(|| {
            $(return Some($default);)?
            #[allow(unreachable_code, reason = "a field with a default is never missing")]
            let absent = <$ty as $crate::policy::decode::Decode>::absent();
            if absent.is_none() && !lost {
                $reader.missing_field($node, $crate::policy::decode::field_name(stringify!($field)));
            }
            absent.or_else(|| <$ty as $crate::policy::decode::Decode>::stand_in($node).filter(|_| part))
        });)*
        Some($($make)::+ { $($field: $field?,)* })
    }};
}

pub(crate) use {decode_fields, record};

/// The schema of a closed object, as it grows.
#[derive(Debug)]
pub struct ObjectSchema {
    title: Option<String>,
    description: String,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ObjectSchema {
    pub(crate) fn new(docs: &[&str]) -> Self {
        Self { title: None, description: join_docs(docs), properties: Map::new(), required: Vec::new() }
    }

    /// A required key with one value, which tells unions apart. The description of the form goes to it: on the
    /// whole mapping, editors show that of the union. Without `type` and `default`, the YAML language server completes a
    /// form without the value (`getInsertTextForObject`).
    pub(crate) fn tag(&mut self, key: &str, value: &str) {
        let description = core::mem::take(&mut self.description);
        self.title = Some(value.to_owned());
        self.properties.insert(
            key.into(),
            json!({"type": "string", "const": value, "default": value, "description": description}),
        );
        self.required.push(key.into());
    }

    pub(crate) fn field<T: Decode>(
        &mut self,
        generator: &mut SchemaGenerator,
        name: &'static str,
        docs: &[&str],
        has_default: bool,
    ) {
        let name = field_name(name);
        let mut schema = generator.subschema_for::<SchemaOf<T>>();
        let docs = join_docs(docs);
        if !docs.is_empty() {
            schema.insert("description".into(), docs.into());
        }
        self.properties.insert(name.into(), schema.to_value());
        if !has_default && T::absent().is_none() {
            self.required.push(name.into());
        }
    }

    pub(crate) fn finish(self) -> Schema {
        let mut object = Map::new();
        if let Some(title) = self.title {
            object.insert("title".into(), title.into());
        }
        if !self.description.is_empty() {
            object.insert("description".into(), self.description.into());
        }
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), self.properties.into());
        if !self.required.is_empty() {
            object.insert("required".into(), self.required.into());
        }
        // Unknown keys are errors. Where they are dropped, a misspelt rule never takes effect: grpc-go did so to
        // chainlink-common (2373), whose clients never retried a call.
        object.insert("additionalProperties".into(), false.into());
        object.into()
    }
}

/// The key of a field: its Rust name without the mark of a raw identifier.
pub(crate) const fn field_name(ident: &'static str) -> &'static str {
    match ident.as_bytes() {
        [b'r', b'#', ..] => ident.split_at(2).1,
        _ => ident,
    }
}

/// Doc comment lines as one text; a blank line starts a paragraph.
pub(crate) fn join_docs(lines: &[&str]) -> String {
    let mut out = String::new();
    for line in lines.iter().map(|line| line.trim()) {
        // As Markdown reads it: a blank line ends a paragraph, and other line ends are spaces.
        match (line.is_empty(), out.is_empty() || out.ends_with('\n')) {
            (true, false) => out.push_str("\n\n"),
            (true, true) => {}
            (false, fresh) => {
                if !fresh {
                    out.push(' ');
                }
                out.push_str(line);
            }
        }
    }
    out.trim_end().to_owned()
}
