//! The type of a value in words, and its unit.

use serde_json::Value;

use super::flow::{anchor, code};
use super::walk::{SchemaForm, SchemaWalk};

/// Where the unit of a value is given in its description.
const UNITS: &[&str] = &["With a unit: ", "Units: ", "Unit: "];

/// More words are not listed in the cell of a table.
const MOST_WORDS: usize = 6;

/// What may be written: `whole number from 1, or unlimited`.
pub(super) fn name(walk: &SchemaWalk<'_>, schema: &Value) -> String {
    let text = plain_name(walk, schema);
    if schema.get("not").is_some() && text.starts_with("duration") && !text.starts_with("duration above 0") {
        return text.replacen("duration", "duration above 0", 1);
    }
    text
}

fn plain_name<'s>(walk: &SchemaWalk<'s>, schema: &'s Value) -> String {
    match schema.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) {
        Some("Duration") => return "duration".to_owned(),
        Some("PositiveDuration") => return "duration above 0".to_owned(),
        Some("Piece") => return "size".to_owned(),
        Some("Cap") => return "size, or `unlimited`".to_owned(),
        Some("ErrorClass") => return "[class](error-tables.md#classes)".to_owned(),
        _ => {}
    }
    if let [only] = walk.branches(schema)[..]
        && schema.get("not").is_none()
    {
        return name(walk, only);
    }
    match walk.form(schema) {
        SchemaForm::Any(branches) => {
            let not = walk.resolved(schema).get("not").is_some();
            let names = branches.into_iter().map(|branch| name(walk, branch));
            let text = names.collect::<Vec<_>>().join(", or ");
            if not { text.replacen("duration", "duration above 0", 1) } else { text }
        }
        SchemaForm::Keys(_) | SchemaForm::Kinds(_) => match walk.heading(schema) {
            Some(heading) => format!("[mapping](#{})", anchor(heading)),
            None => "mapping".to_owned(),
        },
        SchemaForm::Names(value) => format!("mapping of names to {}", name(walk, value)),
        SchemaForm::List(items) => format!("list of {}", name(walk, items)),
        SchemaForm::Words(words) if words.len() > MOST_WORDS => "one of the words below".to_owned(),
        SchemaForm::Words(words) => words
            .iter()
            .filter_map(|word| Some(code(word.get("const")?.as_str()?)))
            .collect::<Vec<_>>()
            .join(", "),
        SchemaForm::Blocks => "mapping with the blocks of the [top level](#top-level)".to_owned(),
        SchemaForm::Plain => scalar(walk.resolved(schema)),
    }
}

/// Whether it is a class of errors, which have a table of their own.
pub(super) fn is_class(schema: &Value) -> bool {
    schema.get("$ref").and_then(Value::as_str).is_some_and(|name| name.ends_with("/ErrorClass"))
}

fn scalar(schema: &Value) -> String {
    if let Some(value) = schema.get("const") {
        return code(&value.to_string().replace('"', ""));
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "any value".to_owned(),
    };
    let names: Vec<_> = names.into_iter().filter(|name| *name != "null").collect();
    match names[..] {
        ["boolean"] => "`true`, `false`".to_owned(),
        ["integer"] => format!("whole number{}", range(schema)),
        ["number"] => format!("number{}", range(schema)),
        ["object", "boolean"] => "JSON Schema".to_owned(),
        ["string"] if is_size(schema) => "size".to_owned(),
        _ => "text".to_owned(),
    }
}

fn is_size(schema: &Value) -> bool {
    schema.get("pattern").and_then(Value::as_str).is_some_and(|pattern| pattern.contains("tokens?"))
}

/// ` from 1 to 1000`, without the ends that only the machine has.
fn range(schema: &Value) -> String {
    let of = |key: &str| schema.get(key).filter(|end| end.as_i64().is_none_or(|end| end.abs() < 1 << 31));
    let above = of("exclusiveMinimum").map(|end| format!(" above {end}"));
    let from = of("minimum").map(|end| format!(" from {end}"));
    let to =
        of("maximum").filter(|end| end.as_i64() != Some(i64::from(i32::MAX))).map(|end| format!(" to {end}"));
    [above, from, to].into_iter().flatten().collect()
}

/// What the value means, and its unit, if it has one.
pub(super) fn meaning<'s>(walk: &SchemaWalk<'s>, key: &str, schema: &'s Value) -> (String, Option<String>) {
    let told = |schema: &'s Value| schema.get("description").and_then(Value::as_str);
    let own = told(schema);
    let text = own.or_else(|| told(walk.resolved(schema))).unwrap_or_default();
    let (text, mut unit) = split_unit(text);
    if unit.is_none() {
        unit = told(walk.resolved(schema)).and_then(|text| split_unit(text).1);
    }
    if unit.is_none() && key.ends_with("_chars") {
        unit = Some("characters".to_owned());
    }
    (text, unit)
}

fn split_unit(text: &str) -> (String, Option<String>) {
    let found = UNITS.iter().find_map(|mark| {
        let (before, after) = text.split_once(mark)?;
        let (unit, rest) = after.split_once('.').unwrap_or((after, ""));
        Some((format!("{}{rest}", before.trim_end()), unit.to_owned()))
    });
    match found {
        Some((text, unit)) => (text, Some(unit)),
        None => (text.to_owned(), None),
    }
}
