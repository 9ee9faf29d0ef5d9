//! What a document is made of: values, each with its place.

use std::sync::Arc;

use crate::text::Span;
use crate::text::excerpt::excerpt;
use crate::text::scalar::PlainScalar;

/// A value and its place. Cheap to clone.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// Where it is written.
    pub span: Span,
    /// What it is.
    pub data: YamlData,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum YamlData {
    /// `null`, written out.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; its text is what the span covers.
    Number(serde_json::Number),
    /// A string.
    Text(Arc<str>),
    /// A list.
    List(Arc<[YamlNode]>),
    /// A mapping, in the order of the text. No key is there twice.
    Map(Arc<[(YamlKey, YamlNode)]>),
    /// Something that has been reported already; to be passed over in silence.
    Reported,
}

/// A key of a mapping and its place.
#[derive(Clone, Debug)]
pub struct YamlKey {
    /// The key.
    pub name: Arc<str>,
    /// Where it is written.
    pub span: Span,
}

impl YamlNode {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            YamlData::Map(entries) => entries.iter().find(|(k, _)| &*k.name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// As JSON. Bounded by the budgets of loading.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.data {
            YamlData::Null | YamlData::Reported => Value::Null,
            YamlData::Bool(value) => Value::Bool(*value),
            YamlData::Number(number) => Value::Number(number.clone()),
            YamlData::Text(text) => Value::String(text.to_string()),
            YamlData::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            YamlData::Map(entries) => Value::Object(
                entries.iter().map(|(key, node)| (key.name.to_string(), node.to_json())).collect(),
            ),
        }
    }

    /// What it is, for error messages: `string "7"`, `a list`.
    pub fn describe(&self) -> String {
        match &self.data {
            YamlData::Null => "null".into(),
            YamlData::Bool(value) => format!("boolean `{value}`"),
            YamlData::Number(number) => format!("number `{number}`"),
            YamlData::Text(text) => format!("string \"{}\"", excerpt(text, 40)),
            YamlData::List(_) => "a list".into(),
            YamlData::Map(_) => "a mapping".into(),
            YamlData::Reported => "nothing".into(),
        }
    }
}

impl From<PlainScalar<'_>> for YamlData {
    fn from(scalar: PlainScalar<'_>) -> Self {
        match scalar {
            PlainScalar::Null => Self::Null,
            PlainScalar::Bool(value) => Self::Bool(value),
            PlainScalar::Number(number) => Self::Number(number),
            PlainScalar::Text(text) => Self::Text(text.into()),
        }
    }
}
