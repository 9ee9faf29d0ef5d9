//! The rule every provider enforces about tool calls and their results; a scripted model enforces it too, so that
//! a script cannot pass with a history that a real model would refuse.

use super::script::ErrorReply;
use crate::host::model::{ChatMessage, WireCall};
use serde_json::{Map, Value};

/// Checks that every tool call is followed by its result, that every result follows its call, and that the arguments of
/// calls are JSON objects.
///
/// # Errors
/// What a provider answers to such a history.
pub(super) fn check(messages: &[ChatMessage]) -> Result<(), Box<ErrorReply>> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if let Some(id) = message.tool_call_id.as_deref() {
            let before = open.len();
            open.retain(|call| *call != id);
            if open.len() == before {
                return Err(ErrorReply::invalid_request(format!(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
                     'tool_calls'. No such call: {id}"
                )));
            }
            continue;
        }
        unanswered(&open)?;
        message.tool_calls.iter().try_for_each(read_arguments)?;
        open = message.tool_calls.iter().filter_map(|call| call.id.as_deref()).collect();
    }
    unanswered(&open)
}

/// As vLLM and llama.cpp do: arguments are JSON, and an object.
fn read_arguments(call: &WireCall) -> Result<(), Box<ErrorReply>> {
    let arguments = call.function.arguments.as_deref().unwrap_or_default();
    if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        return Ok(());
    }
    Err(ErrorReply::invalid_request(format!("Failed to parse tool call arguments as JSON: {arguments}")))
}

fn unanswered(open: &[&str]) -> Result<(), Box<ErrorReply>> {
    if open.is_empty() {
        return Ok(());
    }
    Err(ErrorReply::invalid_request(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Message, ToolCall};
    use serde_json::Map;

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "look".into(), arguments: "{}".into() };
        Message::Assistant { text: String::new(), calls: ids.iter().map(call).collect(), extra: Map::new() }
    }

    fn result(id: &str) -> Message {
        Message::Tool {
            call: id.into(),
            tool: "look".into(),
            text: "seen".into(),
            error: false,
            handle: None,
        }
    }

    fn refused(messages: &[Message]) -> Option<String> {
        let messages: Vec<_> = messages.iter().map(ChatMessage::from).collect();
        check(&messages).err().map(|error| error.message)
    }

    #[test]
    fn results_may_come_in_any_order() {
        let user = Message::user("go");
        assert_eq!(refused(&[user.clone(), calls(&["a", "b"]), result("b"), result("a"), user]), None);
    }

    #[test]
    fn a_call_without_a_result_is_refused() {
        let end = "did not have response messages: b";
        assert!(refused(&[calls(&["a", "b"]), result("a"), Message::user("go")]).unwrap().ends_with(end));
        assert!(refused(&[calls(&["b"])]).unwrap().ends_with(end));
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        let mut chat: Vec<_> = [calls(&["a"]), result("a")].iter().map(ChatMessage::from).collect();
        assert!(check(&chat).is_ok());
        for arguments in ["{", "[]", "7", ""] {
            chat[0].tool_calls[0].function.arguments = Some(arguments.into());
            assert!(check(&chat).unwrap_err().message.starts_with("Failed to parse tool call arguments"));
        }
    }

    #[test]
    fn a_result_without_its_call_is_refused() {
        let end = "No such call: a";
        assert!(refused(&[Message::user("go"), result("a")]).unwrap().ends_with(end));
        assert!(refused(&[calls(&["a"]), result("a"), result("a")]).unwrap().ends_with(end));
    }
}
