//! Requests in the Responses format: refused as that API refuses them, and else seen as a script looks at any request.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::render::SEALED;
use crate::host::scripted::dialect::{Asked, not_a_request};
use crate::host::scripted::facts::RequestFacts;
use crate::host::scripted::script::ErrorReply;

/// The most characters of a `call_id`.
const MAX_CALL_ID: usize = 64;

/// A request.
#[derive(Deserialize)]
struct ResponsesRequest {
    model: String,
    input: RequestInput,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RequestInput {
    Text(String),
    Items(Vec<Map<String, Value>>),
}

/// Reads a request.
///
/// # Errors
/// What the API answers to one that it does not take.
pub(super) fn read(body: &Value) -> Result<Asked, Box<ErrorReply>> {
    let request = ResponsesRequest::deserialize(body).map_err(|error| not_a_request(&error))?;
    let facts = match &request.input {
        RequestInput::Text(text) => RequestFacts {
            model: request.model,
            turn: 1,
            last_role: "user".to_owned(),
            last_tool: None,
            last_text: text.clone(),
        },
        RequestInput::Items(items) => {
            check(items)?;
            facts(request.model, items)
        }
    };
    Ok(Asked { facts, stream: request.stream, include_usage: true })
}

/// What a script can look at.
fn facts(model: String, items: &[Map<String, Value>]) -> RequestFacts {
    let roles: Vec<&str> = items.iter().map(role).collect();
    // What a model says in one turn is several items.
    let turns = roles.chunk_by(|a, b| a == b).filter(|turn| turn.first() == Some(&"assistant")).count();
    let last = items.last();
    let last_role = roles.last().copied().unwrap_or_default();
    let last_tool = last.filter(|_| last_role == "tool").and_then(|result| {
        let is_call = |item: &&Map<String, Value>| {
            is(item, "function_call") && word(item, "call_id") == word(result, "call_id")
        };
        Some(word(items.iter().rev().find(is_call)?, "name").to_owned())
    });
    RequestFacts {
        model,
        turn: u32::try_from(turns).unwrap_or(u32::MAX).saturating_add(1),
        last_role: last_role.to_owned(),
        last_tool,
        last_text: last.map(text).unwrap_or_default(),
    }
}

/// Who an item is of.
fn role(item: &Map<String, Value>) -> &str {
    match (word(item, "role"), word(item, "type")) {
        ("developer", _) => "system",
        ("", "function_call_output") => "tool",
        ("", _) => "assistant",
        (role, _) => role,
    }
}

fn text(item: &Map<String, Value>) -> String {
    let content = item.get("content").or_else(|| item.get("output"));
    match content {
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

/// The rules of the API: a call is followed by its result, a result follows its call, reasoning has an item after it and
/// is as it was sent.
fn check(items: &[Map<String, Value>]) -> Result<(), Box<ErrorReply>> {
    let mut open: Vec<&str> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let id = word(item, "call_id");
        if id.chars().count() > MAX_CALL_ID {
            let message = format!(
                "Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length 64"
            );
            return Err(refused("string_above_max_length", message));
        }
        match word(item, "type") {
            "function_call" => open.push(id),
            "function_call_output" => {
                let place = open.iter().position(|call| *call == id);
                let place = place.ok_or_else(|| {
                    ErrorReply::invalid_request(format!(
                        "No tool call found for function call output with call_id {id}."
                    ))
                })?;
                open.remove(place);
            }
            "reasoning" => reasoning(item, items.get(at + 1))?,
            _ if role(item) == "user" => unanswered(&open)?,
            _ => {}
        }
    }
    unanswered(&open)
}

fn reasoning(item: &Map<String, Value>, next: Option<&Map<String, Value>>) -> Result<(), Box<ErrorReply>> {
    let id = word(item, "id");
    if next.is_none_or(|next| role(next) != "assistant") {
        return Err(ErrorReply::invalid_request(format!(
            "Item '{id}' of type 'reasoning' was provided without its required following item."
        )));
    }
    if word(item, "encrypted_content") != SEALED {
        let message = format!("The encrypted content for item {id} could not be verified.");
        return Err(refused("invalid_encrypted_content", message));
    }
    Ok(())
}

fn unanswered(open: &[&str]) -> Result<(), Box<ErrorReply>> {
    match open.first() {
        None => Ok(()),
        Some(id) => Err(ErrorReply::invalid_request(format!("No tool output found for function call {id}."))),
    }
}

fn refused(code: &str, message: String) -> Box<ErrorReply> {
    Box::new(ErrorReply { code: Some(code.to_owned()), ..*ErrorReply::invalid_request(message) })
}

fn is(item: &Map<String, Value>, kind: &str) -> bool {
    word(item, "type") == kind
}

fn word<'a>(item: &'a Map<String, Value>, field: &str) -> &'a str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(input: &Value) -> Result<Asked, Box<ErrorReply>> {
        read(&json!({"model": "m", "input": input}))
    }

    fn refused(input: &Value) -> String {
        asked(input).err().map(|error| error.message).unwrap_or_default()
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id, "name": format!("tool_{id}"), "arguments": "{}"})
    }

    fn result(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": format!("seen {id}")})
    }

    fn user() -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]})
    }

    #[test]
    fn a_script_sees_the_last_item_and_its_tool() {
        let said = json!({"role": "assistant", "content": "Let me look."});
        let facts =
            asked(&json!([user(), said, call("a"), call("b"), result("b"), result("a")])).ok().unwrap();
        let expected = RequestFacts {
            model: "m".into(),
            turn: 2,
            last_role: "tool".into(),
            last_tool: Some("tool_a".into()),
            last_text: "seen a".into(),
        };
        assert_eq!(facts.facts, expected);
        let facts = asked(&json!("go")).ok().unwrap().facts;
        assert_eq!((facts.turn, facts.last_role.as_str(), facts.last_text.as_str()), (1, "user", "go"));
        let facts = asked(&json!([call("a"), result("a"), user()])).ok().unwrap().facts;
        assert_eq!((facts.turn, facts.last_role.as_str(), facts.last_text.as_str()), (2, "user", "go"));
    }

    #[test]
    fn a_conversation_that_the_api_would_refuse_is_refused() {
        let sealed = |sealed: &str| json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed});
        for (input, says) in [
            (json!([call("a")]), "No tool output found for function call a."),
            (json!([call("a"), user(), result("a")]), "No tool output found for function call a."),
            (json!([result("a")]), "No tool call found for function call output with call_id a."),
            (json!([call("a"), result("a"), result("a")]), "No tool call found"),
            (json!([call(&"x".repeat(65))]), "Invalid 'input[0].call_id': string too long."),
            (json!([sealed(SEALED)]), "Item 'rs_1' of type 'reasoning' was provided without its required"),
            (json!([sealed(SEALED), user()]), "Item 'rs_1' of type 'reasoning' was provided without"),
            (json!([sealed("x"), call("a"), result("a")]), "The encrypted content for item rs_1 could not"),
            (json!(7), "the request is not one to a model"),
        ] {
            let message = refused(&input);
            assert!(message.starts_with(says), "{input}: {message}");
        }
        assert_eq!(refused(&json!([sealed(SEALED), call("a"), result("a"), user()])), "");
    }
}
