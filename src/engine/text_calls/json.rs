//! Calls as JSON objects with a name and arguments, one or a list of them.

use serde_json::{Map, Value};

use super::WrittenCall;
use super::cursor::TextCursor;
use super::fields::WrittenArguments;
use super::opening;
use crate::text::repair::{RepairKind, RepairedJson, repair, too_long};

/// The names of the field with the name of the tool.
// Command writes `tool_name`, Llama without a system message `function`.
const NAMES: [&str; 3] = ["name", "tool_name", "function"];
/// The names of the field with the arguments.
// Models mix the field names of different training formats.
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// What else a call has that is all of a text.
const BESIDE: [&str; 3] = ["type", "id", "tool_call_id"];

/// The call that is all of a text, perhaps in a code fence.
// Llama 3.1 writes its calls without a tag; so do small models on Ollama. Other JSON in an answer is an answer.
pub(super) fn bare(text: &str) -> Option<WrittenCall> {
    let text = text.trim();
    let fenced = text.strip_prefix("```json").and_then(|text| text.strip_suffix("```"));
    let value = exact(fenced.unwrap_or(text))?;
    let fields = value.as_object()?;
    let known = |key: &str| NAMES.contains(&key) || ARGUMENTS.contains(&key) || BESIDE.contains(&key);
    let has_arguments = ARGUMENTS.iter().any(|key| fields.get(*key).is_some_and(Value::is_object));
    if !has_arguments || !fields.keys().all(|key| known(key)) {
        return None;
    }
    call(&value)
}

/// The calls in a block that `closing` ends.
pub(super) fn calls(cursor: &mut TextCursor<'_>, closing: &str) -> Option<Vec<WrittenCall>> {
    strict(cursor).or_else(|| repaired(cursor, closing))
}

/// Calls in strict JSON: a closing tag within a text is a part of the text.
fn strict(cursor: &mut TextCursor<'_>) -> Option<Vec<WrittenCall>> {
    let mut ahead = *cursor;
    let mut found = Vec::new();
    while let Some(text) = ahead.json() {
        found.append(&mut of_value(&exact(text)?)?);
        // Llama separates calls by semicolons, MiniMax M1 by lines.
        ahead.skip_space();
        ahead.take(";");
    }
    let mut after = ahead;
    opening::skip_closings(&mut after);
    let ended = after.rest().is_empty() || after.rest().len() != ahead.rest().len();
    if found.is_empty() || !ended {
        return None;
    }
    *cursor = ahead;
    Some(found)
}

/// Calls in what is nearly JSON. Without the end tag they extend to the end of the text: servers that stop at the end
/// token drop the tag.
fn repaired(cursor: &mut TextCursor<'_>, closing: &str) -> Option<Vec<WrittenCall>> {
    let mut ahead = *cursor;
    let closed = ahead.until(closing);
    let inside = match closed {
        Some(inside) => inside,
        None => ahead.skip(ahead.rest().len())?,
    };
    // Only certain repairs are accepted: a guessed call would run. What nothing ends may lack arguments too.
    let found = repair(inside.trim()).ok().filter(RepairedJson::is_certain)?;
    if closed.is_none() && found.repairs.contains(RepairKind::MissingBracket) {
        return None;
    }
    let calls = of_value(&found.value)?;
    *cursor = ahead;
    Some(calls)
}

/// A value whose numbers all fit: one that does not would be another one afterwards.
fn exact(text: &str) -> Option<Value> {
    if too_long(text).is_some() { None } else { serde_json::from_str(text).ok() }
}

/// One call, or a list of them.
fn of_value(value: &Value) -> Option<Vec<WrittenCall>> {
    match value {
        Value::Array(all) if !all.is_empty() => all.iter().map(call).collect(),
        one => Some(vec![call(one)?]),
    }
}

fn call(value: &Value) -> Option<WrittenCall> {
    // Some models write the whole object of the API, with `function` inside.
    let call = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value).as_object()?;
    let name = first(call, &NAMES)?.as_str()?.to_owned();
    let arguments = match first(call, &ARGUMENTS) {
        // Arguments are a JSON string, as in the chat API, or an object.
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
        None => "{}".to_owned(),
    };
    Some(WrittenCall { name, arguments: WrittenArguments::Json(arguments) })
}

fn first<'v>(fields: &'v Map<String, Value>, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().find_map(|key| fields.get(*key))
}
