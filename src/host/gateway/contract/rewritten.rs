//! The body of an answer with what was repaired in the place of what the model wrote.

use bytes::Bytes;
use serde_json::Value;

use super::spliced::spliced;
use crate::engine::ModelReply;
use crate::host::model::front::GatewayDialect;

/// The body with the calls and the text of `now` in the place of those that were `said`; `None`: where they are cannot be told
/// for certain, or something else would be lost.
pub(super) fn rewritten(
    dialect: GatewayDialect,
    body: &[u8],
    said: &ModelReply,
    now: &ModelReply,
) -> Option<Bytes> {
    // Numbers that no reader of this kind has, and halves of surrogate pairs, are refused.
    let text = core::str::from_utf8(body).ok()?;
    let mut body: Value = serde_json::from_str(text).ok()?;
    let parts = parts(dialect, &mut body)?;
    if said.calls != now.calls {
        put_calls(dialect, parts, said, now)?;
    }
    if said.text != now.text {
        put_text(dialect, parts, &now.text)?;
    }
    spliced(text, &body).map(Bytes::from)
}

/// The list that has what the model said, or the message.
fn parts(dialect: GatewayDialect, body: &mut Value) -> Option<&mut Value> {
    let only = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    match dialect {
        GatewayDialect::Chat => {
            only(body.get("choices")?).then_some(())?;
            body.pointer_mut("/choices/0/message")
        }
        GatewayDialect::Messages => body.get_mut("content"),
        GatewayDialect::Responses => body.get_mut("output"),
        GatewayDialect::Gemini => {
            only(body.get("candidates")?).then_some(())?;
            body.pointer_mut("/candidates/0/content/parts")
        }
    }
}

fn put_calls(dialect: GatewayDialect, parts: &mut Value, said: &ModelReply, now: &ModelReply) -> Option<()> {
    let mut calls: Vec<&mut Value> = match dialect {
        GatewayDialect::Chat => {
            let calls = parts.get_mut("tool_calls")?.as_array_mut()?;
            calls.iter_mut().filter_map(|call| call.get_mut("function")).collect()
        }
        GatewayDialect::Messages => {
            parts.as_array_mut()?.iter_mut().filter(|part| is_of_type(part, "tool_use")).collect()
        }
        GatewayDialect::Responses => {
            parts.as_array_mut()?.iter_mut().filter(|part| is_of_type(part, "function_call")).collect()
        }
        GatewayDialect::Gemini => {
            parts.as_array_mut()?.iter_mut().filter_map(|part| part.get_mut("functionCall")).collect()
        }
    };
    if [said.calls.len(), now.calls.len()] != [calls.len(); 2] {
        return None;
    }
    for ((call, said), now) in calls.iter_mut().zip(&said.calls).zip(&now.calls) {
        let (said, now) = (&said.call, &now.call);
        if said.name != now.name {
            *call.get_mut("name")? = now.name.clone().into();
        }
        if said.arguments != now.arguments {
            let (field, arguments) = match dialect {
                GatewayDialect::Chat | GatewayDialect::Responses => {
                    ("arguments", now.arguments.clone().into())
                }
                GatewayDialect::Messages => ("input", serde_json::from_str(&now.arguments).ok()?),
                GatewayDialect::Gemini => ("args", serde_json::from_str(&now.arguments).ok()?),
            };
            *call.get_mut(field)? = arguments;
        }
    }
    Some(())
}

/// There is one text, or it is left alone.
fn put_text(dialect: GatewayDialect, parts: &mut Value, now: &str) -> Option<()> {
    let mut texts: Vec<&mut Value> = match dialect {
        GatewayDialect::Chat => parts.get_mut("content").into_iter().collect(),
        GatewayDialect::Messages => {
            let blocks = parts.as_array_mut()?.iter_mut().filter(|block| is_of_type(block, "text"));
            blocks.filter_map(|block| block.get_mut("text")).collect()
        }
        GatewayDialect::Responses => {
            let items = parts.as_array_mut()?.iter_mut().filter(|item| is_of_type(item, "message"));
            let content = items.filter_map(|item| item.get_mut("content")?.as_array_mut()).flatten();
            content.filter_map(|part| part.get_mut("text")).collect()
        }
        GatewayDialect::Gemini => {
            let said = parts.as_array_mut()?.iter_mut();
            let said = said.filter(|part| part.get("thought") != Some(&Value::Bool(true)));
            said.filter_map(|part| part.get_mut("text")).collect()
        }
    };
    let [text] = &mut *texts else { return None };
    text.is_string().then(|| **text = now.into())
}

pub(super) fn is_of_type(part: &Value, kind: &str) -> bool {
    part.get("type").is_some_and(|said| said == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::ToolCall;

    fn reply(text: &str, name: &str, arguments: &str) -> ModelReply {
        let call = ToolCall { id: "a".into(), name: name.into(), arguments: arguments.into() };
        ModelReply { text: text.into(), calls: vec![call.into()], ..ModelReply::default() }
    }

    #[test]
    fn only_what_was_repaired_is_changed_in_every_dialect() {
        let (said, now) = (reply("x", "Look", r#"{"n":"1"}"#), reply("y", "look", r#"{"n":1}"#));
        let body = |text: &str, name: &str, raw: &str| {
            let input: Value = serde_json::from_str(raw).unwrap();
            [
                (
                    GatewayDialect::Chat,
                    json!({"id": "i", "choices": [{"message": {"content": text, "tool_calls": [{"id": "a", "function": {"name": name, "arguments": raw}}]}}], "z": 1}),
                ),
                (
                    GatewayDialect::Messages,
                    json!({"content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": text}, {"type": "tool_use", "name": name, "input": input}]}),
                ),
                (
                    GatewayDialect::Responses,
                    json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}, {"type": "function_call", "name": name, "arguments": raw}]}),
                ),
                (
                    GatewayDialect::Gemini,
                    json!({"candidates": [{"content": {"parts": [{"text": "t", "thought": true}, {"text": text}, {"functionCall": {"name": name, "args": input}}]}}]}),
                ),
            ]
        };
        let before = body("x", "Look", r#"{"n":"1"}"#);
        for ((dialect, before), (_, after)) in before.into_iter().zip(body("y", "look", r#"{"n":1}"#)) {
            let written = rewritten(dialect, before.to_string().as_bytes(), &said, &now).unwrap();
            assert_eq!(written, after.to_string(), "{dialect:?}");
            let more = ModelReply { calls: [&*said.calls, &*said.calls].concat(), ..said.clone() };
            assert_eq!(rewritten(dialect, before.to_string().as_bytes(), &more, &now), None, "{dialect:?}");
        }
        let odd = br#"{"choices":[{"message":{"content":"x"}}],"z":1e400}"#;
        assert_eq!(rewritten(GatewayDialect::Chat, odd, &said, &now), None, "no reader has such a number");
    }

    #[test]
    fn every_byte_that_the_model_did_not_write_stays() {
        let (said, now) = (reply("", "look", "{'n':1}"), reply("", "look", r#"{"n":1}"#));
        for number in
            ["-1.1920928955078125e-07", "1E5", "-3.4028234663852886e+38", "0.12345678901234567890123"]
        {
            let body = |arguments: &str| {
                format!(
                    "{{\"id\": \"i\",\n \"choices\":[{{\"message\" :{{\"content\":null,\"tool_calls\":[{{\"function\":{{\"name\":\"look\", \"arguments\": {arguments}}}}}]}},\"logprob\":{number}}}],\"é\":\"\\u00e9\"}}\n"
                )
            };
            let written =
                rewritten(GatewayDialect::Chat, body("\"{'n':1}\"").as_bytes(), &said, &now).unwrap();
            assert_eq!(written, body("\"{\\\"n\\\":1}\""));
        }
    }
}
