//! Schemas of Gemini as JSON Schema: a part of `OpenAPI` 3.0, with types in capitals (`Schema` in `types.py` of google-genai).

use serde_json::{Map, Value, json};

use crate::host::model::front::fields::camel_case;

/// The schema. What is JSON Schema already stays as it is. It is no deeper than the reader of JSON lets bodies be.
pub(in crate::host::model::front) fn json_schema(schema: Value) -> Value {
    let Value::Object(fields) = schema else { return schema };
    let mut written = Map::new();
    let mut nullable = false;
    for (name, value) in fields {
        let name = if name.starts_with('$') { name } else { camel_case(&name) };
        let value = match &*name {
            "nullable" => {
                nullable = value == true;
                continue;
            }
            // An order for the answer, which JSON Schema does not have.
            "propertyOrdering" => continue,
            "type" => match value {
                Value::String(kind) if kind == "TYPE_UNSPECIFIED" => continue,
                Value::String(kind) => kind.to_ascii_lowercase().into(),
                other => other,
            },
            "items" | "additionalProperties" => json_schema(value),
            "anyOf" => each(value),
            "properties" | "$defs" => named(value),
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
                count(value)
            }
            _ => value,
        };
        written.insert(name, value);
    }
    if nullable {
        allow_null(&mut written);
    }
    Value::Object(written)
}

fn each(schemas: Value) -> Value {
    match schemas {
        Value::Array(schemas) => schemas.into_iter().map(json_schema).collect(),
        other => other,
    }
}

fn named(schemas: Value) -> Value {
    match schemas {
        Value::Object(schemas) => {
            Value::Object(schemas.into_iter().map(|(name, schema)| (name, json_schema(schema))).collect())
        }
        other => other,
    }
}

/// Numbers of 64 bits are texts in protobuf's JSON.
fn count(value: Value) -> Value {
    let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
    number.map_or(value, Value::from)
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(kind @ Value::String(_)) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(either)) = schema.get_mut("anyOf") {
        either.push(json!({"type": "null"}));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_gemini_says_the_same_as_json_schema() {
        let schema = json!({
            "type": "OBJECT", "propertyOrdering": ["a_b"], "required": ["a_b"],
            "properties": {
                "a_b": {"type": "STRING", "nullable": true, "enum": ["x"], "max_length": "9"},
                "type": {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}, "minItems": "1"},
                "either": {"any_of": [{"type": "NUMBER"}, {"type": "TYPE_UNSPECIFIED"}], "nullable": true},
            },
        });
        assert_eq!(
            json_schema(schema),
            json!({
                "type": "object", "required": ["a_b"],
                "properties": {
                    "a_b": {"type": ["string", "null"], "enum": ["x", null], "maxLength": 9},
                    "type": {"type": "array", "items": {"type": "integer", "format": "int32"}, "minItems": 1},
                    "either": {"anyOf": [{"type": "number"}, {}, {"type": "null"}]},
                },
            })
        );
    }

    #[test]
    fn json_schema_stays_as_it_is() {
        let schema = json!({
            "type": ["object", "null"], "additionalProperties": false, "$defs": {"n": {"type": "integer"}},
            "properties": {"n": {"$ref": "#/$defs/n"}, "nullable": true},
        });
        assert_eq!(json_schema(schema.clone()), schema);
    }
}
