//! The events of a server's stream, none larger than allowed, and each in a form that can be decoded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::Response;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::answer::{self, UndecodableAnswer};

/// How much of an event has come.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    in_line: bool,
    after_cr: bool,
}

impl EventSize {
    /// Whether no event is larger, with these bytes.
    fn stays_within(&mut self, most: usize, bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| {
            let feed_of_cr = byte == b'\n' && std::mem::take(&mut self.after_cr);
            self.after_cr = byte == b'\r';
            if feed_of_cr {
            } else if !matches!(byte, b'\r' | b'\n') {
                self.in_line = true;
                self.bytes += 1;
            } else if !std::mem::take(&mut self.in_line) {
                self.bytes = 0;
            }
            self.bytes <= most
        })
    }
}

/// The events of a stream that answers the request `asked`, or none. Instead of an event that is too large comes an error to
/// whoever asked, and the end.
pub(super) fn read(
    response: Response,
    most: usize,
    asked: Option<RequestId>,
    undecodable: UndecodableAnswer,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bytes = response.bytes_stream().map(|bytes| bytes.map_err(io::Error::other));
    of_bytes(bytes.boxed(), most, asked, undecodable)
}

fn of_bytes(
    bytes: BoxStream<'static, io::Result<Bytes>>,
    most: usize,
    asked: Option<RequestId>,
    undecodable: UndecodableAnswer,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let too_large = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&too_large);
    let bounded = bytes.scan(EventSize::default(), move |size, bytes| {
        let within = bytes.as_ref().map_or(true, |bytes| size.stays_within(most, bytes));
        flag.fetch_or(!within, Ordering::Relaxed);
        std::future::ready(within.then_some(bytes))
    });
    let id = asked.clone();
    let events = SseStream::from_bytes_stream(bounded).map(move |event| {
        event.map(|event| match event.data {
            None => event,
            Some(data) => {
                let data = answer::readable(data.as_bytes(), asked.as_ref(), undecodable);
                Sse { data: data.map(|data| String::from_utf8_lossy(&data).into_owned()), ..event }
            }
        })
    });
    let last = futures_util::stream::once(async move {
        let id = id.filter(|_| too_large.load(Ordering::Relaxed))?.into_json_value();
        let said = answer::instead(&id, &format!("the server's answer is larger than {most} bytes"));
        Some(Ok(Sse::default().data(String::from_utf8_lossy(&said))))
    });
    events.chain(last.filter_map(std::future::ready)).boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use serde_json::{Value, json};

    use super::*;

    async fn said(pieces: &'static [&'static str], most: usize, asked: Option<RequestId>) -> Vec<Value> {
        let bytes = stream::iter(pieces).map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
        let events = of_bytes(bytes.boxed(), most, asked, UndecodableAnswer::Replace);
        let data = events.filter_map(|event| std::future::ready(event.unwrap().data));
        data.map(|data| serde_json::from_str(&data).unwrap()).collect().await
    }

    #[tokio::test]
    async fn events_that_are_no_messages_are_passed_over() {
        let stream =
            &["id: 1\ndata:\n\ndata: hello\n\nevent: x\r\ndata: {\"id\":1,", "\"result\":{}}\r\n\r\n"];
        assert_eq!(said(stream, 100, None).await, [json!({"id": 1, "result": {}, "jsonrpc": "2.0"})]);
    }

    #[tokio::test]
    async fn an_event_too_large_is_an_error_to_whoever_asked_and_the_end() {
        let stream =
            &["data: {\"id\":1,\"result\":\r\n", "data: {}}\r\n\r\n", "data: {\"id\":2,\"result\":{}}\n\n"];
        assert_eq!(said(stream, 40, Some(RequestId::Number(1))).await.len(), 2);
        let cut = said(stream, 25, Some(RequestId::Number(1))).await;
        assert_eq!((cut.len(), &cut[0]["id"]), (1, &json!(1)), "{cut:?}");
        assert_eq!(cut[0]["error"]["message"], "the server's answer is larger than 25 bytes");
        assert_eq!(said(stream, 25, None).await, [] as [Value; 0]);
    }
}
