//! The parts of an answer: what they say, whether they can be read, and what of them is kept.

use serde_json::{Map, Value, json};

use crate::engine::Failure;
use crate::host::model::failure::unreadable;
use crate::host::model::wire::extras::{ISSUER, ITEMS};
use crate::host::model::wire::pieces::LENGTH;

/// A part as it came.
pub(super) type Part = Map<String, Value>;

/// The field of a part that is a call.
pub(super) const CALL: &str = "functionCall";
/// The field of a part that has its signature.
pub(super) const SIGNATURE: &str = "thoughtSignature";
/// Of a kept call: its id in the conversation. What the server called it, if it did, is within the call.
pub(super) const CALL_ID: &str = "call";

/// A part, if all that becomes a piece of the reply can be read. Null says nothing.
///
/// # Errors
/// It is of another type: to pass over it would make another reply of it.
pub(super) fn checked(part: Value) -> Result<Part, Failure> {
    let Value::Object(mut part) = part else { return Err(misshapen("a part is no object")) };
    part.retain(|_, value| !value.is_null());
    if part.get("text").is_some_and(|text| !text.is_string()) {
        return Err(misshapen("the text of a part is not a string"));
    }
    if part.get("thought").is_some_and(|thought| !thought.is_boolean()) {
        return Err(misshapen("`thought` of a part is neither true nor false"));
    }
    match part.get_mut(CALL) {
        None => {}
        Some(Value::Object(call)) => check_call(call)?,
        Some(_) => return Err(misshapen("a function call is no object")),
    }
    Ok(part)
}

fn check_call(call: &mut Map<String, Value>) -> Result<(), Failure> {
    call.retain(|_, value| !value.is_null());
    if ["id", "name"].iter().any(|field| call.get(*field).is_some_and(|value| !value.is_string())) {
        return Err(misshapen("the name or the id of a function call is not a string"));
    }
    // Servers that only imitate the API write arguments as text, as others do that are broken.
    if call.get("args").is_some_and(|args| !args.is_object() && !args.is_string()) {
        return Err(misshapen("the arguments of a function call are no object"));
    }
    // Vertex sends pieces of arguments only where the request asks for it (`types.py` of google-genai).
    if call.contains_key("partialArgs") || call.get("willContinue").is_some_and(|more| *more != false) {
        return Err(misshapen("a function call comes in pieces; leave out `streamFunctionCallArguments`"));
    }
    Ok(())
}

pub(super) fn misshapen(what: &str) -> Failure {
    unreadable(format!("the answer is not one of Gemini: {what}"))
}

/// The call in a part.
pub(super) fn call(part: &Part) -> Option<&Map<String, Value>> {
    part.get(CALL)?.as_object()
}

/// A field of a call that is text; empty if it has none.
pub(super) fn word<'p>(call: &'p Map<String, Value>, field: &str) -> &'p str {
    call.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What a part says in the answer; a thought is no part of it.
pub(super) fn said(part: &Part) -> Option<&str> {
    let is_answer = call(part).is_none() && !is_thought(part);
    part.get("text").filter(|_| is_answer)?.as_str()
}

/// What a part says, in the answer or aside.
pub(super) fn text(part: &Part) -> &str {
    if call(part).is_some() { "" } else { word(part, "text") }
}

/// Whether a part is text and nothing else: more of it may be added.
pub(super) fn is_bare_text(part: &Part) -> bool {
    part.contains_key("text") && part.keys().all(|field| matches!(field.as_str(), "text" | "thought"))
}

/// Whether a part is code that the server runs for the model, or what came of it.
pub(super) fn is_executed(part: &Part) -> bool {
    is_code(part) || part.contains_key("codeExecutionResult")
}

/// Whether a part is code that the server is to run: its result follows.
pub(super) fn is_code(part: &Part) -> bool {
    part.contains_key("executableCode")
}

pub(super) fn is_thought(part: &Part) -> bool {
    part.get("thought").is_some_and(|thought| *thought == true)
}

/// The parts to keep of an answer with calls of these ids; `None`: text and calls say it all. Of these only the places are
/// kept, and what else came with them.
pub(super) fn kept(parts: &[Part], ids: &[String], issuer: &str) -> Option<Value> {
    if parts.iter().all(is_plain) {
        return None;
    }
    let mut ids = ids.iter();
    let items: Vec<Value> = parts.iter().map(|part| place(part, &mut ids)).collect();
    Some(json!({ISSUER: issuer, ITEMS: items}))
}

/// Whether text and calls say all that the API wants to see again.
fn is_plain(part: &Part) -> bool {
    match call(part) {
        Some(call) => part.len() == 1 && call.len() <= 3 && !word(call, "id").is_empty(),
        None => said(part).is_some() && is_bare_text(part),
    }
}

fn place<'i>(part: &Part, ids: &mut impl Iterator<Item = &'i String>) -> Value {
    let mut place = part.clone();
    if let Some(Value::Object(call)) = place.get_mut(CALL) {
        // What the message has already.
        call.shift_remove("name");
        call.shift_remove("args");
        place.insert(CALL_ID.to_owned(), ids.next().cloned().into());
    } else if let Some(text) = said(part) {
        place.shift_remove("text");
        place.insert(LENGTH.to_owned(), text.chars().count().into());
    }
    Value::Object(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(part: Value) -> Part {
        checked(part).unwrap()
    }

    #[test]
    fn what_text_and_calls_say_is_not_kept() {
        let parts =
            [read(json!({"text": "hi"})), read(json!({CALL: {"id": "a", "name": "look", "args": {}}}))];
        assert_eq!(kept(&parts, &["a".to_owned()], "host m"), None);
        assert_eq!(kept(&[], &[], "host m"), None);
    }

    #[test]
    fn all_else_stays_on_its_part() {
        let parts = [
            read(json!({"text": "hm", "thought": true})),
            read(json!({"text": "naïve", SIGNATURE: "YQ=="})),
            read(json!({CALL: {"name": "look", "args": {}}, SIGNATURE: "Yg=="})),
            read(json!({CALL: {"id": "b", "name": "look", "args": {"x": 1}}})),
            read(json!({"inlineData": {"mimeType": "image/png", "data": ""}})),
        ];
        let items = json!([
            {"text": "hm", "thought": true},
            {SIGNATURE: "YQ==", "chars": 5},
            {CALL: {}, SIGNATURE: "Yg==", "call": "call_1"},
            {CALL: {"id": "b"}, "call": "b"},
            {"inlineData": {"mimeType": "image/png", "data": ""}},
        ]);
        let ids = ["call_1".to_owned(), "b".to_owned()];
        assert_eq!(kept(&parts, &ids, "host m"), Some(json!({"issuer": "host m", "items": items})));
    }
}
