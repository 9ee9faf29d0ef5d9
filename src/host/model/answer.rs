//! An answer that is being read, in the form the server chose: one body, or a stream of events.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::de::IgnoredAny;

use super::failure::{cut_off, inside_success, unreadable};
#[cfg(feature = "bedrock")]
use super::frames::FrameParser;
use super::sse::{SseEvent, SseParser};
use super::wire::{BYTE_ORDER_MARK, StreamDecoder, StreamProgress, WireFormat, readable, without_mark};
use crate::engine::{Failure, ModelReply};
use crate::host::surrogates::{ends_in_pair, join_pair};
use crate::session::Message;

/// The most bytes, blank ones too, by which a body is distinguished from a stream.
const LONGEST_START: usize = 1024;

/// How often a body that continues is looked at whether it is whole.
pub(super) const MOST_LOOKS: usize = 64;

/// An answer that is being read.
pub(super) enum HttpAnswer {
    Body(AnswerBody),
    Events(EventStream),
}

/// A body, or the start of what the headers call a stream: some servers say so of a whole answer too.
pub(super) struct AnswerBody {
    bytes: Vec<u8>,
    /// Whether the headers say that it is a stream of events.
    announced: bool,
    /// Whether they say that its events are frames of AWS.
    frames: bool,
    /// How often it may still be looked at whether it is whole.
    looks: usize,
}

/// A stream of events.
pub(super) struct EventStream {
    parser: EventParser,
    assembly: Box<dyn StreamDecoder>,
    waiting: Vec<SseEvent>,
    /// An event whose text ends with the first half of a surrogate pair: the next one may have the second.
    half: Option<Box<SseEvent>>,
    /// Whether one waits so.
    joins: bool,
    /// Whether an event has said that it is the last.
    done: bool,
}

/// What finds the events of a stream.
enum EventParser {
    Sse(SseParser),
    #[cfg(feature = "bedrock")]
    Frames(FrameParser),
}

impl HttpAnswer {
    /// What the headers say that will come.
    pub(super) fn announced_by(headers: &HeaderMap) -> Self {
        let frames = is_framed(headers);
        Self::Body(AnswerBody {
            bytes: Vec::new(),
            announced: frames || announces_events(headers),
            frames,
            looks: MOST_LOOKS,
        })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A stream that holds an error, or what cannot be read.
    pub(super) fn take(
        &mut self,
        format: &dyn WireFormat,
        bytes: &[u8],
        headers: &HeaderMap,
    ) -> Result<StreamProgress, Failure> {
        let body = match self {
            Self::Body(body) => body,
            Self::Events(events) => return events.take(bytes, headers),
        };
        body.bytes.extend_from_slice(bytes);
        if !body.is_events() {
            return Ok(if body.is_done() { StreamProgress::Done } else { StreamProgress::More });
        }
        let mut events = body.events(format);
        let progress = events.take(&body.bytes, headers);
        *self = Self::Events(events);
        progress
    }

    /// How many characters of a streamed answer have come.
    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Body(_) => 0,
            Self::Events(events) => events.received(),
        }
    }

    /// About how many bytes of it are kept: of a stream what the model says, of a body all.
    pub(super) fn kept(&self) -> usize {
        match self {
            Self::Body(body) => body.bytes.len(),
            Self::Events(events) => events.kept(),
        }
    }

    /// The text of a streamed answer that has come since this was asked last.
    pub(super) fn fresh(&mut self) -> String {
        match self {
            Self::Body(_) => String::new(),
            Self::Events(events) => events.fresh(),
        }
    }

    /// Whether the model has begun to answer.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Body(body) => !body.announced || !body.bytes.trim_ascii().is_empty(),
            Self::Events(_) => self.received() > 0,
        }
    }

    /// Whether what is still to come can no longer change it.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Events(events) if events.is_whole())
    }

    /// The reply.
    ///
    /// # Errors
    /// What has come is no answer, or not all of it.
    pub(super) fn reply(
        self,
        format: &dyn WireFormat,
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        match self {
            // A stream that never became one is read as the stream it was announced as, so an error between events
            // is found.
            Self::Body(body) if body.announced && !is_whole(&body.bytes, &mut 1) => {
                let mut events = body.events(format);
                events.take(&body.bytes, headers)?;
                events.reply(headers, conversation)
            }
            Self::Body(body) => format.read(&body.bytes, headers, conversation),
            Self::Events(events) => events.reply(headers, conversation),
        }
    }
}

impl AnswerBody {
    /// The stream that it is.
    fn events(&self, format: &dyn WireFormat) -> EventStream {
        let events = EventStream::new(format.begin());
        if self.frames { events.framed() } else { events }
    }

    /// Whether it is a stream of events. However long it becomes: what it is, its beginning says.
    fn is_events(&self) -> bool {
        self.frames || begins_stream(self.announced, &self.bytes) == Some(true)
    }

    /// Whether all of it has come though the connection may stay open, as it does behind a stream.
    fn is_done(&mut self) -> bool {
        self.announced && is_whole(&self.bytes, &mut self.looks)
    }
}

impl EventStream {
    pub(super) fn new(assembly: Box<dyn StreamDecoder>) -> Self {
        let parser = EventParser::Sse(SseParser::default());
        Self { parser, assembly, waiting: Vec::new(), half: None, joins: true, done: false }
    }

    /// A stream whose events have at most so many bytes.
    #[cfg(feature = "serve")]
    pub(super) fn with_limit(assembly: Box<dyn StreamDecoder>, limit: usize) -> Self {
        Self { parser: EventParser::Sse(SseParser::with_limit(limit)), ..Self::new(assembly) }
    }

    /// The same; what each event says is known at once if `joins` is false.
    #[cfg(feature = "serve")]
    pub(super) fn joining_pairs(self, joins: bool) -> Self {
        Self { joins, ..self }
    }

    /// The same, of frames if the headers say so.
    #[cfg(feature = "serve")]
    pub(super) fn announced_by(self, headers: &HeaderMap) -> Self {
        if is_framed(headers) { self.framed() } else { self }
    }

    /// Whether its events are frames of AWS.
    #[cfg(feature = "serve")]
    pub(super) const fn is_framed(&self) -> bool {
        !matches!(self.parser, EventParser::Sse(_))
    }

    #[cfg(feature = "bedrock")]
    fn framed(self) -> Self {
        Self { parser: EventParser::Frames(FrameParser::default()), ..self }
    }

    #[cfg(not(feature = "bedrock"))]
    const fn framed(self) -> Self {
        self
    }

    /// How many characters of the answer have come.
    pub(super) fn received(&self) -> u64 {
        self.assembly.tally().received
    }

    /// Whether a call of a tool has begun.
    #[cfg(feature = "serve")]
    pub(super) fn has_calls(&self) -> bool {
        self.assembly.tally().has_calls
    }

    /// About how many bytes of it are kept.
    pub(super) fn kept(&self) -> usize {
        self.assembly.tally().kept
    }

    /// The text that has come since this was asked last.
    pub(super) fn fresh(&mut self) -> String {
        std::mem::take(&mut self.assembly.tally_mut().fresh)
    }

    /// Whether what is still to come can no longer change the answer.
    pub(super) fn is_whole(&self) -> bool {
        self.assembly.is_whole()
    }

    /// So many choices were asked for, and all of them count.
    #[cfg(feature = "serve")]
    pub(super) fn ask(&mut self, choices: u64) {
        self.assembly.ask(choices);
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// They hold an error, or what cannot be read.
    pub(super) fn take(&mut self, bytes: &[u8], headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        let pushed = self.parser.push(bytes, &mut self.waiting);
        let mut progress = StreamProgress::More;
        let mut events = core::mem::take(&mut self.waiting);
        for event in events.drain(..) {
            progress = self.take_event(event, headers)?;
            if progress == StreamProgress::Done {
                self.done = true;
                break;
            }
        }
        self.waiting = events;
        self.strays(headers)?;
        if progress == StreamProgress::Done {
            return Ok(progress);
        }
        pushed?;
        Ok(StreamProgress::More)
    }

    /// Takes an event, and the one before it that has waited for it.
    fn take_event(&mut self, mut event: SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        if let Some(mut first) = self.half.take() {
            join_pair(&mut first.data, &mut event.data);
            self.assemble(*first, headers)?;
        }
        if self.joins && ends_in_pair(&event.data) {
            self.half = Some(Box::new(event));
            return Ok(StreamProgress::More);
        }
        self.assemble(event, headers)
    }

    fn assemble(&mut self, mut event: SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        if let Some(data) = readable(&event.data) {
            event.data = data;
        }
        self.assembly.take(&event, headers)
    }

    /// Some servers write what went wrong without making an event of it.
    fn strays(&mut self, headers: &HeaderMap) -> Result<(), Failure> {
        let read = |text: String| serde_json::from_str(&text).ok();
        let found = self
            .parser
            .strays()
            .into_iter()
            .filter_map(read)
            .find_map(|value| inside_success(&value, headers));
        found.map_or(Ok(()), Err)
    }

    /// The reply.
    ///
    /// # Errors
    /// The stream has ended too early, or held nothing.
    pub(super) fn reply(
        mut self,
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        // What comes behind the last event counts for nothing, whatever of it has arrived.
        if self.done {
            return self.assembly.reply(conversation);
        }
        if self.parser.is_open() {
            return Err(cut_off("the stream of the answer ends in the middle of a frame"));
        }
        if let Some(last) = self.parser.finish() {
            // The HTML standard drops an event that no blank line ends. Servers do leave that line out, so one that
            // is whole JSON counts.
            if last.data.trim() == "[DONE]" || serde_json::from_str::<IgnoredAny>(&last.data).is_ok() {
                self.take_event(last, headers)?;
            }
        }
        if let Some(first) = self.half.take() {
            self.assemble(*first, headers)?;
        }
        self.strays(headers)?;
        self.assembly.reply(conversation)
    }
}

impl EventParser {
    /// Takes the next bytes, and appends the events that they complete.
    fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), Failure> {
        match self {
            Self::Sse(parser) => parser.push(bytes, events).map_err(|error| unreadable(error.to_string())),
            #[cfg(feature = "bedrock")]
            Self::Frames(parser) => parser.push(bytes, events).map_err(|error| unreadable(error.to_string())),
        }
    }

    /// What comes between the events and looks like JSON.
    fn strays(&mut self) -> Vec<String> {
        match self {
            Self::Sse(parser) => parser.strays(),
            #[cfg(feature = "bedrock")]
            Self::Frames(_) => Vec::new(),
        }
    }

    /// Whether what has come ends in the middle of a frame, which says how long it is.
    fn is_open(&self) -> bool {
        match self {
            Self::Sse(_) => false,
            #[cfg(feature = "bedrock")]
            Self::Frames(parser) => parser.is_open(),
        }
    }

    /// The event that the end of the stream completes.
    fn finish(&mut self) -> Option<SseEvent> {
        match self {
            Self::Sse(parser) => parser.finish(),
            #[cfg(feature = "bedrock")]
            Self::Frames(_) => None,
        }
    }
}

/// Whether the headers say that an answer is a stream of events.
pub(super) fn announces_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // The type may be followed by parameters, as in `text/event-stream; charset=utf-8`.
    kind.contains("event-stream")
}

/// Whether a body that begins so is a stream of events; `None`: more of it tells.
pub(super) fn begins_stream(announced: bool, bytes: &[u8]) -> Option<bool> {
    const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    // Looked at again with every piece, so only so much of it.
    let start = without_mark(bytes.get(..LONGEST_START).unwrap_or(bytes)).trim_ascii_start();
    let is_long = bytes.len() > LONGEST_START;
    if !announced {
        // Some servers stream without announcing it.
        let may_be = !is_long && FIELDS.iter().any(|field| field.starts_with(start));
        return (!may_be).then(|| FIELDS.iter().any(|field| start.starts_with(field)));
    }
    // A JSON error may stand before the events too. No line within JSON begins with `data:`.
    let events_follow = || start.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"data:"));
    match start.first() {
        Some(b'{' | b'[') if events_follow() => Some(true),
        Some(b'{' | b'[') => is_long.then_some(false),
        // These may be the first bytes of a byte order mark.
        Some(_) if BYTE_ORDER_MARK.starts_with(start) => None,
        Some(_) => Some(true),
        None => is_long.then_some(true),
    }
}

/// Whether the headers say that an answer comes as frames of AWS.
pub(super) fn is_framed(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    cfg!(feature = "bedrock") && kind.contains("vnd.amazon.eventstream")
}

/// Whether a body is a whole value in JSON: some servers leave the connection open after it.
pub(super) fn is_whole(body: &[u8], looks: &mut usize) -> bool {
    let body = without_mark(body);
    let ended = matches!(body.trim_ascii_end().last(), Some(b'}' | b']'));
    if !ended || *looks == 0 {
        return false;
    }
    // Parsing at every piece would take quadratic time, so the number of looks is bounded.
    *looks -= 1;
    serde_json::from_slice::<IgnoredAny>(body).is_ok()
}
