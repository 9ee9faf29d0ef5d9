//! Requests that continue a response which the server keeps: when only what is new is sent, and when all of it.

use serde_json::{Map, Value, json};

use unfazed::engine::{Failure, ModelReply};
use unfazed::host::scripted::{
    ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedCall, ScriptedServer,
};
use unfazed::host::{HttpModel, Model, ModelConfig, Provider};
use unfazed::session::Message;

use super::{LONG, request};

fn calling(id: &str) -> ScriptEntry {
    let call = ScriptedCall { name: "echo".into(), arguments: r#"{"text":"x"}"#.into(), id: Some(id.into()) };
    let extra = json!({"reasoning_content": "Let me look."});
    ScriptEntry::new(ScriptOutcome::Answer(ScriptAnswer {
        calls: vec![call],
        extra: extra.as_object().cloned().unwrap(),
        ..ScriptAnswer::default()
    }))
}

async fn server(entries: impl IntoIterator<Item = ScriptEntry>) -> ScriptedServer {
    ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap()
}

fn model(server: &ScriptedServer, stream: bool) -> HttpModel {
    of(server, stream, Map::new())
}

fn of(server: &ScriptedServer, stream: bool, extra: Map<String, Value>) -> HttpModel {
    HttpModel::new(ModelConfig {
        base_url: server.base_url(),
        stream,
        extra,
        auto_previous_response_id: true,
        ..ModelConfig::new(Provider::RESPONSES, "scripted")
    })
    .unwrap()
}

async fn say(model: &HttpModel, messages: &[Message]) -> Result<ModelReply, Failure> {
    model.call(request(messages, LONG)).await
}

fn assistant(reply: &ModelReply) -> Message {
    let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() }
}

fn result(call: &str) -> Message {
    Message::Tool { call: call.into(), tool: "echo".into(), text: "x".into(), error: false, handle: None }
}

/// Of each request, the response that it continues and how many items it has.
fn sent(server: &ScriptedServer) -> Vec<(String, usize)> {
    let requests = server.requests().into_iter().map(|seen| seen.body);
    requests
        .map(|body| {
            let previous = body["previous_response_id"].as_str().unwrap_or_default().to_owned();
            (previous, body["input"].as_array().unwrap().len())
        })
        .collect()
}

fn expected(sent: &[(&str, usize)]) -> Vec<(String, usize)> {
    sent.iter().map(|(id, items)| ((*id).to_owned(), *items)).collect()
}

#[tokio::test]
async fn only_what_is_new_is_sent() {
    for stream in [false, true] {
        let server = server([calling("c1"), ScriptEntry::text("x it is."), ScriptEntry::text("Bye.")]).await;
        let model = model(&server, stream);
        let mut messages = vec![Message::System { text: "be brief".into() }, Message::user("go")];
        let first = say(&model, &messages).await.unwrap();
        messages.extend([assistant(&first), result("c1")]);
        let second = say(&model, &messages).await.unwrap();
        assert_eq!((&*second.text, second.notes.len()), ("x it is.", 0));
        messages.extend([assistant(&second), Message::user("Thanks")]);
        // A session that is read again is the same conversation.
        let read: Vec<Message> = serde_json::from_str(&serde_json::to_string(&messages).unwrap()).unwrap();
        assert_eq!(say(&model, &read).await.unwrap().text, "Bye.");
        assert_eq!(sent(&server), expected(&[("", 2), ("resp_1", 1), ("resp_2", 1)]));
        assert!(server.requests().iter().all(|seen| seen.body["store"] == true));
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_conversation_that_changed_is_sent_as_a_whole() {
    let entries = [calling("c1"), ScriptEntry::text("a"), ScriptEntry::text("b"), ScriptEntry::text("c")];
    let server = server(entries).await;
    let model = model(&server, false);
    let mut messages = vec![Message::user("go")];
    let first = say(&model, &messages).await.unwrap();
    messages.extend([assistant(&first), result("c1")]);
    // Reduced: the first message says less.
    let mut reduced = messages.clone();
    reduced[0] = Message::user("g");
    say(&model, &reduced).await.unwrap();
    // Another model replied last.
    let mut elsewhere = messages.clone();
    elsewhere.push(Message::Assistant { text: "y it is".into(), calls: vec![], extra: Map::new() });
    elsewhere.push(Message::user("and?"));
    say(&model, &elsewhere).await.unwrap();
    // The request asks the server to keep nothing.
    let forgets = of(&server, false, json!({"store": false}).as_object().cloned().unwrap());
    say(&forgets, &messages).await.unwrap();
    assert_eq!(sent(&server), expected(&[("", 1), ("", 4), ("", 6), ("", 4)]));
    server.shutdown().await;
}

#[tokio::test]
async fn a_response_that_is_gone_is_asked_for_once_and_all_is_sent_instead() {
    let first_server = server([calling("c1")]).await;
    let mut messages = vec![Message::user("go")];
    let first = say(&model(&first_server, false), &messages).await.unwrap();
    messages.extend([assistant(&first), result("c1")]);
    let port = first_server.address().port();
    first_server.shutdown().await;
    // The server at that address has forgotten all.
    let script = Script::new("s.yaml", [ScriptEntry::text("done"), ScriptEntry::text("again")]);
    let server = ScriptedServer::start(script, port).await.unwrap();
    let model = model(&server, false);
    let reply = say(&model, &messages).await.unwrap();
    assert_eq!(reply.text, "done");
    assert_eq!(
        reply.notes,
        ["`scripted` no longer has the response `resp_1`; the whole conversation is sent"]
    );
    assert_eq!(say(&model, &messages).await.unwrap().notes, [] as [String; 0]);
    assert_eq!(sent(&server), expected(&[("resp_1", 1), ("", 4), ("", 4)]));
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_continues_none_is_asked_once() {
    let unknown = ErrorReply::new(400, "unknown_parameter", "Unknown parameter: 'previous_response_id'.");
    let error = ScriptEntry::new(ScriptOutcome::Error(unknown));
    let server = server([calling("c1"), error, ScriptEntry::text("a"), ScriptEntry::text("b")]).await;
    let model = model(&server, false);
    let mut messages = vec![Message::user("go")];
    let first = say(&model, &messages).await.unwrap();
    messages.extend([assistant(&first), result("c1")]);
    let second = say(&model, &messages).await.unwrap();
    assert_eq!(second.notes.len(), 1, "{:?}", second.notes);
    messages.extend([assistant(&second), Message::user("and?")]);
    assert_eq!(say(&model, &messages).await.unwrap().text, "b");
    assert_eq!(sent(&server), expected(&[("", 1), ("resp_1", 1), ("", 4), ("", 6)]));
    server.shutdown().await;
}

#[tokio::test]
async fn a_conversation_is_continued_in_the_form_in_which_it_was_sent() {
    for stream in [false, true] {
        let refusal = || ScriptEntry::error(400, "invalid_request_error", "System role not supported");
        let server = server([refusal(), calling("c1"), refusal(), ScriptEntry::text("x it is.")]).await;
        let mut messages = vec![Message::System { text: "be brief".into() }, Message::user("go")];
        let first = say(&model(&server, stream), &messages).await.unwrap();
        messages.extend([assistant(&first), result("c1")]);
        // Who does not know of the refusal would send something else than the server has.
        assert_eq!(say(&model(&server, stream), &messages).await.unwrap().text, "x it is.");
        assert_eq!(sent(&server), expected(&[("", 2), ("", 1), ("", 5), ("resp_2", 1)]));
        server.shutdown().await;
    }
}
