//! Long answers: what is kept of a stream is bounded, not what stands around it.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use unfazed::host::Model;
use unfazed::host::scripted::{ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedCall};
use unfazed::session::Message;

use super::{LONG, STREAMED, anthropic, ask, client, ok, raw, request, responses, script};

/// More than the wire had room for when every byte on it counted: each piece of eight characters goes with hundreds.
const CHARS: usize = 400_000;

#[tokio::test]
async fn long_arguments_that_come_in_small_pieces_are_read_whole() {
    let arguments = json!({"text": "x".repeat(CHARS)}).to_string();
    let call = ScriptedCall { name: "write".into(), arguments: arguments.clone(), id: None };
    for way in STREAMED {
        let entry = ScriptEntry::new(ScriptOutcome::Answer(ScriptAnswer {
            calls: vec![call.clone()],
            ..ScriptAnswer::default()
        }));
        let reply =
            ask(way, script(entry), LONG).await.unwrap_or_else(|failure| panic!("{way:?}: {failure:?}"));
        assert!(reply.calls[0].call.arguments == arguments, "{way:?}");
    }
}

#[tokio::test]
async fn so_is_a_long_answer_of_a_server_that_does_not_say_that_it_streams() {
    let around = "x".repeat(300);
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "12345678"}}], "around": around});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let body = format!("data: {piece}\n\n").repeat(30_000) + &format!("data: {end}\n\n");
    let reply = raw(ok("text/plain", &body)).await.unwrap();
    assert_eq!(reply.text.len(), 8 * 30_000);
}

/// A stream of events of any format.
fn events(data: &[Value]) -> Vec<u8> {
    let events = data.iter().map(|data| {
        let name = data["type"].as_str().unwrap_or("message");
        format!("event: {name}\ndata: {data}\n\n")
    });
    ok("text/event-stream", &events.collect::<Vec<_>>().concat())
}

/// What a model says on a stream that is too long.
async fn refused(data: &[Value], model: impl FnOnce(&str) -> Box<dyn Model>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = model(&format!("http://{}", listener.local_addr().unwrap()));
    let response = events(data);
    let server = async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
        // A client that has had enough closes early.
        let _ = socket.write_all(&response).await;
    };
    let messages = [Message::user("go")];
    tokio::join!(model.call(request(&messages, LONG)), server).0.unwrap_err().message
}

#[tokio::test]
async fn a_stream_of_which_more_would_be_kept_than_may_be_is_refused() {
    let more = "x".repeat(500_000);
    for delta in [
        json!({"content": more}),
        json!({"reasoning_content": more}),
        json!({"reasoning_details": [{"text": more}]}),
        json!({"tool_calls": [{"index": 0, "function": {"name": "write", "arguments": more}}]}),
    ] {
        let data = vec![json!({"choices": [{"index": 0, "delta": delta}]}); 20];
        let said = refused(&data, |base_url| Box::new(client(base_url, true))).await;
        assert_eq!(said, "the answer is larger than 8 MiB");
    }
}

#[tokio::test]
async fn nor_is_more_kept_of_blocks() {
    let more = "x".repeat(500_000);
    for (block, delta) in [
        ("text", json!({"type": "text_delta", "text": more})),
        ("thinking", json!({"type": "thinking_delta", "thinking": more})),
        ("tool_use", json!({"type": "input_json_delta", "partial_json": more})),
        ("text", json!({"type": "citations_delta", "citation": {"cited_text": more}})),
    ] {
        let mut data = vec![json!({"type": "content_block_delta", "index": 0, "delta": delta}); 20];
        data.insert(0, json!({"type": "content_block_start", "index": 0, "content_block": {"type": block}}));
        let said = refused(&data, |base_url| Box::new(anthropic(base_url, true))).await;
        assert_eq!(said, "the answer is larger than 8 MiB");
    }
}

#[tokio::test]
async fn nor_of_items() {
    let more = "x".repeat(500_000);
    for (kind, name) in
        [("message", "output_text"), ("message", "refusal"), ("function_call", "function_call_arguments")]
    {
        let begin = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": kind}});
        let delta = json!({"type": format!("response.{name}.delta"), "output_index": 0, "content_index": 0, "delta": more});
        let mut data = vec![delta; 20];
        data.insert(0, begin);
        let said = refused(&data, |base_url| Box::new(responses(base_url, true))).await;
        assert_eq!(said, "the answer is larger than 8 MiB");
    }
    let item = json!({"type": "reasoning", "encrypted_content": more});
    let ended = |index: usize| {
        let event = |name: &str| json!({"type": format!("response.output_item.{name}"), "output_index": index, "item": item});
        [event("added"), event("done")]
    };
    let data: Vec<Value> = (0..20).flat_map(ended).collect();
    let said = refused(&data, |base_url| Box::new(responses(base_url, true))).await;
    assert_eq!(said, "the answer is larger than 8 MiB");
}

#[tokio::test]
async fn a_stream_that_says_nothing_and_does_not_end_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = client(&format!("http://{}", listener.local_addr().unwrap()), true);
    let server = async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
        socket.write_all(&ok("text/event-stream", "")).await.unwrap();
        let pings = format!(": {}\n\n", "x".repeat(100_000)).repeat(10);
        while socket.write_all(pings.as_bytes()).await.is_ok() {}
    };
    let messages = [Message::user("go")];
    let said = tokio::join!(model.call(request(&messages, LONG)), server).0.unwrap_err().message;
    assert_eq!(said, "more than 4096 KiB of the stream are no event");
}
