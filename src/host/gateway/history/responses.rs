//! Responses of `OpenAI`: calls and their results are items, which their ids pair wherever they stand.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::json::{RawFields, changed, set, with_field, with_text};
use super::{
    CallOutcome, HistoryItem, HistoryReader, ItemPlace, ReadContent, RequestHistory, WrittenElement,
    WrittenItem, calls, outcomes,
};
use crate::session::Message;

/// How the item of a call ends that a tool of the client answers with free text.
const CUSTOM: &str = "custom_tool_call";

/// The items that belong to no other one, beside messages, calls and results.
const ALONE: [&str; 6] = [
    "reasoning",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
];

/// What kind of item it is.
enum ItemKind {
    Call,
    Result,
    /// Something else that the model has made, such as what it says or thinks.
    Made,
    System,
    User,
}

fn kind(fields: &RawFields<'_>) -> ItemKind {
    match (fields.text("type").as_deref(), fields.text("role").as_deref()) {
        (Some("function_call" | CUSTOM), _) => ItemKind::Call,
        (Some("function_call_output" | "custom_tool_call_output"), _) => ItemKind::Result,
        (Some("message") | None, Some("system" | "developer")) => ItemKind::System,
        (Some("message") | None, Some("assistant")) | (Some("reasoning"), _) => ItemKind::Made,
        (Some(made), None) if made.ends_with("_call") => ItemKind::Made,
        _ => ItemKind::User,
    }
}

/// Reads the list; `None`: it continues another one, or a call or a result names no id.
pub(super) fn read<'a>(reader: &mut HistoryReader<'a>, list: &[&'a RawValue]) -> Option<()> {
    // Results stand behind the calls that they answer, as a provider takes them from anywhere.
    let mut results: Vec<(usize, HistoryItem)> = Vec::new();
    let mut made_by = HashMap::<String, usize>::new();
    let mut open = None;
    for (number, element) in list.iter().enumerate() {
        let fields = RawFields::of(element);
        reader.element(element, None);
        let place = ItemPlace { element: number, part: None };
        let kind = kind(&fields);
        if let (ItemKind::Made | ItemKind::User, Some(named)) = (&kind, fields.text("type")) {
            reader.unknown |= named != "message" && !ALONE.contains(&&*named);
        }
        match kind {
            ItemKind::System => {
                open = None;
                let ReadContent { text, others } = reader.content(fields.get("content"));
                reader.whole(Message::System { text }, others);
            }
            ItemKind::User => {
                if fields.text("type").is_some_and(|kind| kind == "item_reference") {
                    return None;
                }
                open = None;
                let ReadContent { text, others } = reader.content(fields.get("content"));
                reader.whole(Message::user(text), others);
            }
            ItemKind::Result => {
                let call = fields.text("call_id")?.into_owned();
                // The next call is one of another turn.
                open = None;
                let behind = made_by.get(&call).copied().unwrap_or(reader.items.len());
                let ReadContent { text, others } = reader.content(fields.get("output"));
                let message = reader.result(call, text);
                results.push((behind, HistoryItem { message, from: vec![place], calls: Vec::new(), others }));
            }
            kind @ (ItemKind::Call | ItemKind::Made) => {
                let item = *open.get_or_insert_with(|| {
                    let message =
                        Message::Assistant { text: String::new(), calls: Vec::new(), extra: Map::new() };
                    let (from, calls, others) = (Vec::new(), Vec::new(), Vec::new());
                    reader.items.push(HistoryItem { message, from, calls, others });
                    reader.items.len()
                });
                let call = if matches!(kind, ItemKind::Call) {
                    let (id, name) = (fields.text("call_id")?.into_owned(), fields.text("name")?);
                    made_by.insert(id.clone(), item);
                    let arguments = fields.text("arguments").unwrap_or_default().into_owned();
                    Some(reader.call(id, name.into_owned(), arguments))
                } else {
                    None
                };
                let said = reader.content(fields.get("content"));
                let item = reader.items.get_mut(item.checked_sub(1)?)?;
                let Message::Assistant { text, calls, .. } = &mut item.message else { return None };
                item.from.push(place);
                if let Some(call) = call {
                    calls.push(call);
                    item.calls.push(place);
                } else {
                    text.push_str(&said.text);
                    item.others.extend(said.others);
                }
            }
        }
    }
    results.sort_by_key(|(behind, _)| *behind);
    let mut results = results.into_iter().peekable();
    let items = core::mem::take(&mut reader.items);
    for (before, item) in items.into_iter().enumerate() {
        while let Some((_, result)) = results.next_if(|(behind, _)| *behind <= before) {
            reader.items.push(result);
        }
        reader.items.push(item);
    }
    reader.items.extend(results.map(|(_, result)| result));
    Some(())
}

/// Writes the list: items stay where they are, and results that are put in follow the calls.
pub(super) fn write(history: &RequestHistory, items: &[WrittenItem<'_>]) -> Option<Vec<WrittenElement>> {
    let count = history.elements.len();
    let mut written: Vec<Option<WrittenElement>> = core::iter::repeat_with(|| None).take(count).collect();
    // What is put in, by the number of the element behind which it stands.
    let mut put_in: Vec<(Option<usize>, String)> = Vec::new();
    let mut anchor = None;
    let custom = custom_calls(history);
    for item in items {
        let before = item.from.and_then(|from| history.items.get(from));
        let Some(before) = before else {
            put_in.push((anchor, new(&custom, item.message)));
            continue;
        };
        let elements = if item.is_kept || before.message == *item.message {
            before.from.iter().map(|place| (place.element, WrittenElement::Kept(place.element))).collect()
        } else {
            changed_item(history, before, item.message)?
        };
        if !matches!(item.message, Message::Tool { .. }) {
            anchor = elements.last().map(|(at, _)| *at).or(anchor);
        }
        for (at, element) in elements {
            *written.get_mut(at)? = Some(element);
        }
    }
    put_in.sort_by_key(|(anchor, _)| *anchor);
    let mut put_in = put_in.into_iter().peekable();
    let mut list = Vec::with_capacity(count);
    let mut push_behind = |anchor: Option<usize>, list: &mut Vec<WrittenElement>| {
        while let Some((_, item)) = put_in.next_if(|(behind, _)| *behind == anchor) {
            list.push(WrittenElement::New(item));
        }
    };
    push_behind(None, &mut list);
    for (at, element) in written.into_iter().enumerate() {
        list.extend(element);
        push_behind(Some(at), &mut list);
    }
    Some(list)
}

/// What stays of the items of a message.
fn changed_item(
    history: &RequestHistory,
    before: &HistoryItem,
    now: &Message,
) -> Option<Vec<(usize, WrittenElement)>> {
    let change = |at: usize, name: &str, to: &str| {
        let element = changed(history.of_element(at)?, |item| set(item, name, to))?;
        Some((at, WrittenElement::New(element)))
    };
    if matches!(now, Message::Tool { .. }) {
        let (at, text) = (before.from.first()?.element, Value::from(now.text()).to_string());
        let element = with_field(history.of_element(at)?, "output", &text)?;
        return Some(vec![(at, WrittenElement::New(element))]);
    }
    let mut outcomes = outcomes(before, now).into_iter().peekable();
    let mut text = (now.text() != before.message.text()).then(|| now.text());
    let replaces = text.is_some();
    let (mut elements, mut thoughts) = (Vec::new(), Vec::new());
    for place in &before.from {
        let at = place.element;
        let kept = (at, WrittenElement::Kept(at));
        let raw: &RawValue = serde_json::from_str(history.of_element(at)?).ok()?;
        let fields = RawFields::of(raw);
        if fields.text("type").is_some_and(|kind| kind == "reasoning") {
            // It is refused "without its required following item", so it goes with the call that it led to.
            thoughts.push(kept);
            continue;
        }
        let element = match outcomes.next_if(|(call, _)| call == place).map(|(_, outcome)| outcome) {
            Some(CallOutcome::Goes) => {
                thoughts.clear();
                continue;
            }
            Some(CallOutcome::Changed(arguments)) => change(at, "arguments", &arguments)?,
            None if replaces && fields.get("content").is_some() => {
                let Some(text) = text.take() else { continue };
                (at, WrittenElement::New(with_text(history.of_element(at)?, "content", text)?))
            }
            Some(CallOutcome::Stays) | None => kept,
        };
        elements.append(&mut thoughts);
        elements.push(element);
    }
    Some(elements)
}

/// The ids of calls that are answered with free text.
fn custom_calls(history: &RequestHistory) -> HashSet<&str> {
    let calls = history.items.iter().flat_map(|item| item.calls.iter().zip(calls(&item.message)));
    let is_custom =
        |place: &ItemPlace| history.of_element(place.element).is_some_and(|call| call.contains(CUSTOM));
    calls.filter(|(place, _)| is_custom(place)).map(|(_, call)| call.id.as_str()).collect()
}

fn new(custom: &HashSet<&str>, message: &Message) -> String {
    let value = match message {
        Message::Tool { call, text, .. } => {
            let is_custom = custom.contains(call.as_str());
            let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
            json!({"type": kind, "call_id": call, "output": text})
        }
        Message::System { text } => json!({"type": "message", "role": "developer", "content": text}),
        Message::User { text, .. } => json!({"type": "message", "role": "user", "content": text}),
        Message::Assistant { text, .. } => json!({"type": "message", "role": "assistant", "content": text}),
    };
    value.to_string()
}
