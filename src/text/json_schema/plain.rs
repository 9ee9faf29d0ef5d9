//! Schemas that are sure to be ones, by a look at their keywords. Whether any other is one, the schema of schemas says, which takes
//! millions of instructions to compile: most policies have plain schemas only, and most of those are not needed by who loads them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The names of types, as schemas write them.
const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];

/// Whether the schema of schemas holds, and nothing in it can keep a validator from being made: no reference and no pattern.
/// Recursive: [`measure`](super::bounds::measure) bounds the depth.
pub(super) fn is_plain(schema: &Value) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(keywords) => keywords.iter().all(|(name, value)| is_keyword(name, value)),
        _ => false,
    }
}

/// Whether it is a keyword that needs no further look, with a value that it can have. All others are none of ours: JSON Schema
/// 2020-12 has more, and so has every vocabulary.
fn is_keyword(name: &str, value: &Value) -> bool {
    match name {
        "type" => is_type(value) || (is_set(value, is_type) && !is_empty(value)),
        "properties" => value.as_object().is_some_and(are_properties),
        "required" => is_set(value, Value::is_string),
        "enum" => value.is_array() && !is_empty(value),
        "const" | "default" => true,
        "items" | "additionalProperties" | "contains" | "propertyNames" | "not" => is_plain(value),
        "anyOf" | "allOf" | "oneOf" => {
            value.as_array().is_some_and(|forms| !forms.is_empty() && forms.iter().all(is_plain))
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "title" | "description" | "format" => value.is_string(),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "examples" => value.is_array(),
        _ => false,
    }
}

/// Names with `$` are left out: to a part of the library they may look like references.
fn are_properties(properties: &Map<String, Value>) -> bool {
    properties.iter().all(|(name, schema)| !name.starts_with('$') && is_plain(schema))
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

/// Whether it is a list in which each element is what it should be, and occurs once.
fn is_set(value: &Value, is_one: impl Fn(&Value) -> bool) -> bool {
    let mut seen = BTreeSet::new();
    value.as_array().is_some_and(|elements| {
        elements
            .iter()
            .all(|element| is_one(element) && element.as_str().is_some_and(|text| seen.insert(text)))
    })
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Schemas as people write them, with a mistake now and then.
    fn schemas() -> impl Strategy<Value = Value> {
        let any = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (-2_i64..9).prop_map(Value::from),
            Just(json!(1.5)),
            Just(json!(1e300)),
            Just(json!(u64::MAX)),
            Just(json!(null)),
            "(object|array|integer|null|a|regex|email)".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
            prop::collection::vec("(object|string|null|a|b)", 1..4).prop_map(Value::from),
            Just(json!({"$ref": "#/nowhere", "$id": "x", "$schema": "y"})),
        ];
        any.prop_recursive(4, 24, 4, |inner| {
            let keyword = "(type|enum|const|default|required|minimum|maximum|exclusiveMinimum|exclusiveMaximum|minLength|maxLength\
                |minItems|maxItems|minProperties|maxProperties|title|description|format|uniqueItems|deprecated|readOnly|writeOnly\
                |examples|items|additionalProperties|contains|propertyNames|not|pattern|multipleOf|\\$ref|\\$defs|a)";
            let names = "(a|b|type|properties|id|\\$ref|\\$id|\\$schema|\\$anchor)";
            let schema = prop::collection::btree_map(keyword, inner.clone(), 0..4);
            prop_oneof![
                4 => schema.prop_map(|keywords| json!(keywords)),
                2 => ("(properties|\\$defs)", prop::collection::btree_map(names, inner.clone(), 0..3))
                    .prop_map(|(keyword, parts)| json!({keyword: parts})),
                1 => ("(anyOf|allOf|oneOf|enum|examples)", prop::collection::vec(inner, 0..3))
                    .prop_map(|(keyword, parts)| json!({keyword: parts})),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_plain_schema_is_one(schema in schemas()) {
            if is_plain(&schema) && super::super::bounds::measure(&schema).is_ok() {
                let built = super::super::options().build(&schema);
                prop_assert!(built.is_ok(), "{} {:?}", schema, built.err());
            }
        }
    }

    #[test]
    fn what_reports_look_like_is_plain() {
        assert!(is_plain(&json!({
            "type": "object",
            "properties": {
                "total_eur": {"type": "number", "minimum": 0},
                "rate": {"enum": ["live", "fixed"], "description": "which one"},
                "lines": {"type": "array", "items": {"type": ["string", "null"], "minLength": 1}, "maxItems": 9},
            },
            "required": ["total_eur", "rate"],
            "additionalProperties": false,
        })));
        for other in [
            json!({"type": "objekt"}),
            json!({"required": "a"}),
            json!({"required": ["a", "a"]}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"$ref": "#/$defs/a"}),
            json!({"minLength": -1}),
            json!([]),
        ] {
            assert!(!is_plain(&other), "{other}");
        }
    }
}
