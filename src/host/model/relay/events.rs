//! A stream of events that is passed on: event by event, so that none that is cut or wrong goes out.

use core::time::Duration;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

use super::ConvertedRequest;
use super::judge::{HeldPart, JudgedReply, ReplyForm, ReplyJudge};
use super::mask::{AnswerMask, SaidText};
use crate::engine::{Failure, ModelReply};
use crate::host::model::answer::EventStream;
use crate::host::model::failure::unreadable;
use crate::host::model::front::ReplyWriter;
use crate::host::model::transport::MAX_ANSWER;
use crate::host::model::wire::{StreamDecoder, StreamProgress};

/// So long at most nothing goes out to a client while the model's server sends something: what stands between them gives up on a
/// connection that is silent for a minute or so.
const STILL: Duration = Duration::from_secs(10);
/// So long at most nothing of an answer goes out because its calls are repaired as a whole: proxies wait a minute for one to begin
/// (`proxy_read_timeout` of nginx).
const SILENT: Duration = Duration::from_secs(30);
/// The most bytes of one event, which may be a large image.
const MAX_EVENT: usize = 32 << 20;
/// The most bytes of events that are held back.
const MAX_HELD: usize = 4 << 20;

/// A stream that is passed on.
#[expect(clippy::struct_excessive_bools, reason = "each is of something else")]
pub(super) struct RelayedEvents<'a> {
    /// How they go out, if not as they came.
    writer: Option<(&'a ConvertedRequest<'a>, Box<dyn ReplyWriter>)>,
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
    /// How many bytes came behind it.
    left_out: usize,
    /// The event that says so, which goes out once it is known whether the answer is whole, as clients stop reading there; and events
    /// that may spell a secret.
    last: BytesMut,
    mask: &'a AnswerMask<'a>,
    text: SaidText,
    /// Whether some of the model's text has been written.
    said: bool,
    /// Whether some content may go out.
    shown: bool,
    /// Who looks at the reply, and how much of it is held back until then.
    judge: Option<&'a dyn ReplyJudge>,
    holds: HeldPart,
    /// Why another reply is wanted in the place of this one.
    refused: Option<Failure>,
    /// How many characters were said to have come.
    told: u64,
    /// When something went out last.
    out: Instant,
}

impl<'a> RelayedEvents<'a> {
    /// `converted`: the request, if the client speaks another dialect than the model. `mask` takes out secrets. `choices`: how many the client asks for.
    pub(super) fn new(
        decoder: Box<dyn StreamDecoder>,
        converted: Option<&'a ConvertedRequest<'a>>,
        mask: &'a AnswerMask<'a>,
        choices: u64,
    ) -> Self {
        // What goes out as it came is looked at for secrets event by event.
        let mut meaning = EventStream::with_limit(decoder, MAX_EVENT).joining_pairs(converted.is_some());
        meaning.ask(choices);
        Self {
            writer: converted.map(|converted| (converted, converted.front.writer())),
            mask,
            text: SaidText::default(),
            said: false,
            shown: false,
            judge: None,
            holds: HeldPart::Nothing,
            refused: None,
            meaning: Some(meaning),
            last: BytesMut::new(),
            ready: BytesMut::new(),
            open: BytesMut::new(),
            seen: 0,
            is_blank: true,
            is_done: false,
            left_out: 0,
            told: 0,
            out: Instant::now(),
        }
    }

    /// The same, of an answer with these headers.
    pub(super) fn of(mut self, headers: &HeaderMap) -> Self {
        self.meaning = self.meaning.map(|meaning| meaning.announced_by(headers));
        self
    }

    /// The same, and the reply is looked at.
    pub(super) fn judged_by(mut self, judge: Option<&'a dyn ReplyJudge>) -> Self {
        (self.judge, self.holds) = (judge, judge.map(ReplyJudge::holds).unwrap_or_default());
        self
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// An event is an error, or cannot be read. Those before it are ready.
    pub(super) fn push(&mut self, bytes: &[u8], headers: &HeaderMap) -> Result<(), Failure> {
        if self.meaning.as_ref().is_some_and(EventStream::is_framed) {
            // Frames never go out as they are: no client speaks their dialect.
            return self.take(bytes, headers);
        }
        self.open.extend_from_slice(bytes);
        while !self.is_done
            && let Some(end) = self.end()
        {
            let event = self.open.split_to(end);
            self.seen = 0;
            self.take(&event, headers)?;
            if self.writer.is_none() {
                self.last.unsplit(event);
                if self.last.len() > MAX_HELD {
                    self.holds = HeldPart::Nothing;
                }
                if !self.is_done && !self.text.waits() && !self.holds_calls() {
                    self.ready.unsplit(self.last.split());
                    self.shown = self.received() > 0;
                }
            }
        }
        if self.is_done {
            let rest = self.open.split();
            self.leave_out(&rest);
        }
        if self.open.len() > MAX_EVENT {
            return Err(unreadable(format!(
                "one event of the stream is larger than {} MiB",
                MAX_EVENT >> 20
            )));
        }
        Ok(())
    }

    /// Whether what is ready is content that need not be held back. There is no further attempt after it.
    pub(super) fn may_begin(&self) -> bool {
        match self.holds {
            HeldPart::All => false,
            // Of a converted answer nothing but text is ready, and calls are written once they are whole.
            _ if self.writer.is_some() => self.held() > 0 || self.is_silent(),
            HeldPart::UntilText => self.said,
            HeldPart::Calls => self.shown || self.is_silent(),
            HeldPart::Nothing => self.shown,
        }
    }

    /// Whether a client has waited for long though its model writes.
    fn is_silent(&self) -> bool {
        self.received() > 0 && Instant::now().saturating_duration_since(self.out) >= SILENT
    }

    /// Whether what has come last is held back as a part of a call.
    fn holds_calls(&self) -> bool {
        self.holds != HeldPart::Nothing && self.meaning.as_ref().is_some_and(EventStream::has_calls)
    }

    /// Why another reply is wanted in the place of this one, which has ended.
    pub(super) fn refused(&mut self) -> Option<Failure> {
        self.refused.take()
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
    fn take_ready(&mut self) -> Bytes {
        let mut ready = self.ready.split();
        self.mask.mask(&mut ready);
        ready.freeze()
    }

    /// What goes out next of an answer that has begun. A client that waits for a call, which is converted once it is whole, is
    /// shown now and then that its model still writes.
    pub(super) fn next_piece(&mut self) -> Bytes {
        let now = Instant::now();
        if self.ready.is_empty() && now.saturating_duration_since(self.out) >= STILL {
            match (&self.writer, self.judge) {
                (Some((_, writer)), _) => self.ready.extend_from_slice(writer.still().as_bytes()),
                (None, Some(judge)) if self.holds_calls() => self.ready.extend_from_slice(judge.still()),
                _ => {}
            }
        }
        if !self.ready.is_empty() {
            self.out = now;
        }
        self.take_ready()
    }

    /// Whether an event has said that it is the last.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Leaves out what follows the last event: a client that reads on would take it for a part of the answer, or of the next one.
    pub(super) fn leave_out(&mut self, rest: &[u8]) {
        // Some servers end every stream with the mark of Chat Completions.
        let rest = rest.trim_ascii();
        let bytes = rest.strip_prefix(b"data: [DONE]").unwrap_or(rest).len();
        if bytes > 0 && core::mem::replace(&mut self.left_out, bytes) == 0 {
            tracing::warn!(bytes, "what follows the last event of a stream is left out");
        }
    }

    /// Whether the model has said why it stopped: what follows can no longer change the answer.
    pub(super) fn is_whole(&self) -> bool {
        self.meaning.as_ref().is_some_and(EventStream::is_whole)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// It has ended too early, held nothing, or what no client can use.
    pub(super) fn finish(&mut self, headers: &HeaderMap) -> Result<ModelReply, Failure> {
        let open = self.open.split();
        let meaning = self.meaning.take();
        let is_known = meaning.is_some();
        let judged =
            meaning.map_or_else(|| Ok(ModelReply::default()), |meaning| self.judged(meaning, &open, headers));
        if self.writer.is_none() && (judged.is_err() || !is_known) {
            self.last.unsplit(open);
        }
        if judged.is_ok() {
            self.ready.unsplit(self.last.split());
        }
        judged
    }

    /// All that has not gone out, of an answer that failed.
    pub(super) fn held_back(&mut self) -> Bytes {
        self.ready.unsplit(self.last.split());
        self.take_ready()
    }

    fn judged(
        &mut self,
        mut meaning: EventStream,
        open: &[u8],
        headers: &HeaderMap,
    ) -> Result<ModelReply, Failure> {
        // Some servers leave the blank line behind the last event out.
        if !self.is_done {
            meaning.take(open, headers)?;
        }
        let Some((converted, writer)) = &mut self.writer else {
            let reply = meaning.reply(headers, &[])?;
            self.last.extend_from_slice(open);
            let Some(judge) = self.judge else { return Ok(reply) };
            let mut events = self.ready.split();
            events.unsplit(self.last.split());
            let mut events = events.freeze();
            let JudgedReply { reply, refused } = judge.judge(reply, ReplyForm::Events(&mut events));
            self.ready = events.into();
            self.refused = refused;
            return Ok(reply);
        };
        let mut text = self.text.next(self.mask, meaning.fresh()) + &self.text.rest();
        let reply = meaning.reply(headers, converted.front.conversation())?;
        let JudgedReply { reply, refused } = converted.settled(reply, self.judge)?;
        self.refused = refused;
        // Some servers say at the end alone what the model said, and what was held back may have been repaired.
        if (text.is_empty() && !self.said) || self.holds == HeldPart::All {
            text.clone_from(&reply.text);
        }
        self.ready.extend_from_slice(writer.text(&text).as_bytes());
        self.ready.extend_from_slice(writer.end(&reply).as_bytes());
        Ok(reply)
    }

    fn take(&mut self, event: &[u8], headers: &HeaderMap) -> Result<(), Failure> {
        let Some(meaning) = &mut self.meaning else { return Ok(()) };
        self.is_done |= meaning.take(event, headers)? == StreamProgress::Done;
        // What is held back is written once it has been looked at.
        let is_held = self.writer.is_some() && self.holds == HeldPart::All;
        let fresh = if is_held { String::new() } else { meaning.fresh() };
        let text = self.text.next(self.mask, fresh);
        // Many local models write blank lines before their calls.
        self.said |= !text.trim().is_empty();
        if let Some((_, writer)) = &mut self.writer {
            self.ready.extend_from_slice(writer.text(&text).as_bytes());
            // Its end is written from all of it.
            if meaning.kept() > MAX_ANSWER {
                return Err(unreadable(format!("the answer is larger than {} MiB", MAX_ANSWER >> 20)));
            }
        } else if self.text.has_secret() && !self.mask.finds(event) {
            // In one piece it is masked. Several events, or escapes, that spell it cannot be.
            return Err(unreadable("the answer repeats a key of its provider".to_owned()));
        } else if meaning.kept() > MAX_ANSWER {
            self.meaning = None;
        }
        Ok(())
    }

    /// Where the first event that is open ends: behind its blank line (HTML standard, "Parsing an event stream").
    fn end(&mut self) -> Option<usize> {
        while let Some(rest) = self.open.get(self.seen..) {
            let on_line = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let length = match rest.get(on_line..).unwrap_or_default() {
                [] | [b'\r'] => 0,
                [b'\r', b'\n', ..] => 2,
                _ => 1,
            };
            self.is_blank &= on_line == 0;
            self.seen = self.seen.saturating_add(on_line).saturating_add(length);
            if length == 0 {
                // The line has not ended, or whether a line feed belongs to its end is not known yet.
                return None;
            }
            if core::mem::replace(&mut self.is_blank, true) {
                return Some(self.seen);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{converting, front};
    use super::*;
    use crate::host::model::config::Provider;
    use crate::host::model::front::GatewayDialect::{self, Chat, Gemini, Messages, Responses};

    const BLOCKS: &str = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":0}}}\r\n\r\n\
        data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Gr\u{fc}\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\u{df}e\"}}\n\n\
        data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
        data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"look\",\"input\":{}}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n\
        data: {\"type\":\"content_block_stop\",\"index\":1}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\n\
        data: {\"type\":\"message_stop\"}";
    const CHUNKS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Gr\u{fc}\"}}]}\n\n: still here\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{df}e\"}}]}\r\r\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n";

    /// Streams for clients of each dialect, and what says there that the answer has ended.
    const CASES: [(GatewayDialect, &str, &str); 4] = [
        (Chat, BLOCKS, "[DONE]"),
        (Messages, CHUNKS, "message_stop"),
        (Responses, BLOCKS, "response.completed"),
        (Gemini, CHUNKS, "finishReason"),
    ];

    /// What a client of that dialect gets of a stream that comes in these pieces, and of a cut one what is out by then.
    fn converted(dialect: GatewayDialect, pieces: &[&[u8]]) -> (String, bool) {
        let front = front(dialect);
        let provider = match dialect {
            Chat | Responses => Provider::ANTHROPIC,
            Messages | Gemini => Provider::OPENAI,
        };
        let converted = converting(&front, provider);
        let mask = AnswerMask::default();
        let mut events = RelayedEvents::new(converted.format.begin(), Some(&converted), &mask, 1);
        for piece in pieces {
            events.push(piece, &HeaderMap::new()).unwrap();
        }
        let ends = events.finish(&HeaderMap::new()).is_ok();
        (String::from_utf8(events.take_ready().to_vec()).unwrap(), ends)
    }

    #[test]
    fn a_character_that_is_cut_in_two_is_whole_for_every_client() {
        for (dialect, stream, _) in CASES {
            let split = stream.replace("Gr\u{fc}\"", "Gr\u{fc}\\ud83d\"").replace("\u{df}e", "\\ude00e");
            assert_ne!(split, stream);
            let (out, ends) = converted(dialect, &[split.as_bytes()]);
            let pieces: Vec<&[u8]> = split.as_bytes().chunks(1).collect();
            for (out, ends) in [(out, ends), converted(dialect, &pieces)] {
                assert!(ends && out.contains("\u{1f600}e") && !out.contains('\u{fffd}'), "{dialect:?} {out}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_a_call_is_shown_that_it_comes() {
        let (headers, mask) = (HeaderMap::new(), AnswerMask::default());
        for (dialect, stream, _) in CASES {
            let front = front(dialect);
            let provider = if stream == BLOCKS { Provider::ANTHROPIC } else { Provider::OPENAI };
            let converted = converting(&front, provider);
            let mut events = RelayedEvents::new(converted.format.begin(), Some(&converted), &mask, 1);
            // The call is still to come.
            let call = stream[..stream.rfind("name").unwrap()].rfind("data: ").unwrap();
            events.push(&stream.as_bytes()[..call], &headers).unwrap();
            // A line may end with the first byte of what comes next.
            events.push(b": still here\n\n", &headers).unwrap();
            assert!(!events.next_piece().is_empty());
            let mut out = Vec::new();
            for _ in 0..4 {
                events.push(b": still here\n\n", &headers).unwrap();
                out.push(events.next_piece());
                tokio::time::advance(STILL / 2).await;
            }
            let said: Vec<bool> = out.iter().map(|piece| !piece.is_empty()).collect();
            assert_eq!(said, [false, false, true, false], "{dialect:?}");
            assert!(out[2].ends_with(b"\n\n"), "{out:?}");
        }
    }

    /// Repairs calls, and wants no other reply.
    struct CallJudge;

    impl ReplyJudge for CallJudge {
        fn holds(&self) -> HeldPart {
            HeldPart::Calls
        }

        fn still(&self) -> &'static [u8] {
            b": still here\n\n"
        }

        fn judge(&self, reply: ModelReply, form: ReplyForm<'_>) -> JudgedReply {
            if let ReplyForm::Events(events) = form {
                *events = String::from_utf8_lossy(events).replace("{}", "[]").into();
            }
            JudgedReply::unseen(reply)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_calls_alone_begins_before_proxies_give_up() {
        let (headers, mask) = (HeaderMap::new(), AnswerMask::default());
        let format = converting(&front(Messages), Provider::OPENAI).format;
        let mut events = RelayedEvents::new(format.begin(), None, &mask, 1).judged_by(Some(&CallJudge));
        let call = &CHUNKS[CHUNKS.rfind("data: ").unwrap()..];
        events.push(call.as_bytes(), &headers).unwrap();
        assert!(!events.may_begin());
        tokio::time::advance(SILENT).await;
        assert!(events.may_begin());
        assert_eq!(events.next_piece(), ": still here\n\n");
        events.finish(&headers).unwrap();
        assert_eq!(events.held_back(), call.replace("{}", "[]"));
        let open = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"look\",\"arguments\":\"{\"}}]}}]}\n\n";
        for dialect in [Chat, Messages, Responses, Gemini] {
            let front = front(dialect);
            let converted = converting(&front, Provider::OPENAI);
            let mut events = RelayedEvents::new(converted.format.begin(), Some(&converted), &mask, 1);
            events.push(open.as_bytes(), &headers).unwrap();
            assert!(!events.may_begin(), "{dialect:?}");
            tokio::time::advance(SILENT).await;
            assert!(events.may_begin() && !events.next_piece().is_empty(), "{dialect:?}");
        }
    }

    #[test]
    #[cfg(feature = "bedrock")]
    fn frames_go_out_as_the_client_speaks() {
        use crate::host::model::frames::tests::of_event;
        use reqwest::header::{CONTENT_TYPE, HeaderValue};

        let stream = [
            of_event("messageStart", r#"{"role":"assistant"}"#),
            of_event("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Hello"}}"#),
            of_event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
            of_event("messageStop", r#"{"stopReason":"end_turn"}"#),
            of_event("metadata", r#"{"usage":{"inputTokens":3,"outputTokens":2}}"#),
        ];
        let kind = HeaderValue::from_static("application/vnd.amazon.eventstream");
        let headers: HeaderMap = [(CONTENT_TYPE, kind)].into_iter().collect();
        let front = front(Chat);
        let converted = converting(&front, Provider::BEDROCK);
        let mask = AnswerMask::default();
        // So many frames have come whole, and the beginning of the next one: a frame that does not end is a cut.
        for (whole, has_text, has_ended) in
            [(0, false, false), (2, true, false), (3, true, false), (4, true, false), (5, true, true)]
        {
            let mut bytes = stream[..whole].concat();
            bytes.extend(stream.get(whole).map_or(&[][..], |cut| &cut[..9]));
            let mut events =
                RelayedEvents::new(converted.format.begin(), Some(&converted), &mask, 1).of(&headers);
            for piece in bytes.chunks(5) {
                events.push(piece, &headers).unwrap();
            }
            let ends = events.finish(&headers).is_ok();
            let out = String::from_utf8(events.take_ready().to_vec()).unwrap();
            assert_eq!(
                (out.contains("Hello"), ends, out.contains("[DONE]")),
                (has_text, has_ended, has_ended),
                "{out}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_a_client_gets_does_not_depend_on_how_the_bytes_arrive(cuts in prop::collection::vec(0.0f64..1.0, 0..12)) {
            for (dialect, stream, _) in CASES {
                let bytes = stream.as_bytes();
                let whole = converted(dialect, &[bytes]);
                prop_assert!(whole.1 && whole.0.contains("Gr\u{fc}") && whole.0.contains("look"), "{}", whole.0);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place")]
                let mut places: Vec<usize> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
                places.sort_unstable();
                let ends = places.iter().copied().chain([bytes.len()]);
                let starts = [0].into_iter().chain(places.iter().copied());
                let pieces: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
                prop_assert_eq!(&converted(dialect, &pieces), &whole);
            }
        }

        #[test]
        fn a_cut_is_never_an_end(cut in 0usize..600) {
            for (dialect, stream, end) in CASES {
                let last = stream.rfind(if stream == BLOCKS { "data: {\"type\":\"message_delta" } else { "data: " }).unwrap();
                let (out, ends) = converted(dialect, &[&stream.as_bytes()[..cut.min(last)]]);
                prop_assert!(!ends && !out.contains(end), "{out}");
            }
        }
    }
}
