//! Conditions of `calls` that have no value for arguments a tool's schema allows.

use serde_json::{Map, Value, json};

use super::{LintFindings, LintOptions};
use crate::policy::layers::PolicyLayers;
use crate::text::{Code, Diagnostic, Expr};

/// So many evaluations are made at most; more of them find the same.
const MOST: usize = 20_000;
/// Schemas are followed so deep.
const DEPTH: usize = 6;
/// A schema has so many forms at most; what has more is not understood here.
const MOST_FORMS: usize = 16;

type SchemaKeywords = Map<String, Value>;

/// Reports them for the tools whose schemas are known.
pub(super) fn check(layers: &PolicyLayers, options: &LintOptions, found: &mut LintFindings<'_>) {
    let mut left = MOST;
    for tool in options.tools.as_ref().or(options.witnesses.as_ref()).into_iter().flatten() {
        let Some(schema) = &tool.schema else { continue };
        for (rule, _) in layers.calls(&tool.name) {
            let Some(problem) = without_value(schema, &rule.when.value.expr, &mut left) else { continue };
            let message = format!("`when` has no value if a call of tool `{}` has {problem}", tool.name);
            let diagnostic = Diagnostic::warning(Code::NO_VALUE, rule.when.span, message);
            found.push(diagnostic.help(
                "make the argument required and of one type in the tool's schema, or write what holds without it: `!has(args.x) || …`; where there is no value, only what tightens applies",
            ));
        }
    }
}

/// Arguments the schema allows and the condition has no value for; in words.
fn without_value(schema: &Value, when: &Expr, left: &mut usize) -> Option<String> {
    let mut names: Vec<&str> = when.fields_of("args").collect();
    names.dedup();
    let forms = forms(schema, DEPTH)?;
    forms.iter().find_map(|form| without_value_of_form(form, &names, when, left))
}

fn without_value_of_form(
    schema: &SchemaKeywords,
    names: &[&str],
    when: &Expr,
    left: &mut usize,
) -> Option<String> {
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(name)))
    };
    let samples = |name: &&str| {
        let field =
            schema.get("properties").and_then(|fields| fields.get(*name)).unwrap_or(&Value::Bool(true));
        Some(((*name).to_owned(), samples(field, DEPTH)?))
    };
    let all: Vec<(String, Vec<Value>)> = names.iter().map(samples).collect::<Option<_>>()?;
    let plain: Map<String, Value> =
        all.iter().filter_map(|(name, values)| Some((name.clone(), values.first()?.clone()))).collect();
    let mut has_value = |args: Map<String, Value>| {
        *left = left.saturating_sub(1);
        let vars =
            Map::from_iter([("args".to_owned(), Value::Object(args)), ("tool".to_owned(), json!("t"))]);
        *left == 0 || when.holds(&vars).is_ok()
    };
    for (name, values) in &all {
        let mut args = plain.clone();
        args.remove(name);
        if !required(name) && !has_value(args) {
            return Some(format!("no `{name}`"));
        }
        for value in values {
            let mut args = plain.clone();
            args.insert(name.clone(), value.clone());
            if !has_value(args) {
                return Some(format!("`{name}: {value}`"));
            }
        }
    }
    None
}

/// The forms a value may have, without unions: what each says. `None`: the schema says what is not understood here.
fn forms(schema: &Value, depth: usize) -> Option<Vec<SchemaKeywords>> {
    const UNKNOWN: [&str; 3] = ["$ref", "not", "if"];
    let depth = depth.checked_sub(1)?;
    let Value::Object(keywords) = schema else { return Some(vec![SchemaKeywords::new()]) };
    if UNKNOWN.iter().any(|keyword| keywords.contains_key(*keyword)) {
        return None;
    }
    let mut plain = keywords.clone();
    plain.retain(|keyword, _| !["allOf", "anyOf", "oneOf"].contains(&keyword.as_str()));
    let mut found = vec![plain];
    let parts = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
    for part in parts("allOf").into_iter().flatten() {
        found = each_with_each(&found, &forms(part, depth)?)?;
    }
    for union in ["anyOf", "oneOf"].into_iter().filter_map(parts) {
        let each: Option<Vec<Vec<SchemaKeywords>>> = union.iter().map(|part| forms(part, depth)).collect();
        found = each_with_each(&found, &each?.concat())?;
    }
    Some(found)
}

fn each_with_each(all: &[SchemaKeywords], others: &[SchemaKeywords]) -> Option<Vec<SchemaKeywords>> {
    if all.len().saturating_mul(others.len()) > MOST_FORMS {
        return None;
    }
    all.iter().flat_map(|one| others.iter().map(move |other| both(one, other))).collect()
}

/// What two parts of a schema say together; `None`: they contradict each other, as far as is understood here.
fn both(one: &SchemaKeywords, other: &SchemaKeywords) -> Option<SchemaKeywords> {
    const SAYS_NOTHING: [&str; 5] = ["title", "description", "default", "examples", "$comment"];
    let mut all = one.clone();
    for (keyword, value) in other.iter().filter(|(keyword, _)| !SAYS_NOTHING.contains(&keyword.as_str())) {
        match (all.get_mut(keyword), value) {
            (Some(Value::Array(names)), Value::Array(more)) if keyword == "required" => {
                names.extend(more.iter().cloned());
            }
            (Some(Value::Object(fields)), Value::Object(more)) if keyword == "properties" => {
                for (name, field) in more {
                    let known = fields.remove(name);
                    let field = known.map_or_else(|| field.clone(), |known| json!({"allOf": [known, field]}));
                    fields.insert(name.clone(), field);
                }
            }
            (Some(known), value) if known != value => return None,
            (_, value) => {
                all.insert(keyword.clone(), value.clone());
            }
        }
    }
    Some(all)
}

/// A value of each kind that a schema allows; `None`: it says what is not understood here.
fn samples(schema: &Value, depth: usize) -> Option<Vec<Value>> {
    let all: Option<Vec<Vec<Value>>> =
        forms(schema, depth)?.iter().map(|form| samples_of_form(form, depth)).collect();
    Some(all?.concat())
}

fn samples_of_form(keywords: &SchemaKeywords, depth: usize) -> Option<Vec<Value>> {
    let depth = depth.checked_sub(1)?;
    if let Some(value) = keywords.get("const") {
        return Some(vec![value.clone()]);
    }
    if let Some(Value::Array(values)) = keywords.get("enum") {
        return Some(values.iter().take(8).cloned().collect());
    }
    let kinds: Vec<&str> = match keywords.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Some(vec![json!(1), json!("a"), Value::Null]),
    };
    let sample = |kind: &&str| {
        Some(match *kind {
            "integer" => json!(1),
            "number" => json!(1.5),
            "string" => json!("a"),
            "boolean" => json!(true),
            "null" => Value::Null,
            "array" => match keywords.get("items") {
                Some(items) => Value::Array(vec![samples(items, depth)?.into_iter().next()?]),
                None => json!([]),
            },
            _ => {
                let fields = keywords.get("properties").and_then(Value::as_object).into_iter().flatten();
                let field = |(name, field): (&String, &Value)| {
                    Some((name.clone(), samples(field, depth)?.into_iter().next()?))
                };
                Value::Object(fields.map(field).collect::<Option<_>>()?)
            }
        })
    };
    kinds.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(schema: &Value, when: &str) -> Option<String> {
        without_value(schema, &Expr::parse_gate(when, &["args", "tool"]).unwrap(), &mut MOST.clone())
    }

    #[test]
    fn unions_are_looked_through() {
        let number = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
        let text = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let when = "args.a > 100";
        for union in ["anyOf", "oneOf"] {
            assert_eq!(said(&json!({ union: [number, number] }), when), None);
            assert_eq!(said(&json!({ union: [number, text] }), when).unwrap(), "`a: \"a\"`");
            assert_eq!(said(&json!({ union: [number, {"type": "object"}] }), when).unwrap(), "no `a`");
            let field = json!({"properties": {"a": {union: [{"type": "integer"}, {"type": "null"}]}}, "required": ["a"]});
            assert_eq!(said(&field, when).unwrap(), "`a: null`");
        }
        let required = json!({"required": ["a"]});
        let fields = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        assert_eq!(said(&json!({"allOf": [fields, required]}), when), None);
        assert_eq!(said(&json!({"allOf": [fields]}), when).unwrap(), "no `a`");
        let narrowed = json!({"allOf": [fields, required, {"properties": {"a": {"minimum": 1}}}]});
        assert_eq!(said(&narrowed, when), None);
    }

    #[test]
    fn a_comparison_with_a_value_of_another_type_has_no_value() {
        let of = |kind: Value| json!({"properties": {"a": {"type": kind}}, "required": ["a"]});
        assert_eq!(said(&of(json!("string")), "args.a == 'x'"), None);
        assert_eq!(said(&of(json!("string")), "args.a == 12").unwrap(), "`a: \"a\"`");
        assert_eq!(said(&of(json!(["string", "null"])), "args.a in ['x', 'y']").unwrap(), "`a: null`");
        assert_eq!(said(&of(json!(["string", "null"])), "args.a != null && args.a in ['x', 'y']"), None);
    }

    #[test]
    fn schemas_of_many_forms_end() {
        let two = json!({"anyOf": [{"type": "object"}, {"required": ["a"]}]});
        let many = json!({"allOf": vec![two; 60]});
        assert_eq!(said(&many, "args.a > 1"), None);
    }
}
