//! Schemas as editors read them best.
//!
//! The YAML language server shows on a key what it shows on its value: the first description of all schemas that match
//! the value, the innermost first, and the examples of each (`yamlHover.ts`, `getHover`). So each alternative of a field
//! carries the words of the field, one level deep, and no type has examples besides those of its fields. Messages name
//! mappings by their definitions (`schemaUtils.ts`, `getSchemaTypeName`), whose names say that they are mappings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::cli::exit::CommandFailure;
use crate::cli::reference::defaults::WrittenDefaults;
use crate::cli::reference::walk::SchemaWalk;

/// Where definitions are.
const DEFS: &str = "#/$defs/";
/// What the names of types of documents end with.
const SUFFIXES: [&str; 5] = ["Policy", "Layer", "Rule", "Entry", "File"];

/// The schema with the defaults of the built-in policy, and the words of fields where editors look for them.
pub(super) fn prepared(mut root: Value) -> Result<Value, CommandFailure> {
    let title = root.as_object_mut().and_then(|root| root.shift_remove("title"));
    let defs = root.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut editor =
        EditorSettings { defs, keys: keys(), defaults: WrittenDefaults::read()?, shown: BTreeSet::new() };
    editor.schema(title.as_ref().and_then(Value::as_str), &mut root);
    for (name, def) in root.get_mut("$defs").and_then(Value::as_object_mut).into_iter().flatten() {
        // No word is an example of another.
        if editor.shown.contains(name) || is_choice(def) {
            def.as_object_mut().and_then(|def| def.shift_remove("examples"));
        }
    }
    rename(&mut root);
    Ok(root)
}

/// The mappings of the policy language by the names of their definitions: where they stand, and whether they are replaced
/// whole.
fn keys() -> BTreeMap<String, (Vec<String>, bool)> {
    let policy = crate::policy::json_schema();
    let walk = SchemaWalk::new(&policy);
    let name = |schema: &Value| {
        let defs = policy.get("$defs").and_then(Value::as_object).into_iter().flatten();
        let root = core::ptr::eq(schema, &raw const policy).then(|| policy.get("title")?.as_str()).flatten();
        let def =
            defs.into_iter().find(|(_, def)| core::ptr::eq(*def, schema)).map(|(name, _)| name.as_str());
        root.or(def).map(str::to_owned)
    };
    let keys = walk.sections.iter().filter_map(|section| {
        Some((name(section.schema)?, (section.places.clone(), walk.is_replaced_whole(section.schema))))
    });
    keys.collect()
}

struct EditorSettings {
    /// As they were.
    defs: Map<String, Value>,
    keys: BTreeMap<String, (Vec<String>, bool)>,
    defaults: WrittenDefaults,
    /// The definitions whose examples fields show.
    shown: BTreeSet<String>,
}

impl EditorSettings {
    /// A schema and all within it. `owner` names the definition that it is.
    fn schema(&mut self, owner: Option<&str>, schema: &mut Value) {
        let Value::Object(schema) = schema else { return };
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        // What is required has no default.
        let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
        for (key, inner) in schema.iter_mut() {
            match (key.as_str(), inner) {
                ("$defs", Value::Object(defs)) => {
                    defs.iter_mut().for_each(|(name, def)| self.schema(Some(name), def));
                }
                ("properties", Value::Object(fields)) => {
                    for (name, field) in fields {
                        let owner = owner.filter(|_| !required.contains(name));
                        self.field(owner, name, field);
                        self.schema(None, field);
                    }
                }
                // The forms of a union are mappings of the same place.
                ("oneOf", Value::Array(forms)) => {
                    for form in forms {
                        self.schema(owner, form);
                    }
                }
                ("anyOf" | "allOf", Value::Array(forms)) => {
                    for form in forms {
                        self.schema(None, form);
                    }
                }
                ("items" | "additionalProperties", inner) => self.schema(None, inner),
                _ => {}
            }
        }
    }

    fn field(&mut self, owner: Option<&str>, name: &str, field: &mut Value) {
        let Value::Object(field) = field else { return };
        let Some(Value::String(mut words)) = field.get("description").cloned() else { return };
        if let Some((places, whole)) = owner.and_then(|owner| self.keys.get(owner)) {
            let default = self.defaults.cell(places, name, *whole);
            if !default.is_empty() && !field.contains_key("default") {
                words = format!("{words}\n\nDefault: {default}");
                if let Some(value) = self.defaults.value(places, name, *whole) {
                    // Completion inserts the one or the other, and nothing where there are both.
                    field.shift_remove("examples");
                    field.insert("default".into(), value);
                }
            }
        }
        field.insert("description".into(), words.clone().into());
        self.example(field);
        let forms = self.forms(&Value::Object(field.clone()));
        if forms.len() < 2 {
            return;
        }
        for key in ["$ref", "anyOf", "oneOf"] {
            field.shift_remove(key);
        }
        let is_choice = forms.iter().all(|form| is_word(form) || is_null(form));
        if is_choice {
            // Each word is shown with its meaning, and none is an example of another.
            field.shift_remove("examples");
        }
        let forms =
            forms.into_iter().enumerate().map(|(at, form)| self.told(form, &words, at == 0)).collect();
        field.insert(if is_choice { "oneOf" } else { "anyOf" }.into(), Value::Array(forms));
    }

    /// Gives a field the example of its type: completion inserts it whole.
    fn example(&mut self, field: &mut Map<String, Value>) {
        let forms = self.forms(&Value::Object(field.clone()));
        let names: Vec<String> = forms.iter().filter_map(refers).map(str::to_owned).collect();
        if !field.contains_key("examples") && !field.contains_key("default") {
            let examples = names.iter().find_map(|name| self.defs.get(name)?.get("examples")?.get(0));
            field.extend(examples.map(|example| ("examples".to_owned(), vec![example.clone()].into())));
        }
        self.shown.extend(names);
    }

    /// What may stand in a place, one level deep.
    fn forms(&self, schema: &Value) -> Vec<Value> {
        if let Some(def) = refers(schema).and_then(|name| self.defs.get(name))
            && alternatives(def).is_some()
        {
            return self.forms(def);
        }
        match alternatives(schema) {
            Some(forms) => forms.iter().flat_map(|form| self.forms(form)).collect(),
            None => vec![schema.clone()],
        }
    }

    /// A form with the words of its field, wherever it would show others. The first has them in any case: forms that cannot
    /// be distinguished are shown as if the value were all of them (`isAllSchemasMatched`).
    fn told(&self, mut form: Value, words: &str, first: bool) -> Value {
        let own = form.get("description").and_then(Value::as_str).map(str::to_owned);
        let of_type = refers(&form).and_then(|name| self.defs.get(name)?.get("description"));
        let told = match (own, form.get("const").and_then(Value::as_str)) {
            (Some(own), Some(word)) => Some(format!("`{word}`: {own}\n\n{words}")),
            (None, _) if of_type.is_none() && !first => None,
            _ => Some(words.to_owned()),
        };
        if let Value::Object(form) = &mut form {
            if let Some(Value::Array(inner)) = form.get_mut("anyOf") {
                let told = |(at, form): (usize, &Value)| self.told(form.clone(), words, at == 0);
                *inner = inner.iter().enumerate().map(told).collect();
            }
            form.extend(told.map(|told| ("description".to_owned(), told.into())));
            form.shift_remove("examples");
        }
        form
    }
}

/// The alternatives of a schema that says nothing else.
fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    let says =
        |key: &String| !["description", "examples", "default", "anyOf", "oneOf"].contains(&key.as_str());
    if schema.as_object()?.keys().any(says) {
        return None;
    }
    let any = schema.get("anyOf").and_then(Value::as_array);
    any.or_else(|| schema.get("oneOf").filter(|_| is_choice(schema))?.as_array())
}

fn refers(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(DEFS)
}

fn is_word(schema: &Value) -> bool {
    schema.get("const").is_some()
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

/// Whether a schema is a word out of a few.
fn is_choice(schema: &Value) -> bool {
    let forms = schema.get("oneOf").and_then(Value::as_array);
    forms.is_some_and(|forms| forms.iter().all(|form| is_word(form) || is_null(form)))
}

/// Names the definitions of mappings as such.
fn rename(root: &mut Value) {
    let Some(defs) = root.get("$defs").and_then(Value::as_object) else { return };
    let mut names = BTreeMap::new();
    for (name, def) in defs {
        let is_mapping = def.get("properties").is_some() || (def.get("oneOf").is_some() && !is_choice(def));
        let short = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let new = format!("{short}Mapping");
        if is_mapping && !defs.contains_key(&new) && !names.values().any(|other| *other == new) {
            names.insert(name.clone(), new);
        }
    }
    if let Some(Value::Object(defs)) = root.get_mut("$defs") {
        *defs = core::mem::take(defs)
            .into_iter()
            .map(|(name, def)| (names.get(&name).cloned().unwrap_or(name), def))
            .collect();
    }
    refer(root, &names);
}

fn refer(schema: &mut Value, names: &BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| key == "$ref").and_then(|name| name.strip_prefix(DEFS)) {
                    Some(name) => {
                        if let Some(new) = names.get(name) {
                            *value = format!("{DEFS}{new}").into();
                        }
                    }
                    None => refer(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, names)),
        _ => {}
    }
}
