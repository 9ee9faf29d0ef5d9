//! One word out of a few.

/// Declares an enum that is read from a word.
macro_rules! choice {
    ($(#[doc = $doc:literal])* $(#[derive($($derive:path),+ $(,)?)])? $(#[serde($($serde:tt)*)])? $vis:vis enum $name:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $word:literal),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq $($(, $derive)+)?)]
        $(#[serde($($serde)*)])?
        $vis enum $name { $($(#[doc = $variant_doc])* $variant,)* }

        $crate::policy::decode::choice_of!($(#[doc = $doc])* $name {
            $($(#[doc = $variant_doc])* $variant = $word),*
        });
    };
}

/// Reads an enum declared elsewhere from a word.
macro_rules! choice_of {
    ($(#[doc = $doc:literal])* $name:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $word:literal),* $(,)?
    }) => {
        impl $crate::policy::decode::Decode for $name {
            const NAME: Option<&'static str> = Some(stringify!($name));

            fn decode(
                node: &$crate::text::yaml::YamlNode,
                reader: &mut $crate::policy::decode::NodeReader<'_>,
            ) -> Option<Self> {
                let $crate::text::yaml::YamlData::Text(word) = &node.data else {
                    return reader.wrong_choice(node, &[$($word),*]);
                };
                match reader.choice(node.span, word, &[$($word),*])? {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::policy::decode::NodeReader::choice_schema(
                    &[$($doc),*],
                    &[$(($word, $crate::policy::decode::join_docs(&[$($variant_doc),*]))),*],
                )
            }
        }
    };
}

pub(crate) use {choice, choice_of};

use serde_json::{Map, Value, json};

use super::{NodeReader, join_docs, list, several};
use crate::policy::meaning;
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

/// So many options stand in a message; more are listed below it.
const FEW: usize = 6;

impl NodeReader<'_> {
    /// Reports something else where a word is expected.
    pub(crate) fn wrong_choice<T>(&mut self, node: &YamlNode, options: &[&str]) -> Option<T> {
        // What the YAML reader has reported already gets no second message.
        if !matches!(node.data, YamlData::Reported) {
            if options.len() <= FEW {
                let message = format!("expected one of {}, found {}", list(options), node.describe());
                self.report(Diagnostic::error(Code::WRONG_TYPE, node.span, message));
                return None;
            }
            let message = format!("expected a word, found {}", node.describe());
            let mut problem = Diagnostic::error(Code::WRONG_TYPE, node.span, message);
            let written = self.text(node.span);
            match meaning::meant(written, options) {
                Some((meant, _)) => problem.label = Some(format!("did you mean `{meant}`?")),
                None => problem.help = several(written, options),
            }
            self.report(problem);
        }
        None
    }

    /// The schema of a word out of a few: an `enum`, or `oneOf` constants if they are described.
    pub(crate) fn choice_schema(docs: &[&str], options: &[(&str, String)]) -> schemars::Schema {
        let mut schema = Map::new();
        let docs = join_docs(docs);
        if !docs.is_empty() {
            schema.insert("description".into(), docs.into());
        }
        let forms: Vec<Value> = if options.iter().all(|(_, docs)| docs.is_empty()) {
            schema.insert("type".into(), "string".into());
            schema.insert("enum".into(), options.iter().map(|(word, _)| Value::from(*word)).collect());
            return schema.into();
        } else {
            options.iter().map(|(word, docs)| json!({"const": word, "description": docs})).collect()
        };
        schema.insert("oneOf".into(), forms.into());
        schema.into()
    }
}
