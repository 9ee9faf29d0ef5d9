//! Streamed responses, put together item by item. What is streamed comes again in `…done` events and in the last one, and
//! has to be the same each time.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::items::{Item, ItemWords, kind, word, words};
use super::reply::{WireResponse, to_reply, unexpected, without_output};
use crate::engine::{Failure, ModelReply};
use crate::host::model::failure::unreadable;
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::finish::not_whole;
use crate::host::model::wire::kept::{EACH, weight};
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, unread};
use crate::session::Message;

/// One event, whatever it is about. What it says is read once its type is known.
#[derive(Deserialize)]
struct ResponsesEvent<'d> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    sequence_number: Option<u64>,
    #[serde(default)]
    output_index: Option<usize>,
    #[serde(default)]
    content_index: Option<usize>,
    #[serde(borrow, default)]
    item: Option<&'d RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'d RawValue>,
    #[serde(borrow, default)]
    text: Option<&'d RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'d RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'d RawValue>,
    #[serde(borrow, default)]
    response: Option<&'d RawValue>,
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct ReplyItems {
    issuer: String,
    items: Vec<StreamedItem>,
    /// The number of the last event, and whether the server numbers its events.
    last_number: Option<u64>,
    numbered: bool,
    /// The response, and its items, once it has ended.
    end: Option<(WireResponse, Vec<Item>)>,
    received: u64,
    kept: usize,
    fresh: String,
    started: bool,
}

/// One item.
#[derive(Debug, Default)]
struct StreamedItem {
    /// As it began.
    begun: Item,
    /// What has come of its parts; of a call, its arguments.
    parts: Vec<String>,
    /// As it ended.
    done: Option<Item>,
}

impl StreamDecoder for ReplyItems {
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        let data = event.data.trim();
        if data == event::DONE {
            return Ok(StreamProgress::Done);
        }
        if data.is_empty() {
            return Ok(StreamProgress::More);
        }
        let read: ResponsesEvent<'_> = match serde_json::from_str(data) {
            Ok(read) => read,
            Err(error) => {
                event::data(event, headers)?;
                return Err(unexpected(&error));
            }
        };
        let name = read.kind.as_deref().unwrap_or(&event.name);
        // All but these may be an error, in any of its forms.
        if event.name == "error" || !name.starts_with("response.") || name == "response.failed" {
            event::data(event, headers)?;
        }
        self.count(read.sequence_number)?;
        match name {
            "response.completed" | "response.incomplete" => {
                let response: WireResponse = needed(read.response)?;
                if response.error.is_some() {
                    event::data(event, headers)?;
                }
                self.end(name, response)?;
                return Ok(StreamProgress::Done);
            }
            "response.failed" => return Err(not_whole("failed", "failed")),
            _ => self.piece(name, &read)?,
        }
        Ok(StreamProgress::More)
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn kept(&self) -> usize {
        self.kept
    }

    fn fresh(&mut self) -> String {
        std::mem::take(&mut self.fresh)
    }

    fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        let Some((response, items)) = self.end else { return Err(unread::ended_early(self.started)) };
        to_reply(items, &response, conversation, &self.issuer)
    }
}

impl ReplyItems {
    /// Nothing yet, of that issuer.
    pub(super) fn of(issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), ..Self::default() }
    }

    /// An event that comes twice, or too late. Servers that give all events one number do not number them.
    fn count(&mut self, number: Option<u64>) -> Result<(), Failure> {
        let Some(number) = number else { return Ok(()) };
        match self.last_number {
            Some(last) if number <= last && self.numbered => {
                return Err(unreadable(format!(
                    "event {number} of the stream comes after event {last}: it is repeated or out of order"
                )));
            }
            Some(last) => self.numbered |= number > last,
            None => {}
        }
        self.last_number = Some(number);
        Ok(())
    }

    /// An event in the middle.
    fn piece(&mut self, name: &str, read: &ResponsesEvent<'_>) -> Result<(), Failure> {
        let part = read.content_index.unwrap_or_default();
        match name {
            "response.output_item.added" => self.begin(read.output_index, needed(read.item)?),
            "response.output_text.delta" | "response.refusal.delta" => {
                let more: String = needed(read.delta)?;
                self.add(read.output_index, part, &more)?;
                self.fresh.push_str(&more);
                Ok(())
            }
            "response.function_call_arguments.delta" => {
                self.add(read.output_index, 0, &needed::<String>(read.delta)?)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.received = self.received.saturating_add(chars(&needed::<String>(read.delta)?));
                Ok(())
            }
            "response.output_text.done" => self.check(read.output_index, part, &needed::<String>(read.text)?),
            "response.refusal.done" => self.check(read.output_index, part, &needed::<String>(read.refusal)?),
            "response.function_call_arguments.done" => {
                self.check(read.output_index, 0, &needed::<String>(read.arguments)?)
            }
            "response.output_item.done" => self.finish(read.output_index, needed(read.item)?),
            // Types that are new are to be passed over.
            _ => {
                self.started |= name.starts_with("response.");
                Ok(())
            }
        }
    }

    fn begin(&mut self, index: Option<usize>, begun: Item) -> Result<(), Failure> {
        let next = self.items.len();
        if let Some(index) = index.filter(|index| *index != next) {
            return Err(unreadable(format!(
                "the stream of the answer begins output item {index} where item {next} is next"
            )));
        }
        self.started = true;
        self.received = self.received.saturating_add(chars(word(&begun, "name")));
        self.kept = self.kept.saturating_add(size(&begun));
        self.items.push(StreamedItem { begun, ..StreamedItem::default() });
        Ok(())
    }

    fn add(&mut self, index: Option<usize>, part: usize, more: &str) -> Result<(), Failure> {
        self.item(index)?.part(part)?.push_str(more);
        self.kept = self.kept.saturating_add(more.len());
        self.received = self.received.saturating_add(chars(more));
        Ok(())
    }

    /// All that a part says: what was streamed of it, unless that is nothing.
    fn check(&mut self, index: Option<usize>, part: usize, whole: &str) -> Result<(), Failure> {
        let streamed = self.item(index)?.part(part)?;
        if streamed == whole {
            return Ok(());
        }
        if !streamed.is_empty() {
            return Err(differs("an event of its end"));
        }
        let is_text = kind(&self.item(index)?.begun) == "message";
        self.add(index, part, whole)?;
        if is_text {
            self.fresh.push_str(whole);
        }
        Ok(())
    }

    fn finish(&mut self, index: Option<usize>, done: Item) -> Result<(), Failure> {
        match words(&done) {
            ItemWords::Message(texts) => {
                for (part, text) in texts.into_iter().enumerate() {
                    self.check(index, part, text)?;
                }
            }
            ItemWords::Call(.., arguments) => self.check(index, 0, arguments)?,
            ItemWords::Other(_) => {}
        }
        let done_size = size(&done);
        let item = self.item(index)?;
        item.agrees(&done)?;
        let streamed = size(&item.begun).saturating_add(item.parts.drain(..).map(|part| part.len()).sum());
        item.begun.clear();
        item.done = Some(done);
        self.kept = self.kept.saturating_add(done_size).saturating_sub(streamed);
        Ok(())
    }

    /// The item with that index, which is not done.
    fn item(&mut self, index: Option<usize>) -> Result<&mut StreamedItem, Failure> {
        let index = index.unwrap_or_else(|| self.items.len().saturating_sub(1));
        let item = self.items.get_mut(index).filter(|item| item.done.is_none());
        item.ok_or_else(|| {
            unreadable(format!(
                "the stream of the answer continues with output item {index}, which has not begun or has ended"
            ))
        })
    }

    /// The last event: what it says of the items has to be what was streamed.
    fn end(&mut self, name: &str, mut response: WireResponse) -> Result<(), Failure> {
        let status = name.trim_start_matches("response.");
        if response.status.as_deref() != Some(status) {
            return Err(differs("the status in its last event"));
        }
        let last = response.output.take();
        if last.is_none() && self.items.is_empty() {
            return Err(without_output());
        }
        if last.as_ref().is_some_and(|last| last.len() != self.items.len()) {
            return Err(differs("the number of items in its last event"));
        }
        let mut last = last.map(Vec::into_iter);
        let mut items = Vec::with_capacity(self.items.len());
        for (at, streamed) in std::mem::take(&mut self.items).into_iter().enumerate() {
            items.push(streamed.whole(at, last.as_mut().and_then(Iterator::next), status)?);
        }
        self.end = Some((response, items));
        Ok(())
    }
}

impl StreamedItem {
    /// What has come of that part.
    fn part(&mut self, part: usize) -> Result<&mut String, Failure> {
        if part == self.parts.len() {
            self.parts.push(String::new());
        }
        self.parts.get_mut(part).ok_or_else(|| {
            unreadable(format!("the stream of the answer continues with part {part}, which has not begun"))
        })
    }

    /// Whether `done` is how this item ends, as far as its beginning says it.
    fn agrees(&self, done: &Item) -> Result<(), Failure> {
        let same = match (words(&self.begun), words(done)) {
            (ItemWords::Message(_), ItemWords::Message(texts)) => self.parts.len() <= texts.len(),
            (ItemWords::Call(id, name, _), ItemWords::Call(done_id, done_name, _)) => {
                let same = |begun: &str, done: &str| begun.is_empty() || begun == done;
                same(id, done_id) && same(name, done_name)
            }
            (ItemWords::Other(begun), ItemWords::Other(done)) => begun == done,
            _ => false,
        };
        if same { Ok(()) } else { Err(differs("an event of its end")) }
    }

    /// The item, which the last event has again, unless the server leaves it out.
    fn whole(self, at: usize, last: Option<Item>, status: &str) -> Result<Item, Failure> {
        match (self.done, last) {
            (Some(done), Some(last)) if words(&done) != words(&last) => {
                Err(differs(&format!("output item {at} in its last event")))
            }
            (Some(done), _) => Ok(done),
            // Where the answer was stopped, its last item may have no end of its own.
            (None, Some(last)) if status == "incomplete" && self.parts == texts(&last) => Ok(last),
            (None, _) => Err(unreadable(format!(
                "the stream of the answer is `{status}`, but output item {at} has not ended"
            ))),
        }
    }
}

/// The texts of an item that are streamed.
fn texts(item: &Item) -> Vec<&str> {
    match words(item) {
        ItemWords::Message(texts) => texts,
        ItemWords::Call(.., arguments) => vec![arguments],
        ItemWords::Other(_) => Vec::new(),
    }
}

/// A stream that contradicts itself.
fn differs(what: &str) -> Failure {
    unreadable(format!("the stream of the answer contradicts itself: {what} is not what was streamed"))
}

/// What an event of that type has to have.
fn needed<T: DeserializeOwned>(value: Option<&RawValue>) -> Result<T, Failure> {
    serde_json::from_str(value.map_or("null", RawValue::get)).map_err(|error| unexpected(&error))
}

/// About how many bytes an item takes.
fn size(item: &Item) -> usize {
    EACH + item.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
}
