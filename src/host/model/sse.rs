//! Server-sent events, read as they arrive. Bytes in, events out: no I/O, linear time, bounded memory.
//!
//! Follows the event stream grammar of the HTML standard. `id` and `retry` fields are not needed here and are
//! passed over like comments. Bytes that are no UTF-8 are replaced by U+FFFD, as that standard says: what they break
//! is found where the data is read. Not in the standard: the limit on the size of an event, [`SseParser::finish`], and
//! [`SseParser::strays`].

use memchr::memchr2;

/// The most bytes one event may hold: as many as an answer, since one may be an image of Gemini, and the last of Responses
/// repeats the whole answer.
pub(super) const MAX_EVENT: usize = 8 << 20;
/// The most bytes between two events: comments that keep a line open come every few seconds, and have some ten bytes.
const MAX_BETWEEN: usize = 4 << 20;
/// The most bytes of a text between the events that are kept, and the most such texts.
const MAX_STRAY: usize = 64 * 1024;
const MAX_STRAYS: usize = 16;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if there is none.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// An event that is larger than allowed, or too much that is none. Nothing more is read from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventTooLarge {
    /// Of an event.
    #[error("one event of the stream is larger than {} KiB", .limit / 1024)]
    Event {
        /// The most bytes.
        limit: usize,
    },
    /// Of what comes between two events.
    #[error("more than {} KiB of the stream are no event", .limit / 1024)]
    Between {
        /// The most bytes.
        limit: usize,
    },
}

/// A reader of one event stream.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    name: Vec<u8>,
    /// The data lines so far, if there is one.
    data: Option<Vec<u8>>,
    /// The first line may start with a byte order mark.
    first_line: bool,
    /// A line feed that comes next belongs to the carriage return before it.
    after_cr: bool,
    failed: Option<EventTooLarge>,
    /// The bytes since the last event.
    between: usize,
    /// Lines that are no field and begin like JSON.
    stray: Vec<u8>,
    strays: Vec<String>,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT)
    }
}

impl SseParser {
    /// A reader that refuses events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: None,
            first_line: true,
            after_cr: false,
            failed: None,
            between: 0,
            stray: Vec::new(),
            strays: Vec::new(),
        }
    }

    /// Takes the next bytes, cut anywhere, and appends the events they complete to `events`.
    ///
    /// # Errors
    /// An event is too large. Events before it are in `events`.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        // HTML standard, "Parsing an event stream": CRLF, LF and CR end a line, and the bytes of a CRLF may arrive
        // apart.
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (head, tail) = rest.split_at(end);
            self.bound(head.len())?;
            self.between = self.between.saturating_add(end).saturating_add(1);
            if self.line.is_empty() {
                self.line_complete(head, events);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.line_complete(&line, events);
                line.clear();
                self.line = line;
            }
            rest = match tail {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.bound(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The stream has ended: the event that was not closed by a blank line, if there is one. The grammar says
    /// to drop it, yet real servers leave the last blank line out; whoever asks must check that it is whole.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let mut events = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line_complete(&line, &mut events);
        }
        self.line_complete(b"", &mut events);
        events.pop()
    }

    /// What comes between the events and looks like JSON, since this was asked last. By the grammar it is nothing,
    /// but some servers write their errors so.
    pub fn strays(&mut self) -> Vec<String> {
        std::mem::take(&mut self.strays)
    }

    fn bound(&mut self, more: usize) -> Result<(), EventTooLarge> {
        let size = self.line.len() + self.name.len() + self.data.as_ref().map_or(0, Vec::len) + more;
        if size > self.limit {
            // Remembered: behind a cut event the next bytes would be read as if they began one.
            self.failed = Some(EventTooLarge::Event { limit: self.limit });
        } else if self.between > MAX_BETWEEN {
            self.failed = Some(EventTooLarge::Between { limit: MAX_BETWEEN });
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn line_complete(&mut self, line: &[u8], events: &mut Vec<SseEvent>) {
        // One byte order mark at the start of the stream is dropped.
        let line = if std::mem::take(&mut self.first_line) {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.stray_complete();
            self.event_complete(events);
            return;
        }
        // A line without a colon is a field with an empty value.
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        // One space behind the colon is dropped, and no more than one.
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let data = match &mut self.data {
                    // Data lines of one event are joined by line feeds.
                    Some(data) => {
                        data.push(b'\n');
                        data
                    }
                    none => none.insert(Vec::new()),
                };
                data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // A line that begins with a colon is a comment. `id` and `retry` are for reconnecting, which would be
            // another call.
            b"" | b"id" | b"retry" => {}
            // llama.cpp writes what went wrong in a field of its own: `error: {"code":500,...}`.
            b"error" if value.starts_with(b"{") => {
                self.stray_line(&[b"{\"error\":", value, b"}"].concat());
            }
            _ => self.stray_line(line),
        }
    }

    fn stray_line(&mut self, line: &[u8]) {
        let text = line.trim_ascii();
        let begins = matches!(text.first(), Some(b'{' | b'['));
        if self.stray.len() + line.len() >= MAX_STRAY || (self.stray.is_empty() && !begins) {
            self.stray.clear();
            return;
        }
        // An error on one line may be the last that comes, so no blank line is waited for.
        let whole = self.stray.is_empty() && matches!(text.last(), Some(b'}' | b']'));
        self.stray.extend_from_slice(line);
        self.stray.push(b'\n');
        if whole {
            self.stray_complete();
        }
    }

    fn stray_complete(&mut self) {
        let stray = std::mem::take(&mut self.stray);
        if !stray.is_empty() && self.strays.len() < MAX_STRAYS {
            self.strays.push(text(stray));
        }
    }

    fn event_complete(&mut self, events: &mut Vec<SseEvent>) {
        // An event without data is dropped, and so is its name.
        if let Some(data) = self.data.take() {
            self.between = 0;
            events.push(SseEvent { name: text(std::mem::take(&mut self.name)), data: text(data) });
        }
        self.name.clear();
    }
}

/// The bytes as text, which costs no copy if they are some.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
