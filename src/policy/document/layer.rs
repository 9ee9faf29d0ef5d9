//! A block of a layer, with keys of the layer alone in addition to those that are merged.

/// Declares the document form of a block with further keys, which belong to the layer and are not merged.
macro_rules! layer {
    ($(#[doc = $doc:literal])* $vis:vis struct $name:ident of $block:ident {
        $($(#[doc = $field_doc:literal])* $field:ident : $ty:ty = $default:expr),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            /// The keys that are merged.
            $vis rules: $block<$crate::policy::form::Document>,
            $($(#[doc = $field_doc])* $vis $field: $ty,)*
        }

        impl core::ops::Deref for $name {
            type Target = $block<$crate::policy::form::Document>;

            fn deref(&self) -> &Self::Target {
                &self.rules
            }
        }

        impl $crate::policy::decode::Decode for $name {
            const NAME: Option<&'static str> = Some(stringify!($name));
            const PART: bool = true;

            fn decode(
                node: &$crate::text::yaml::YamlNode,
                reader: &mut $crate::policy::decode::NodeReader<'_>,
            ) -> Option<Self> {
                use $crate::policy::form::{BlockDocument, decode_fields_of, read_field};
                type Rules = $block<$crate::policy::form::Document>;
                let fields = [Rules::FIELDS, &[$(stringify!($field)),*]].concat();
                let layer = Self { rules: Rules::ABSENT.clone(), $($field: $default,)* };
                decode_fields_of(node, reader, layer, &fields, |layer, name, node, reader| match name {
                    $(stringify!($field) => layer.$field = read_field(name, node, reader),)*
                    _ => layer.rules.read(name, node, reader),
                })
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut object = $crate::policy::decode::ObjectSchema::new(&[$($doc),*]);
                <$block<$crate::policy::form::Document> as $crate::policy::form::BlockDocument>::describe(
                    &mut object, generator,
                );
                $(object.field::<$ty>(generator, stringify!($field), &[$($field_doc),*], true);)*
                object.finish()
            }
        }
    };
}

pub(crate) use layer;
