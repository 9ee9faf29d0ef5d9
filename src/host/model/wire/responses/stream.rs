//! Streamed responses, put together item by item. What is streamed comes again in `…done` events and in the last one, and
//! has to be the same each time. An answer counts if its last event has come and each of its items is whole, in an event of
//! its own or in the last one.

use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::items::{Item, kind, normal, same_arguments, text_of};
use super::reply::{WireResponse, to_reply, unexpected, without_output};
use super::streamed::{ItemPlace, StreamedItem, differs, find, forget_other, is_repeated};
use crate::engine::{Failure, ModelReply};
use crate::host::model::failure::unreadable;
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::finish::not_whole;
use crate::host::model::wire::objects::ObjectReader;
use crate::host::model::wire::tally::StreamTally;
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, unread};
use crate::session::Message;

/// One event, whatever it is about. What it says is read once its type is known.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ResponsesEvent<'d> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    sequence_number: Option<i64>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    content_index: Option<usize>,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    call_id: Option<String>,
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
    #[serde(borrow, default)]
    error: Option<&'d RawValue>,
}

impl ResponsesEvent<'_> {
    /// The item of that type that the event is about.
    fn place<'e>(&'e self, kind: &'e str) -> ItemPlace<'e> {
        let (id, call) = (&self.item_id, &self.call_id);
        ItemPlace {
            index: self.output_index,
            id: id.as_deref().unwrap_or_default(),
            call: call.as_deref().unwrap_or_default(),
            kind,
        }
    }
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct ReplyItems {
    issuer: String,
    /// Whether the server keeps the response, and the next request continues it.
    keeps: bool,
    /// The most tokens that were asked for.
    most: Option<u64>,
    items: Vec<StreamedItem>,
    numbers: EventNumbers,
    /// The response, and its items, once it has ended.
    end: Option<(WireResponse, Vec<Item>)>,
    fields: AnswerFields,
    tally: StreamTally,
    started: bool,
}

/// The numbers of the events. Servers that give all events one number do not number them.
#[derive(Debug, Default)]
struct EventNumbers {
    last: Option<i64>,
    /// Whether the server numbers its events.
    counts: bool,
    /// Whether the last event did not have the next number.
    jumped: bool,
    /// Whether an earlier one did not.
    has_jumped: bool,
}

impl EventNumbers {
    /// An event that comes twice, or too late.
    fn take(&mut self, number: Option<i64>) -> Result<(), Failure> {
        let Some(number) = number else { return Ok(()) };
        if let Some(last) = self.last {
            if number <= last && self.counts {
                return Err(unreadable(format!(
                    "event {number} of the stream comes after event {last}: it is repeated or out of order"
                )));
            }
            self.counts |= number > last;
            self.has_jumped |= self.jumped;
            self.jumped = number != last.saturating_add(1);
        }
        self.last = Some(number);
        Ok(())
    }

    /// Whether events are missing before the last one, though none was before.
    fn lost_the_last(&self) -> bool {
        self.counts && self.jumped && !self.has_jumped
    }
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
        let failed = event.name == "error" || name == "response.failed" || read.error.is_some();
        if failed || !name.starts_with("response.") {
            event::data(event, headers)?;
        }
        self.numbers.take(read.sequence_number)?;
        match name {
            // `response.done` is how the Realtime API of OpenAI calls it.
            "response.completed" | "response.incomplete" | "response.done" => {
                let response: WireResponse = needed(read.response)?;
                if response.error.is_some() {
                    event::data(event, headers)?;
                }
                self.end(name, response)?;
                return Ok(StreamProgress::Done);
            }
            "response.failed" | "response.cancelled" => {
                let status = name.trim_start_matches("response.");
                return Err(not_whole(status, status));
            }
            _ => self.piece(name, &read)?,
        }
        Ok(StreamProgress::More)
    }

    fn tally(&self) -> &StreamTally {
        &self.tally
    }

    fn tally_mut(&mut self) -> &mut StreamTally {
        &mut self.tally
    }

    fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        let Some((response, items)) = self.end else { return Err(unread::ended_early(self.started)) };
        to_reply(items, &response, self.fields, conversation, (&self.issuer, self.keeps, self.most))
    }
}

impl ReplyItems {
    /// Nothing yet, of that issuer.
    pub(super) fn of(issuer: &str, keeps: bool, most: Option<u64>) -> Self {
        Self { issuer: issuer.to_owned(), keeps, most, ..Self::default() }
    }

    /// An event in the middle.
    fn piece(&mut self, name: &str, read: &ResponsesEvent<'_>) -> Result<(), Failure> {
        let part = read.content_index.unwrap_or_default();
        let (message, call) = (read.place("message"), read.place("function_call"));
        match name {
            "response.output_item.added" => match read.item {
                Some(item) => self.begin(read.output_index, needed(Some(item))?),
                // "A provider emits an empty added event" (`_responses.py` of OpenAI's SDK).
                None => Ok(()),
            },
            "response.output_text.delta" | "response.refusal.delta" => {
                self.add(message, part, &needed::<String>(read.delta)?)
            }
            "response.function_call_arguments.delta" => self.add(call, 0, &needed::<String>(read.delta)?),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.started = true;
                self.tally.received =
                    self.tally.received.saturating_add(chars(&needed::<String>(read.delta)?));
                Ok(())
            }
            "response.output_text.done" => self.check(message, part, &needed::<String>(read.text)?),
            "response.refusal.done" => self.check(message, part, &needed::<String>(read.refusal)?),
            "response.function_call_arguments.done" => {
                self.check(call, 0, &needed::<String>(read.arguments)?)
            }
            "response.output_item.done" => self.finish(read, normal(needed(read.item)?)?),
            // Types that are new are to be passed over.
            _ => {
                self.started |= name.starts_with("response.");
                Ok(())
            }
        }
    }

    fn begin(&mut self, index: Option<u64>, begun: Item) -> Result<(), Failure> {
        if is_repeated(&self.items, ItemPlace::of(index, &begun)) {
            return Err(unreadable("the stream of the answer begins an output item twice"));
        }
        self.tally.has_calls |= kind(&begun) == "function_call";
        let begun = StreamedItem::begun(index, begun);
        self.started = true;
        self.tally.received = self.tally.received.saturating_add(chars(begun.name()));
        self.tally.kept = self.tally.kept.saturating_add(begun.size());
        self.items.push(begun);
        Ok(())
    }

    fn add(&mut self, place: ItemPlace<'_>, part: usize, more: &str) -> Result<(), Failure> {
        find(&mut self.items, place)?.part(part)?.push_str(more);
        self.started = true;
        self.tally.kept = self.tally.kept.saturating_add(more.len());
        self.show(place.kind, more);
        Ok(())
    }

    /// More of what the model says.
    fn show(&mut self, kind: &str, more: &str) {
        self.tally.received = self.tally.received.saturating_add(chars(more));
        if kind == "message" {
            self.tally.fresh.push_str(more);
        }
    }

    /// All that a part says: what was streamed of it, unless that is nothing.
    fn check(&mut self, place: ItemPlace<'_>, part: usize, whole: &str) -> Result<(), Failure> {
        let item = find(&mut self.items, place)?;
        let is_call = item.is_call();
        let streamed = item.part(part)?;
        if streamed == whole || (is_call && !streamed.is_empty() && same_arguments(streamed, whole)) {
            return Ok(());
        }
        if !streamed.is_empty() {
            return Err(differs("an event of its end"));
        }
        self.add(place, part, whole)
    }

    fn finish(&mut self, read: &ResponsesEvent<'_>, done: Item) -> Result<(), Failure> {
        let mut place = ItemPlace::of(read.output_index, &done);
        if place.id.is_empty() {
            place.id = read.item_id.as_deref().unwrap_or_default();
        }
        forget_other(&mut self.items, place);
        let item = find(&mut self.items, place)?;
        let (streamed, whole) = (item.words(), text_of(&done));
        let same = if item.is_call() { same_arguments(&streamed, &whole) } else { streamed == whole };
        if !same && !streamed.is_empty() {
            return Err(differs("an event of its end"));
        }
        let before = item.size();
        let kind = kind(&done).to_owned();
        item.finish(done)?;
        self.tally.kept = self.tally.kept.saturating_add(item.size()).saturating_sub(before);
        self.started = true;
        if streamed.is_empty() {
            self.show(&kind, &whole);
        }
        Ok(())
    }

    /// The last event: what it says of the items has to be what was streamed.
    fn end(&mut self, name: &str, mut response: WireResponse) -> Result<(), Failure> {
        let last = response.output.take();
        // One of the two has to be there, or it is no response.
        if last.is_none() && response.status.is_none() {
            return Err(differs("the status in its last event"));
        }
        let status = ended_as(name, response.status.as_deref())?;
        if last.is_none() && self.items.is_empty() {
            return Err(without_output());
        }
        let last = last.unwrap_or_default().into_iter().map(normal).collect::<Result<Vec<_>, _>>()?;
        let mut streamed = std::mem::take(&mut self.items);
        sort(&mut streamed);
        let items = if last.is_empty() {
            // Several servers leave the items out (BerriAI/litellm#32718, QuantumNous/new-api#4362).
            if self.numbers.lost_the_last() {
                return Err(unreadable("events are missing before the last one of the stream"));
            }
            streamed_alone(streamed, status)?
        } else {
            self.agreed(streamed, last, status)?
        };
        response.status = Some(status.to_owned());
        self.tally.kept = self.fields.add(response.rest(), self.tally.kept);
        self.end = Some((response, items));
        Ok(())
    }

    /// The items that were streamed and those of the last event, if they say the same.
    fn agreed(
        &mut self,
        streamed: Vec<StreamedItem>,
        last: Vec<Item>,
        status: &str,
    ) -> Result<Vec<Item>, Failure> {
        let text = |items: &[Item]| {
            items.iter().filter(|item| kind(item) == "message").map(text_of).collect::<String>()
        };
        let messages = || streamed.iter().filter(|item| item.is_message());
        let (said, whole) = (messages().map(StreamedItem::words).collect::<String>(), text(&last));
        let all_done = messages().all(StreamedItem::is_done);
        let Some(rest) = whole.strip_prefix(said.as_str()) else {
            return Err(differs("the text in its last event"));
        };
        // What was streamed of a text that has ended is all of it.
        if all_done && !said.is_empty() && !rest.is_empty() {
            return Err(differs("the text in its last event"));
        }
        let mut calls = last.iter().filter(|item| kind(item) == "function_call");
        // A call that was stopped need not be among the items.
        let counts = |item: &&StreamedItem| item.is_call() && (item.is_done() || status != "incomplete");
        let mut streamed_calls = streamed.iter().filter(counts);
        if !streamed_calls.all(|call| calls.next().is_some_and(|last| call.may_become(last))) {
            return Err(differs("a call in its last event"));
        }
        let has_more = calls.next().is_some() || !rest.is_empty();
        self.show("message", rest);
        // The ids of a call may be others in the last event (vllm-project/vllm#47916), and of reasoning the item that ended
        // is the one to send back. What has no end of its own is only in the last event (sgl-project/sglang#12652).
        if has_more || !streamed.iter().all(StreamedItem::is_done) || last.len() > streamed.len() {
            return Ok(last);
        }
        streamed_alone(streamed, status)
    }
}

/// By their place in the answer, where each has one of its own.
fn sort(items: &mut [StreamedItem]) {
    let mut places: Vec<_> = items.iter().filter_map(StreamedItem::index).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() == items.len() {
        items.sort_by_key(StreamedItem::index);
    }
}

/// The items of a stream whose last event does not have them.
fn streamed_alone(items: Vec<StreamedItem>, status: &str) -> Result<Vec<Item>, Failure> {
    if status == "incomplete" {
        return Ok(items.into_iter().filter_map(StreamedItem::into_stopped).collect());
    }
    let whole = |(at, item): (usize, StreamedItem)| {
        item.into_done().ok_or_else(|| {
            unreadable(format!("the stream of the answer is `{status}`, but output item {at} has not ended"))
        })
    };
    items.into_iter().enumerate().map(whole).collect()
}

/// How a response has ended, by the type of its last event and its status.
fn ended_as(name: &str, status: Option<&str>) -> Result<&'static str, Failure> {
    match (name, status) {
        ("response.completed", None) | ("response.completed" | "response.done", Some("completed")) => {
            Ok("completed")
        }
        // vLLM ends every stream with `response.completed` (vllm-project/vllm#45386).
        (_, Some("incomplete")) | ("response.incomplete", None) => Ok("incomplete"),
        (_, Some(status @ ("failed" | "cancelled"))) => Err(not_whole(status, status)),
        _ => Err(differs("the status in its last event")),
    }
}

/// What an event of that type has to have.
fn needed<T: DeserializeOwned>(value: Option<&RawValue>) -> Result<T, Failure> {
    serde_json::from_str(value.map_or("null", RawValue::get)).map_err(|error| unexpected(&error))
}

impl<'de: 'd, 'd> Deserialize<'de> for ResponsesEvent<'d> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(ObjectReader(deserializer))
    }
}
