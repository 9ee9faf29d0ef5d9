//! The items of a stream: which of them an event is about, and what has come of each.
//!
//! Few servers write all that `OpenAI` does. llama.cpp sends no `output_index` and ends all items at the end; `LiteLLM` gives
//! several items one index and sends texts of items that it never began (BerriAI/litellm#36375); mistral.rs gives an item
//! another id in each event (EricLBuehler/mistral.rs#1944). So an item is found by whatever agrees.

use serde_json::{Value, json};

use super::items::{Item, kind, same_arguments, text_of, word};
use crate::engine::Failure;
use crate::host::model::failure::unreadable;
use crate::host::model::wire::kept::{EACH, entries_weight};

/// The most parts of one item.
const MOST_PARTS: usize = 1000;

/// What an event says about its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemPlace<'e> {
    pub(super) index: Option<u64>,
    /// Its id; empty if the event has none.
    pub(super) id: &'e str,
    /// Its `call_id`; empty if the event has none.
    pub(super) call: &'e str,
    /// Its type.
    pub(super) kind: &'e str,
}

impl<'e> ItemPlace<'e> {
    /// The place of a whole item.
    pub(super) fn of(index: Option<u64>, item: &'e Item) -> Self {
        Self { index, id: word(item, "id"), call: word(item, "call_id"), kind: kind(item) }
    }
}

/// One item.
#[derive(Debug, Default)]
pub(super) struct StreamedItem {
    index: Option<u64>,
    /// Its ids: some servers change them.
    ids: Vec<String>,
    call: String,
    kind: String,
    /// Of a call: its name, once it is known.
    name: String,
    /// What it held as it began.
    begun: Item,
    /// What has come of its parts; of a call, its arguments.
    parts: Vec<String>,
    /// As it ended.
    done: Option<Item>,
}

/// Where an item is among the others.
enum FoundItem {
    Open(usize),
    Ended,
    Unknown,
}

/// The item of that place, which has not ended. One that was never begun begins here.
pub(super) fn find<'i>(
    items: &'i mut Vec<StreamedItem>,
    place: ItemPlace<'_>,
) -> Result<&'i mut StreamedItem, Failure> {
    let at = match position(items, place) {
        FoundItem::Open(at) => at,
        FoundItem::Ended => {
            return Err(unreadable(format!(
                "the stream of the answer continues with an output item (`{}`) that has ended",
                place.kind
            )));
        }
        FoundItem::Unknown => {
            items.push(StreamedItem::at(place));
            items.len().saturating_sub(1)
        }
    };
    items.get_mut(at).ok_or_else(|| unreadable("the stream of the answer has no such output item"))
}

/// Forgets an item of that place that began as another kind and of which nothing was streamed: Perplexity begins its search as a call,
/// which becomes `search_results`.
pub(super) fn forget_other(items: &mut Vec<StreamedItem>, place: ItemPlace<'_>) {
    let is_other = |item: &StreamedItem| {
        let same = item.index.is_some() && item.index == place.index && item.done.is_none();
        same && item.is_call() && item.parts.iter().all(String::is_empty)
    };
    if !matches!(place.kind, "message" | "function_call" | "reasoning") {
        items.retain(|item| !is_other(item));
    }
}

/// Whether an item of that place has begun before, so that its beginning is repeated.
pub(super) fn is_repeated(items: &[StreamedItem], place: ItemPlace<'_>) -> bool {
    let nameless = place.id.is_empty() && place.call.is_empty();
    items.iter().any(|item| {
        let same = item.index == place.index && item.fits(place);
        same && (item.is_named(place) || (nameless && place.index.is_some()))
    })
}

fn position(items: &[StreamedItem], place: ItemPlace<'_>) -> FoundItem {
    let last =
        |test: &dyn Fn(&StreamedItem) -> bool| items.iter().rposition(|item| item.fits(place) && test(item));
    let open = |item: &StreamedItem| item.done.is_none();
    let at_index = |item: &StreamedItem| place.index.is_some() && item.index == place.index;
    let same_index = |item: &StreamedItem| item.index == place.index;
    let named = |item: &StreamedItem| item.is_named(place);
    if let Some(at) = last(&|item| open(item) && same_index(item) && named(item)) {
        return FoundItem::Open(at);
    }
    if last(&|item| same_index(item) && named(item)).is_some() {
        return FoundItem::Ended;
    }
    let found =
        last(&|item| open(item) && named(item)).or_else(|| last(&|item| open(item) && at_index(item)));
    // Without an index and a known id it is the item that is open.
    let found = found.or_else(|| last(&|item| open(item) && (place.index.is_none() || item.index.is_none())));
    if let Some(at) = found {
        return FoundItem::Open(at);
    }
    let nameless = place.id.is_empty() && place.call.is_empty();
    let ended = |item: &StreamedItem| named(item) || (nameless && (place.index.is_none() || at_index(item)));
    if last(&ended).is_some() { FoundItem::Ended } else { FoundItem::Unknown }
}

impl StreamedItem {
    /// An item of which nothing has come.
    fn at(place: ItemPlace<'_>) -> Self {
        let mut item = Self { index: place.index, kind: place.kind.to_owned(), ..Self::default() };
        item.name_it(place);
        item
    }

    /// An item as it begins.
    pub(super) fn begun(index: Option<u64>, begun: Item) -> Self {
        let item = Self::at(ItemPlace::of(index, &begun));
        Self { name: word(&begun, "name").to_owned(), begun, ..item }
    }

    fn name_it(&mut self, place: ItemPlace<'_>) {
        if !place.id.is_empty() && !self.ids.iter().any(|id| id == place.id) {
            self.ids.push(place.id.to_owned());
        }
        if self.call.is_empty() {
            place.call.clone_into(&mut self.call);
        }
    }

    /// Whether it may be the one of that place: of its type, and no other call.
    fn fits(&self, place: ItemPlace<'_>) -> bool {
        let same_call = self.call.is_empty() || place.call.is_empty() || self.call == place.call;
        self.kind == place.kind && same_call
    }

    fn is_named(&self, place: ItemPlace<'_>) -> bool {
        let same_id = !place.id.is_empty() && self.ids.iter().any(|id| id == place.id);
        same_id || (!place.call.is_empty() && self.call == place.call)
    }

    pub(super) fn index(&self) -> Option<u64> {
        self.index
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_call(&self) -> bool {
        self.kind == "function_call"
    }

    pub(super) fn is_message(&self) -> bool {
        self.kind == "message"
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// What has come of that part.
    pub(super) fn part(&mut self, part: usize) -> Result<&mut String, Failure> {
        if part < MOST_PARTS && part >= self.parts.len() {
            // A part of which nothing came is not streamed.
            self.parts.resize_with(part.saturating_add(1), String::new);
        }
        self.parts.get_mut(part).ok_or_else(|| {
            unreadable(format!("the stream of the answer continues with part {part} of an output item"))
        })
    }

    /// Its text or its arguments, as far as they have come.
    pub(super) fn words(&self) -> String {
        self.done.as_ref().map_or_else(|| self.parts.concat(), text_of)
    }

    /// Whether `last` may be this item: the same if it has ended, and otherwise what it would have become.
    pub(super) fn may_become(&self, last: &Item) -> bool {
        let (streamed, whole) = (self.words(), text_of(last));
        let same_name = self.name.is_empty() || self.name == word(last, "name");
        let same = if self.is_call() { same_arguments(&streamed, &whole) } else { streamed == whole };
        same_name && (same || (!self.is_done() && whole.starts_with(&streamed)))
    }

    /// Takes the item as it ended. Its words have been compared with what was streamed.
    pub(super) fn finish(&mut self, done: Item) -> Result<(), Failure> {
        let name = word(&done, "name");
        if !self.name.is_empty() && self.name != name {
            return Err(differs("an event of its end"));
        }
        name.clone_into(&mut self.name);
        self.name_it(ItemPlace::of(self.index, &done));
        self.begun.clear();
        self.parts.clear();
        self.done = Some(done);
        Ok(())
    }

    /// The item, if it has ended.
    pub(super) fn into_done(self) -> Option<Item> {
        self.done
    }

    /// The item of an answer that was stopped, as far as it came.
    pub(super) fn into_stopped(self) -> Option<Item> {
        let Self { mut begun, parts, done: None, .. } = self else { return self.done };
        let mut set = |field: &str, value: Value| drop(begun.insert(field.to_owned(), value));
        set("status", "incomplete".into());
        match self.kind.as_str() {
            "message" => {
                let part = |text: String| json!({"type": "output_text", "text": text, "annotations": []});
                set("type", "message".into());
                set("role", "assistant".into());
                set("content", parts.into_iter().map(part).collect());
            }
            "function_call" => {
                set("type", "function_call".into());
                set("arguments", parts.concat().into());
            }
            _ => return None,
        }
        Some(begun)
    }

    /// About how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        let parts: usize = self.parts.iter().map(String::len).sum();
        let done = self.done.as_ref().map(entries_weight).unwrap_or_default();
        EACH.saturating_add(entries_weight(&self.begun)).saturating_add(parts).saturating_add(done)
    }
}

/// A stream that contradicts itself.
pub(super) fn differs(what: &str) -> Failure {
    unreadable(format!("the stream of the answer contradicts itself: {what} is not what was streamed"))
}
