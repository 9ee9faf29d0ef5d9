//! Reasoning in the content of a message: Databricks has it among the parts for Anthropic's models, signed, and Mistral for its own;
//! Gemini's compatible API writes it into the text.

use serde_json::{Value, json};

use super::message::{ChatContent, ChatMessage};
use crate::host::model::wire::chars;
use crate::host::model::wire::extras::REASONING_PARTS;

/// Where a part of that type has its texts: Databricks, Mistral.
const TEXTS: [(&str, &str); 2] = [("reasoning", "summary"), ("thinking", "thinking")];

/// What thoughts of Gemini's models end with in a text.
const THOUGHTS_END: &str = "</thought>";

/// Takes the reasoning out of the content of a message that a model has sent, and keeps it.
pub(super) fn take_reasoning(message: &mut ChatMessage) {
    let Some(ChatContent::Parts(parts)) = &mut message.content else { return };
    let taken: Vec<Value> = parts.extract_if(.., |part| texts(part).is_some()).collect();
    if !taken.is_empty() {
        message.extra.insert(REASONING_PARTS.to_owned(), taken.into());
    }
}

/// Takes thoughts of Gemini's models out of a text, where its compatible API marks them: all up to where they end. Returns how many
/// characters they have. The mark does not go back: it would make a thought of the answer.
// Google, "OpenAI compatibility", `include_thoughts`.
pub(super) fn take_thought(message: &mut ChatMessage) -> Option<u64> {
    let google = message.extra.get_mut("extra_content")?.get_mut("google")?.as_object_mut()?;
    google.shift_remove("thought").filter(|is_thought| *is_thought == true)?;
    let text = message.content.take().map(ChatContent::into_text).unwrap_or_default();
    let (thought, answer) = match text.split_once(THOUGHTS_END) {
        Some((thought, answer)) => (chars(thought), Some(ChatContent::Text(answer.to_owned()))),
        None => (chars(&text), None),
    };
    message.content = answer;
    Some(thought)
}

/// Takes the end of thoughts out of the first text behind them.
pub(super) fn take_thoughts_end(message: &mut ChatMessage) {
    if let Some(ChatContent::Text(text)) = &mut message.content
        && let Some(answer) = text.strip_prefix(THOUGHTS_END)
    {
        *text = answer.to_owned();
    }
}

/// What came in pieces becomes the parts that they are of.
pub(super) fn join_pieces(parts: &mut Vec<Value>) {
    let mut joined: Vec<Value> = Vec::new();
    for part in parts.drain(..) {
        let part = match joined.last_mut() {
            Some(last) => match join(last, part) {
                Some(part) => part,
                None => continue,
            },
            None => part,
        };
        joined.push(part);
    }
    *parts = joined;
}

/// Puts a piece behind the part that it continues; the piece, if it is another part.
fn join(last: &mut Value, piece: Value) -> Option<Value> {
    let Some(field) = texts(&piece).filter(|field| texts(last) == Some(field)) else { return Some(piece) };
    let Some(all) = last.get_mut(field).and_then(Value::as_array_mut) else { return Some(piece) };
    let Some(more) = piece.get(field).and_then(Value::as_array) else { return Some(piece) };
    // A signature ends a part.
    if all.last().is_some_and(|text| says(text, "signature")) {
        return Some(piece);
    }
    for text in more {
        let Some(more) = text.get("text").and_then(Value::as_str) else {
            all.push(text.clone());
            continue;
        };
        match all.last_mut() {
            Some(Value::Object(known)) if known.get("text").is_some_and(Value::is_string) => {
                if let Some(Value::String(said)) = known.get_mut("text") {
                    said.push_str(more);
                }
                if says(text, "signature") {
                    known.insert("signature".to_owned(), text["signature"].clone());
                }
            }
            _ => all.push(text.clone()),
        }
    }
    None
}

fn says(text: &Value, field: &str) -> bool {
    text.get(field).and_then(Value::as_str).is_some_and(|said| !said.is_empty())
}

/// What the reasoning among parts says.
pub(super) fn said(parts: &Value) -> impl Iterator<Item = &str> {
    let parts = parts.as_array().into_iter().flatten();
    let lists = parts.filter_map(|part| part.get(texts(part)?)?.as_array());
    lists.flatten().filter_map(|text| text.get("text")?.as_str())
}

/// The content of a message with the reasoning that came with it.
pub(super) fn with_reasoning(content: Option<ChatContent>, mut parts: Vec<Value>) -> ChatContent {
    let text = content.map(ChatContent::into_text).unwrap_or_default();
    if !text.trim().is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
    ChatContent::Parts(parts)
}

/// The field of a part that is reasoning which has its texts; `None`: it is something else.
fn texts(part: &Value) -> Option<&'static str> {
    let kind = part.get("type")?.as_str()?;
    TEXTS.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field)
}
