//! The conversation in the body of a request: read into messages, each with its place, and written again where it was changed.
//!
//! What is changed, the policy decides: the interpreter gets the messages, and its replacements come back. Elements that are left
//! alone keep their bytes.

mod chat;
mod json;
mod responses;
mod size;
#[cfg(test)]
mod size_tests;
mod sources;
#[cfg(test)]
mod tests;
mod turns;

use core::ops::Range;
use std::collections::HashMap;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use self::json::text;
pub(super) use self::json::{RawText, items, place, replaced};
pub(super) use self::size::{DECLARED, INSTRUCTIONS};
use self::turns::TurnForm;
use super::request::RequestBody;
use crate::context::TokenEstimator;
use crate::host::model::front::GatewayDialect;
use crate::session::{Message, ToolCall};

/// What the body of every request with a call or a result has.
const MARKS: [&str; 3] = ["tool_", "_call", "unction"];
/// The bytes of a body that may be too long for a window: no model has one of fewer tokens than these are.
const LONG: usize = 4096;

/// The conversation in the body of a request.
pub(super) struct RequestHistory {
    dialect: GatewayDialect,
    body: Bytes,
    elements: Vec<Element>,
    items: Vec<HistoryItem>,
    /// Whether it has elements that may belong to others: then none is left out.
    unknown: bool,
    /// How its tokens are counted.
    counter: TokenEstimator,
    /// The tokens of the instructions beside it.
    instructions: u64,
    /// Those of the tools, and of a schema for the answer.
    declared: u64,
    /// The most tokens of the answer, if the client says so.
    reply: Option<u64>,
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
    /// Where its parts are that are no text, no call and no result, such as images.
    others: Vec<Range<usize>>,
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
    /// Most are kept, and take little.
    New(Box<Message>),
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
    /// Whether there are elements that may belong to others.
    unknown: bool,
}

/// What a content says, and where its other parts are.
#[derive(Default)]
struct ReadContent {
    text: String,
    others: Vec<Range<usize>>,
}

impl From<Message> for HistoryPiece {
    fn from(message: Message) -> Self {
        Self::New(Box::new(message))
    }
}

impl RequestHistory {
    /// Reads the conversation of a request, whose tokens are counted so. `fits`: it may have to be reduced. `None`: it has no
    /// call and no result and is short, or what it has cannot be told apart.
    pub(super) fn read(
        dialect: GatewayDialect,
        body: &RequestBody,
        counter: TokenEstimator,
        fits: bool,
    ) -> Option<Self> {
        let text = core::str::from_utf8(body.bytes()).ok()?;
        let is_long = fits && text.len() >= LONG;
        // Most requests without a call are known by this.
        let has = |mark: &&str| memmem::find(text.as_bytes(), mark.as_bytes()).is_some();
        if !(is_long || MARKS.iter().any(has)) || body.is_continued() {
            return None;
        }
        let list = body.field(match dialect {
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
            unknown: false,
        };
        match dialect {
            GatewayDialect::Chat => chat::read(&mut reader, &list)?,
            GatewayDialect::Messages => turns::read(&mut reader, &list, &TurnForm::MESSAGES)?,
            GatewayDialect::Gemini => turns::read(&mut reader, &list, &TurnForm::GEMINI)?,
            GatewayDialect::Responses => responses::read(&mut reader, &list)?,
        }
        let HistoryReader { elements, items, unknown, .. } = reader;
        let (instructions, declared) = size::beside(body, text, &counter);
        let (body, reply) = (body.bytes().clone(), body.reply());
        Some(Self { dialect, body, elements, items, unknown, counter, instructions, declared, reply })
    }

    /// The pieces, of which none is changed yet.
    pub(super) fn pieces(&self) -> Vec<HistoryPiece> {
        (0..self.items.len()).map(HistoryPiece::Kept).collect()
    }

    /// The messages of these pieces.
    pub(super) fn messages(&self, pieces: &[HistoryPiece]) -> Vec<Message> {
        let message = |piece: &HistoryPiece| match piece {
            HistoryPiece::Kept(at) => self.items.get(*at).map(|item| item.message.clone()),
            HistoryPiece::New(message) => Some(Message::clone(message)),
        };
        pieces.iter().filter_map(message).collect()
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

    /// What new messages were made of: only what differs is written anew.
    fn written<'a>(&'a self, pieces: &'a [HistoryPiece]) -> Vec<WrittenItem<'a>> {
        let written = |(piece, from): (&'a HistoryPiece, Option<usize>)| {
            let (message, is_kept) = match piece {
                HistoryPiece::Kept(at) => (&self.items.get(*at)?.message, true),
                HistoryPiece::New(message) => (&**message, false),
            };
            Some(WrittenItem { message, from, is_kept })
        };
        pieces.iter().zip(self.sources(pieces)).filter_map(written).collect()
    }

    /// The body with these elements. What is between two that were neighbours before stays, too.
    fn joined(&self, elements: &[WrittenElement]) -> Option<String> {
        let whole = self.elements.first()?.at.start..self.elements.last()?.at.end;
        let mut body = String::with_capacity(self.body.len());
        body.push_str(self.text(0..whole.start)?);
        let mut before = None;
        for element in elements {
            let at = match element {
                WrittenElement::Kept(at) => Some(*at),
                WrittenElement::New(_) => None,
            };
            let after = before.flatten().and_then(|before: usize| before.checked_add(1));
            let between = after.filter(|after| Some(*after) == at).and_then(|after| {
                let start = self.elements.get(after.checked_sub(1)?)?.at.end;
                self.text(start..self.elements.get(after)?.at.start)
            });
            if before.is_some() {
                body.push_str(between.unwrap_or(","));
            }
            body.push_str(match element {
                WrittenElement::Kept(at) => self.of_element(*at)?,
                WrittenElement::New(text) => text,
            });
            before = Some(at);
        }
        before?;
        body.push_str(self.text(whole.end..self.body.len())?);
        Some(body)
    }

    /// What the body says there.
    fn text(&self, at: Range<usize>) -> Option<&str> {
        core::str::from_utf8(self.body.get(at)?).ok()
    }

    /// The bytes of an element.
    fn of_element(&self, at: usize) -> Option<&str> {
        self.text(self.elements.get(at)?.at.clone())
    }

    /// The bytes of a part.
    fn of_part(&self, element: usize, part: usize) -> Option<&str> {
        let list = self.elements.get(element)?.list.as_ref()?;
        self.text(list.parts.get(part)?.clone())
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
    fn whole(&mut self, message: Message, others: Vec<Range<usize>>) {
        let from = vec![ItemPlace { element: self.last(), part: None }];
        self.items.push(HistoryItem { message, from, calls: Vec::new(), others });
    }

    /// The text of a content: it is one, or the parts that are.
    fn content(&self, value: Option<&'a RawValue>) -> ReadContent {
        let Some(value) = value else { return ReadContent::default() };
        let Some(parts) = items(value) else {
            return ReadContent { text: text(value).unwrap_or_default().into_owned(), others: Vec::new() };
        };
        let (mut texts, mut others) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            match json::RawFields::of(part).text("text") {
                Some(text) => texts.push(text),
                None => others.push(place(self.body, part.get())),
            }
        }
        ReadContent { text: texts.join("\n\n"), others }
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

fn calls(message: &Message) -> &[ToolCall] {
    match message {
        Message::Assistant { calls, .. } => calls,
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
    }
}
