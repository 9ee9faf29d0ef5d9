//! Server-sent events, read as they arrive. Bytes in, events out: no I/O, linear time, bounded memory.
//!
//! Follows the event stream grammar of the HTML standard. `id` and `retry` fields are not needed here and are
//! passed over like comments.

/// The most bytes one event may hold.
pub(crate) const MAX_EVENT: usize = 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field; empty if there is none.
    pub(crate) name: String,
    /// The `data` lines, joined by line feeds.
    pub(crate) data: String,
}

/// An event that is larger than allowed. Nothing more is read from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event of the stream is larger than {} KiB", .limit / 1024)]
pub(crate) struct EventTooLarge {
    limit: usize,
}

/// A reader of one event stream.
#[derive(Debug)]
pub(crate) struct SseParser {
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
    failed: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT)
    }
}

impl SseParser {
    /// A reader that refuses events of more than `limit` bytes.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: None,
            first_line: true,
            after_cr: false,
            failed: false,
        }
    }

    /// Takes the next bytes, cut anywhere, and appends the events they complete to `events`.
    ///
    /// # Errors
    /// An event is too large. Events before it are in `events`.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        if self.failed {
            return Err(EventTooLarge { limit: self.limit });
        }
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(end);
            self.bound(head.len())?;
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
    pub(crate) fn finish(mut self) -> Option<SseEvent> {
        let mut events = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line_complete(&line, &mut events);
        }
        self.line_complete(b"", &mut events);
        events.pop()
    }

    fn bound(&mut self, more: usize) -> Result<(), EventTooLarge> {
        let size = self.line.len() + self.name.len() + self.data.as_ref().map_or(0, Vec::len) + more;
        if size > self.limit {
            self.failed = true;
            return Err(EventTooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn line_complete(&mut self, line: &[u8], events: &mut Vec<SseEvent>) {
        let line = if std::mem::take(&mut self.first_line) {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.event_complete(events);
            return;
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let data = match &mut self.data {
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
            _ => {}
        }
    }

    fn event_complete(&mut self, events: &mut Vec<SseEvent>) {
        if let Some(data) = self.data.take() {
            events.push(SseEvent {
                name: String::from_utf8_lossy(&self.name).into_owned(),
                data: String::from_utf8_lossy(&data).into_owned(),
            });
        }
        self.name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        for chunk in chunks {
            parser.push(chunk, &mut events).unwrap();
        }
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn data(text: &str) -> Vec<String> {
        read(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn an_event_ends_with_a_blank_line() {
        assert_eq!(data("data: one\n\ndata: two\n\ndata: three\n"), ["one", "two"]);
    }

    #[test]
    fn lines_end_with_lf_cr_or_both() {
        assert_eq!(data("data: a\n\ndata: b\r\rdata: c\r\n\r\ndata: d\n\r\n"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_crlf_cut_between_two_chunks_is_one_line_end() {
        assert_eq!(read(&[b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n"]), [pair("", "a\nb")]);
    }

    #[test]
    fn data_lines_are_joined() {
        assert_eq!(data("data: a\ndata:\ndata:  b\n\n"), ["a\n\n b"]);
    }

    #[test]
    fn comments_and_other_fields_are_passed_over() {
        assert_eq!(data(": keep-alive\n\nid: 7\nretry: 100\nfoo\ndata: x\n:\n\n"), ["x"]);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_once() {
        assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
        assert_eq!(read(&[b"\xEF", b"\xBB", b"\xBFdata: a\n\n"]), [pair("", "a")]);
    }

    #[test]
    fn an_event_has_a_name_until_it_is_complete() {
        assert_eq!(read(&[b"event: error\ndata: x\n\ndata: y\n\n"]), [pair("error", "x"), pair("", "y")]);
    }

    #[test]
    fn a_name_alone_is_no_event() {
        assert_eq!(read(&[b"event: ping\n\ndata: x\n\n"]), [pair("", "x")]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(read(&[b"data: a\xFFb\n\n"]), [pair("", "a\u{fffd}b")]);
    }

    #[test]
    fn the_last_event_may_lack_its_end() {
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        parser.push(b"data: [DONE]", &mut events).unwrap();
        assert_eq!(events, []);
        assert_eq!(parser.finish().map(|event| event.data).as_deref(), Some("[DONE]"));
    }

    #[test]
    fn an_event_that_grows_without_end_is_refused() {
        let (mut parser, mut events) = (SseParser::with_limit(2048), Vec::new());
        parser.push(b"data: small\n\ndata: ", &mut events).unwrap();
        let error = (0..).find_map(|_| parser.push(&[b'x'; 100], &mut events).err()).unwrap();
        assert_eq!(error.to_string(), "one event of the stream is larger than 2 KiB");
        assert_eq!(events.len(), 1);
        assert!(
            parser.push(b"\n\ndata: more\n\n", &mut events).is_err(),
            "nothing is read after the failure"
        );
        assert!(parser.line.len() <= 2048);
    }

    #[test]
    fn many_small_data_lines_count_together() {
        let (mut parser, mut events) = (SseParser::with_limit(2048), Vec::new());
        let text = "data: 0123456789\n".repeat(300);
        assert!(parser.push(text.as_bytes(), &mut events).is_err());
    }

    proptest! {
        #[test]
        fn the_cuts_between_chunks_do_not_matter(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "data: ", "data:", "data", "event: x", ":", " ", "a", "é", "\u{feff}", "\n", "\n", "\r", "\r\n", "\n\n",
            ]), 0..60),
            cuts in prop::collection::vec(0usize..200, 0..20),
        ) {
            let text = pieces.concat().into_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            at.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in at {
                chunks.push(&text[from..cut]);
                from = cut;
            }
            chunks.push(&text[from..]);
            prop_assert_eq!(read(&chunks), read(&[&text]));
        }
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }
}
