//! What the count of steps promises: it refuses nothing that is cheap, and all that is costly before it costs anything.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Schema;
use super::super::plan::{SchemaPlan, size};
use super::*;

/// The schema of a filter that may be negated, as query tools have it: the crate's report of it doubles with each level.
fn filter() -> Value {
    json!({
        "type": "object", "properties": {"filter": {"$ref": "#/$defs/n"}}, "required": ["filter"],
        "$defs": {"n": {"anyOf": [
            {"type": "object", "properties": {"not": {"$ref": "#/$defs/n"}, "field": {"type": "string"}}, "additionalProperties": false},
            {"type": "object", "properties": {"not": {"$ref": "#/$defs/n"}, "value": {"type": "string"}}, "additionalProperties": false}
        ]}}
    })
}

fn negated(depth: usize, leaf: Value) -> Value {
    json!({ "filter": (0..depth).fold(leaf, |inner, _| json!({ "not": inner })) })
}

fn said(schema: &Value, value: &Value) -> String {
    let problems = Schema::compile(schema).unwrap().problems(value);
    let lines: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}\n", problem.pointer, problem.message)).collect();
    lines.concat()
}

#[test]
fn a_report_does_not_multiply_over_the_branches_of_nested_unions() {
    for depth in [1, 8, 16, 22, 60] {
        assert_eq!(said(&filter(), &negated(depth, json!({"field": "a"}))), "", "{depth}");
        let report = said(&filter(), &negated(depth, json!({"field": 1})));
        assert!(!report.is_empty() && report.len() < 1_000, "{depth}: {report}");
    }
    // It says how far the value fits, and not that it would cost too much to say so.
    let report = said(&filter(), &negated(40, json!({"field": 1})));
    assert!(report.starts_with(&format!("/filter{}: fits none", "/not".repeat(32))), "{report}");
    assert!(!report.contains("too costly"), "{report}");
}

/// Each level asks about the one below twice: `unevaluatedProperties` asks which fields others have looked at, and the
/// validator remembers nothing of places that no reference leads back to.
fn doubling(depth: usize) -> (Value, Value) {
    let (mut schema, mut value) = (json!(true), json!(1));
    for _ in 0..depth {
        schema = json!({"allOf": [{"properties": {"a": schema}}], "unevaluatedProperties": false});
        value = json!({ "a": value });
    }
    (schema, value)
}

#[test]
fn what_doubles_with_each_level_is_refused_before_it_is_validated() {
    let (schema, value) = doubling(4);
    assert_eq!(said(&schema, &value), "");
    let (schema, value) = doubling(28);
    assert_eq!(
        said(&schema, &value),
        ": the schema is too costly for these arguments: send less at once, or nest it less deeply\n"
    );
}

#[test]
fn a_megabyte_of_plain_rows_is_validated() {
    let row = json!({"type": "object", "required": ["id", "name"], "additionalProperties": false, "properties": {
        "id": {"type": "integer"}, "name": {"anyOf": [{"type": "string", "pattern": "^[a-z ]*$"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "uniqueItems": true},
        "kind": {"enum": ["a", "b", "c"]}
    }});
    let one = |id: usize| json!({"id": id, "name": "a plain name", "tags": ["x", "y"], "kind": "b"});
    let mut rows: Vec<Value> = (0..18_000).map(one).collect();
    assert!(Value::from(rows.clone()).to_string().len() > 1_000_000);
    let plain = json!({"type": "array", "items": row});
    // The same as a tree may be written: its rows may have rows.
    let mut tree = row.clone();
    tree["properties"]["rows"] = json!({"type": "array", "items": {"$ref": "#/$defs/row"}});
    let tree = json!({"type": "array", "items": {"$ref": "#/$defs/row"}, "$defs": {"row": tree}});
    for schema in [&plain, &tree] {
        assert_eq!(said(schema, &json!(rows)), "");
    }
    rows[17_000] = json!({"id": "x", "name": 1});
    for schema in [&plain, &tree] {
        assert_eq!(
            said(schema, &json!(rows)),
            "/17000/id: expected integer, found string \"x\"\n/17000/name: expected string or null, found number 1\n"
        );
    }
}

#[test]
fn elements_cannot_choose_how_long_it_takes_to_compare_them() {
    let unique = Schema::compile(&json!({"uniqueItems": true})).unwrap();
    // All of these are one number as a float, and these arrays are one list without their brackets.
    let numbers: Vec<u64> = (0..60_000).map(|i| u64::MAX - i % 900).collect();
    assert_eq!(unique.problems(&json!(numbers)).len(), 1);
    let numbers: Vec<Value> =
        (0..900).map(|i| json!(u64::MAX - i)).chain((0..59_000).map(|i| json!(i))).collect();
    assert_eq!(unique.problems(&json!(numbers)), []);
    for (same, list) in [
        (true, json!([1, 1.0])),
        (true, json!([0.0, -0.0])),
        (true, json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}])),
        (false, json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64])),
        (
            false,
            json!([[1, [2]], [[1], 2], [1, 2], "1", 1, true, null, "null", {}, [], {"a": 1}, {"a1": null}]),
        ),
        (false, json!([1e300, 1e301, 0.1, 0.2, 1.5])),
    ] {
        let problems = unique.problems(&list);
        assert_eq!(problems.len(), usize::from(same), "{list}");
        assert!(problems.iter().all(|problem| problem.message == "must not have the same element twice"));
    }
}

#[test]
fn a_pattern_costs_by_its_size() {
    let plan = |pattern: &str| SchemaPlan::new(&json!({ "pattern": pattern }), 10);
    let text = json!("a".repeat(4_000));
    let steps = |pattern: &str| to_check(&plan(pattern), 0, &text, u64::MAX).unwrap();
    assert!(steps("^[a-z]+$") < 1_100 && steps("(a{100}){100}") > 10_000, "{}", steps("(a{100}){100}"));
}

/// A schema of few keywords, which may lead back to its root or to a part that others share.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["object", "null"]})),
        Just(json!({"enum": [1, "a", null]})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/shared"})),
    ];
    let part = leaf.prop_recursive(4, 24, 3, |part| {
        let parts = prop::collection::vec(part.clone(), 1..4);
        prop_oneof![
            part.clone().prop_map(|items| json!({ "items": items })),
            (part.clone(), part.clone()).prop_map(|(a, b)| json!({"properties": {"a": a, "b": b}})),
            (part.clone(), part.clone())
                .prop_map(|(a, other)| json!({"properties": {"a": a}, "additionalProperties": other})),
            parts.clone().prop_map(|forms| json!({ "anyOf": forms })),
            parts.prop_map(|all| json!({ "allOf": all })),
            part.prop_map(|part| json!({ "not": part })),
        ]
    });
    (part.clone(), part).prop_map(|(part, shared)| json!({"allOf": [part], "$defs": {"shared": shared}}))
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null)), Just(json!("some text"))];
    leaf.prop_recursive(5, 40, 4, |value| {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", value, 0..3)
                .prop_map(|entries| entries.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// A reference: visits every part of the schema for every part of the value, remembers nothing, and stops at what a visit
/// in flight asks again. `None`: more than `most`.
struct ReferenceWalk<'a> {
    root: &'a Value,
    most: u64,
    steps: u64,
    visiting: Vec<(*const Value, *const Value)>,
}

impl<'a> ReferenceWalk<'a> {
    fn visit(&mut self, schema: &'a Value, value: &Value) -> Option<()> {
        let visit = (core::ptr::from_ref(schema), core::ptr::from_ref(value));
        self.steps += 1;
        if self.visiting.contains(&visit) {
            return Some(());
        }
        let Some(keywords) = schema.as_object() else { return (self.steps <= self.most).then_some(()) };
        self.steps += keywords.len() as u64;
        self.visiting.push(visit);
        for (keyword, said) in keywords {
            match (keyword.as_str(), value) {
                ("enum", _) => self.steps += size(said),
                ("items", Value::Array(list)) => {
                    self.steps += list.len() as u64;
                    list.iter().try_for_each(|element| self.visit(said, element))?;
                }
                ("properties", Value::Object(entries)) => {
                    self.steps += entries.len() as u64;
                    for (key, member) in entries {
                        let other = keywords.get("additionalProperties");
                        said.get(key).or(other).into_iter().try_for_each(|part| self.visit(part, member))?;
                    }
                }
                ("anyOf" | "allOf", _) => {
                    said.as_array().unwrap().iter().try_for_each(|part| self.visit(part, value))?;
                }
                ("not", _) => self.visit(said, value)?,
                ("$ref", _) => self.visit(self.root.pointer(&said.as_str().unwrap()[1..]).unwrap(), value)?,
                _ => {}
            }
            if self.steps > self.most {
                return None;
            }
        }
        // The count includes each object's fields once, with or without rules for them.
        self.steps += value.as_object().map_or(0, |entries| entries.len() as u64);
        self.visiting.pop();
        (self.steps <= self.most).then_some(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_refused_that_costs_less_by_the_reference(schema in schemas(), value in values(), most in 10_u64..20_000) {
        let Ok(compiled) = Schema::compile(&schema) else { return Ok(()) };
        let mut reference = ReferenceWalk { root: &schema, most, steps: 0, visiting: Vec::new() };
        let cheap = reference.visit(&schema, &value).is_some();
        let steps = to_check(compiled.0.plan(), 0, &value, most);
        prop_assert!(!cheap || steps.is_some(), "the reference takes {} of {most}", reference.steps);
        // And the count is one: with exactly what it takes it is taken, with less it is not.
        if let Some(steps) = steps {
            prop_assert_eq!(to_check(compiled.0.plan(), 0, &value, steps), Some(steps));
            prop_assert_eq!(to_check(compiled.0.plan(), 0, &value, steps - 1), None);
        }
    }

    #[test]
    fn what_is_wrong_is_found_whether_it_is_told_at_once_or_part_by_part(schema in schemas(), value in values()) {
        let Ok(compiled) = Schema::compile(&schema) else { return Ok(()) };
        let holds = compiled.is_valid(&value);
        prop_assert_eq!(holds, compiled.problems(&value).is_empty());
        if !holds {
            let super::super::SchemaRule::Full(made) = &compiled.0.rule else { return Ok(()) };
            let validator = compiled.0.validator(made).unwrap();
            let told = super::super::report::part_by_part(&schema, validator.draft(), compiled.0.plan(), &value);
            prop_assert!(!told.is_empty());
            for problem in told {
                prop_assert!(value.pointer(&problem.pointer).is_some(), "{}", problem.pointer);
            }
        }
    }
}
