//! The binary frames of AWS's event streams, read as they arrive: each becomes an event like those of server-sent events.
//!
//! A frame has its length, named headers, a payload and two checksums (smithy.io, "Amazon Event Stream Specification").
//! `aws-smithy-eventstream` reads one; this finds where it ends, within bounds.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message as Frame;
use bytes::{Buf, BytesMut};
use serde_json::{Value, json};

use super::sse::{MAX_EVENT, SseEvent};

/// The bytes that say how long a frame is.
const LENGTH: usize = 4;

/// A reader of one stream of frames.
#[derive(Debug, Default)]
pub(super) struct FrameParser {
    open: BytesMut,
    failed: Option<FrameError>,
}

/// What cannot be read as a frame. Nothing more is read from the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("one frame of the stream is larger than {} KiB", MAX_EVENT / 1024)]
    TooLarge,
    #[error("a frame of the stream is damaged: {0}")]
    Damaged(String),
}

impl FrameParser {
    /// Takes the next bytes, cut anywhere, and appends the events that they complete.
    ///
    /// # Errors
    /// A frame is damaged or too large. Events before it are in `events`.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), FrameError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.open.extend_from_slice(bytes);
        let complete = self.complete(events);
        // Remembered: behind a damaged frame nothing says where the next one begins.
        self.failed = complete.clone().err();
        complete
    }

    /// Whether a frame has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn complete(&mut self, events: &mut Vec<SseEvent>) -> Result<(), FrameError> {
        while let Some(length) = self.open.get(..LENGTH).map(|mut length| length.get_u32()) {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MAX_EVENT {
                return Err(FrameError::TooLarge);
            }
            if self.open.len() < length {
                break;
            }
            // One that is shorter than the least frame is found by its reader.
            let frame = read_message_from(self.open.split_to(length).freeze());
            events.extend(event(&frame.map_err(|error| FrameError::Damaged(error.to_string()))?));
        }
        Ok(())
    }
}

/// The event that a frame is: named by its type, or `error`. `None`: it is neither.
fn event(frame: &Frame) -> Option<SseEvent> {
    let header = |name: &str| {
        let found = frame.headers().iter().find(|header| header.name().as_str() == name)?;
        Some(found.value().as_string().ok()?.as_str())
    };
    let payload = String::from_utf8_lossy(frame.payload()).into_owned();
    match header(":message-type") {
        Some("exception") => {
            let said: Value = serde_json::from_str(&payload).unwrap_or_default();
            // The name of the field is `message`, and of a failure of the model behind it `originalMessage` has more.
            let message =
                ["message", "Message", "originalMessage"].iter().find_map(|field| said.get(field)?.as_str());
            Some(error(header(":exception-type"), message.unwrap_or(&payload)))
        }
        Some("error") => Some(error(header(":error-code"), header(":error-message").unwrap_or_default())),
        _ => Some(SseEvent { name: header(":event-type")?.to_owned(), data: payload }),
    }
}

fn error(kind: Option<&str>, message: &str) -> SseEvent {
    let error = json!({"error": {"type": kind.unwrap_or("internalServerException"), "message": message}});
    SseEvent { name: "error".to_owned(), data: error.to_string() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue};
    use proptest::prelude::*;

    /// A frame with these headers.
    pub(in crate::host::model) fn frame(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
        let mut frame = Frame::new(payload.as_bytes().to_vec());
        for (name, value) in headers {
            frame = frame.add_header(Header::new(*name, HeaderValue::String((*value).to_owned().into())));
        }
        let mut bytes = Vec::new();
        write_message_to(&frame, &mut bytes).unwrap();
        bytes
    }

    /// The frame of an event.
    pub(in crate::host::model) fn of_event(kind: &str, payload: &str) -> Vec<u8> {
        frame(
            &[(":message-type", "event"), (":event-type", kind), (":content-type", "application/json")],
            payload,
        )
    }

    fn read(pieces: &[&[u8]]) -> (Vec<(String, String)>, Result<(), FrameError>) {
        let (mut parser, mut events) = (FrameParser::default(), Vec::new());
        let result = pieces.iter().try_for_each(|piece| parser.push(piece, &mut events));
        (events.into_iter().map(|event| (event.name, event.data)).collect(), result)
    }

    #[test]
    fn frames_are_events_and_exceptions_are_errors() {
        let exception = [(":message-type", "exception"), (":exception-type", "throttlingException")];
        let fault =
            [(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "oh")];
        let stream = [
            of_event("messageStart", r#"{"role":"assistant"}"#),
            frame(&exception, r#"{"message":"slow down"}"#),
            frame(&fault, ""),
            frame(&[(":message-type", "event")], "of no type"),
        ];
        let (events, result) = read(&[&stream.concat()]);
        let event = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        assert_eq!(result, Ok(()));
        assert_eq!(
            events,
            [
                event("messageStart", r#"{"role":"assistant"}"#),
                event("error", r#"{"error":{"type":"throttlingException","message":"slow down"}}"#),
                event("error", r#"{"error":{"type":"InternalFailure","message":"oh"}}"#),
            ]
        );
    }

    #[test]
    fn what_is_no_frame_ends_the_stream() {
        let good = of_event("a", "{}");
        let mut damaged = good.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let (events, result) = read(&[&good, &damaged, &good]);
        assert_eq!(events.len(), 1);
        assert!(matches!(result, Err(FrameError::Damaged(_))), "{result:?}");
        for tiny in [&[0; 4][..], &[0, 0, 0, 3, 1], &[0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(matches!(read(&[tiny]).1, Err(FrameError::Damaged(_))), "{tiny:?}");
        }
        assert_eq!(read(&[b"HTTP/1.1 200 OK"]).1, Err(FrameError::TooLarge));
    }

    proptest! {
        #[test]
        fn it_never_matters_where_bytes_are_cut(cuts in prop::collection::vec(0usize..200, 0..6)) {
            let whole = [of_event("a", "{\"x\":1}"), of_event("b", "ü"), of_event("c", "")].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&whole]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&[&bytes]);
            let _ = read(&[&[&[0, 0, 0, 40][..], &bytes].concat()]);
        }
    }
}
