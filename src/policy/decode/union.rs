//! Mappings distinguished by a tag.

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
                node: &$crate::text::yaml::YamlNode,
                reader: &mut $crate::policy::decode::NodeReader<'_>,
            ) -> Option<Self> {
                const TAG: &str = stringify!($tag);
                const FIELDS: &[&str] =
                    &[TAG, $($($crate::policy::decode::field_name(stringify!($field)),)*)*];
                const FORMS: &[(&str, &[&str])] =
                    &[$(($word, &[$($crate::policy::decode::field_name(stringify!($field))),*])),*];
                let entries = reader.form(node, TAG, FORMS)?;
                let (key, tag) = reader.tag(node, entries, FIELDS, FORMS)?;
                let word: String = $crate::policy::decode::Decode::decode(tag, reader)?;
                match reader.choice(tag.span, &word, &[$($word),*])? {
                    $($word => $crate::policy::decode::decode_fields!(
                        node, entries, reader, &*key.name, Self::$variant { $($field: $ty $(= $default)?),* }
                    ),)*
                    _ => None,
                }
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let forms: Vec<serde_json::Value> = vec![$({
                    let mut object = $crate::policy::decode::ObjectSchema::new(&[$($variant_doc),*]);
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

use crate::text::did_you_mean::{closest, is_certain};
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic};

use super::{QUOTED, excerpt};

/// A word of so many letters may be the beginning of a longer one.
const LEAST: usize = 3;
/// So many keys are looked at for one that is misspelt.
const MOST_LOOKED_AT: usize = 32;

impl super::NodeReader<'_> {
    /// The entries of a mapping of several forms; for a word alone, what it may be short for.
    pub(crate) fn form<'n>(
        &mut self,
        node: &'n YamlNode,
        tag: &str,
        forms: &[(&str, &[&str])],
    ) -> Option<&'n [(YamlKey, YamlNode)]> {
        // `backoff: exponential` is what people write first; the message shows the mapping that is meant.
        let YamlData::Text(word) = &node.data else { return self.mapping(node) };
        let names: Vec<&str> = forms.iter().map(|(form, _)| *form).collect();
        let begins = |name: &&str| word.len() >= LEAST && name.starts_with(&**word);
        let meant = match names.iter().copied().filter(begins).collect::<Vec<_>>().as_slice() {
            [one] => Some(*one),
            _ => closest(word, names.iter().copied()),
        };
        let entries = self.mapping(node);
        if let Some(problem) = self.findings.problems_mut().recent(|problem| problem.span == node.span)
            && problem.fix.is_none()
        {
            problem.help.push(meant.map_or_else(
                || format!("write `{{{tag}: ...}}`, with one of {}", super::list(&names)),
                |form| format!("did you mean `{{{tag}: {form}, ...}}`?"),
            ));
        }
        entries
    }

    /// The key which says what a mapping is, the first of all `fields`; a misspelt one is reported, and taken for it.
    pub(crate) fn tag<'n>(
        &mut self,
        node: &'n YamlNode,
        entries: &'n [(YamlKey, YamlNode)],
        fields: &[&str],
        forms: &[(&str, &[&str])],
    ) -> Option<&'n (YamlKey, YamlNode)> {
        let tag = fields.first().copied().unwrap_or_default();
        if let Some(found) = entries.iter().find(|(key, _)| &*key.name == tag) {
            return Some(found);
        }
        let known = || fields.iter().copied();
        let meant = entries.iter().take(MOST_LOOKED_AT).find(|(key, _)| {
            // A tag that another form has as a field must not be taken for a misspelt tag.
            let name = &*key.name;
            !fields.contains(&name) && closest(name, known()) == Some(tag) && is_certain(name, tag, known())
        });
        if let Some(entry) = meant {
            self.unknown_field(&entry.0, fields, entries)?;
            return Some(entry);
        }
        // A key whose value is the word of a form is the tag in other words, such as `type:`.
        let Some(entry) = entries.iter().take(MOST_LOOKED_AT).find(|(key, value)| {
            let is_option =
                matches!(&value.data, YamlData::Text(text) if forms.iter().any(|(form, _)| form == &&**text));
            is_option && !fields.contains(&&*key.name)
        }) else {
            self.missing_tag(node, entries, tag, forms);
            return None;
        };
        self.other_tag(&entry.0, tag);
        Some(entry)
    }

    /// Another word for the tag, as in `type: anthropic`: its value tells what is meant.
    fn other_tag(&mut self, key: &YamlKey, tag: &str) {
        let message = format!("unknown field `{}`", excerpt(&key.name, QUOTED));
        let problem = Diagnostic::error(Code::UNKNOWN_FIELD, key.span, message);
        self.report(problem.fix(key.span, format!("here it is called `{tag}`"), tag));
    }

    fn missing_tag(
        &mut self,
        node: &YamlNode,
        entries: &[(YamlKey, YamlNode)],
        tag: &str,
        forms: &[(&str, &[&str])],
    ) {
        let problem =
            Diagnostic::error(Code::MISSING_FIELD, self.head(node), format!("missing field `{tag}`"));
        let problem = problem.label(format!("`{tag}` says which form this is"));
        let names: Vec<&str> = forms.iter().map(|(form, _)| *form).collect();
        let problem = problem.help(format!("expected one of {}", super::list(&names)));
        // The other fields may fit one form only, and then the tag can be added.
        let fits = |fields: &[&str]| entries.iter().all(|(key, _)| fields.contains(&&*key.name));
        let fitting: Vec<&str> =
            forms.iter().filter(|(_, fields)| fits(fields)).map(|(form, _)| *form).collect();
        self.report(match fitting.as_slice() {
            [form] if !entries.is_empty() => self.first(
                problem,
                node,
                &format!("{tag}: {form}"),
                "its other fields are those of this form",
            ),
            _ => problem,
        });
    }
}
