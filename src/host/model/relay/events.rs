//! A stream of events that is passed on: event by event, so that none that is cut or wrong goes out.

use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderMap;

use crate::engine::{Failure, ModelReply};
use crate::host::model::answer::EventStream;
use crate::host::model::failure::unreadable;
use crate::host::model::transport::MAX_ANSWER;
use crate::host::model::wire::{StreamDecoder, StreamProgress};

/// The most bytes of one event, which may be an image.
const MAX_EVENT: usize = 4 << 20;

/// A stream that is passed on.
pub(super) struct RelayedEvents {
    /// What the events mean; `None`: there is more of the answer than is worth keeping, and its end alone tells.
    meaning: Option<EventStream>,
    /// Whole events that may go out.
    ready: BytesMut,
    /// The beginning of the next one.
    open: BytesMut,
    /// So much of it was looked at.
    seen: usize,
    /// Whether nothing stands on its current line.
    is_blank: bool,
    is_done: bool,
    /// How many characters were said to have come.
    told: u64,
}

impl RelayedEvents {
    pub(super) fn new(decoder: Box<dyn StreamDecoder>) -> Self {
        Self {
            meaning: Some(EventStream::with_limit(decoder, MAX_EVENT)),
            ready: BytesMut::new(),
            open: BytesMut::new(),
            seen: 0,
            is_blank: true,
            is_done: false,
            told: 0,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// An event is an error, or cannot be read. Those before it are ready.
    pub(super) fn push(&mut self, bytes: &[u8], headers: &HeaderMap) -> Result<(), Failure> {
        self.open.extend_from_slice(bytes);
        while let Some(end) = self.end() {
            let event = self.open.split_to(end);
            self.seen = 0;
            self.take(&event, headers)?;
            self.ready.unsplit(event);
        }
        if self.open.len() > MAX_EVENT {
            return Err(unreadable(format!(
                "one event of the stream is larger than {} MiB",
                MAX_EVENT >> 20
            )));
        }
        Ok(())
    }

    /// How many characters of the answer have come.
    pub(super) fn received(&self) -> u64 {
        self.meaning.as_ref().map_or(1, EventStream::received)
    }

    /// How many of them since this was asked last.
    pub(super) fn fresh(&mut self) -> u64 {
        let received = self.received();
        received.saturating_sub(core::mem::replace(&mut self.told, received))
    }

    /// How many bytes wait.
    pub(super) fn held(&self) -> usize {
        self.ready.len()
    }

    /// The events that may go out.
    pub(super) fn take_ready(&mut self) -> Bytes {
        self.ready.split().freeze()
    }

    /// Whether an event has said that it is the last.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the model has said why it stopped: what follows can no longer change the answer.
    pub(super) fn is_whole(&self) -> bool {
        self.meaning.as_ref().is_some_and(EventStream::is_whole)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// It has ended too early, or held nothing.
    pub(super) fn finish(&mut self, headers: &HeaderMap) -> Result<ModelReply, Failure> {
        let last = self.open.split();
        let Some(mut meaning) = self.meaning.take() else { return Ok(ModelReply::default()) };
        // Some servers leave the blank line behind the last event out.
        if !self.is_done {
            meaning.take(&last, headers)?;
        }
        let reply = meaning.reply(headers, &[])?;
        self.ready.unsplit(last);
        Ok(reply)
    }

    fn take(&mut self, event: &[u8], headers: &HeaderMap) -> Result<(), Failure> {
        let Some(meaning) = &mut self.meaning else { return Ok(()) };
        self.is_done |= meaning.take(event, headers)? == StreamProgress::Done;
        // Nobody shows the text here.
        drop(meaning.fresh());
        if meaning.kept() > MAX_ANSWER {
            self.meaning = None;
        }
        Ok(())
    }

    /// Where the first event that is open ends: behind its blank line (HTML standard, "Parsing an event stream").
    fn end(&mut self) -> Option<usize> {
        while let Some(byte) = self.open.get(self.seen) {
            let behind = self.open.get(self.seen.saturating_add(1));
            let length = match (byte, behind) {
                // Whether a line feed belongs to it is not known yet.
                (b'\r', None) => return None,
                (b'\r', Some(b'\n')) => 2,
                _ => 1,
            };
            self.seen = self.seen.saturating_add(length);
            if !matches!(byte, b'\n' | b'\r') {
                self.is_blank = false;
            } else if core::mem::replace(&mut self.is_blank, true) {
                return Some(self.seen);
            }
        }
        None
    }
}
