//! What the fields of records may be: a value that a field never has can never come.

use serde_json::Value;

use super::kinds::{RecordKind, is_required, referred};
use crate::policy::decode::{NodeReader, list};
use crate::text::parse_duration;
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic};

/// What is wrong with a value.
pub(crate) struct ValueFault<'n> {
    node: &'n YamlNode,
    why: FaultReason,
    /// Whether it only says that the record is of another form.
    tag: bool,
}

enum FaultReason {
    /// The word is none of these.
    Choice(Vec<&'static str>),
    /// It is none of these.
    Type(Vec<&'static str>),
    /// No record has these fields together.
    Together(Vec<String>),
}

/// Why a field of such a record is never this.
pub(crate) fn fault<'n>(kind: &RecordKind, key: &YamlKey, node: &'n YamlNode) -> Option<ValueFault<'n>> {
    if *key.name == *"at" {
        // Test files have it from the start.
        let is_time = match &node.data {
            YamlData::Text(text) => parse_duration(text).is_ok(),
            YamlData::Map(entries) => is_of_text(entries),
            _ => false,
        };
        return (!is_time).then(|| ValueFault {
            node,
            why: FaultReason::Type(vec!["a duration"]),
            tag: false,
        });
    }
    let (schema, required) = kind.schema(&key.name)?;
    if matches!(node.data, YamlData::Null) && !required {
        return None;
    }
    held(schema, node, false).err()
}

impl ValueFault<'_> {
    pub(crate) fn report(self, reader: &mut NodeReader<'_>) {
        match (self.why, &self.node.data) {
            (FaultReason::Choice(options), YamlData::Text(word)) => {
                reader.bad_choice::<()>(self.node.span, word, &options);
            }
            (FaultReason::Together(fields), _) => {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                let message = format!("nothing has {} together, so this can never come", list(&fields));
                reader.report(Diagnostic::error(Code::CONTRADICTION, self.node.span, message));
            }
            (FaultReason::Choice(_), _) => {
                reader.wrong_type::<()>(self.node, "a word");
            }
            (FaultReason::Type(types), _) => {
                reader.wrong_type::<()>(self.node, &types.join(" or "));
            }
        }
    }
}

/// Whether a value may be of a schema: of one of its forms.
fn held<'n>(schema: &'static Value, node: &'n YamlNode, time: bool) -> Result<(), ValueFault<'n>> {
    if let Some((name, form)) = referred(schema) {
        return held(form, node, time || matches!(name, "Nanoseconds" | "Instant"));
    }
    let forms = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    let mut faults = Vec::new();
    for form in forms {
        match held(form, node, time) {
            Ok(()) => return Ok(()),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { of_one(schema, node, time) } else { Err(nearest(node, faults)) }
}

/// Of the faults of all forms, the one to be reported.
fn nearest<'n>(node: &'n YamlNode, faults: Vec<ValueFault<'n>>) -> ValueFault<'n> {
    let (mut options, mut types, mut tagged) = (Vec::new(), Vec::new(), None);
    for fault in faults {
        let here = core::ptr::eq(fault.node, node);
        if !here && !fault.tag {
            return fault;
        }
        match fault.why {
            FaultReason::Choice(words) => options.extend(words),
            FaultReason::Type(names) => types.extend(names),
            FaultReason::Together(_) => return fault,
        }
        tagged = tagged.or((!here).then_some(fault.node));
    }
    let tag = tagged.is_some();
    let node = tagged.unwrap_or(node);
    types.dedup();
    let why = if options.is_empty() { FaultReason::Type(types) } else { FaultReason::Choice(options) };
    ValueFault { node, why, tag }
}

/// Whether a value may be of a schema that has no forms.
fn of_one<'n>(schema: &'static Value, node: &'n YamlNode, time: bool) -> Result<(), ValueFault<'n>> {
    let types: Vec<&'static str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let has = |name: &str| types.contains(&name);
    let fits = match &node.data {
        YamlData::Reported => true,
        YamlData::Null => has("null"),
        YamlData::Bool(_) => has("boolean"),
        YamlData::Number(number) => has("number") || (has("integer") && is_whole(number)),
        YamlData::Text(text) if has("string") => return word(schema, text, node),
        YamlData::Text(text) => {
            // What can be a length of time has no maximum.
            (time || schema.get("maximum").is_none()) && has("integer") && parse_duration(text).is_ok()
        }
        YamlData::List(items) if has("array") => {
            return items.iter().try_for_each(|item| match schema.get("items") {
                Some(schema) => held(schema, item, false),
                None => Ok(()),
            });
        }
        YamlData::Map(entries) if has("string") && is_of_text(entries) => true,
        YamlData::Map(entries) if has("object") => return of_record(schema, entries, node),
        YamlData::List(_) | YamlData::Map(_) => false,
    };
    if fits {
        return Ok(());
    }
    let types = types.into_iter().map(|name| spoken(name, time)).collect();
    Err(ValueFault { node, why: FaultReason::Type(types), tag: false })
}

fn word<'n>(schema: &'static Value, text: &str, node: &'n YamlNode) -> Result<(), ValueFault<'n>> {
    let one = schema.get("const").and_then(Value::as_str);
    let some = schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let options: Vec<&'static str> = one.into_iter().chain(some).collect();
    if options.is_empty() || options.contains(&text) {
        return Ok(());
    }
    Err(ValueFault { node, why: FaultReason::Choice(options), tag: false })
}

fn of_record<'n>(
    schema: &'static Value,
    entries: &'n [(YamlKey, YamlNode)],
    node: &'n YamlNode,
) -> Result<(), ValueFault<'n>> {
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    // What says which form it is comes first: of another form nothing else is of use.
    let is_tag = |key: &YamlKey| fields.get(&*key.name).is_some_and(|field| field.get("const").is_some());
    for (key, value) in entries.iter().filter(|(key, _)| is_tag(key)) {
        let field = fields.get(&*key.name).map_or(Ok(()), |field| held(field, value, false));
        field.map_err(|fault| ValueFault { tag: true, ..fault })?;
    }
    for (key, value) in entries.iter().filter(|(key, _)| !is_tag(key)) {
        let absent = matches!(value.data, YamlData::Null) && !is_required(schema, &key.name);
        match fields.get(&*key.name) {
            _ if absent => {}
            Some(field) => held(field, value, false)?,
            None if schema.get("additionalProperties").is_some_and(|other| other != false) => {}
            None => {
                let names = entries.iter().map(|(key, _)| key.name.to_string()).collect();
                return Err(ValueFault { node, why: FaultReason::Together(names), tag: true });
            }
        }
    }
    Ok(())
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.as_u64().is_some()
        || number.to_string().strip_suffix(".0").is_some_and(|whole| !whole.starts_with('-'))
}

/// The name of a JSON type, as people call it.
const fn spoken(name: &'static str, time: bool) -> &'static str {
    match name.as_bytes() {
        b"integer" if time => "a duration",
        b"integer" | b"number" => "a number",
        b"string" => "a string",
        b"boolean" => "true or false",
        b"array" => "a list",
        b"object" => "a mapping",
        _ => "null",
    }
}

/// Whether a mapping says what a text is like.
pub(super) fn is_of_text(entries: &[(YamlKey, YamlNode)]) -> bool {
    !entries.is_empty() && entries.iter().all(|(key, _)| matches!(&*key.name, "contains" | "matches"))
}
