//! The times of a call: which of them was over is said, and a call that continues is not ended by those of its beginning.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use unfazed::engine::{CallTimeouts, Failure, ModelReply};
use unfazed::host::scripted::{ScriptAnswer, ScriptEntry, ScriptFault, ScriptOutcome};
use unfazed::host::{Model, ModelRequest};
use unfazed::policy::ErrorClass;
use unfazed::session::Message;
use unfazed::time::Nanos;

use super::{LONG, SHORT, WAYS, Way, anthropic, ask_for, client, request, script};

const FIRST_TOKEN: CallTimeouts = CallTimeouts { connect: None, first_token: Some(SHORT), idle: Some(LONG) };
const IDLE: CallTimeouts = CallTimeouts { connect: None, first_token: Some(LONG), idle: Some(SHORT) };

/// The ways on which an answer comes in pieces.
const STREAMED: [Way; 6] = [
    Way::InProcess,
    Way::Streamed,
    Way::AnthropicStreamed,
    Way::ResponsesStreamed,
    Way::GeminiStreamed,
    Way::ConverseStreamed,
];

async fn played(way: Way, entry: ScriptEntry, timeouts: CallTimeouts) -> Result<ModelReply, Failure> {
    let messages = [Message::user("go")];
    let request = ModelRequest { timeouts, ..request(&messages, LONG) };
    ask_for(way, script(entry), request).await
}

#[tokio::test]
async fn an_answer_that_does_not_begin_has_no_first_token() {
    for way in STREAMED {
        for entry in
            [ScriptEntry::fault(ScriptFault::Hang), ScriptEntry::text("late").after(Duration::from_secs(60))]
        {
            let failure = played(way, entry, FIRST_TOKEN).await.unwrap_err();
            assert_eq!(failure.class, Some(ErrorClass::Timeout), "{way:?}");
            assert_eq!(failure.message, "no first token of the answer within 50ms", "{way:?}");
            assert_eq!(failure.received, 0, "{way:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_stops_in_the_middle_has_stalled() {
    for way in STREAMED {
        let stalled =
            ScriptAnswer { text: "This is what would have come.".into(), ..ScriptAnswer::default() };
        let entry = ScriptEntry::new(ScriptOutcome::Fault(ScriptFault::Stall, stalled));
        let failure = played(way, entry, IDLE).await.unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::Timeout), "{way:?}");
        assert_eq!(failure.message, "the answer stalled: nothing came within 50ms", "{way:?}");
        assert!(failure.received > 0, "{way:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_has_only_the_time_of_the_whole() {
    for way in [Way::Http, Way::Anthropic, Way::Responses, Way::Gemini, Way::Converse] {
        let slow = ScriptEntry::text("late").after(Duration::from_millis(120));
        assert_eq!(played(way, slow, FIRST_TOKEN).await.unwrap().text, "late", "{way:?}");
        let stalled = played(way, ScriptEntry::fault(ScriptFault::Stall), IDLE).await.unwrap_err();
        assert_eq!(stalled.message, "the answer stalled: nothing came within 50ms", "{way:?}");
        assert_eq!(stalled.received, 0);
    }
}

#[tokio::test]
async fn a_whole_answer_is_not_ended_by_the_times_of_its_steps() {
    let both = CallTimeouts { connect: Some(LONG), first_token: Some(LONG), idle: Some(LONG) };
    for way in WAYS {
        assert_eq!(played(way, ScriptEntry::text("fine"), both).await.unwrap().text, "fine", "{way:?}");
    }
}

#[tokio::test]
async fn the_time_of_the_whole_ends_an_answer_that_goes_on() {
    let messages = [Message::user("go")];
    for way in STREAMED {
        let stalled =
            ScriptAnswer { text: "This is what would have come.".into(), ..ScriptAnswer::default() };
        let entry = ScriptEntry::new(ScriptOutcome::Fault(ScriptFault::Stall, stalled));
        let timeouts = CallTimeouts { connect: None, first_token: Some(LONG), idle: Some(LONG) };
        let request = ModelRequest { timeouts, ..request(&messages, Nanos::from_millis(400)) };
        let failure = ask_for(way, script(entry), request).await.unwrap_err();
        assert_eq!(failure.message, "no complete answer within 400ms", "{way:?}");
        assert!(failure.received > 0, "{way:?}");
    }
}

/// A server that sends this and leaves the connection open.
async fn left_open(answer: &str, timeouts: CallTimeouts) -> (Failure, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = client(&format!("http://{}", listener.local_addr().unwrap()), true);
    let messages = [Message::user("go")];
    let begun = std::time::Instant::now();
    let call = async {
        let failure = model.call(ModelRequest { timeouts, ..request(&messages, LONG) }).await.unwrap_err();
        drop(model);
        (failure, begun.elapsed())
    };
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 8192];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        socket.write_all(answer.as_bytes()).await.unwrap();
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    tokio::join!(call, server).0
}

#[tokio::test]
async fn an_error_is_read_as_soon_as_it_is_whole_and_no_longer_than_a_pause_may_be() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\n\r\n";
    let whole = format!("{head}{{\"error\": {{\"message\": \"slow down\"}}}}\n");
    let none = CallTimeouts { connect: None, first_token: None, idle: None };
    let (failure, took) = left_open(&whole, none).await;
    assert_eq!(failure.message, "slow down");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let cut = format!("{head}{{\"error\": {{\"message\": \"slow do");
    let (failure, took) = left_open(&cut, IDLE).await;
    assert_eq!(failure.status, Some(429), "{failure:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// A server that sends these pieces with a pause before each, and then nothing, with the connection open.
async fn in_pieces(
    model: &dyn Model,
    listener: TcpListener,
    pieces: &[String],
    timeouts: CallTimeouts,
) -> Result<ModelReply, Failure> {
    let messages = [Message::user("go")];
    let call = model.call(ModelRequest { timeouts, ..request(&messages, LONG) });
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 8192];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await.unwrap();
        for piece in pieces {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if socket.write_all(piece.as_bytes()).await.is_err() {
                return;
            }
        }
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    tokio::join!(call, server).0
}

#[tokio::test]
async fn what_keeps_the_connection_alive_is_no_first_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let mut pieces =
        vec!["event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n".to_owned()];
    pieces.extend(vec!["event: ping\ndata: {\"type\":\"ping\"}\n\n".to_owned(); 20]);
    let failure = in_pieces(&anthropic(&base_url, true), listener, &pieces, FIRST_TOKEN).await.unwrap_err();
    assert_eq!(failure.message, "no first token of the answer within 50ms");
}

#[tokio::test]
async fn what_keeps_the_connection_alive_is_no_stall() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let mut pieces = vec!["data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n".to_owned()];
    pieces.extend(vec![": still here\n\n".to_owned(); 30]);
    // What ends the answer ends the wait, though the connection stays open and no `[DONE]` comes.
    pieces.push("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned());
    let timeouts =
        CallTimeouts { connect: None, first_token: Some(LONG), idle: Some(Nanos::from_millis(400)) };
    let reply = in_pieces(&client(&base_url, true), listener, &pieces, timeouts).await.unwrap();
    assert_eq!(reply.text, "hi");
}

/// A server whose queue is full takes no further connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_does_not_come_about_is_told_apart() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let connecting = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(50), connecting).await {
            Ok(connected) => waiting.push(connected.unwrap()),
            Err(_) => break,
        }
    }
    let messages = [Message::user("go")];
    let timeouts = CallTimeouts { connect: Some(SHORT), first_token: None, idle: None };
    let base_url = format!("http://{address}");
    for model in [&client(&base_url, true) as &dyn Model, &anthropic(&base_url, true)] {
        let failure = model.call(ModelRequest { timeouts, ..request(&messages, LONG) }).await.unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::Timeout), "{failure:?}");
        assert_eq!(failure.message, format!("no connection to {address} within 50ms"));
    }
}
