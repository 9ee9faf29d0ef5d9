//! The conversation as a list of items.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::ResponsesFormat;
use super::continued::kept_response;
use super::items::{Item, kind, parts, said, word};
use crate::host::model::wire::extras::{ISSUER, ITEMS, RESPONSE};
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::pieces::{LENGTH, pieces, with_rest};
use crate::host::model::wire::sendable::sendable;
use crate::host::port::ModelRequest;
use crate::session::{Message, ToolCall};

/// The input of a request, and the response that it continues: then it is what came after that.
pub(super) fn input(format: &ResponsesFormat, request: &ModelRequest<'_>) -> (Vec<Value>, Option<String>) {
    let messages = sendable(request.messages, IdForm::WORD, &request.tools);
    let previous = Some(request.messages).filter(|_| format.continues());
    let previous = previous.and_then(|messages| kept_response(messages, &format.issuer, &format.lost));
    // The server knows the calls by the ids that it gave them.
    let previous = previous.filter(|kept| matches!(messages.get(kept.at), Some(Cow::Borrowed(_))));
    let from = previous.as_ref().map_or(0, |kept| kept.at.saturating_add(1));
    (items(format, messages.get(from..).unwrap_or_default()), previous.map(|kept| kept.id.to_owned()))
}

fn items(format: &ResponsesFormat, messages: &[Cow<'_, Message>]) -> Vec<Value> {
    let mut input = Vec::new();
    for message in messages {
        match &**message {
            Message::System { text } => input.push(message_item("system", text)),
            Message::User { text, .. } => input.push(message_item("user", text)),
            Message::Tool { text, call, .. } => {
                input.push(json!({"type": "function_call_output", "call_id": call, "output": text}));
            }
            Message::Assistant { text, calls, extra } => input.extend(reply(format, text, calls, extra)),
        }
    }
    input
}

/// What a model said before: as it came if this one sent it, and otherwise its text and its calls.
fn reply(format: &ResponsesFormat, text: &str, calls: &[ToolCall], extra: &Map<String, Value>) -> Vec<Value> {
    let response = extra.get(RESPONSE);
    let items = response.and_then(|response| response.get(ITEMS)?.as_array()).map_or(&[][..], Vec::as_slice);
    let own = response.and_then(|response| response.get(ISSUER)) == Some(&json!(format.issuer));
    let mut turn = SentTurn::of(text, calls, items);
    let mut sent: Vec<Option<Value>> = items.iter().map(|item| turn.item(item)).collect();
    if !own || !keeps_reasoning(format, &sent) {
        for item in &mut sent {
            *item = item.take().and_then(plain);
        }
    }
    sent.into_iter().flatten().chain(turn.rest()).collect()
}

/// Whether all reasoning can be sent, each with the item after it. One without the other is refused ("provided without
/// its required following item", vercel/ai#7099).
fn keeps_reasoning(format: &ResponsesFormat, sent: &[Option<Value>]) -> bool {
    let is_reasoning = |item: &Option<Value>| item.as_ref().is_some_and(|item| item["type"] == "reasoning");
    let mut reasoning = sent.iter().enumerate().filter(|(_, item)| is_reasoning(item));
    reasoning.all(|(at, item)| {
        let next = sent.iter().skip(at).find(|item| !is_reasoning(item));
        item.as_ref().is_some_and(|item| format.takes(item)) && next.is_some_and(Option::is_some)
    })
}

impl ResponsesFormat {
    /// Whether the server can read that reasoning again.
    fn takes(&self, reasoning: &Value) -> bool {
        let sealed = reasoning["encrypted_content"].as_str().is_some_and(|sealed| !sealed.is_empty());
        // Servers with open models write reasoning as text.
        let open = reasoning["content"].as_array().is_some_and(|content| !content.is_empty());
        (sealed || open || self.stores()) && !self.refuses_reasoning()
    }
}

/// A message of a model that is being written.
struct SentTurn<'m> {
    /// The pieces of the text that were not sent.
    pieces: std::vec::IntoIter<&'m str>,
    /// All of the text, which was changed since, so that its pieces are no longer known.
    whole: Option<&'m str>,
    /// The calls that were not sent.
    open: Vec<&'m ToolCall>,
}

impl<'m> SentTurn<'m> {
    fn of(text: &'m str, calls: &'m [ToolCall], items: &[Value]) -> Self {
        let parts = items.iter().filter_map(|item| item.get("content")?.as_array()).flatten();
        let (pieces, whole) = match pieces(text, parts) {
            Some(pieces) => (pieces, None),
            None => (Vec::new(), Some(text)),
        };
        Self { pieces: pieces.into_iter(), whole, open: calls.iter().collect() }
    }

    /// An item as it came; `None`: nothing of it is left.
    fn item(&mut self, item: &Value) -> Option<Value> {
        match item["type"].as_str() {
            Some("message") => self.message(item),
            Some("function_call") => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let at = self.open.iter().position(|call| call.id == id)?;
                Some(with_rest(call_of(self.open.remove(at)), item))
            }
            _ => Some(item.clone()),
        }
    }

    fn message(&mut self, item: &Value) -> Option<Value> {
        let mut message = item.clone();
        let parts = message["content"].as_array_mut()?;
        match self.whole.take().filter(|text| !text.trim().is_empty()) {
            Some(text) => *parts = vec![json!({"type": "output_text", "text": text, "annotations": []})],
            None => {
                for part in parts.iter_mut().filter(|part| part.get(LENGTH).is_some()) {
                    *part = part_item(self.pieces.next()?, part);
                }
            }
        }
        Some(message)
    }

    /// What no item had.
    fn rest(self) -> impl Iterator<Item = Value> {
        let text = self.whole.filter(|text| !text.trim().is_empty());
        text.map(|text| message_item("assistant", text)).into_iter().chain(self.open.into_iter().map(call_of))
    }
}

fn message_item(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": text})
}

fn call_item(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn call_of(ToolCall { id, name, arguments }: &ToolCall) -> Value {
    call_item(id, name, arguments)
}

fn part_item(text: &str, place: &Value) -> Value {
    let field = if place["type"] == "refusal" { "refusal" } else { "text" };
    let mut part = json!({"type": place["type"]});
    part[field] = text.into();
    with_rest(part, place)
}

/// An item that means the same to any server: ids tie it to reasoning, which is left out, as is all that only its sender
/// knows.
fn plain(item: Value) -> Option<Value> {
    let Value::Object(item) = item else { return None };
    match kind(&item) {
        "message" => plain_message(&item),
        "function_call" => {
            Some(call_item(word(&item, "call_id"), word(&item, "name"), word(&item, "arguments")))
        }
        _ => None,
    }
}

fn plain_message(item: &Item) -> Option<Value> {
    let text: String = parts(item).filter_map(said).map(|(_, text)| text).collect();
    if text.trim().is_empty() {
        return None;
    }
    let mut message = message_item("assistant", &text);
    // "dropping it can degrade performance" (`easy_input_message_param.py`).
    if let phase @ ("commentary" | "final_answer") = word(item, "phase") {
        message["phase"] = phase.into();
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::host::model::fuzzed::{request, responses};

    fn sent(format: &ResponsesFormat, messages: &[Message]) -> Vec<Value> {
        input(format, &request(messages)).0
    }

    fn elsewhere() -> ResponsesFormat {
        ResponsesFormat { issuer: "other main".into(), ..responses() }
    }

    fn reasoning(id: &str) -> Value {
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "c2VhbGVk"})
    }

    fn text_item(phase: &str, text: &str) -> Value {
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": phase,
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    }

    fn item_of_call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}", "id": format!("fc_{id}"), "status": "completed"})
    }

    /// The message that a response with these items is.
    fn said(items: &[Value]) -> Message {
        let body = json!({"status": "completed", "output": items}).to_string();
        let format = responses();
        let reply =
            crate::host::model::fuzzed::read_as(&format, "application/json", &[body.as_bytes()]).unwrap();
        let calls = reply.calls.into_iter().map(|proposal| proposal.call).collect();
        Message::Assistant { text: reply.text, calls, extra: reply.extra }
    }

    fn result(call: &str) -> Message {
        Message::Tool {
            call: call.into(),
            tool: "look".into(),
            text: "seen".into(),
            error: false,
            handle: None,
        }
    }

    fn plain_call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
    }

    fn turn() -> Vec<Value> {
        let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        vec![
            reasoning("rs_1"),
            text_item("commentary", "Süß. "),
            search,
            reasoning("rs_2"),
            item_of_call("a"),
            item_of_call("b"),
        ]
    }

    #[test]
    fn each_role_as_it_is_written() {
        let messages = [
            Message::System { text: "s".into() },
            Message::user("u"),
            said(&[item_of_call("a")]),
            result("a"),
        ];
        assert_eq!(
            sent(&responses(), &messages),
            [
                json!({"type": "message", "role": "system", "content": "s"}),
                json!({"type": "message", "role": "user", "content": "u"}),
                plain_call("a"),
                json!({"type": "function_call_output", "call_id": "a", "output": "seen"}),
            ]
        );
        let silent = Message::Assistant { text: " ".into(), calls: vec![], extra: Map::new() };
        assert_eq!(sent(&responses(), &[silent]), [] as [Value; 0]);
    }

    #[test]
    fn all_items_go_back_to_their_issuer_as_they_came() {
        assert_eq!(sent(&responses(), &[said(&turn())]), turn());
    }

    #[test]
    fn another_issuer_gets_text_and_calls_alone() {
        let plain = [
            json!({"type": "message", "role": "assistant", "content": "Süß. ", "phase": "commentary"}),
            plain_call("a"),
            plain_call("b"),
        ];
        assert_eq!(sent(&elsewhere(), &[said(&turn())]), plain);
        let format = responses();
        format.refuses_reasoning.store(true, Ordering::Relaxed);
        assert_eq!(sent(&format, &[said(&turn())]), plain);
    }

    #[test]
    fn reasoning_goes_with_the_item_after_it_or_not_at_all() {
        let without = |call: &str| {
            let mut message = said(&turn());
            if let Message::Assistant { calls, .. } = &mut message {
                calls.retain(|kept| kept.id != call);
            }
            sent(&responses(), &[message])
        };
        let mut as_it_came = turn();
        as_it_came.pop();
        assert_eq!(without("b"), as_it_came);
        assert_eq!(
            without("a"),
            [
                json!({"type": "message", "role": "assistant", "content": "Süß. ", "phase": "commentary"}),
                plain_call("b")
            ]
        );
        assert_eq!(
            sent(&responses(), &[said(&[text_item("final_answer", "x"), reasoning("rs_1")])]).len(),
            1
        );
        assert_eq!(sent(&responses(), &[said(&[reasoning("rs_1")])]), [] as [Value; 0]);
    }

    #[test]
    fn reasoning_that_the_server_cannot_read_stays_here() {
        let mut open = reasoning("rs_1");
        open.as_object_mut().unwrap().remove("encrypted_content");
        let items = [open.clone(), item_of_call("a")];
        assert_eq!(sent(&responses(), &[said(&items)]), [plain_call("a")]);
        let stores = |store: Value| {
            let extra = [("store".to_owned(), store)].into_iter().collect();
            sent(&ResponsesFormat { extra, ..responses() }, &[said(&items)])
        };
        assert_eq!(stores(json!(true)), items);
        assert_eq!(stores(Value::Null), items);
        assert_eq!(stores(json!(false)), [plain_call("a")]);
        open["content"] = json!([{"type": "reasoning_text", "text": "hm"}]);
        let items = [open, item_of_call("a")];
        assert_eq!(sent(&responses(), &[said(&items)]), items);
    }

    #[test]
    fn what_was_taken_out_of_a_text_stays_out() {
        let items =
            [reasoning("rs_1"), text_item("commentary", "The key is x."), text_item("final_answer", " Yes.")];
        let mut message = said(&items);
        if let Message::Assistant { text, .. } = &mut message {
            *text = "The key is [redacted]. Yes.".into();
        }
        let redacted = text_item("commentary", "The key is [redacted]. Yes.");
        assert_eq!(sent(&responses(), &[message.clone()]), [reasoning("rs_1"), redacted]);
        if let Message::Assistant { text, .. } = &mut message {
            text.clear();
        }
        assert_eq!(sent(&responses(), &[message]), [] as [Value; 0]);
    }

    #[test]
    fn a_refusal_goes_back_as_one() {
        let mut refusal = text_item("final_answer", "");
        refusal["content"] = json!([{"type": "refusal", "refusal": "No."}]);
        assert_eq!(sent(&responses(), &[said(&[refusal.clone()])]), [refusal.clone()]);
        let plain =
            json!({"type": "message", "role": "assistant", "content": "No.", "phase": "final_answer"});
        assert_eq!(sent(&elsewhere(), &[said(&[refusal])]), [plain]);
    }

    #[test]
    fn ids_of_calls_have_at_most_64_characters() {
        let long = "x".repeat(69);
        let items = sent(&responses(), &[said(&[reasoning("rs_1"), item_of_call(&long)]), result(&long)]);
        let id = items[1]["call_id"].as_str().unwrap();
        assert!(IdForm::WORD.takes(id), "{id}");
        assert_eq!((&items[1]["id"], &items[2]["call_id"]), (&json!(format!("fc_{long}")), &json!(id)));
    }
}
