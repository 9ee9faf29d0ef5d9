//! Requests in Gemini's format: refused as that API refuses them, and else seen as a script looks at any request.

use axum::http::Uri;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::render::SIGNATURE;
use crate::host::scripted::dialect::{Asked, not_a_request};
use crate::host::scripted::facts::RequestFacts;
use crate::host::scripted::script::ErrorReply;

/// What stands in the place of a signature ("Thought signatures", ai.google.dev), as it is (Vercel's AI SDK) and in base64 (SDKs for
/// which it is bytes).
const STAND_INS: [&str; 2] =
    ["skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="];

/// A request.
#[derive(Deserialize)]
struct GeminiRequest {
    contents: Vec<Content>,
}

#[derive(Deserialize)]
struct Content {
    role: String,
    parts: Vec<Map<String, Value>>,
}

/// Reads a request. The model and whether the answer is streamed are in the address.
///
/// # Errors
/// What the API answers to one that it does not take.
pub(super) fn read(uri: &Uri, body: &Value) -> Result<Asked, Box<ErrorReply>> {
    let call = uri.path().rsplit('/').next().unwrap_or_default();
    let (model, verb) = call.rsplit_once(':').unwrap_or((call, ""));
    let stream = match verb {
        "generateContent" => false,
        "streamGenerateContent" if uri.query().is_some_and(|query| query.contains("alt=sse")) => true,
        _ => {
            let message = format!("`{call}` is not known here, or not without `alt=sse`");
            return Err(Box::new(ErrorReply::new(404, "NOT_FOUND", message)));
        }
    };
    let request = GeminiRequest::deserialize(body).map_err(|error| not_a_request(&error))?;
    check(&request.contents, model.starts_with("gemini-3"))?;
    Ok(Asked { facts: facts(model, &request.contents), stream, include_usage: true })
}

/// What a script can look at.
fn facts(model: &str, contents: &[Content]) -> RequestFacts {
    let turns = contents.iter().filter(|content| content.role == "model").count();
    let last = contents.last();
    let part = last.and_then(|content| content.parts.last());
    let result = part.and_then(|part| part.get("functionResponse"));
    let role = match last.map(|content| content.role.as_str()) {
        Some("model") => "assistant",
        _ if result.is_some() => "tool",
        _ => "user",
    };
    let text = match result {
        Some(result) => ["output", "error"].iter().find_map(|key| result["response"].get(*key)),
        // An image may stand behind it.
        None => last.and_then(|content| content.parts.iter().rev().find_map(|part| part.get("text"))),
    };
    RequestFacts {
        model: model.to_owned(),
        turn: u32::try_from(turns).unwrap_or(u32::MAX).saturating_add(1),
        last_role: role.to_owned(),
        last_tool: result.and_then(|result| Some(result["name"].as_str()?.to_owned())),
        last_text: text.and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
}

/// The rules of the API: the user begins, roles alternate, no content is empty, a call is followed by its result, signatures
/// are those that it sent, and a model from Gemini 3 on wants one at the first call of each turn.
fn check(contents: &[Content], signs: bool) -> Result<(), Box<ErrorReply>> {
    let mut open: Vec<(&Value, &Value)> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "model" };
        if content.role != expected {
            return Err(refused(
                "Please ensure that function call turn comes immediately after a user turn or after a function response \
                 turn.",
            ));
        }
        if content.parts.is_empty() {
            return Err(refused(&format!("contents[{at}].parts must not be empty.")));
        }
        let of = |kind: &'static str| content.parts.iter().filter_map(move |part| part.get(kind));
        if expected == "user" && of("functionResponse").map(named).ne(open.drain(..)) {
            return Err(refused(
                "Please ensure that the number of function response parts is equal to the number of function call parts \
                 of the function call turn.",
            ));
        }
        if expected == "model" {
            open = of("functionCall").map(named).collect();
            signatures(content, signs)?;
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(refused("Please ensure that a function response follows its call."))
    }
}

/// What a call and its result have in common.
fn named(call: &Value) -> (&Value, &Value) {
    (&call["name"], &call["id"])
}

fn signatures(content: &Content, signs: bool) -> Result<(), Box<ErrorReply>> {
    let signature = |part: &Map<String, Value>| part.get("thoughtSignature").cloned();
    if content
        .parts
        .iter()
        .filter_map(signature)
        .any(|signature| signature != SIGNATURE && !STAND_INS.iter().any(|known| signature == *known))
    {
        return Err(refused("Invalid / Corrupted thought signature."));
    }
    let first = content.parts.iter().find(|part| part.contains_key("functionCall"));
    if signs && first.is_some_and(|part| signature(part).is_none()) {
        return Err(refused("Function call is missing a thought_signature in functionCall parts."));
    }
    Ok(())
}

fn refused(message: &str) -> Box<ErrorReply> {
    let kind = Some("INVALID_ARGUMENT".to_owned());
    Box::new(ErrorReply { kind, code: None, ..ErrorReply::new(400, "", message) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(address: &str, contents: &Value) -> Result<Asked, Box<ErrorReply>> {
        read(&address.parse().unwrap(), &json!({ "contents": contents }))
    }

    fn refusal(model: &str, contents: &Value) -> String {
        let asked = asked(&format!("/v1beta/models/{model}:generateContent"), contents);
        asked.err().map(|error| error.message).unwrap_or_default()
    }

    fn user() -> Value {
        json!({"role": "user", "parts": [{"text": "go"}]})
    }

    fn calls(ids: &[&str]) -> Value {
        let call = |id: &&str| json!({"functionCall": {"id": id, "name": format!("tool_{id}"), "args": {}}});
        json!({"role": "model", "parts": ids.iter().map(call).collect::<Vec<_>>()})
    }

    fn results(ids: &[&str]) -> Value {
        let result = |id: &&str| json!({"functionResponse": {"id": id, "name": format!("tool_{id}"), "response": {"output": format!("seen {id}")}}});
        json!({"role": "user", "parts": ids.iter().map(result).collect::<Vec<_>>()})
    }

    #[test]
    fn a_script_sees_the_last_part_and_its_tool() {
        let contents = json!([user(), calls(&["a", "b"]), results(&["a", "b"])]);
        let streamed = asked("/v1beta/models/m:streamGenerateContent?alt=sse", &contents).ok().unwrap();
        let expected = RequestFacts {
            model: "m".into(),
            turn: 2,
            last_role: "tool".into(),
            last_tool: Some("tool_b".into()),
            last_text: "seen b".into(),
        };
        assert_eq!((streamed.facts, streamed.stream), (expected, true));
        let whole = asked("/v1/models/m:generateContent", &json!([user()])).ok().unwrap();
        assert_eq!((whole.facts.turn, whole.facts.last_role.as_str(), whole.stream), (1, "user", false));
        assert_eq!(whole.facts.last_text, "go");
        let image = json!({"inlineData": {"mimeType": "image/png", "data": ""}});
        let seen = json!([{"role": "user", "parts": [{"text": "what is it?"}, image]}]);
        let seen = asked("/v1/models/m:generateContent", &seen).ok().unwrap();
        assert_eq!(seen.facts.last_text, "what is it?");
        for unknown in ["m:streamGenerateContent", "m:countTokens", "m"] {
            let refused = asked(&format!("/v1/models/{unknown}"), &json!([user()])).err().unwrap();
            assert_eq!(refused.status, 404, "{unknown}");
        }
    }

    #[test]
    fn what_the_api_refuses_is_refused() {
        let parts = "number of function response parts";
        for (contents, says) in [
            (json!([calls(&["a"]), results(&["a"])]), "function call turn comes immediately"),
            (json!([user(), user()]), "function call turn comes immediately"),
            (json!([user(), {"role": "model", "parts": []}]), "must not be empty"),
            (json!([user(), calls(&["a", "b"]), results(&["a"])]), parts),
            (json!([user(), calls(&["a"]), results(&["b"])]), parts),
            (json!([results(&["a"])]), parts),
            (json!([user(), calls(&["a"])]), "follows its call"),
        ] {
            assert!(refusal("m", &contents).contains(says), "{contents}");
        }
        assert_eq!(refusal("m", &json!([user(), calls(&["a"]), results(&["a"])])), "");
    }

    #[test]
    fn signatures_are_its_own_or_stand_for_one() {
        let with = |signature: &str| {
            let mut called = calls(&["a"]);
            called["parts"][0]["thoughtSignature"] = signature.into();
            refusal("gemini-3-pro", &json!([user(), called, results(&["a"])]))
        };
        for known in [SIGNATURE, STAND_INS[0], STAND_INS[1]] {
            assert_eq!(with(known), "", "{known}");
        }
        assert!(with("YQ==").contains("Corrupted thought signature"));
        let missing = refusal("gemini-3-pro", &json!([user(), calls(&["a"]), results(&["a"])]));
        assert!(missing.contains("missing a thought_signature"), "{missing}");
    }
}
