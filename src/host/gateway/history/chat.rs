//! Chat Completions: a message is an element, and a result names its call.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::json::{RawFields, changed, set, with_field, with_text};
use super::{
    CallOutcome, HistoryItem, HistoryReader, ItemPlace, ReadContent, RequestHistory, WrittenElement,
    WrittenItem, outcomes,
};
use crate::session::Message;

/// Reads the list; `None`: a call or a result names no id.
pub(super) fn read<'a>(reader: &mut HistoryReader<'a>, list: &[&'a RawValue]) -> Option<()> {
    for element in list {
        let fields = RawFields::of(element);
        let parts = reader.element(element, fields.get("tool_calls"));
        let ReadContent { text, others } = reader.content(fields.get("content"));
        match &*fields.text("role")? {
            "assistant" => {
                let (mut calls, mut places) = (Vec::new(), Vec::new());
                for (number, part) in parts.into_iter().enumerate() {
                    let call = RawFields::of(part);
                    let function = call.within("function");
                    // What is free text cannot be malformed.
                    let arguments = function.get("arguments").map(|arguments| match super::text(arguments) {
                        Some(text) => text.into_owned(),
                        None => arguments.get().to_owned(),
                    });
                    let name = function.text("name").or_else(|| call.within("custom").text("name"));
                    let (id, name) = (call.text("id")?, name?.into_owned());
                    calls.push(reader.call(id.into_owned(), name, arguments.unwrap_or_default()));
                    places.push(ItemPlace { element: reader.last(), part: Some(number) });
                }
                let from = vec![ItemPlace { element: reader.last(), part: None }];
                let message = Message::Assistant { text, calls, extra: Map::new() };
                // What calls a function the old way belongs to a result that names no id.
                reader.unknown |= fields.get("function_call").is_some();
                reader.items.push(HistoryItem { message, from, calls: places, others });
            }
            "tool" => {
                let message = reader.result(fields.text("tool_call_id")?.into_owned(), text);
                reader.whole(message, others);
            }
            "system" | "developer" => reader.whole(Message::System { text }, others),
            role => {
                reader.unknown |= role != "user";
                reader.whole(Message::user(text), others);
            }
        }
    }
    Some(())
}

/// Writes the list.
pub(super) fn write(history: &RequestHistory, items: &[WrittenItem<'_>]) -> Option<Vec<WrittenElement>> {
    let element = |item: &WrittenItem<'_>| {
        let Some((item_before, at)) = item.from.and_then(|from| {
            let before = history.items.get(from)?;
            Some((before, before.from.first()?.element))
        }) else {
            return Some(WrittenElement::New(new(item.message)));
        };
        if item.is_kept || item_before.message == *item.message {
            return Some(WrittenElement::Kept(at));
        }
        let text = item.message.text();
        let calls = assistant(history, item_before, at, item.message)?;
        let written = match item.message {
            _ if text == item_before.message.text() => Some(calls),
            Message::Tool { .. } => with_field(&calls, "content", &Value::from(text).to_string()),
            _ => with_text(&calls, "content", text),
        };
        written.map(WrittenElement::New)
    };
    items.iter().map(element).collect()
}

/// An element with the calls that stay.
fn assistant(history: &RequestHistory, before: &HistoryItem, at: usize, now: &Message) -> Option<String> {
    let whole = history.of_element(at)?;
    if before.calls.is_empty() {
        return Some(whole.to_owned());
    }
    let mut parts = Vec::new();
    for (place, outcome) in outcomes(before, now) {
        let part = history.of_part(place.element, place.part?)?;
        match outcome {
            CallOutcome::Stays => parts.push(part.to_owned()),
            CallOutcome::Changed(arguments) => {
                parts.push(changed(part, |call| set(call.get_mut("function")?, "arguments", arguments))?);
            }
            CallOutcome::Goes => {}
        }
    }
    if parts.is_empty() {
        // An empty list is refused: "[] is too short - 'messages.1.tool_calls'".
        return changed(whole, |message| message.as_object_mut()?.shift_remove("tool_calls").map(drop));
    }
    history.with_list(at, &format!("[{}]", parts.join(",")))
}

fn new(message: &Message) -> String {
    let value = match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { text, .. } => json!({"role": "user", "content": text}),
        Message::Tool { call, text, .. } => {
            json!({"role": "tool", "tool_call_id": call, "content": text})
        }
        Message::Assistant { text, .. } => json!({"role": "assistant", "content": text}),
    };
    value.to_string()
}
