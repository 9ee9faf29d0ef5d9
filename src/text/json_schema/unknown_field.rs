//! Fields that a document does not have: serde passes over those of an event, and a misspelt one would be lost without
//! notice.

use serde_json::{Map, Value};

use super::{not_allowed, pointer_step};

/// A schema, and one of its parts.
#[derive(Clone, Copy)]
pub(crate) struct SchemaPart<'s> {
    pub(crate) root: &'s Value,
    pub(crate) part: &'s Value,
}

impl<'s> SchemaPart<'s> {
    /// Where the first field of the value is that the schema does not know, at whatever depth, and what is known there. `at` is
    /// where the value stands.
    pub(crate) fn unknown_field(self, value: &Value, at: &str) -> Option<(String, String)> {
        let mut forms = Vec::new();
        self.forms(value, &mut forms);
        match value {
            Value::Object(fields) => self.unknown_of(fields, &forms, at),
            Value::Array(items) => {
                let part = forms.iter().find_map(|form| form.get("items"))?;
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| {
                    Self { part, ..self }.unknown_field(item, &format!("{at}/{index}"))
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn unknown_of(
        self,
        fields: &Map<String, Value>,
        forms: &[&'s Map<String, Value>],
        at: &str,
    ) -> Option<(String, String)> {
        let known = || forms.iter().filter_map(|form| form.get("properties")?.as_object()).flatten();
        let others = forms.iter().find_map(|form| form.get("additionalProperties"));
        // What has no fields of its own is whatever the host, a tool or a model says.
        let others = others.or_else(|| known().next().is_none().then_some(&Value::Bool(true)));
        fields.iter().find_map(|(name, value)| {
            let own = known().find(|(known, _)| *known == name).map(|(_, part)| part);
            if let Some(part) = own.or(others.filter(|others| **others != false)) {
                return Self { part, ..self }.unknown_field(value, &format!("{at}/{}", pointer_step(name)));
            }
            let names: Vec<&str> = known().map(|(name, _)| name.as_str()).collect();
            Some((at.to_owned(), not_allowed(name, &names)))
        })
    }

    /// The schemas that hold for the value: this one, what it refers to, and which of its alternatives the value is.
    fn forms(self, value: &Value, forms: &mut Vec<&'s Map<String, Value>>) {
        let Value::Object(schema) = self.part else { return };
        forms.push(schema);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
        if let Some(part) = name.and_then(|name| self.root.get("$defs")?.get(name)) {
            Self { part, ..self }.forms(value, forms);
        }
        let alternatives = ["oneOf", "anyOf"].into_iter().filter_map(|all| schema.get(all)?.as_array());
        for all in alternatives {
            let is_known = all.iter().any(|one| is_meant(one, value));
            // Without a word for which of them it is, it may be any.
            for part in all.iter().filter(|one| !is_known || is_meant(one, value)) {
                Self { part, ..self }.forms(value, forms);
            }
        }
    }
}

/// Whether the value has the words that only this alternative has.
pub(crate) fn is_meant(alternative: &Value, value: &Value) -> bool {
    let properties = alternative.get("properties").and_then(Value::as_object);
    let mut words = properties.into_iter().flat_map(Map::iter).filter_map(|(key, schema)| {
        let word = schema.get("const")?;
        Some(value.get(key) == Some(word))
    });
    words.next().is_some_and(|first| first && words.all(|has| has))
}
