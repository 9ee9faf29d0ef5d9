//! Messages as lists of blocks, the way they are sent.

use serde_json::{Map, Value, json};

use super::MessagesFormat;
use crate::host::model::wire::extras::{ISSUER, ITEMS, KEPT};
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::pieces::{LENGTH, pieces, with_rest};
use crate::host::model::wire::sendable::{safe_name, sendable, sent_input};
use crate::host::model::wire::turns::RoleTurns;
use crate::session::{Message, ToolCall};

/// The conversation without what precedes it: the roles alternate, and of a user's blocks the results of tools come
/// first, as the API wants it.
pub(super) fn messages(format: &MessagesFormat, conversation: &[Message]) -> Vec<Value> {
    let mut turns = RoleTurns::default();
    for message in sendable(conversation, IdForm::WORD, &[]) {
        match &*message {
            Message::System { .. } => {}
            Message::User { text, .. } => turns.push("user", Vec::new(), said(text)),
            Message::Tool { text, call, error, .. } => {
                turns.push("user", vec![result(call, text, *error)], Vec::new());
            }
            Message::Assistant { text, calls, extra } => {
                turns.push("assistant", Vec::new(), assistant(format, text, calls, extra.get(KEPT)));
            }
        }
    }
    turns.into_messages("content")
}

/// A text as a block. A blank one is refused.
fn said(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({"type": "text", "text": text})] }
}

fn result(call: &str, text: &str, error: bool) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": call});
    // An error without a word is refused.
    let text = if error && text.trim().is_empty() { "it failed and does not say why" } else { text };
    if !text.trim().is_empty() {
        block["content"] = text.into();
    }
    if error {
        block["is_error"] = true.into();
    }
    block
}

fn call(call: &ToolCall) -> Value {
    let ToolCall { id, name, arguments } = call;
    json!({"type": "tool_use", "id": id, "name": safe_name(name), "input": sent_input(arguments)})
}

/// What a model said, in the order in which it said it if that is known. What it signed goes back to itself alone.
fn assistant(format: &MessagesFormat, text: &str, calls: &[ToolCall], kept: Option<&Value>) -> Vec<Value> {
    let own = is_own(format, kept);
    let kept = items(kept);
    let with_rest = |block, place| if own { with_rest(block, place) } else { block };
    let mut open: Vec<&ToolCall> = calls.iter().collect();
    let mut blocks = Vec::new();
    // The text was changed since, by what was taken out of it, so the lengths no longer fit.
    let (mut pieces, mut whole) = match pieces(text, kept.iter()) {
        Some(pieces) => (pieces.into_iter(), None),
        None => (Vec::new().into_iter(), Some(text)),
    };
    for place in kept {
        match place.get("type").and_then(Value::as_str) {
            Some("text") => {
                let piece = pieces.next().map(said).unwrap_or_default();
                blocks.extend(piece.into_iter().map(|block| with_rest(block, place)));
            }
            Some("tool_use") => {
                blocks.extend(whole.take().into_iter().flat_map(said));
                let id = place.get("id").and_then(Value::as_str).unwrap_or_default();
                if let Some(at) = open.iter().position(|call| call.id == id) {
                    blocks.push(with_rest(call(open.remove(at)), place));
                }
            }
            // Thinking goes back "unmodified and in [its] original order" (`thinking_block_param.py` of Anthropic's
            // SDK).
            _ if own => blocks.push(place.clone()),
            _ => {}
        }
    }
    blocks.extend(whole.take().into_iter().flat_map(said));
    blocks.extend(open.into_iter().map(call));
    blocks
}

/// Whether what is kept of a reply came from this model.
fn is_own(format: &MessagesFormat, kept: Option<&Value>) -> bool {
    kept.and_then(|kept| kept.get(ISSUER)?.as_str()) == Some(&format.issuer)
}

fn items(kept: Option<&Value>) -> &[Value] {
    kept.and_then(|kept| kept.get(ITEMS)?.as_array()).map_or(&[], Vec::as_slice)
}

fn is_thinking(block: &Value) -> bool {
    block.get("type").is_some_and(|kind| kind == "thinking" || kind == "redacted_thinking")
}

/// Whether a reply is sent with thinking of the model's own at its start.
pub(super) fn begins_thinking(format: &MessagesFormat, extra: &Map<String, Value>) -> bool {
    let kept = extra.get(KEPT);
    let begins = items(kept).first().is_some_and(is_thinking);
    begins && is_own(format, kept)
}

/// The blocks to keep of an answer; `None`: text and tool calls say it all. Of these only the places are kept, and what
/// else came with them.
pub(super) fn kept(blocks: &[Map<String, Value>], issuer: &str) -> Option<Value> {
    let mut plain = true;
    let mut keep = |block: &Map<String, Value>| {
        let (known, place): (&[&str], _) = match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
                (&["type", "text"], json!({"type": "text", LENGTH: text.chars().count()}))
            }
            Some("tool_use") => {
                let id = block.get("id").cloned().unwrap_or_default();
                (&["type", "id", "name", "input"], json!({"type": "tool_use", "id": id}))
            }
            _ => {
                plain = false;
                return Value::Object(block.clone());
            }
        };
        let rest = block.iter().filter(|(field, value)| !known.contains(&field.as_str()) && !value.is_null());
        let rest: Map<String, Value> = rest.map(|(field, value)| (field.clone(), value.clone())).collect();
        plain &= rest.is_empty();
        with_rest(place, &Value::Object(rest))
    };
    let kept: Vec<Value> = blocks.iter().map(&mut keep).collect();
    (!plain).then(|| json!({ ISSUER: issuer, ITEMS: kept }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::fuzzed::messages as format;
    use crate::host::model::wire::turns::system;

    fn tool(call: &str, text: &str, error: bool) -> Message {
        Message::Tool { call: call.into(), tool: "look".into(), text: text.into(), error, handle: None }
    }

    fn said_by_model(text: &str, calls: &[(&str, &str)], kept: Option<Value>) -> Message {
        let call = |(id, arguments): &(&str, &str)| ToolCall {
            id: (*id).into(),
            name: "look".into(),
            arguments: (*arguments).into(),
        };
        let extra = kept
            .map(|kept| (KEPT.to_owned(), json!({ISSUER: "host main", ITEMS: kept})))
            .into_iter()
            .collect();
        Message::Assistant { text: text.into(), calls: calls.iter().map(call).collect(), extra }
    }

    #[test]
    fn results_are_joined_in_one_message_and_stand_before_what_is_said() {
        let conversation = [
            Message::System { text: "Be brief.".into() },
            Message::user("go"),
            said_by_model("", &[("a", "{}"), ("b", r#"{"x":1}"#)], None),
            tool("a", "seen", false),
            Message::user("and?"),
            tool("b", "", true),
            Message::System { text: "Be kind.".into() },
            Message::user("quick"),
        ];
        assert_eq!(
            messages(&format(), &conversation),
            [
                json!({"role": "user", "content": [{"type": "text", "text": "go"}]}),
                json!({"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "look", "input": {"x": 1}},
                ]}),
                json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "it failed and does not say why", "is_error": true},
                    {"type": "text", "text": "and?"},
                    {"type": "text", "text": "quick"},
                ]}),
            ]
        );
        assert_eq!(system(&conversation).unwrap(), "Be brief.\n\nBe kind.");
        assert_eq!(system(&conversation[1..3]), None);
    }

    #[test]
    fn what_is_blank_is_not_sent() {
        let silent =
            [Message::user("go"), said_by_model(" ", &[], None), Message::user(""), Message::user("on")];
        let go = json!([{"type": "text", "text": "go"}, {"type": "text", "text": "on"}]);
        assert_eq!(messages(&format(), &silent), [json!({"role": "user", "content": go})]);
        let result = result("a", " \n", false);
        assert_eq!(result, json!({"type": "tool_result", "tool_use_id": "a"}));
    }

    #[test]
    fn ids_of_other_providers_are_sent_as_the_api_takes_them() {
        let conversation =
            [said_by_model("", &[("functions.look:0", "{}")], None), tool("functions.look:0", "x", false)];
        let sent = messages(&format(), &conversation);
        let id = sent[0]["content"][0]["id"].as_str().unwrap();
        assert!(IdForm::WORD.takes(id), "{id}");
        assert_eq!(sent[1]["content"][0]["tool_use_id"], json!(id));
    }

    #[test]
    fn thinking_goes_back_untouched_in_its_place() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
        let hidden = json!({"type": "redacted_thinking", "data": "eHg="});
        let place = json!({"type": "tool_use", "id": "a", "caller": {"type": "direct"}});
        let text = |chars: usize| json!({"type": "text", "chars": chars});
        let kept = json!([thinking, text(5), hidden, text(7), place]);
        let sent = messages(
            &format(),
            &[said_by_model("Süß! Let me.", &[("a", "{}"), ("b", "{}")], Some(kept.clone()))],
        );
        let said = |text: &str| json!({"type": "text", "text": text});
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
        let mut first = call("a");
        first["caller"] = json!({"type": "direct"});
        assert_eq!(
            sent[0]["content"],
            json!([thinking, said("Süß! "), hidden, said("Let me."), first, call("b")])
        );
        // What was taken out of the text stays out.
        let sent = messages(&format(), &[said_by_model("Süß! [redacted].", &[("a", "{}")], Some(kept))]);
        assert_eq!(sent[0]["content"], json!([thinking, hidden, said("Süß! [redacted]."), first]));
    }

    #[test]
    fn what_text_and_calls_say_is_not_kept_twice() {
        let block = |value: Value| value.as_object().cloned().unwrap();
        let plain = [
            block(json!({"type": "text", "text": "naïve", "citations": null})),
            block(json!({"type": "tool_use", "id": "a", "name": "n", "input": {"x": 1}})),
        ];
        assert_eq!(kept(&plain, "here"), None);
        let thinking = block(json!({"type": "thinking", "thinking": "hm", "signature": "s"}));
        let all: Vec<_> = [thinking.clone()].into_iter().chain(plain).collect();
        let places = json!([thinking, {"type": "text", "chars": 5}, {"type": "tool_use", "id": "a"}]);
        assert_eq!(kept(&all, "here"), Some(json!({"issuer": "here", "items": places})));
        let cited = block(json!({"type": "text", "text": "x", "citations": [{"url": "u"}]}));
        let items = json!([{"type": "text", "chars": 1, "citations": [{"url": "u"}]}]);
        assert_eq!(kept(&[cited], "here"), Some(json!({"issuer": "here", "items": items})));
    }

    #[test]
    fn what_a_model_signed_goes_back_to_itself_alone() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
        let place = json!({"type": "tool_use", "id": "a", "caller": {"type": "direct"}});
        let cited = json!({"type": "text", "chars": 5, "citations": [{"encrypted_index": "eHg="}]});
        let reply = said_by_model("Look.", &[("a", "{}")], Some(json!([thinking, cited, place])));
        let other = MessagesFormat { issuer: "elsewhere main".into(), ..format() };
        let plain = json!([
            {"type": "text", "text": "Look."}, {"type": "tool_use", "id": "a", "name": "look", "input": {}},
        ]);
        assert_eq!(messages(&other, &[reply])[0]["content"], plain);
    }
}
