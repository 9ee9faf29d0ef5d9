//! Mappings told apart by a tag.

/// Declares an enum that is read from a mapping whose tag says which form it has. Mistakes are reported for the
/// form the tag names, never as "matches none of the forms".
macro_rules! union {
    ($(#[doc = $doc:literal])* $(#[derive($($derive:path),+)])? $(#[part($part:literal)])? $vis:vis enum $name:ident by $tag:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $word:literal {
            $($(#[doc = $field_doc:literal])* $field:ident : $ty:ty $(= $default:expr)?),* $(,)?
        }),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug $($(, $derive)+)?)]
        #[allow(clippy::large_enum_variant, reason = "documents are read once")]
        $vis enum $name {
            $($(#[doc = $variant_doc])* $variant { $($(#[doc = $field_doc])* $field: $ty,)* },)*
        }

        impl $crate::policy::decode::Decode for $name {
            const NAME: Option<&'static str> = Some(stringify!($name));
            $(const PART: bool = $part;)?

            fn decode(
                node: &$crate::policy::yaml::Node,
                reader: &mut $crate::policy::decode::Reader<'_>,
            ) -> Option<Self> {
                const TAG: &str = stringify!($tag);
                let entries = reader.mapping(node)?;
                let Some(tag) = node.get(TAG) else {
                    reader.missing_tag(node, TAG, &[$($word),*]);
                    return None;
                };
                let word: String = $crate::policy::decode::Decode::decode(tag, reader)?;
                match word.as_str() {
                    $($word => $crate::policy::decode::decode_fields!(
                        node, entries, reader, TAG, Self::$variant { $($field: $ty $(= $default)?),* }
                    ),)*
                    _ => reader.bad_choice(tag.span, &word, &[$($word),*]),
                }
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let forms: Vec<serde_json::Value> = vec![$({
                    let mut object = $crate::policy::decode::Object::new(&[$($variant_doc),*]);
                    object.tag(stringify!($tag), $word);
                    $(object.field::<$ty>(
                        generator,
                        stringify!($field),
                        &[$($field_doc),*],
                        false $(|| { let _: fn() -> $ty = || $default; true })?,
                    );)*
                    object.finish().to_value()
                }),*];
                schemars::json_schema!({
                    "description": $crate::policy::decode::join_docs(&[$($doc),*]),
                    "oneOf": forms,
                })
            }
        }
    };
}

pub(crate) use union;

impl super::Reader<'_> {
    /// Reports that the key which says what a mapping is, is not there.
    pub(crate) fn missing_tag(&mut self, node: &crate::policy::yaml::Node, tag: &str, options: &[&str]) {
        use crate::policy::{Code, Diagnostic};
        let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, format!("missing field `{tag}`"));
        let problem = problem.label(format!("`{tag}` says which form this is"));
        self.report(problem.help(format!("expected one of {}", super::list(options))));
    }
}
