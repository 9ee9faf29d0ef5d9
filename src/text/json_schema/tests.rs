//! What a person is informed of a value or of a schema that is wrong.

use serde_json::json;

use super::*;

fn problems(schema: &Value, value: &Value) -> String {
    let problems = Schema::compile(schema).unwrap_or_else(|error| panic!("{error:?}")).problems(value);
    problems.iter().map(|p| p.pointer.clone() + ": " + &p.message + "\n").collect()
}

fn refused(schema: &Value) -> String {
    let error = Schema::compile(schema).expect_err(&schema.to_string());
    format!("{}: {}; {}", error.pointer.unwrap_or_default(), error.message, error.help.unwrap_or_default())
}

fn order() -> Value {
    json!({
        "type": "object",
        "required": ["qty", "size"],
        "additionalProperties": false,
        "properties": {
            "qty": {"type": "integer", "minimum": 1},
            "size": {"enum": ["small", "large"]},
            "color": {"type": ["string", "null"], "pattern": "^[a-z]+$", "maxLength": 10},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": true, "maxItems": 3},
            "to": {"oneOf": [
                {"type": "string"},
                {"type": "object", "required": ["street", "city"], "properties": {"city": {"type": "string"}}}
            ]},
            "price": {"type": "number", "exclusiveMinimum": 0}
        },
        "$defs": {"tag": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": false}}
    })
}

#[test]
fn a_valid_value_has_no_problems() {
    assert_eq!(problems(&order(), &json!({"qty": 2, "size": "small", "color": null, "to": "me"})), "");
    assert_eq!(
        problems(
            &json!({"items": {"$ref": "#b"}, "contains": {"$ref": "#/$defs/a%20%C3%A4"}, "$defs": {"a ä": {"$anchor": "b", "type": "string"}}}),
            &json!(["x"])
        ),
        ""
    );
    assert_eq!(problems(&json!(true), &json!(1)), "");
    assert_eq!(problems(&json!({}), &json!(null)), "");
    assert_eq!(problems(&json!(false), &json!(1)), ": is not allowed\n");
}

#[test]
fn problems_say_what_to_change() {
    let values = [
        json!({}),
        json!([1]),
        json!({"qty": "3", "size": "smal"}),
        json!({"qty": 0, "size": "small", "colour": "red", "zzz": 1}),
        json!({"qty": 1.5, "size": 3, "color": "RED", "price": 0}),
        json!({"qty": 1, "size": "small", "color": "a".repeat(200)}),
        json!({"qty": 1, "size": "small", "tags": [{"name": 1}, {"nam": "x"}, {}, {}]}),
        json!({"qty": 1, "size": "small", "to": {"city": 3}}),
        json!({"qty": 1, "size": "small", "to": 3}),
    ];
    insta::assert_snapshot!(
        values.map(|value| format!("{value}\n{}", problems(&order(), &value))).join("\n")
    );
}

#[test]
fn every_rule_has_words_of_its_own() {
    let cases = [
        (json!({"const": {"a": 1}}), json!(2)),
        (json!({"maximum": 3}), json!(4)),
        (json!({"exclusiveMaximum": 3}), json!(3)),
        (json!({"multipleOf": 3}), json!(4)),
        (json!({"minLength": 1}), json!("")),
        (json!({"minItems": 2}), json!([1])),
        (json!({"contains": {"type": "string"}}), json!([1])),
        (json!({"minProperties": 1}), json!({})),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2})),
        (json!({"propertyNames": {"pattern": "^a"}}), json!({"b": 2})),
        (json!({"not": {"type": "string"}}), json!("x")),
        (json!({"oneOf": [{"type": "string"}, {"minLength": 1}]}), json!("x")),
        (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), json!(null)),
        (json!({"anyOf": [{"const": 1}, {"const": 2}]}), json!(3)),
        (json!({"prefixItems": [true], "items": false}), json!([1, 2])),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1})),
        (json!({"unevaluatedProperties": false, "properties": {"a": true}}), json!({"b": 1})),
        (json!({"if": {"type": "string"}, "then": {"minLength": 2}}), json!("x")),
    ];
    insta::assert_snapshot!(
        cases.map(|(schema, value)| format!("{schema} {value}\n{}", problems(&schema, &value))).join("\n")
    );
}

#[test]
fn more_than_ten_problems_are_counted() {
    let schema = json!({"items": {"type": "string"}});
    let problems = Schema::compile(&schema).unwrap().problems(&json!(vec![1; 25]));
    assert_eq!(problems.len(), 11);
    assert_eq!(
        problems[10],
        SchemaProblem { pointer: String::new(), message: "and 15 more problems".to_owned() }
    );
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    let schemas = [
        json!(3),
        json!({"type": "objct"}),
        json!({"properties": {"a/b": {"type": "intger"}}}),
        json!({"properties": {"a": 3}}),
        json!({"required": "a"}),
        json!({"minimum": "3"}),
        json!({"pattern": "("}),
        json!({"pattern": "(?=a)b"}),
        json!({"properties": {"x": {"pattern": "a{1000}{1000}"}}}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "other.json"}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"$schema": "https://example.com/draft"}),
        json!({"enum": 3}),
        json!({"items": [true]}),
        json!({"$ref": "#nowhere"}),
        json!({"$defs": {"a": {"$id": "a"}}, "$ref": "a"}),
    ];
    insta::assert_snapshot!(schemas.map(|schema| format!("{schema}\n    {}", refused(&schema))).join("\n"));
}

/// Built from the inside out; too deep a one must be forgotten, as dropping it recurses.
fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!(true), |inner, _| wrap(inner))
}

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_schemas_and_values_are_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        let deep = nested(10_000, |inner| Value::Object([("not".to_owned(), inner)].into_iter().collect()));
        assert_eq!(refused_message(&deep), "the schema is too large or nested more than 128 deep");
        std::mem::forget(deep);

        let deep = nested(10_000, |inner| Value::Array(vec![inner]));
        let any = Schema::compile(&json!({})).unwrap();
        assert_eq!(any.problems(&deep)[0].message, "is nested too deeply");
        std::mem::forget(deep);

        let chain: JsonMap =
            (0..5000).map(|i| (format!("a{i}"), json!({"$ref": format!("#/$defs/a{}", i + 1)}))).collect();
        let chain = json!({"$ref": "#/$defs/a0", "$defs": chain});
        assert_eq!(refused_message(&chain), "the references of the schema lead more than 128 deep");
    });
}

type JsonMap = serde_json::Map<String, Value>;

fn refused_message(schema: &Value) -> String {
    Schema::compile(schema).unwrap_err().message
}

#[test]
fn references_that_multiply_are_refused() {
    let doubling: JsonMap = (0..40)
        .map(|i| {
            let next = json!({"$ref": format!("#/$defs/a{}", i + 1)});
            (format!("a{i}"), json!({"allOf": [next, next]}))
        })
        .chain([("a40".to_owned(), json!(true))])
        .collect();
    for start in ["#/$defs/a0", "#/%24defs/a0", "urn:x#/$defs/a0"] {
        let error = refused_message(&json!({"$id": "urn:x", "$ref": start, "$defs": doubling}));
        assert_eq!(error, "the schema grows to more than 50000 rules when its references are followed");
    }
}

#[test]
fn recursive_schemas_are_fine_on_a_small_stack() {
    on_a_small_stack(|| {
        let tree = json!({"type": "object", "required": ["name"], "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert_eq!(
            problems(&tree, &json!({"name": 1, "children": [{"name": 2}, {}]})),
            "/children/1: `name` is missing\n"
        );
        let mut deep = json!({"name": 1});
        for _ in 0..60 {
            deep = json!({"name": 1, "children": [deep]});
        }
        assert_eq!(problems(&tree, &deep), "");
        for looping in [
            json!({"$ref": "#"}),
            json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
        ] {
            if let Ok(schema) = Schema::compile(&looping) {
                let _ = schema.problems(&json!({"a": [1, 2]}));
            }
        }
        let long: JsonMap = (0..50)
            .map(|i| (format!("a{i}"), json!({"$ref": format!("#/$defs/a{}", i + 1)})))
            .chain([("a50".to_owned(), json!({"items": {"$ref": "#/$defs/a0"}}))])
            .collect();
        let schema = Schema::compile(&json!({"$ref": "#/$defs/a0", "$defs": long})).unwrap();
        let _ = schema.problems(&nested(120, |inner| json!([inner])));
    });
}

#[test]
fn a_pattern_takes_linear_time() {
    let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert_eq!(schema.problems(&json!(format!("{}b", "a".repeat(100_000)))).len(), 1);
}

#[test]
fn all_that_is_wrong_with_a_schema_is_told() {
    let schema = json!({"type": "objekt", "required": "x", "properties": {"a": {"type": "strng"}}});
    let errors = Schema::compile_or_all(&schema).unwrap_err();
    let mut told: Vec<_> = errors.iter().filter_map(|error| error.pointer.as_deref()).collect();
    told.sort_unstable();
    assert_eq!(told, ["/properties/a/type", "/required", "/type"], "{errors:?}");
    assert!(Schema::compile_or_all(&json!({"pattern": "("})).unwrap_err()[0].message.contains("pattern"));
    assert!(Schema::compile_or_all(&json!({"$schema": "https://no.such/draft"})).is_err());
}

#[test]
fn a_type_alone_is_validated_as_the_validator_does() {
    let values = [
        json!(null),
        json!(true),
        json!(1),
        json!(1.5),
        json!("text"),
        json!([1]),
        json!({"answer": 1}),
        json!({}),
    ];
    let mut alone = 0;
    for name in ["null", "boolean", "object", "array", "number", "string", "integer"] {
        let json = json!({"type": name});
        let schema = Schema::compile(&json).unwrap();
        alone += usize::from(matches!(schema.0.rule, SchemaRule::OnlyType(_)));
        let validator = options().build(&json).unwrap();
        for value in &values {
            let errors = validator.iter_errors(value).flat_map(|error| problem::of_value(&json, &error));
            assert_eq!(schema.problems(value), errors.collect::<Vec<_>>(), "{json} {value}");
            assert_eq!(schema.is_valid(value), validator.is_valid(value), "{json} {value}");
        }
    }
    assert_eq!(alone, 5);
}
