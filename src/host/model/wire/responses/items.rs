//! The items of a response: what they say, whether they are whole, and what of them is kept.

use serde_json::{Map, Value, json};

use crate::engine::Failure;
use crate::host::model::failure::unreadable;
use crate::host::model::wire::extras::{ISSUER, ITEMS};
use crate::host::model::wire::pieces::{LENGTH, with_rest};

/// An item as it came.
pub(super) type Item = Map<String, Value>;

/// The type of an item.
pub(super) fn kind(item: &Item) -> &str {
    word(item, "type")
}

/// A field that is text; empty if it is none.
pub(super) fn word<'i>(item: &'i Item, field: &str) -> &'i str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a message, or the arguments of a call; of anything else, nothing.
pub(super) fn text_of(item: &Item) -> String {
    match kind(item) {
        "message" => parts(item).filter_map(said).map(|(_, text)| text).collect(),
        "function_call" => word(item, "arguments").to_owned(),
        _ => String::new(),
    }
}

/// Whether these are the same arguments: some servers write them again in the last event.
pub(super) fn same_arguments(first: &str, second: &str) -> bool {
    let read =
        |text: &str| serde_json::from_str::<Value>(if text.trim().is_empty() { "{}" } else { text }).ok();
    first == second || read(first).is_some_and(|first| read(second) == Some(first))
}

/// An item in the form of the API: some servers write a text where it has a list of parts, call a part `text`, or write
/// arguments as an object.
///
/// # Errors
/// What becomes a part of the reply is of another type: to pass over it would make another reply of it.
pub(super) fn normal(mut item: Item) -> Result<Item, Failure> {
    match kind(&item) {
        "" => return Err(misshapen("an output item has no type")),
        "message" => normalize_message(&mut item)?,
        "function_call" => {
            if let Some(arguments) = item.get_mut("arguments").filter(|arguments| !arguments.is_string()) {
                let text = if arguments.is_null() { String::new() } else { arguments.to_string() };
                *arguments = text.into();
            }
        }
        _ => {}
    }
    Ok(item)
}

fn normalize_message(item: &mut Item) -> Result<(), Failure> {
    match item.get_mut("content") {
        None => {}
        Some(content @ Value::Null) => *content = json!([]),
        Some(content @ Value::String(_)) => {
            let text = content.take();
            *content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        }
        Some(Value::Array(parts)) => parts.iter_mut().try_for_each(normalize_part)?,
        Some(_) => return Err(misshapen("the content of a message is no list")),
    }
    Ok(())
}

fn normalize_part(part: &mut Value) -> Result<(), Failure> {
    let Value::Object(part) = part else { return Err(misshapen("a part of a message is no object")) };
    if word(part, "type") == "text" {
        part.insert("type".to_owned(), "output_text".into());
    }
    let field = match part.get("type").and_then(Value::as_str) {
        Some("output_text") => "text",
        Some("refusal") => "refusal",
        Some(_) => return Ok(()),
        None => return Err(misshapen("a part of a message has no type")),
    };
    let text = part.entry(field).or_insert(Value::Null);
    if text.is_null() {
        *text = "".into();
    }
    if text.is_string() { Ok(()) } else { Err(misshapen("a text of a message is not a string")) }
}

fn misshapen(what: &str) -> Failure {
    unreadable(format!("the answer is not a response: {what}"))
}

/// The parts of a message.
pub(super) fn parts(item: &Item) -> impl Iterator<Item = &Value> {
    item.get("content").and_then(Value::as_array).into_iter().flatten()
}

/// What a part of a message says, and the field in which it does: a refusal has one of its own.
pub(super) fn said(part: &Value) -> Option<(&'static str, &str)> {
    let field = match part.get("type")?.as_str()? {
        "output_text" => "text",
        "refusal" => "refusal",
        _ => return None,
    };
    Some((field, part.get(field)?.as_str()?))
}

/// Whether what becomes a part of the reply was not finished, by the item's own status.
pub(super) fn is_unfinished(item: &Item) -> bool {
    let is_said = matches!(kind(item), "message" | "function_call");
    is_said && matches!(word(item, "status"), "in_progress" | "incomplete")
}

/// The items to keep of a response; `None`: text and calls say it all. Of these only the places are kept, and what else
/// came with them.
pub(super) fn kept(items: &[Item], issuer: &str) -> Option<Value> {
    if items.iter().all(is_plain) {
        return None;
    }
    let items: Vec<Value> = items.iter().map(place).collect();
    Some(json!({ISSUER: issuer, ITEMS: items}))
}

/// Whether text and calls say all that the API wants to see again. The ids of items only tie them to reasoning.
fn is_plain(item: &Item) -> bool {
    let known: &[&str] = match kind(item) {
        "message" => &["type", "id", "role", "status", "content"],
        "function_call" => &["type", "id", "status", "call_id", "name", "arguments"],
        _ => return false,
    };
    let nothing_else = has_no_more(item, known);
    nothing_else && parts(item).all(|part| part.as_object().is_some_and(is_plain_text))
}

fn is_plain_text(part: &Item) -> bool {
    kind(part) == "output_text" && has_no_more(part, &["type", "text"])
}

/// Whether all other fields are empty.
fn has_no_more(item: &Item, known: &[&str]) -> bool {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    item.iter().all(|(field, value)| known.contains(&field.as_str()) || is_empty(value))
}

/// An item without what the message has already. What is null says nothing, and the types of the SDK have no null for
/// `content` of reasoning (`response_reasoning_item_param.py`).
fn place(item: &Item) -> Value {
    let held: &[&str] = match kind(item) {
        "function_call" => &["name", "arguments"],
        "message" => &["content"],
        _ => &[],
    };
    let rest = item.iter().filter(|(field, value)| !held.contains(&field.as_str()) && !value.is_null());
    let mut place: Item = rest.map(|(field, value)| (field.clone(), value.clone())).collect();
    if kind(item) == "message" {
        place.insert("content".to_owned(), parts(item).map(part_place).collect());
    }
    Value::Object(place)
}

fn part_place(part: &Value) -> Value {
    let Some((field, text)) = said(part) else { return part.clone() };
    let mut rest = part.clone();
    if let Value::Object(rest) = &mut rest {
        rest.shift_remove(field);
    }
    with_rest(json!({LENGTH: text.chars().count()}), &rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(items: Value) -> Vec<Item> {
        serde_json::from_value(items).unwrap()
    }

    fn message(text: &str) -> Value {
        let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    }

    fn call() -> Value {
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}", "status": "completed"})
    }

    #[test]
    fn what_text_and_calls_say_is_not_kept() {
        assert_eq!(kept(&items(json!([message("hi"), call()])), "host m"), None);
        assert_eq!(kept(&[], "host m"), None);
    }

    #[test]
    fn with_reasoning_all_items_are_kept_in_their_order_and_no_text_twice() {
        let reasoning =
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"});
        let mut with_null = reasoning.clone();
        with_null["content"] = Value::Null;
        let kept = kept(&items(json!([with_null, message("naïve"), call()])), "host m");
        let part = json!({"chars": 5, "type": "output_text", "annotations": [], "logprobs": []});
        let expected = json!({"issuer": "host m", "items": [
            reasoning,
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"},
        ]});
        assert_eq!(kept, Some(expected));
    }

    #[test]
    fn a_phase_a_refusal_a_citation_and_an_unknown_item_are_reasons_to_keep() {
        let mut phase = message("x");
        phase["phase"] = json!("commentary");
        let mut refusal = message("x");
        refusal["content"] = json!([{"type": "refusal", "refusal": "no"}]);
        let mut cited = message("x");
        cited["content"][0]["annotations"] = json!([{"type": "url_citation", "url": "u"}]);
        let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        for item in [phase, refusal, cited, search] {
            assert!(kept(&items(json!([item])), "host m").is_some(), "{item}");
        }
    }
}
