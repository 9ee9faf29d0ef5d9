//! Schemas of answers as Anthropic holds a model to them, and Bedrock all of its models: a part of JSON Schema. What else a schema
//! says stands in its descriptions, as Anthropic's own SDKs write it (`transform_schema` in `lib/_parse/_transform.py`).
//!
//! "additionalProperties (must be set to false for objects)", "Array minItems (only values 0 and 1 supported)"; not supported are
//! "numerical constraints", "string constraints" and others: "If you use an unsupported feature, you'll receive a 400 error"
//! (platform.claude.com, "Structured outputs"). "JSON Schema Draft 2020-12 subset" with the same limits (Bedrock, "Get validated JSON
//! results from models").

use core::iter;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

/// The formats of texts that are known.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// A schema that was closed.
#[derive(Debug, Default)]
pub(super) struct ClosedSchema {
    pub(super) schema: Value,
    /// The keywords of the client's schema that nothing holds the model to.
    pub(super) lost: BTreeSet<String>,
}

impl ClosedSchema {
    pub(super) fn of(schema: &Value) -> Self {
        let mut lost = BTreeSet::new();
        Self { schema: closed(schema.clone(), &mut lost), lost }
    }
}

/// The schema with all objects in it closed. It is no deeper than the reader of JSON lets bodies be, and its parts are moved: copied at
/// each level, they would take their size as often as it is deep.
fn closed(schema: Value, lost: &mut BTreeSet<String>) -> Value {
    let Value::Object(said) = schema else { return schema };
    let said = with_parts(said);
    let mut written = Map::new();
    let mut described = Vec::new();
    // Nothing stands beside a reference but what it may lead to, as with the SDKs.
    let refers = said.contains_key("$ref");
    let has_any_of = said.contains_key("anyOf");
    let (is_object, is_open) = (is_object(&said), is_open(&said));
    for (name, value) in said {
        let value = match name.as_str() {
            "$defs" | "definitions" => named(value, lost),
            "$ref" => value,
            "additionalProperties" if !refers => continue,
            other if other.starts_with('$') => continue,
            "title" | "description" | "default" if refers => continue,
            _ if refers => {
                lost.insert(name);
                continue;
            }
            "type" | "title" | "description" | "const" | "default" | "required" => value,
            "enum" if value.as_array().is_some_and(|all| all.iter().all(is_plain)) => value,
            "properties" => named(value, lost),
            "items" if value.is_object() => closed(value, lost),
            "anyOf" | "allOf" if value.is_array() => each(value, lost),
            "oneOf" if value.is_array() && !has_any_of => {
                written.insert("anyOf".to_owned(), each(value, lost));
                continue;
            }
            "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => value,
            "minItems" if value == 0 || value == 1 => value,
            "pattern" if value.as_str().is_some_and(is_simple) => value,
            _ => {
                described.push(format!("{name}: {value}"));
                lost.insert(name);
                continue;
            }
        };
        written.insert(name, value);
    }
    if !refers && is_object {
        close(is_open, &mut written, lost);
    }
    if !described.is_empty() {
        let rest = format!("{{{}}}", described.join(", "));
        let before = written.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
        let description = before.map_or_else(|| rest.clone(), |before| format!("{before}\n\n{rest}"));
        written.insert("description".to_owned(), description.into());
    }
    Value::Object(written)
}

/// Whether an object may have other properties by its own words, or names none.
fn is_open(said: &Map<String, Value>) -> bool {
    match said.get("additionalProperties") {
        Some(others) => *others != false,
        None => !said.contains_key("properties"),
    }
}

/// Lets an object have the properties alone that it names. One that is open loses others.
fn close(is_open: bool, written: &mut Map<String, Value>, lost: &mut BTreeSet<String>) {
    if is_open {
        lost.insert("additionalProperties".to_owned());
    }
    written.entry("type").or_insert_with(|| json!("object"));
    written.entry("properties").or_insert_with(|| json!({}));
    written.insert("additionalProperties".to_owned(), json!(false));
}

/// A schema with the parts of its `allOf` in its place: closed by itself, each would allow nothing of the others. A reference goes there
/// alone, as pydantic 1 writes one that has a title. Where the schema has more fields it stays, and the server says so: "`allOf`
/// with `$ref` not supported".
fn with_parts(mut said: Map<String, Value>) -> Map<String, Value> {
    // A part may have parts.
    while can_join(&said)
        && let Some(Value::Array(parts)) = said.shift_remove("allOf")
    {
        for (name, value) in parts.into_iter().filter_map(fields).flatten() {
            join(&mut said, name, value);
        }
    }
    said
}

/// Adds a field of a part. What is there otherwise says the same.
fn join(said: &mut Map<String, Value>, name: String, value: Value) {
    match (said.get_mut(&name), value) {
        (None, value) => _ = said.insert(name, value),
        (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => known.extend(more),
        (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
            let names: HashSet<Value> = known.iter().cloned().collect();
            known.extend(more.into_iter().filter(|name| !names.contains(name)));
        }
        (Some(_), _) => {}
    }
}

fn fields(schema: Value) -> Option<Map<String, Value>> {
    if let Value::Object(fields) = schema { Some(fields) } else { None }
}

/// Whether the parts of an `allOf` and the fields next to it can be one schema.
fn can_join(said: &Map<String, Value>) -> bool {
    let Some(parts) = said.get("allOf").and_then(Value::as_array) else { return false };
    let (mut all, mut properties) = (HashMap::new(), HashSet::new());
    for schema in iter::once(Some(said)).chain(parts.iter().map(Value::as_object)) {
        let Some(schema) = schema else { return false };
        for (name, value) in
            schema.iter().filter(|(name, _)| *name != "allOf" || !core::ptr::eq(schema, said))
        {
            let is_new = match (name.as_str(), value) {
                ("properties", Value::Object(named)) => named.keys().all(|name| properties.insert(name)),
                ("required", Value::Array(_)) => true,
                _ => *all.entry(name).or_insert(value) == value,
            };
            if !is_new {
                return false;
            }
        }
    }
    let is_beside = |name: &&String| {
        name.starts_with('$') || matches!(name.as_str(), "title" | "description" | "default" | "definitions")
    };
    let stands_alone = properties.is_empty() && all.keys().all(is_beside);
    !all.keys().any(|name| *name == "$ref") || stands_alone
}

fn each(schemas: Value, lost: &mut BTreeSet<String>) -> Value {
    let Value::Array(schemas) = schemas else { return schemas };
    schemas.into_iter().map(|schema| closed(schema, lost)).collect()
}

fn named(schemas: Value, lost: &mut BTreeSet<String>) -> Value {
    let Value::Object(schemas) = schemas else { return json!({}) };
    Value::Object(schemas.into_iter().map(|(name, schema)| (name, closed(schema, lost))).collect())
}

/// Whether a schema is one of objects, maybe among other types.
fn is_object(said: &Map<String, Value>) -> bool {
    match said.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => said.contains_key("properties"),
    }
}

/// "`enum` (strings, numbers, bools, or nulls only - no complex types)".
const fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Whether a pattern has none of what is not supported: what looks around, is counted or repeats a group, and the bounds of words.
fn is_simple(pattern: &str) -> bool {
    let mut escaped = false;
    let has_other = pattern.chars().any(|c| {
        let is_other = escaped && !matches!(c, 'd' | 'w' | 's') && c.is_ascii_alphanumeric();
        escaped = c == '\\' && !escaped;
        is_other
    });
    !has_other && !pattern.contains("(?") && !pattern.contains('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(schema: &Value) -> (Value, Vec<String>) {
        let ClosedSchema { schema, lost } = ClosedSchema::of(schema);
        (schema, lost.into_iter().collect())
    }

    #[test]
    fn each_object_is_closed_wherever_it_stands() {
        let open = json!({"properties": {"a": {"type": "string"}}});
        let shut =
            json!({"properties": {"a": {"type": "string"}}, "type": "object", "additionalProperties": false});
        for (said, expected) in [
            (open.clone(), shut.clone()),
            (json!({"type": "array", "items": open}), json!({"type": "array", "items": shut})),
            (json!({"anyOf": [open, {"type": "null"}]}), json!({"anyOf": [shut, {"type": "null"}]})),
            (json!({"oneOf": [open, {"type": "null"}]}), json!({"anyOf": [shut, {"type": "null"}]})),
            (
                json!({"$ref": "#/$defs/n", "$defs": {"n": open}}),
                json!({"$ref": "#/$defs/n", "$defs": {"n": shut}}),
            ),
            (
                json!({"type": ["object", "null"], "properties": {"b": open}, "required": ["b"]}),
                json!({"type": ["object", "null"], "properties": {"b": shut}, "required": ["b"], "additionalProperties": false}),
            ),
            (shut.clone(), shut.clone()),
            // A reference of pydantic 1, whose title goes.
            (
                json!({"title": "N", "allOf": [{"$ref": "#/definitions/n"}]}),
                json!({"$ref": "#/definitions/n"}),
            ),
            (
                json!({"allOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "object", "properties": {"b": {}}, "required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"], "additionalProperties": false}),
            ),
            // One that adds properties is refused by the server, and not left out here.
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"$ref": "#/$defs/n"}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"$ref": "#/$defs/n"}], "additionalProperties": false}),
            ),
        ] {
            assert_eq!(closed(&said), (expected, Vec::new()), "{said}");
        }
    }

    #[test]
    fn what_a_model_is_not_held_to_stands_in_the_description() {
        let (schema, lost) = closed(&json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["n"],
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 10, "description": "A number"},
                "s": {"type": "string", "maxLength": 9, "format": "email", "pattern": "^[a-z]+@\\w+\\.x$"},
                "p": {"type": "string", "pattern": "(?=a)b", "format": "semver"},
                "l": {"type": "array", "items": {"enum": ["a", null]}, "minItems": 1, "maxItems": 4},
                "m": {"type": "array", "items": {"enum": [["a"]]}, "minItems": 2},
            },
        }));
        assert_eq!(
            schema,
            json!({
                "type": "object", "required": ["n"],
                "properties": {
                    "n": {"type": "integer", "description": "A number\n\n{minimum: 1, maximum: 10}"},
                    "s": {"type": "string", "format": "email", "pattern": "^[a-z]+@\\w+\\.x$", "description": "{maxLength: 9}"},
                    "p": {"type": "string", "description": "{pattern: \"(?=a)b\", format: \"semver\"}"},
                    "l": {"type": "array", "items": {"enum": ["a", null]}, "minItems": 1, "description": "{maxItems: 4}"},
                    "m": {"type": "array", "items": {"description": "{enum: [[\"a\"]]}"}, "description": "{minItems: 2}"},
                },
                "additionalProperties": false,
            })
        );
        assert_eq!(
            lost,
            ["enum", "format", "maxItems", "maxLength", "maximum", "minItems", "minimum", "pattern"]
        );
    }

    #[test]
    fn an_object_of_any_properties_loses_them() {
        let shut = json!({"type": "object", "properties": {}, "additionalProperties": false});
        for said in [
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {}, "additionalProperties": true}),
        ] {
            assert_eq!(closed(&said), (shut.clone(), vec!["additionalProperties".to_owned()]), "{said}");
        }
        assert_eq!(closed(&shut), (shut, Vec::new()));
        let referred = json!({"$ref": "#/$defs/n", "minLength": 3});
        assert_eq!(closed(&referred), (json!({"$ref": "#/$defs/n"}), vec!["minLength".to_owned()]));
    }

    #[test]
    fn patterns_that_can_be_compiled_stay() {
        for (pattern, stays) in [
            ("^[A-Z]\\d+(a|b)?$", true),
            ("\\w\\s\\.\\\\", true),
            ("\\bword", false),
            ("(a)\\1", false),
            ("(?!x)", false),
            ("a{1,9}", false),
        ] {
            assert_eq!(is_simple(pattern), stays, "{pattern}");
        }
    }
}
