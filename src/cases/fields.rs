//! The fields of events, directives and messages, as the schema of test files describes them: in the words of the schema of
//! session logs.

use serde_json::{Map, Value, json};

use super::kinds::{RecordKind, definition, kinds, property, referred};

/// The keys that name kinds of records.
const TAGS: &[&str] = &["directive", "event", "role"];
/// The fields that only test files have, or that are written otherwise there.
const OWN: [(&str, &str, &str); 4] = [
    ("at", "How long after the start it happens. With a unit: ms, s, m, h, d.", "600ms"),
    ("directive", "The kind of directive.", "wait"),
    ("event", "The kind of event.", "model_failed"),
    ("role", "Whose message it is.", "assistant"),
];

/// The schemas of those fields, of records of these kinds. Any value may be expected of them, also a piece of a text.
pub(crate) fn schemas(names: &[&str], tags: &'static [&'static str]) -> Map<String, Value> {
    let tags = if tags.is_empty() { TAGS } else { tags };
    let schema = |name: &&str| ((*name).to_owned(), json!({ "description": about(name, tags) }));
    names.iter().map(schema).collect()
}

/// What a field is: where kinds have fields of the same name that are not the same, what it is in each.
fn about(name: &str, tags: &'static [&'static str]) -> String {
    if let Some((_, text, example)) = OWN.iter().find(|(own, ..)| *own == name) {
        return format!("{text} Example: `{example}`");
    }
    let mut told: Vec<(&str, Vec<&RecordKind>)> = Vec::new();
    let mut example = None;
    for kind in kinds(tags) {
        let Some((schema, _)) = kind.schema(name) else { continue };
        let Some(text) = word(schema, "description") else { continue };
        example = example.or_else(|| example_of(schema));
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, kinds)) => kinds.push(kind),
            None => told.push((text, vec![kind])),
        }
    }
    if told.is_empty()
        && let Some(schema) = definition("RetryFeedback").and_then(|form| property(form, name))
    {
        // It is written down within a directive.
        example = example_of(schema);
        told.extend(word(schema, "description").map(|text| (text, Vec::new())));
    }
    let text = match told.as_slice() {
        [(text, _)] => (*text).to_owned(),
        several => {
            let each = several.iter().map(|(text, kinds)| {
                let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name)).collect();
                format!("Of {}: {text}", kinds.join(", "))
            });
            each.collect::<Vec<_>>().join(" ")
        }
    };
    match example {
        Some(example) => format!("{text} Example: `{example}`"),
        None => text,
    }
}

fn example_of(schema: &'static Value) -> Option<String> {
    let example = example_in(schema, 0)?;
    Some(example.as_str().map_or_else(|| example.to_string(), str::to_owned))
}

/// The example of a schema, of one of its forms, or of the first of its fields that has one.
fn example_in(schema: &'static Value, depth: usize) -> Option<Value> {
    if depth > 4 {
        return None;
    }
    let deeper = depth.saturating_add(1);
    let own = schema.get("examples").and_then(|examples| examples.get(0)).cloned();
    let forms = || schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    let field = || {
        let fields = schema.get("properties")?.as_object()?;
        fields.iter().find_map(|(name, field)| Some(json!({ name.clone(): example_in(field, deeper)? })))
    };
    own.or_else(|| example_in(referred(schema)?.1, deeper))
        .or_else(|| forms()?.iter().find_map(|form| example_in(form, deeper)))
        .or_else(field)
}

fn word<'s>(schema: &'s Value, key: &str) -> Option<&'s str> {
    schema.get(key)?.as_str()
}
