//! Requests in Anthropic's format: refused as that API refuses them, and else seen as a script looks at any request.

use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::host::scripted::dialect::Asked;
use crate::host::scripted::facts::RequestFacts;
use crate::host::scripted::script::ErrorReply;

/// A request.
#[derive(Deserialize)]
struct MessagesRequest {
    model: String,
    /// The API answers no request without it.
    #[serde(rename = "max_tokens")]
    _max_tokens: u64,
    messages: Vec<RequestMessage>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct RequestMessage {
    role: RequestRole,
    content: RequestContent,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestRole {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RequestContent {
    Text(String),
    Blocks(Vec<Map<String, Value>>),
}

/// Reads a request.
///
/// # Errors
/// What the API answers to one that it does not take.
pub(in crate::host::scripted) fn read(headers: &HeaderMap, body: &Value) -> Result<Asked, Box<ErrorReply>> {
    let request = message_request(headers, body)?;
    Ok(Asked { facts: request.facts(), stream: request.stream, include_usage: true })
}

fn message_request(headers: &HeaderMap, body: &Value) -> Result<MessagesRequest, Box<ErrorReply>> {
    if !headers.contains_key("anthropic-version") {
        return Err(ErrorReply::invalid_request("anthropic-version: header is required"));
    }
    let request = MessagesRequest::deserialize(body);
    let request = request.map_err(|error| {
        ErrorReply::invalid_request(format!("the request is not one for a message: {error}"))
    })?;
    check(&request.messages)?;
    Ok(request)
}

impl MessagesRequest {
    /// What a script can look at.
    fn facts(&self) -> RequestFacts {
        let turns = self.messages.iter().filter(|message| message.role == RequestRole::Assistant).count();
        let (mut last_role, mut last_tool, mut last_text) = ("", None, String::new());
        if let Some(last) = self.messages.last() {
            let texts = last.blocks().iter().filter(|block| is(block, "text"));
            let result = last.blocks().iter().rfind(|block| is(block, "tool_result"));
            last_role = if last.role == RequestRole::Assistant { "assistant" } else { "user" };
            last_text = match &last.content {
                RequestContent::Text(text) => text.clone(),
                RequestContent::Blocks(_) => {
                    texts.clone().map(|block| word(block, "text")).collect::<Vec<_>>().join("\n")
                }
            };
            // As elsewhere, a result alone is the last message; with words after it those are.
            if let Some(result) = result
                && texts.count() == 0
            {
                last_role = "tool";
                last_tool = self.called(word(result, "tool_use_id"));
                word(result, "content").clone_into(&mut last_text);
            }
        }
        RequestFacts {
            model: self.model.clone(),
            turn: u32::try_from(turns).unwrap_or(u32::MAX).saturating_add(1),
            last_role: last_role.to_owned(),
            last_tool,
            last_text,
        }
    }

    /// The tool of the call with that id.
    fn called(&self, id: &str) -> Option<String> {
        let mut blocks = self.messages.iter().rev().flat_map(RequestMessage::blocks);
        let call = blocks.find(|block| is(block, "tool_use") && word(block, "id") == id)?;
        Some(word(call, "name").to_owned())
    }
}

impl RequestMessage {
    fn blocks(&self) -> &[Map<String, Value>] {
        match &self.content {
            RequestContent::Text(_) => &[],
            RequestContent::Blocks(blocks) => blocks,
        }
    }
}

/// The rules of the API: a call is followed by its result, a result follows its call and stands before what is said, and
/// nothing is empty.
fn check(messages: &[RequestMessage]) -> Result<(), Box<ErrorReply>> {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let results = message.blocks().iter().take_while(|block| is(block, "tool_result")).count();
        for (place, block) in message.blocks().iter().enumerate() {
            if is(block, "text") && word(block, "text").trim().is_empty() {
                return Err(ErrorReply::invalid_request(
                    "messages: text content blocks must contain non-whitespace text",
                ));
            }
            let id = word(block, "tool_use_id");
            if is(block, "tool_result") && (place >= results || !open.contains(&id)) {
                return Err(ErrorReply::invalid_request(format!(
                    "messages.{at}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                     `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )));
            }
            open.retain(|call| *call != id);
        }
        unanswered(&open, at)?;
        let calls = message.blocks().iter().filter(|block| is(block, "tool_use"));
        open = calls.map(|call| word(call, "id")).collect();
    }
    unanswered(&open, messages.len())
}

fn unanswered(open: &[&str], at: usize) -> Result<(), Box<ErrorReply>> {
    if open.is_empty() {
        return Ok(());
    }
    Err(ErrorReply::invalid_request(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block \
         must have a corresponding `tool_result` block in the next message.",
        at.saturating_sub(1),
        open.join(", "),
    )))
}

fn is(block: &Map<String, Value>, kind: &str) -> bool {
    block.get("type").is_some_and(|found| found == kind)
}

fn word<'a>(block: &'a Map<String, Value>, field: &str) -> &'a str {
    block.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: &Value) -> Result<MessagesRequest, Box<ErrorReply>> {
        let headers = [("anthropic-version".parse().unwrap(), "2023-06-01".parse().unwrap())];
        message_request(
            &headers.into_iter().collect(),
            &json!({"model": "m", "max_tokens": 5, "messages": messages}),
        )
    }

    fn refused(messages: &Value) -> String {
        request(messages).err().map(|error| error.message).unwrap_or_default()
    }

    fn calls(ids: &[&str]) -> Value {
        let call =
            |id: &&str| json!({"type": "tool_use", "id": id, "name": format!("tool_{id}"), "input": {}});
        json!({"role": "assistant", "content": ids.iter().map(call).collect::<Vec<_>>()})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": format!("seen {id}")})
    }

    fn user(blocks: &[Value]) -> Value {
        json!({"role": "user", "content": blocks})
    }

    #[test]
    fn a_script_sees_the_last_message_and_its_tool() {
        let answered =
            request(&json!([calls(&["a", "b"]), user(&[result("b"), result("a")])])).ok().unwrap().facts();
        let expected = RequestFacts {
            model: "m".into(),
            turn: 2,
            last_role: "tool".into(),
            last_tool: Some("tool_a".into()),
            last_text: "seen a".into(),
        };
        assert_eq!(answered, expected);
        let told = user(&[result("a"), json!({"type": "text", "text": "and?"})]);
        let facts = request(&json!([calls(&["a"]), told])).ok().unwrap().facts();
        assert_eq!(
            (facts.last_role.as_str(), facts.last_text.as_str(), facts.last_tool),
            ("user", "and?", None)
        );
    }

    #[test]
    fn a_history_that_the_api_would_refuse_is_refused() {
        let text = json!({"type": "text", "text": "x"});
        let missing =
            "messages.0: `tool_use` ids were found without `tool_result` blocks immediately after: a.";
        assert!(refused(&json!([calls(&["a"])])).starts_with(missing));
        assert!(refused(&json!([calls(&["a"]), user(std::slice::from_ref(&text))])).starts_with(missing));
        let late = refused(&json!([calls(&["a"]), user(&[text.clone(), result("a")])]));
        assert!(late.starts_with("messages.1.content.1: unexpected `tool_use_id`"), "{late}");
        let unknown = refused(&json!([user(&[result("a")])]));
        assert!(unknown.starts_with("messages.0.content.0: unexpected `tool_use_id`"), "{unknown}");
        let blank = refused(&json!([user(&[json!({"type": "text", "text": " "})])]));
        assert!(blank.contains("non-whitespace"), "{blank}");
        assert_eq!(refused(&json!([calls(&["a"]), user(&[result("a"), text])])), "");
    }

    #[test]
    fn what_the_api_asks_for_is_asked_for() {
        let body = json!({"model": "m", "messages": []});
        let refused = read(&HeaderMap::new(), &body).err().unwrap();
        assert_eq!(
            (refused.status, refused.message.as_str()),
            (400, "anthropic-version: header is required")
        );
        let headers = [("anthropic-version".parse().unwrap(), "2023-06-01".parse().unwrap())];
        let refused = read(&headers.into_iter().collect(), &body).err().unwrap();
        assert!(refused.message.ends_with("missing field `max_tokens`"), "{}", refused.message);
    }
}
