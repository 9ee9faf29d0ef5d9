//! The wire formats: what is written to a model and read from it. Which of them it is, the rest of the host does not see.

mod answer_fields;
pub(crate) mod anthropic;
pub(crate) mod chat;
mod choices;
#[cfg(feature = "bedrock")]
pub(crate) mod converse;
mod drawn;
mod event;
mod extras;
mod finish;
pub(crate) mod gemini;
mod ids;
mod kept;
mod lenient;
pub(crate) mod objects;
mod pieces;
mod readable;
mod refusal_words;
pub(crate) mod responses;
mod sendable;
mod tally;
mod turns;
mod unread;
mod usage;

use std::borrow::Cow;

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

pub(in crate::host) use finish::cut_at_limit;
#[cfg(feature = "serve")]
pub(super) use ids::IdForm;
pub(super) use readable::readable;
pub(super) use refusal_words::{RefusalWords, unquoted, without_quotations};
#[cfg(feature = "serve")]
pub(super) use sendable::sent_input;
use tally::StreamTally;

use super::sse::SseEvent;
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// One provider's way to write a request and an answer.
pub(crate) trait WireFormat: Send + Sync {
    /// The body of a request.
    ///
    /// # Errors
    /// A value that cannot be written.
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>>;

    /// The body of a response whose status says that all is well. `conversation` is what was sent: the ids of calls are
    /// unique in it.
    ///
    /// # Errors
    /// The body holds an error, is cut off, cannot be read, or holds no message.
    fn read(&self, body: &[u8], headers: &HeaderMap, conversation: &[Message])
    -> Result<ModelReply, Failure>;

    /// An answer of which nothing has come yet.
    fn begin(&self) -> Box<dyn StreamDecoder>;

    /// What `write` makes of a conversation before it writes it: the server then has this one.
    fn sent<'m>(&self, conversation: &'m [Message]) -> Cow<'m, [Message]> {
        Cow::Borrowed(conversation)
    }

    /// What of a conversation its requests leave out, or write otherwise for it, in words.
    fn left_out(&self, conversation: &[Message]) -> Vec<String>;

    /// Whether the server is not known to refuse documents in messages.
    fn takes_documents(&self) -> bool {
        true
    }

    /// Turns that the server pauses come as replies that say so, for who continues them.
    fn continue_paused(&mut self) {}

    /// What a refusal teaches about the server, in words: the request is written in another way from now on. `None`:
    /// nothing new.
    fn learn(&self, failure: &Failure) -> Option<String> {
        let _ = failure;
        None
    }
}

/// A streamed answer that is put together, piece by piece.
pub(crate) trait StreamDecoder: Send {
    /// Takes the next event.
    ///
    /// # Errors
    /// The event is an error, or cannot be read.
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure>;

    /// How much has come.
    fn tally(&self) -> &StreamTally;

    /// The same, to take the fresh text out of it.
    fn tally_mut(&mut self) -> &mut StreamTally;

    /// Whether the model has said why it stopped: what follows can no longer change the answer.
    fn is_whole(&self) -> bool;

    /// So many choices were asked for, and all of them count: unless this is said, the first alone does.
    fn ask(&mut self, choices: u64) {
        let _ = choices;
    }

    /// The reply.
    ///
    /// # Errors
    /// The stream has ended too early, or held nothing.
    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure>;
}

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamProgress {
    /// The stream continues.
    More,
    /// The stream has said that it is done.
    Done,
}

/// Some servers write it before a body, though RFC 8259 forbids it.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A body without the byte order mark.
pub(crate) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)
}

/// Adds the fields of the user to a body; null leaves out a field.
fn add_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (field, value) in extra {
        if value.is_null() {
            body.shift_remove(field);
        } else {
            body.insert(field.clone(), value.clone());
        }
    }
}

/// The same; of a mapping that is there its fields are added.
fn merge_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (field, value) in extra {
        match (body.get_mut(field), value) {
            (_, Value::Null) => drop(body.shift_remove(field)),
            (Some(Value::Object(known)), Value::Object(added)) => merge_extra(known, added),
            _ => drop(body.insert(field.clone(), value.clone())),
        }
    }
}

/// The reply has no more than so many tokens, which that field of the settings says.
fn lower(body: &mut Map<String, Value>, (settings, field): (&str, &str), most: u64) {
    let settings = body.entry(settings).or_insert_with(|| Map::new().into());
    let said = settings.get(field).and_then(Value::as_u64);
    settings[field] = said.map_or(most, |said| said.min(most)).into();
}

/// How many characters a text has.
fn chars(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}
