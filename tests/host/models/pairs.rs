//! A conversation that continues with a model of another dialect: each of the five, with each of the five.
//!
//! The scripted model refuses what the API of each dialect refuses: pairs, ids, the order of roles, signatures of others.

use serde_json::{Value, json};

use unfazed::engine::ModelReply;
use unfazed::host::scripted::{
    Script, ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedCall, ScriptedServer,
};
use unfazed::host::{HttpModel, Model};
use unfazed::session::{Message, Usage};

use super::{LONG, anthropic, client, converse, gemini, request, responses};

/// What all scripted models seal their reasoning with.
const SEAL: &str = "c2NyaXB0ZWQ=";
const THOUGHT: &str = "First the price, then the rest.";

pub(super) type Made = fn(&str, bool) -> HttpModel;

pub(super) const DIALECTS: [(&str, Made); 5] = [
    ("chat", client),
    ("messages", anthropic),
    ("responses", responses),
    ("gemini", gemini),
    ("converse", converse),
];

/// An answer with all that an answer can have.
pub(super) fn thoughtful() -> ScriptAnswer {
    let call = |name: &str, arguments: &str, id: &str| ScriptedCall {
        name: name.into(),
        arguments: arguments.into(),
        id: Some(id.into()),
    };
    ScriptAnswer {
        text: "Let me look. 🦊".into(),
        calls: vec![call("look", r#"{"item":42}"#, "call_1"), call("rest", "", "call_2")],
        usage: Some(Usage { input: 500, output: 20, cache_read: 300, cache_write: 0, reasoning: 0 }),
        extra: json!({"reasoning_content": THOUGHT}).as_object().cloned().unwrap(),
        ..ScriptAnswer::default()
    }
}

/// A server that thinks and calls, and then is done.
pub(super) async fn thoughtful_server() -> ScriptedServer {
    serving(thoughtful()).await
}

async fn serving(first: ScriptAnswer) -> ScriptedServer {
    let done = ScriptEntry::text("Done.").times(9);
    let entries = [ScriptEntry::new(ScriptOutcome::Answer(first)), done];
    ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap()
}

/// The messages after a first answer, with a result of each call.
pub(super) fn answered(reply: &ModelReply) -> Vec<Message> {
    let calls: Vec<_> = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    let results = calls.iter().map(|call| Message::Tool {
        call: call.id.clone(),
        tool: call.name.clone(),
        text: "12.50".into(),
        error: call.name == "rest",
        handle: None,
    });
    let results: Vec<_> = results.collect();
    let said = Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() };
    [Message::user("What does it cost?"), said].into_iter().chain(results).collect()
}

fn last_body(server: &ScriptedServer) -> String {
    server.requests().pop().unwrap().body.to_string()
}

#[tokio::test]
async fn a_conversation_continues_with_every_other_dialect_and_comes_back() {
    for stream in [false, true] {
        for (from, first) in DIALECTS {
            let server = thoughtful_server().await;
            let own = first(&server.base_url(), stream);
            let reply = own.call(request(&[Message::user("What does it cost?")], LONG)).await.unwrap();
            let mut messages = answered(&reply);
            for (to, second) in DIALECTS {
                let elsewhere = ScriptedServer::start(Script::new("t.yaml", [ScriptEntry::text("Fine.")]), 0);
                let elsewhere = elsewhere.await.unwrap();
                let other = second(&elsewhere.base_url(), stream);
                let said = other.call(request(&messages, LONG)).await;
                let said =
                    said.unwrap_or_else(|failure| panic!("{from} to {to}, streamed {stream}: {failure:?}"));
                assert_eq!(said.text, "Fine.", "{from} to {to}");
                let body = last_body(&elsewhere);
                for kept in ["Let me look. 🦊", "\"look\"", "\"rest\"", "12.50"] {
                    assert!(body.contains(kept), "{from} to {to}: {kept} is lost in {body}");
                }
                // It was sealed for another server.
                assert!(!body.contains(SEAL), "{from} to {to}: {body}");
            }
            // What the first one sealed comes back to it.
            messages.push(Message::Assistant {
                text: "Fine.".into(),
                calls: vec![],
                extra: serde_json::Map::new(),
            });
            messages.push(Message::user("And now?"));
            own.call(request(&messages, LONG)).await.unwrap();
            let back = last_body(&server);
            let (kept, what) = if from == "chat" { (THOUGHT, "reasoning") } else { (SEAL, "seal") };
            assert!(back.contains(kept), "{from}: the {what} is lost in {back}");
        }
    }
}

#[tokio::test]
async fn ids_of_every_dialect_are_ids_in_every_other() {
    let long = "x".repeat(90);
    for id in ["functions.look:0", "call|1", "a b", &long, "tool-übung", "turn1_0"] {
        for (from, first) in DIALECTS {
            let mut answer = thoughtful();
            answer.calls[0].id = Some(id.to_owned());
            let server = serving(answer).await;
            let own = first(&server.base_url(), true);
            let reply = own.call(request(&[Message::user("What does it cost?")], LONG)).await.unwrap();
            let messages = answered(&reply);
            for (to, second) in DIALECTS {
                let elsewhere = ScriptedServer::start(Script::new("t.yaml", [ScriptEntry::text("Fine.")]), 0);
                let elsewhere = elsewhere.await.unwrap();
                let said = second(&elsewhere.base_url(), false).call(request(&messages, LONG)).await;
                assert!(said.is_ok(), "{id}, {from} to {to}: {said:?}");
                let body: Value = elsewhere.requests().pop().unwrap().body;
                for sent in ids(&body) {
                    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
                    let fits = sent.len() <= 64 && sent.chars().all(allowed);
                    // A server of which nothing is known takes what most take: any id, and Gemini's API has no form for them.
                    assert!(fits || ["chat", "gemini"].contains(&to), "{from} to {to}: {sent}");
                }
            }
        }
    }
}

/// The ids of calls and of their results in a body.
fn ids(body: &Value) -> Vec<String> {
    const NAMES: [&str; 4] = ["call_id", "tool_use_id", "toolUseId", "tool_call_id"];
    let mut found = Vec::new();
    match body {
        Value::Array(items) => items.iter().for_each(|item| found.extend(ids(item))),
        Value::Object(fields) => {
            let is_call = fields.get("type").is_some_and(|kind| kind == "tool_use");
            for (name, value) in fields {
                match value {
                    Value::String(id) if NAMES.contains(&name.as_str()) || (is_call && name == "id") => {
                        found.push(id.clone());
                    }
                    _ => found.extend(ids(value)),
                }
            }
        }
        _ => {}
    }
    found
}
