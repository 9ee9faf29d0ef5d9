//! Requests of Converse: refused as that API refuses them, and else seen as a script looks at any request.

use axum::http::Uri;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::render::SIGNATURE;
use crate::host::scripted::dialect::{Asked, not_a_request};
use crate::host::scripted::facts::RequestFacts;
use crate::host::scripted::script::ErrorReply;

/// The most characters of an id, which has letters, digits and `_.:-` (`service-2.json` of botocore).
const LONGEST_ID: usize = 64;

/// A request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConverseRequest {
    messages: Vec<RequestMessage>,
    #[serde(default)]
    tool_config: Option<Value>,
}

#[derive(Deserialize)]
struct RequestMessage {
    role: String,
    content: Vec<Map<String, Value>>,
}

/// Reads a request. The model and whether the answer is streamed are in the address.
///
/// # Errors
/// What the API answers to one that it does not take.
pub(super) fn read(uri: &Uri, body: &Value) -> Result<Asked, Box<ErrorReply>> {
    let mut path = uri.path().rsplit('/');
    let stream = path.next() == Some("converse-stream");
    // An id has `:`, an ARN `/` too.
    let model = path.next().unwrap_or_default().replace("%3A", ":").replace("%2F", "/");
    let request = ConverseRequest::deserialize(body).map_err(|error| not_a_request(&error))?;
    check(&request)?;
    Ok(Asked { facts: facts(model, &request.messages), stream, include_usage: true })
}

/// What a script can look at.
fn facts(model: String, messages: &[RequestMessage]) -> RequestFacts {
    let turns = messages.iter().filter(|message| message.role == "assistant").count();
    let blocks = messages.last().map_or(&[][..], |message| &message.content);
    let said = texts(blocks);
    let result = blocks.iter().rev().find_map(|block| block.get("toolResult")).filter(|_| said.is_empty());
    let role = match (messages.last(), result) {
        (_, Some(_)) => "tool",
        (Some(last), None) => &last.role,
        (None, None) => "",
    };
    let told = |result: &Value| {
        let content: Vec<Map<String, Value>> = Vec::deserialize(&result["content"]).unwrap_or_default();
        texts(&content)
    };
    RequestFacts {
        model,
        turn: u32::try_from(turns).unwrap_or(u32::MAX).saturating_add(1),
        last_role: role.to_owned(),
        last_tool: result.and_then(|result| called(messages, &result["toolUseId"])),
        last_text: result.map_or(said, told),
    }
}

fn texts(blocks: &[Map<String, Value>]) -> String {
    let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The tool of the call with that id.
fn called(messages: &[RequestMessage], id: &Value) -> Option<String> {
    let blocks = messages.iter().rev().flat_map(|message| &message.content);
    let call = blocks.filter_map(|block| block.get("toolUse")).find(|call| call["toolUseId"] == *id)?;
    call["name"].as_str().map(str::to_owned)
}

/// The rules of the API: the user begins, roles alternate, nothing is empty, a call is followed by its result, a history of calls
/// has its tools, ids have the form of the API, and signatures are those that it sent.
fn check(request: &ConverseRequest) -> Result<(), Box<ErrorReply>> {
    let mut open: Vec<&Value> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message.role != expected {
            let starts = at == 0;
            return Err(refused(if starts {
                "A conversation must start with a user message. Try again with a conversation that starts with a user message."
            } else {
                "A conversation must alternate between user and assistant roles."
            }));
        }
        message.content.iter().enumerate().try_for_each(|(place, block)| is_sound(block, at, place))?;
        let of = |kind: &'static str| message.content.iter().filter_map(move |block| block.get(kind));
        let mut results: Vec<&Value> = of("toolResult").map(|result| &result["toolUseId"]).collect();
        results.sort_by_key(ToString::to_string);
        open.sort_by_key(ToString::to_string);
        if results != open {
            return Err(refused(&format!(
                "Expected toolResult blocks at messages.{at}.content for the following Ids: {}",
                open.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )));
        }
        open = of("toolUse").map(|call| &call["toolUseId"]).collect();
        if (!open.is_empty() || !results.is_empty()) && request.tool_config.is_none() {
            return Err(refused(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
            ));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(refused("Expected toolResult blocks after the last message.")) }
}

/// Whether a block is one that the API takes.
fn is_sound(block: &Map<String, Value>, at: usize, place: usize) -> Result<(), Box<ErrorReply>> {
    let blank = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
    if block.get("text").is_some_and(blank) {
        return Err(refused(&format!(
            "The text field in the ContentBlock object at messages.{at}.content.{place} is blank."
        )));
    }
    let called = block.get("toolUse").or_else(|| block.get("toolResult"));
    let id = called.map(|call| call["toolUseId"].as_str().unwrap_or_default());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if id.is_some_and(|id| id.is_empty() || id.len() > LONGEST_ID || !id.chars().all(allowed)) {
        return Err(refused(&format!(
            "Value at 'messages.{at}.member.content.{place}.member.toolUse.toolUseId' failed to satisfy constraint: Member \
             must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+"
        )));
    }
    if block.get("toolUse").is_some_and(|call| !call["input"].is_object()) {
        return Err(refused(&format!(
            "The format of the value at messages.{at}.content.{place}.toolUse.input is invalid. Provide a json object for the field and try again."
        )));
    }
    let signed =
        block.get("reasoningContent").and_then(|reasoning| reasoning.pointer("/reasoningText/signature"));
    if signed.is_some_and(|signature| signature != SIGNATURE) {
        return Err(refused(&format!(
            "messages.{at}.content.{place}: Invalid `signature` in `thinking` block"
        )));
    }
    Ok(())
}

fn refused(message: &str) -> Box<ErrorReply> {
    let kind = Some("ValidationException".to_owned());
    Box::new(ErrorReply { kind, code: None, ..ErrorReply::new(400, "", message) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(address: &str, messages: &Value, tools: bool) -> Result<Asked, Box<ErrorReply>> {
        let mut body = json!({ "messages": messages });
        if tools {
            body["toolConfig"] = json!({"tools": []});
        }
        read(&address.parse().unwrap(), &body)
    }

    fn refusal(messages: &Value, tools: bool) -> String {
        let asked = asked("/model/m/converse", messages, tools);
        asked.err().map(|error| error.message).unwrap_or_default()
    }

    fn user() -> Value {
        json!({"role": "user", "content": [{"text": "go"}]})
    }

    fn calls(ids: &[&str]) -> Value {
        let call =
            |id: &&str| json!({"toolUse": {"toolUseId": id, "name": format!("tool_{id}"), "input": {}}});
        json!({"role": "assistant", "content": ids.iter().map(call).collect::<Vec<_>>()})
    }

    fn results(ids: &[&str]) -> Value {
        let result =
            |id: &&str| json!({"toolResult": {"toolUseId": id, "content": [{"text": format!("seen {id}")}]}});
        json!({"role": "user", "content": ids.iter().map(result).collect::<Vec<_>>()})
    }

    #[test]
    fn a_script_sees_the_last_message_and_its_tool() {
        let messages = json!([user(), calls(&["a", "b"]), results(&["a", "b"])]);
        let address = "/model/us.anthropic.claude%3A0/converse-stream";
        let streamed = asked(address, &messages, true).ok().unwrap();
        let expected = RequestFacts {
            model: "us.anthropic.claude:0".into(),
            turn: 2,
            last_role: "tool".into(),
            last_tool: Some("tool_b".into()),
            last_text: "seen b".into(),
        };
        assert_eq!((streamed.facts, streamed.stream), (expected, true));
        let whole = asked("/model/m/converse", &json!([user()]), false).ok().unwrap();
        let facts = (whole.facts.last_role.as_str(), whole.facts.last_text.as_str());
        assert_eq!((facts, whole.stream), (("user", "go"), false));
    }

    #[test]
    fn what_the_api_refuses_is_refused() {
        let expected = "Expected toolResult blocks";
        let signed = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "YQ=="}}});
        let listed = json!({"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "t", "input": []}}]});
        for (messages, tools, says) in [
            (json!([calls(&["a"]), results(&["a"])]), true, "must start with a user message"),
            (json!([user(), user()]), true, "must alternate"),
            (json!([{"role": "user", "content": [{"text": " "}]}]), true, "is blank"),
            (json!([user(), calls(&["a", "b"]), results(&["a"])]), true, expected),
            (json!([results(&["a"])]), true, expected),
            (json!([user(), calls(&["a"])]), true, expected),
            (json!([user(), calls(&["a"]), results(&["a"])]), false, "toolConfig field must be defined"),
            (json!([user(), calls(&["a b"]), results(&["a b"])]), true, "toolUseId"),
            (json!([user(), listed, results(&["a"])]), true, "Provide a json object"),
            (json!([user(), {"role": "assistant", "content": [signed]}]), true, "Invalid `signature`"),
        ] {
            assert!(refusal(&messages, tools).contains(says), "{messages}");
        }
        assert_eq!(refusal(&json!([user(), calls(&["a", "b"]), results(&["b", "a"])]), true), "");
    }
}
