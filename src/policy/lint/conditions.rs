//! Conditions of `calls` that have no value for arguments a tool's schema allows.

use serde_json::{Map, Value, json};

use super::{Found, LintOptions};
use crate::policy::layers::Layers;
use crate::policy::{Code, Diagnostic, Expr};

/// So many evaluations are made at most; more of them find the same.
const MOST: usize = 20_000;
/// Schemas are followed so deep.
const DEPTH: usize = 4;

/// Reports them for the tools whose schemas are known.
pub(super) fn judge(layers: &Layers, options: &LintOptions, found: &mut Found<'_>) {
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

/// A value of each kind that a schema allows; `None`: it says what is not understood here.
fn samples(schema: &Value, depth: usize) -> Option<Vec<Value>> {
    const UNKNOWN: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "not", "if"];
    let depth = depth.checked_sub(1)?;
    let Value::Object(keywords) = schema else { return Some(vec![json!(1), json!("a"), Value::Null]) };
    if UNKNOWN.iter().any(|keyword| keywords.contains_key(*keyword)) {
        return None;
    }
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
