//! The JSON Schema of policies as sections: each mapping once, with all places where it stands.

use crate::policy::ErrorClass;
use serde_json::{Map, Value};

/// A mapping of the language.
pub(in crate::cli) struct ReferenceSection<'s> {
    /// The paths where it stands; the first is its heading.
    pub(in crate::cli) places: Vec<String>,
    /// What it is.
    pub(in crate::cli) schema: &'s Value,
}

/// The schema, and what was found in it.
pub(in crate::cli) struct SchemaWalk<'s> {
    root: &'s Value,
    /// In the order in which they were found.
    pub(in crate::cli) sections: Vec<ReferenceSection<'s>>,
}

/// What a schema describes.
pub(in crate::cli) enum SchemaForm<'s> {
    /// A mapping with these keys.
    Keys(&'s Map<String, Value>),
    /// A mapping that `kind` tells apart.
    Kinds(&'s [Value]),
    /// A mapping of names to this.
    Names(&'s Value),
    /// A list of this.
    List(&'s Value),
    /// One of several of these.
    Any(Vec<&'s Value>),
    /// One of these words, each with its meaning.
    Words(&'s [Value]),
    /// All blocks of the top level again.
    Blocks,
    /// Anything else.
    Plain,
}

impl<'s> SchemaWalk<'s> {
    pub(in crate::cli) fn new(root: &'s Value) -> Self {
        let mut walk = Self { root, sections: Vec::new() };
        walk.enter("", root);
        walk
    }

    /// The schema that a reference leads to, through `null` beside it.
    pub(in crate::cli) fn resolved(&self, mut schema: &'s Value) -> &'s Value {
        loop {
            let inner = match schema.get("$ref").and_then(Value::as_str) {
                Some(name) => self.root.pointer(name.trim_start_matches('#')),
                None => match &self.branches(schema)[..] {
                    [only] if schema.get("not").is_none() => Some(*only),
                    _ => None,
                },
            };
            match inner {
                Some(inner) => schema = inner,
                None => return schema,
            }
        }
    }

    pub(in crate::cli) fn form(&self, schema: &'s Value) -> SchemaForm<'s> {
        let schema = self.resolved(schema);
        let kinds = schema.get("oneOf").and_then(Value::as_array);
        if let Some(kinds) = kinds {
            let words = kinds.iter().all(|kind| kind.get("const").is_some());
            return if words { SchemaForm::Words(kinds) } else { SchemaForm::Kinds(kinds) };
        }
        let branches = self.branches(schema);
        if !branches.is_empty() {
            return SchemaForm::Any(branches);
        }
        if let Some(keys) = schema.get("properties").and_then(Value::as_object) {
            return if self.is_blocks(schema, keys) {
                SchemaForm::Blocks
            } else if let Some(value) = of_every_class(keys) {
                SchemaForm::Names(value)
            } else {
                SchemaForm::Keys(keys)
            };
        }
        if let Some(value) = schema.get("additionalProperties").filter(|value| value.is_object()) {
            return SchemaForm::Names(value);
        }
        match schema.get("items") {
            Some(items) => SchemaForm::List(items),
            None => SchemaForm::Plain,
        }
    }

    /// Whether nothing of the built-in value of a mapping is inherited.
    pub(in crate::cli) fn is_replaced_whole(&self, schema: &'s Value) -> bool {
        let told = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        told.contains("Replaced whole") || matches!(self.form(schema), SchemaForm::Kinds(_))
    }

    /// The heading of the section about a mapping.
    pub(in crate::cli) fn heading(&self, schema: &'s Value) -> Option<&str> {
        let schema = self.resolved(schema);
        let section = self.sections.iter().find(|section| core::ptr::eq(section.schema, schema))?;
        section.places.first().map(String::as_str)
    }

    /// What a schema leaves to choose from, `null` left out.
    #[expect(clippy::unused_self, reason = "asked of the walk like all else about a schema")]
    pub(in crate::cli) fn branches(&self, schema: &'s Value) -> Vec<&'s Value> {
        let branches = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
        branches.filter(|branch| branch.get("type").and_then(Value::as_str) != Some("null")).collect()
    }

    fn enter(&mut self, path: &str, schema: &'s Value) {
        match self.form(schema) {
            SchemaForm::Keys(keys) => {
                if self.begin(path, self.resolved(schema)) {
                    self.enter_keys(path, keys);
                }
            }
            SchemaForm::Kinds(kinds) => {
                if self.begin(path, self.resolved(schema)) {
                    for keys in kinds.iter().filter_map(|kind| kind.get("properties")?.as_object()) {
                        self.enter_keys(path, keys);
                    }
                }
            }
            SchemaForm::Names(value) => self.enter(&format!("{path}.*"), value),
            SchemaForm::List(items) => self.enter(&format!("{path}[]"), items),
            SchemaForm::Any(branches) => branches.into_iter().for_each(|branch| self.enter(path, branch)),
            SchemaForm::Words(_) | SchemaForm::Blocks | SchemaForm::Plain => {}
        }
    }

    fn enter_keys(&mut self, path: &str, keys: &'s Map<String, Value>) {
        for (key, value) in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.enter(&path, value);
        }
    }

    /// Whether the section is a new one.
    fn begin(&mut self, path: &str, schema: &'s Value) -> bool {
        let known = self.sections.iter_mut().find(|section| core::ptr::eq(section.schema, schema));
        if let Some(section) = known {
            if !section.places.iter().any(|place| place == path) {
                section.places.push(path.to_owned());
            }
            return false;
        }
        self.sections.push(ReferenceSection { places: vec![path.to_owned()], schema });
        true
    }

    fn is_blocks(&self, schema: &Value, keys: &Map<String, Value>) -> bool {
        let top = self.root.get("properties");
        !core::ptr::eq(schema, self.root)
            && keys.contains_key("tools")
            && keys.keys().all(|key| top.is_some_and(|top| top.get(key).is_some()))
    }
}

/// What stands for every class of errors, if the keys are those.
fn of_every_class(keys: &Map<String, Value>) -> Option<&Value> {
    let classes = ErrorClass::ALL.iter().all(|class| keys.contains_key(class.name()));
    if classes { keys.values().next() } else { None }
}
