//! The conversation in the body of a request: read into messages, each with its place, and written again where it was changed.
//!
//! What is changed, the policy decides: the interpreter gets the messages, and its replacements come back. Elements that are left
//! alone keep their bytes.

mod chat;
mod json;
mod responses;
#[cfg(test)]
mod tests;
mod turns;

use core::ops::Range;
use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use serde_json::value::RawValue;

pub(super) use self::json::{RawText, place};
use self::json::{items, replaced, text};
use self::turns::TurnForm;
use super::request::RequestBody;
use crate::context::CheckedHistory;
use crate::engine::TurnMeasure;
use crate::host::model::front::GatewayDialect;
use crate::session::{Message, ToolCall};

/// What the body of every request with a call or a result has.
const MARKS: [&str; 3] = ["tool_", "_call", "unction"];

/// The conversation in the body of a request.
pub(super) struct RequestHistory {
    dialect: GatewayDialect,
    /// The body.
    text: String,
    elements: Vec<Element>,
    items: Vec<HistoryItem>,
}

/// An element of the list.
struct Element {
    at: Range<usize>,
    /// What it consists of: its parts, or its calls.
    list: Option<ElementList>,
}

/// What an element consists of.
struct ElementList {
    /// Where the value is. It may be a text, which has no parts.
    at: Range<usize>,
    parts: Vec<Range<usize>>,
}

/// A message, and where it is.
struct HistoryItem {
    message: Message,
    from: Vec<ItemPlace>,
    /// Where its calls are.
    calls: Vec<ItemPlace>,
}

/// A part of an element; without its number, the whole element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ItemPlace {
    element: usize,
    part: Option<usize>,
}

/// A message of a conversation that may have been changed.
#[derive(Clone, Debug)]
pub(super) enum HistoryPiece {
    /// The one of that number, as it came.
    Kept(usize),
    New(Message),
}

/// The same with what it was made of.
struct WrittenItem<'a> {
    message: &'a Message,
    /// The number of the message that it was.
    from: Option<usize>,
    is_kept: bool,
}

/// An element of the list that is written.
enum WrittenElement {
    Kept(usize),
    New(String),
}

/// What becomes of a call.
enum CallOutcome {
    Stays,
    /// With these arguments.
    Changed(String),
    Goes,
}

/// A list that is being read.
struct HistoryReader<'a> {
    body: &'a str,
    elements: Vec<Element>,
    items: Vec<HistoryItem>,
    /// The names of calls by their ids.
    called: HashMap<String, String>,
}

impl From<Message> for HistoryPiece {
    fn from(message: Message) -> Self {
        Self::New(message)
    }
}

impl RequestHistory {
    /// Reads the conversation of a request. `None`: it has no call and no result, or what it has cannot be told apart.
    pub(super) fn read(dialect: GatewayDialect, body: &RequestBody) -> Option<Self> {
        let text = core::str::from_utf8(body.bytes()).ok()?;
        // Most requests without a call are known by this.
        if !MARKS.iter().any(|mark| text.contains(mark)) || body.is_continued() {
            return None;
        }
        let list = body.conversation(match dialect {
            GatewayDialect::Chat | GatewayDialect::Messages => "messages",
            GatewayDialect::Responses => "input",
            GatewayDialect::Gemini => "contents",
        })?;
        let list: &RawValue = serde_json::from_str(text.get(list)?).ok()?;
        let list = items(list)?;
        let mut reader = HistoryReader {
            body: text,
            elements: Vec::with_capacity(list.len()),
            items: Vec::with_capacity(list.len()),
            called: HashMap::new(),
        };
        match dialect {
            GatewayDialect::Chat => chat::read(&mut reader, &list)?,
            GatewayDialect::Messages => turns::read(&mut reader, &list, &TurnForm::MESSAGES)?,
            GatewayDialect::Gemini => turns::read(&mut reader, &list, &TurnForm::GEMINI)?,
            GatewayDialect::Responses => responses::read(&mut reader, &list)?,
        }
        let HistoryReader { elements, items, .. } = reader;
        Some(Self { dialect, text: text.to_owned(), elements, items })
    }

    /// The pieces, of which none is changed yet.
    pub(super) fn pieces(&self) -> Vec<HistoryPiece> {
        (0..self.items.len()).map(HistoryPiece::Kept).collect()
    }

    /// The messages of these pieces.
    pub(super) fn messages(&self, pieces: &[HistoryPiece]) -> Vec<Message> {
        let message = |piece: &HistoryPiece| match piece {
            HistoryPiece::Kept(at) => self.items.get(*at).map(|item| item.message.clone()),
            HistoryPiece::New(message) => Some(message.clone()),
        };
        pieces.iter().filter_map(message).collect()
    }

    /// What the interpreter has to know of it before the turn. `drops`: calls that cannot be read are to be taken out.
    pub(super) fn measure(&self, drops: bool) -> TurnMeasure {
        let messages = self.messages(&self.pieces());
        TurnMeasure {
            messages: u64::try_from(messages.len()).unwrap_or(u64::MAX),
            history_faults: CheckedHistory::default().faults(&messages, drops),
            ..TurnMeasure::default()
        }
    }

    /// The body with these pieces as its conversation. `None`: nothing would be left of it, or a piece cannot be written.
    pub(super) fn with(&self, pieces: &[HistoryPiece]) -> Option<Bytes> {
        let written = self.written(pieces);
        let elements = match self.dialect {
            GatewayDialect::Chat => chat::write(self, &written)?,
            GatewayDialect::Messages => turns::write(self, &written, &TurnForm::MESSAGES)?,
            GatewayDialect::Gemini => turns::write(self, &written, &TurnForm::GEMINI)?,
            GatewayDialect::Responses => responses::write(self, &written)?,
        };
        self.joined(&elements).map(Bytes::from)
    }

    /// Finds out what new messages were made of: only what differs is written anew.
    fn written<'a>(&'a self, pieces: &'a [HistoryPiece]) -> Vec<WrittenItem<'a>> {
        let mut free = vec![true; self.items.len()];
        for piece in pieces {
            if let HistoryPiece::Kept(at) = piece
                && let Some(free) = free.get_mut(*at)
            {
                *free = false;
            }
        }
        let (mut results, mut said) = (HashMap::<&str, VecDeque<usize>>::new(), VecDeque::new());
        for (at, item) in self.items.iter().enumerate().filter(|(at, _)| free.get(*at) == Some(&true)) {
            match &item.message {
                Message::Tool { call, .. } => results.entry(call).or_default().push_back(at),
                Message::Assistant { .. } => said.push_back(at),
                Message::System { .. } | Message::User { .. } => {}
            }
        }
        let message = |at: usize| self.items.get(at).map(|item| &item.message);
        let written = |piece: &'a HistoryPiece| match piece {
            HistoryPiece::Kept(at) => {
                Some(WrittenItem { message: message(*at)?, from: Some(*at), is_kept: true })
            }
            HistoryPiece::New(new) => {
                let from = match new {
                    // One that is put in is an error, and none of what came.
                    Message::Tool { call, error: false, .. } => {
                        results.get_mut(call.as_str()).and_then(|of_call| {
                            // Of several results of one call the same one, if it is there.
                            let same = of_call.iter().position(|at| message(*at) == Some(new));
                            of_call.remove(same.unwrap_or(0))
                        })
                    }
                    Message::Assistant { .. } => {
                        let same = said.iter().position(|at| message(*at).is_some_and(|old| is_of(new, old)));
                        same.and_then(|same| said.drain(..=same).next_back())
                    }
                    Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
                };
                Some(WrittenItem { message: new, from, is_kept: false })
            }
        };
        pieces.iter().filter_map(written).collect()
    }

    /// The body with these elements. What is between two that were neighbours before stays, too.
    fn joined(&self, elements: &[WrittenElement]) -> Option<String> {
        let whole = self.elements.first()?.at.start..self.elements.last()?.at.end;
        let mut list = String::new();
        let mut before = None;
        for element in elements {
            let at = match element {
                WrittenElement::Kept(at) => Some(*at),
                WrittenElement::New(_) => None,
            };
            let after = before.flatten().and_then(|before: usize| before.checked_add(1));
            let between = after.filter(|after| Some(*after) == at).and_then(|after| {
                let start = self.elements.get(after.checked_sub(1)?)?.at.end;
                self.text.get(start..self.elements.get(after)?.at.start)
            });
            if before.is_some() {
                list.push_str(between.unwrap_or(","));
            }
            list.push_str(match element {
                WrittenElement::Kept(at) => self.of_element(*at)?,
                WrittenElement::New(text) => text,
            });
            before = Some(at);
        }
        (!list.is_empty()).then(|| replaced(&self.text, &[(whole, &list)]))
    }

    /// The bytes of an element.
    fn of_element(&self, at: usize) -> Option<&str> {
        self.text.get(self.elements.get(at)?.at.clone())
    }

    /// The bytes of a part.
    fn of_part(&self, element: usize, part: usize) -> Option<&str> {
        let list = self.elements.get(element)?.list.as_ref()?;
        self.text.get(list.parts.get(part)?.clone())
    }

    /// An element with another value where its parts are.
    fn with_list(&self, element: usize, value: &str) -> Option<String> {
        let Element { at, list } = self.elements.get(element)?;
        let list = &list.as_ref()?.at;
        let within = list.start.checked_sub(at.start)?..list.end.checked_sub(at.start)?;
        Some(replaced(self.of_element(element)?, &[(within, value)]))
    }
}

/// What becomes of the calls of a message that is now another one, by their places.
fn outcomes(item: &HistoryItem, now: &Message) -> Vec<(ItemPlace, CallOutcome)> {
    let mut wanted = calls(now).iter().peekable();
    let outcome = |(at, call): (&ItemPlace, &ToolCall)| {
        let outcome = match wanted.next_if(|wanted| wanted.id == call.id) {
            None => CallOutcome::Goes,
            Some(wanted) if wanted.arguments == call.arguments => CallOutcome::Stays,
            Some(wanted) => CallOutcome::Changed(wanted.arguments.clone()),
        };
        (*at, outcome)
    };
    item.calls.iter().zip(calls(&item.message)).map(outcome).collect()
}

impl<'a> HistoryReader<'a> {
    /// An element, with the value that has its parts.
    fn element(&mut self, element: &'a RawValue, list: Option<&'a RawValue>) -> Vec<&'a RawValue> {
        let parts = list.and_then(items).unwrap_or_default();
        let list = list.map(|list| ElementList {
            at: place(self.body, list.get()),
            parts: parts.iter().map(|part| place(self.body, part.get())).collect(),
        });
        self.elements.push(Element { at: place(self.body, element.get()), list });
        parts
    }

    /// A message that is the last element.
    fn whole(&mut self, message: Message) {
        let from = vec![ItemPlace { element: self.last(), part: None }];
        self.items.push(HistoryItem { message, from, calls: Vec::new() });
    }

    /// The number of the last element.
    const fn last(&self) -> usize {
        self.elements.len().saturating_sub(1)
    }

    fn call(&mut self, id: String, name: String, arguments: String) -> ToolCall {
        self.called.insert(id.clone(), name.clone());
        ToolCall { id, name, arguments }
    }

    fn result(&self, call: String, text: String) -> Message {
        let tool = self.called.get(&call).cloned().unwrap_or_default();
        Message::Tool { call, tool, text, error: false, handle: None }
    }
}

/// The text of a content: it is one, or the parts that are.
fn content(value: Option<&RawValue>) -> String {
    let Some(value) = value else { return String::new() };
    match items(value) {
        Some(parts) => {
            let texts = parts.into_iter().filter_map(|part| json::RawFields::of(part).text("text"));
            texts.collect::<Vec<_>>().join("\n\n")
        }
        None => text(value).unwrap_or_default().into_owned(),
    }
}

fn calls(message: &Message) -> &[ToolCall] {
    match message {
        Message::Assistant { calls, .. } => calls,
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
    }
}

/// Whether a message of a model is another one with fewer calls, or another text.
fn is_of(new: &Message, old: &Message) -> bool {
    let mut before = calls(old).iter();
    let has_calls = calls(new).iter().all(|call| before.any(|old| old.id == call.id));
    has_calls && (!calls(new).is_empty() || new.text() == old.text())
}
