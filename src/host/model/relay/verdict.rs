//! Whether a client can use an answer: whether it says anything, and whether its calls can be read.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::engine::{Failure, FinishReason, ModelReply};
use crate::host::model::wire::readable;
use crate::policy::ErrorClass;
use crate::session::{Message, is_object};
use crate::text::repair::repair;

/// The failure of a reply that says nothing; `None`: it says something, or why it does not.
pub(super) fn fault_of(reply: &ModelReply) -> Option<Failure> {
    if !is_silent(reply) {
        return None;
    }
    let mut besides = reply.extra.iter().filter(|(field, _)| *field != Message::ANSWER_FIELDS).peekable();
    if besides.peek().is_none() {
        return Some(Failure::of(ErrorClass::EmptyResponse, "the answer is empty"));
    }
    // What else there is may be of a kind that is not known here: an image, or what a tool of the provider did.
    besides.all(|(field, value)| is_reasoning(field, value)).then(|| {
        Failure::of(ErrorClass::ReasoningOnly, "the answer is reasoning only, without a text or a call")
    })
}

/// Whether a reply has no text and no call, and does not say why.
pub(super) fn is_silent(reply: &ModelReply) -> bool {
    let is_plain =
        matches!(reply.finish, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Unsaid);
    is_plain && reply.text.trim().is_empty() && reply.calls.is_empty()
}

/// The reply, if its calls can be read: as JSON, which a client then reads itself.
///
/// # Errors
/// One of them cannot, in a reply that was not cut.
pub(super) fn checked(reply: ModelReply) -> Result<ModelReply, Failure> {
    let can_be_read = |arguments: &str| {
        arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok()
    };
    match reply.calls.iter().find(|proposed| !can_be_read(&proposed.call.arguments)) {
        Some(broken) if !is_cut(&reply) => Err(malformed(&broken.call.name)),
        _ => Ok(reply),
    }
}

/// The reply with calls whose arguments are objects. Broken ones are repaired if `repairs`; of a reply that was cut they are left
/// out, as what they would have become is unknown.
///
/// # Errors
/// One of them is none, in a reply that was not cut.
pub(super) fn usable(mut reply: ModelReply, repairs: bool) -> Result<ModelReply, Failure> {
    let is_cut = is_cut(&reply);
    let mut broken = None;
    reply.calls.retain_mut(|proposed| {
        let call = &mut proposed.call;
        if let Some(object) = object(&call.arguments, repairs && !is_cut) {
            call.arguments = object;
            return true;
        }
        broken = broken.take().or_else(|| Some(call.name.clone()));
        false
    });
    match broken.filter(|_| !is_cut) {
        Some(name) => Err(malformed(&name)),
        None => Ok(reply),
    }
}

/// Arguments as an object; `None`: they are none.
fn object(arguments: &str, repairs: bool) -> Option<String> {
    if arguments.trim().is_empty() || is_object(arguments) {
        return Some(arguments.to_owned());
    }
    let read = readable(arguments).filter(|other| is_object(other));
    read.or_else(|| {
        let repaired = repair(arguments).ok().filter(|_| repairs)?;
        repaired.value.is_object().then(|| repaired.value.to_string())
    })
}

fn malformed(name: &str) -> Failure {
    Failure::of(
        ErrorClass::MalformedToolCall,
        format!("the arguments of the call of `{name}` are no JSON object"),
    )
}

const fn is_cut(reply: &ModelReply) -> bool {
    matches!(reply.finish, FinishReason::Length | FinishReason::ContextWindow)
}

/// Whether a part of a reply is what the model thought, by the names of all providers, or the place of a text, which says nothing itself.
pub(super) fn thinks(item: &Map<String, Value>) -> bool {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
    matches!(kind, "thinking" | "redacted_thinking" | "reasoning" | "text")
        || item.get("thought") == Some(&Value::Bool(true))
        || ["chars", "reasoningContent"].iter().any(|key| item.contains_key(*key))
}

/// Whether a field besides the text is what the model thought.
fn is_reasoning(field: &str, value: &Value) -> bool {
    match value.as_array().or_else(|| value.get("items")?.as_array()) {
        Some(items) => items.iter().all(|item| item.as_object().is_some_and(thinks)),
        None => field.starts_with("reasoning") || field.starts_with("thinking"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::ToolCall;

    fn reply(finish: FinishReason, extra: Value) -> ModelReply {
        let Value::Object(extra) = extra else { panic!("{extra}") };
        ModelReply { finish, extra, ..ModelReply::default() }
    }

    #[test]
    fn an_answer_is_judged_by_what_it_says() {
        let empty = Some(ErrorClass::EmptyResponse);
        let thought = Some(ErrorClass::ReasoningOnly);
        let image = json!({"inlineData": {"mimeType": "image/png", "data": ""}});
        for (finish, extra, class) in [
            (FinishReason::Stop, json!({}), empty),
            (FinishReason::ToolCalls, json!({}), empty),
            (FinishReason::Length, json!({}), None),
            (FinishReason::ContentFilter, json!({}), None),
            (FinishReason::Other("new".into()), json!({}), None),
            (FinishReason::Stop, json!({"reasoning_content": "hm"}), thought),
            (
                FinishReason::Stop,
                json!({"thinking_anthropic": [{"type": "thinking"}, {"type": "text"}]}),
                thought,
            ),
            (FinishReason::Stop, json!({"output_responses": {"items": [{"type": "reasoning"}]}}), thought),
            (FinishReason::Stop, json!({"thinking_gemini": {"items": [{"thought": true}, image]}}), None),
            (FinishReason::Stop, json!({"x": {"items": [{"reasoningContent": {}}]}}), thought),
            (FinishReason::Stop, json!({"thinking_anthropic": [{"type": "server_tool_use"}]}), None),
            (FinishReason::Stop, json!({"audio": {"id": "a"}}), None),
            (FinishReason::Stop, json!({"answer_fields": {"fields": {"provider": "x"}}}), empty),
            (FinishReason::Stop, json!({"reasoning": "hm", "answer_fields": {"fields": {}}}), thought),
        ] {
            let judged = fault_of(&reply(finish.clone(), extra.clone()));
            assert_eq!(judged.and_then(|failure| failure.class), class, "{finish:?} {extra}");
        }
    }

    fn called(finish: FinishReason, arguments: &str) -> ModelReply {
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: arguments.into() };
        ModelReply { calls: vec![call.into()], finish, ..ModelReply::default() }
    }

    #[test]
    fn calls_that_cannot_be_read_are_a_failure_unless_the_reply_was_cut() {
        for (arguments, passes, fits) in [
            ("", true, true),
            ("{}", true, true),
            (r#"{"a":"\ud800","b":1e400}"#, true, true),
            ("[1]", true, false),
            (r#"{"a": "#, false, false),
        ] {
            assert_eq!(checked(called(FinishReason::ToolCalls, arguments)).is_ok(), passes, "{arguments}");
            assert_eq!(
                usable(called(FinishReason::ToolCalls, arguments), false).is_ok(),
                fits,
                "{arguments}"
            );
        }
        let cut = called(FinishReason::Length, r#"{"a": "#);
        assert_eq!(checked(cut.clone()), Ok(cut.clone()));
        assert_eq!(usable(cut, true).unwrap().calls, []);
        let mended = usable(called(FinishReason::ToolCalls, "{'a': 1,}"), true).unwrap();
        assert_eq!(mended.calls.first().map(|proposed| &*proposed.call.arguments), Some(r#"{"a":1}"#));
    }
}
