//! The arguments of a call as a model wrote them, and what they are in JSON.

use serde_json::{Map, Value};

use crate::text::Schema;
use crate::text::repair::{RepairedJson, repair, too_long};

/// Arguments as a model wrote them.
pub(super) enum WrittenArguments {
    /// As text in JSON, or in what should be JSON.
    Json(String),
    /// One by one. No two have one name.
    Fields(Vec<WrittenField>),
}

/// One argument in markup.
pub(super) struct WrittenField {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) kind: FieldType,
}

/// What the text of an argument is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    Json,
    /// A text, unless the schema of the tool accepts no text and the text is JSON.
    BySchema,
}

impl WrittenArguments {
    /// `None`, if an argument has two values: either may be wrong.
    pub(super) fn of_fields(fields: Vec<WrittenField>) -> Option<Self> {
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        let repeated = names.windows(2).any(|pair| pair.first() == pair.last());
        (!repeated).then_some(Self::Fields(fields))
    }

    /// The text of the arguments in JSON.
    pub(super) fn into_json(self, schema: Option<&Schema>) -> String {
        let fields = match self {
            Self::Json(text) => return text,
            Self::Fields(fields) => fields,
        };
        let mut by_schema = Vec::new();
        let mut arguments = Map::new();
        for WrittenField { name, text, kind } in fields {
            let value = (kind == FieldType::Json).then(|| json(&text)).flatten();
            if kind == FieldType::BySchema {
                by_schema.push(name.clone());
            }
            arguments.insert(name, value.unwrap_or(Value::String(text)));
        }
        let mut arguments = Value::Object(arguments);
        if let Some(schema) = schema {
            type_by(schema, &mut arguments, &by_schema);
        }
        arguments.to_string()
    }
}

/// Replaces those texts among `fields` by JSON that the schema does not accept as texts.
fn type_by(schema: &Schema, arguments: &mut Value, fields: &[String]) {
    // Problems are listed ten at a time.
    for _ in fields {
        let mut changed = false;
        for problem in schema.problems(arguments) {
            let name = problem.pointer.strip_prefix('/').map(|key| key.replace("~1", "/").replace("~0", "~"));
            let place = name.filter(|name| fields.contains(name)).and_then(|name| arguments.get_mut(name));
            let value = place.as_deref().and_then(Value::as_str).and_then(json);
            if let (Some(place), Some(value)) = (place, value) {
                *place = value;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// The JSON in a text, unless it is a text in JSON.
fn json(text: &str) -> Option<Value> {
    let text = text.trim();
    // A number that does not fit would be another one.
    if too_long(text).is_some() {
        return None;
    }
    let value = match text {
        // Qwen and GLM write Python's words at times.
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "None" => Value::Null,
        _ => serde_json::from_str(text).ok().or_else(|| structure(text))?,
    };
    (!value.is_string()).then_some(value)
}

/// A list or an object that is nearly JSON.
fn structure(text: &str) -> Option<Value> {
    let begins = text.starts_with(['[', '{']);
    begins.then(|| repair(text).ok().filter(RepairedJson::is_certain)).flatten().map(|found| found.value)
}
