//! What else can be written in the place of a value: everything that the schema of the policy language has for its key, so
//! that a new key, or a new value of a key, is tried without a line here.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use unfazed::policy::json_schema;

/// The numbers and lengths that are tried, and the units of sizes: the extremes first, as they differ most.
const NUMBERS: [u32; 7] = [1_000_000, 1, 0, 2, 3, 5, 9];
const SHARES: [f64; 3] = [0.99, 0.01, 0.5];
const LENGTHS: [&str; 5] = ["366d", "0s", "1ms", "1s", "9s"];
const SIZES: [&str; 4] = ["1000000", "0", "1", "50"];
const UNITS: [&str; 3] = ["tokens", "chars", "bytes"];

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathStep {
    /// Into the value of a key.
    Key(String),
    /// Into an item of a list.
    Item,
}

/// Other values for the place at that path, where this one is written. What is not legal there does not load. The classes that
/// the facts name come first.
pub(crate) fn other_values(path: &[PathStep], written: &Value, facts: &[String]) -> Vec<Value> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let root = SCHEMA.get_or_init(json_schema);
    let mut schemas = forms(root, root);
    for step in path {
        let next: Vec<&Value> = schemas.iter().filter_map(|schema| below(schema, step)).collect();
        schemas = next.into_iter().flat_map(|schema| forms(root, schema)).collect();
    }
    assert!(!schemas.is_empty(), "the schema has nothing at {path:?}");
    let mut values = Vec::new();
    for schema in schemas {
        values.extend(of_form(root, schema, written, facts));
    }
    values.retain(|value| value != written);
    let mut distinct = Vec::with_capacity(values.len());
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn below<'s>(schema: &'s Value, step: &PathStep) -> Option<&'s Value> {
    match step {
        PathStep::Key(key) => schema
            .get("properties")
            .and_then(|fields| fields.get(key))
            .or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object())),
        PathStep::Item => schema.get("items"),
    }
}

/// The forms that a schema leaves open, references followed.
fn forms<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return forms(root, root.pointer(name.trim_start_matches('#')).unwrap());
    }
    let any = ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
    let forms: Vec<&Value> = any.flat_map(|form| forms(root, form)).collect();
    if forms.is_empty() { vec![schema] } else { forms }
}

/// The values of one form.
fn of_form(root: &Value, form: &Value, written: &Value, facts: &[String]) -> Vec<Value> {
    if let Some(value) = form.get("const") {
        return vec![value.clone()];
    }
    let is = |kind: &str| match &form["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let pattern = form["pattern"].as_str().unwrap_or_default();
    let mut values = Vec::new();
    if is("boolean") {
        values.extend([json!(true), json!(false)]);
    }
    if is("integer") || is("number") {
        values.extend(NUMBERS.map(Value::from));
    }
    if is("number") {
        values.extend(SHARES.map(Value::from));
    }
    if is("string") && pattern.contains("nanos") {
        values.extend(LENGTHS.map(Value::from));
    }
    if is("string") {
        let units = UNITS.iter().filter(|unit| pattern.contains(unit.trim_end_matches('s')));
        values.extend(units.flat_map(|unit| SIZES.map(|size| json!(format!("{size} {unit}")))));
    }
    if is("array") {
        values.extend(lists(root, form, written, facts));
    }
    if is("object") && form.get("properties").is_some() {
        values.extend(mappings(root, form, written, facts));
    }
    values
}

/// The list with one item more or less, and the empty one.
fn lists(root: &Value, form: &Value, written: &Value, facts: &[String]) -> Vec<Value> {
    let items = written.as_array().cloned().unwrap_or_default();
    let mut possible: Vec<Value> = forms(root, &form["items"])
        .into_iter()
        .flat_map(|item| {
            let values = of_form(root, item, &Value::Null, facts);
            if item.get("properties").is_some() { values.into_iter().take(1).collect() } else { values }
        })
        .collect();
    let is_named = |item: &Value| {
        let name = item.as_str().unwrap_or_default();
        facts.iter().any(|fact| fact.split(' ').any(|word| word == name))
    };
    possible.sort_by_key(|item| !is_named(item));
    let toggled = possible.into_iter().map(|item| {
        let mut others: Vec<Value> = items.iter().filter(|other| **other != item).cloned().collect();
        if others.len() == items.len() {
            others.push(item);
        }
        Value::Array(others)
    });
    toggled.chain([json!([])]).collect()
}

/// The mapping with one field changed, or the least one of another form.
fn mappings(root: &Value, form: &Value, written: &Value, facts: &[String]) -> Vec<Value> {
    let fields = form["properties"].as_object().unwrap();
    let kind = |value: &Value| value.get("kind").cloned();
    let is_written = written.is_object()
        && fields.get("kind").is_none_or(|field| field.get("const") == kind(written).as_ref());
    if !is_written {
        let required = form["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let first = |name: &str| {
            let forms = forms(root, &fields[name]);
            let example = fields[name]["examples"][0].clone();
            let value =
                forms.iter().find_map(|form| of_form(root, form, &Value::Null, facts).into_iter().next());
            (name.to_owned(), if let Some(value) = value { value } else { example })
        };
        return vec![Value::Object(required.map(first).collect::<Map<_, _>>())];
    }
    let mut changed = Vec::new();
    for (name, field) in fields {
        let before = written.get(name).unwrap_or(&Value::Null);
        for form in forms(root, field) {
            for value in of_form(root, form, before, facts) {
                let mut other = written.clone();
                other[name] = value;
                changed.push(other);
            }
        }
    }
    changed
}
