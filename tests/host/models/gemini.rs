//! Gemini over real sockets: what is sent, what comes back, and what goes back after that, to the same server and to others.

use serde_json::{Value, json};

use unfazed::engine::{FinishReason, ModelReply};
use unfazed::host::scripted::{
    ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedCall, ScriptedServer,
};
use unfazed::host::{HttpModel, Model, ModelConfig, Provider};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, Usage};

use super::{LONG, Way, anthropic, ask, client, gemini, request, responses, script};

const BOTH: [Way; 2] = [Way::Gemini, Way::GeminiStreamed];

fn thoughtful() -> ScriptAnswer {
    let call = |name: &str, arguments: &str, id: &str| ScriptedCall {
        name: name.into(),
        arguments: arguments.into(),
        id: Some(id.into()),
    };
    let extra = json!({"reasoning_content": "First the price, then the rest."});
    ScriptAnswer {
        text: "Let me look. 🦊".into(),
        calls: vec![call("look", r#"{"item":42}"#, "call_1"), call("rest", "", "call_2")],
        usage: Some(Usage { input: 500, output: 20, cache_read: 300, cache_write: 0, reasoning: 12 }),
        extra: extra.as_object().cloned().unwrap(),
        ..ScriptAnswer::default()
    }
}

fn assistant(reply: &ModelReply) -> Message {
    let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() }
}

/// The messages after a first answer, with a result of each call.
fn answered(reply: &ModelReply) -> Vec<Message> {
    let mut messages = vec![Message::user("What does it cost?"), assistant(reply)];
    messages.extend(reply.calls.iter().map(|proposal| Message::Tool {
        call: proposal.call.id.clone(),
        tool: "t".into(),
        text: "12.50".into(),
        error: false,
        handle: None,
    }));
    messages
}

async fn thoughtful_server(then: usize) -> ScriptedServer {
    let then = (0..then).map(|_| ScriptEntry::text("Done."));
    let entries = [ScriptEntry::new(ScriptOutcome::Answer(thoughtful()))].into_iter().chain(then);
    ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap()
}

fn named(model: &str, base_url: &str, stream: bool) -> HttpModel {
    let config =
        ModelConfig { base_url: base_url.into(), stream, ..ModelConfig::new(Provider::GEMINI, model) };
    HttpModel::new(config).unwrap()
}

fn last_body(server: &ScriptedServer) -> Value {
    server.requests().pop().unwrap().body
}

#[tokio::test]
async fn an_answer_is_the_same_whole_and_streamed() {
    for way in BOTH {
        let reply =
            ask(way, script(ScriptEntry::new(ScriptOutcome::Answer(thoughtful()))), LONG).await.unwrap();
        let calls: Vec<_> = reply
            .calls
            .iter()
            .map(|proposal| (proposal.call.id.as_str(), proposal.call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("call_1", r#"{"item":42}"#), ("call_2", "{}")], "{way:?}");
        assert_eq!((reply.text.as_str(), &reply.finish), ("Let me look. 🦊", &FinishReason::ToolCalls));
        assert_eq!(reply.usage, thoughtful().usage, "{way:?}");
        let kept = &reply.extra["thinking_gemini"]["items"];
        assert_eq!(
            (kept.as_array().unwrap().len(), &kept[2]["thoughtSignature"]),
            (4, &json!("c2NyaXB0ZWQ="))
        );
    }
}

#[tokio::test]
async fn all_parts_go_back_as_they_came_with_the_results_after_them() {
    for stream in [true, false] {
        let server = thoughtful_server(1).await;
        let model = gemini(&server.base_url(), stream);
        let reply = model.call(request(&[Message::user("go")], LONG)).await.unwrap();
        let mut messages = vec![Message::System { text: "Be brief.".into() }];
        messages.extend(answered(&reply));
        messages.push(Message::User { text: "Answer now.".into(), guidance: Some("final_turn".into()) });
        assert_eq!(model.call(request(&messages, LONG)).await.unwrap().text, "Done.");
        let response = |id: &str, name: &str| json!({"functionResponse": {"name": name, "response": {"output": "12.50"}, "id": id}});
        assert_eq!(
            last_body(&server),
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "What does it cost?"}]},
                    {"role": "model", "parts": [
                        {"text": "First the price, then the rest.", "thought": true},
                        {"text": "Let me look. 🦊"},
                        {"functionCall": {"name": "look", "args": {"item": 42}, "id": "call_1"}, "thoughtSignature": "c2NyaXB0ZWQ="},
                        {"functionCall": {"name": "rest", "args": {}, "id": "call_2"}},
                    ]},
                    {"role": "user", "parts": [response("call_1", "look"), response("call_2", "rest"), {"text": "Answer now."}]},
                ],
            })
        );
    }
}

#[tokio::test]
async fn a_conversation_goes_to_any_other_provider_and_comes_back() {
    for (first, second) in [(false, true), (true, false)] {
        let server = thoughtful_server(5).await;
        let url = server.base_url();
        let own = gemini(&url, first);
        let reply = own.call(request(&[Message::user("go")], LONG)).await.unwrap();
        let mut messages = answered(&reply);
        let others: [Box<dyn Model>; 4] = [
            Box::new(client(&url, second)),
            Box::new(anthropic(&url, second)),
            Box::new(responses(&url, second)),
            Box::new(named("another", &url, second)),
        ];
        for other in others {
            let reply = other.call(request(&messages, LONG)).await.unwrap();
            messages.extend([assistant(&reply), Message::user("and?")]);
            let sent = last_body(&server).to_string();
            for foreign in ["thinking_gemini", "thoughtSignature", "c2NyaXB0ZWQ=", "First the price"] {
                assert!(!sent.contains(foreign), "{foreign} is in {sent}");
            }
            assert!(sent.contains("call_1") && sent.contains("Let me look."), "{sent}");
        }
        assert_eq!(own.call(request(&messages, LONG)).await.unwrap().text, "Done.");
        let sent = last_body(&server);
        assert_eq!(sent["contents"][1]["parts"][2]["thoughtSignature"], "c2NyaXB0ZWQ=", "{sent}");
    }
}

#[tokio::test]
async fn a_conversation_of_any_other_provider_continues_here_with_a_stand_in() {
    for stream in [false, true] {
        for (at, model) in ["gemini-2.5-flash", "gemini-3-pro"].into_iter().enumerate() {
            for other in [client, anthropic, responses] {
                let server = thoughtful_server(1).await;
                let url = server.base_url();
                let reply = other(&url, stream).call(request(&[Message::user("go")], LONG)).await.unwrap();
                let messages = answered(&reply);
                let reply = named(model, &url, stream).call(request(&messages, LONG)).await.unwrap();
                let note = format!(
                    "`{model}` is not sent the reasoning that came with earlier replies of other models"
                );
                assert_eq!((reply.text.as_str(), reply.notes), ("Done.", vec![note]));
                let sent = last_body(&server)["contents"][1]["parts"].clone();
                let mut call =
                    json!({"functionCall": {"name": "look", "args": {"item": 42}, "id": "call_1"}});
                if at == 1 {
                    call["thoughtSignature"] = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=".into();
                }
                let rest = json!({"functionCall": {"name": "rest", "args": {}, "id": "call_2"}});
                assert_eq!(sent, json!([{"text": "Let me look. 🦊"}, call, rest]));
            }
        }
    }
}

#[tokio::test]
async fn signatures_that_the_server_refuses_are_left_out_from_then_on() {
    let server = thoughtful_server(2).await;
    let model = gemini(&server.base_url(), true);
    let mut reply = model.call(request(&[Message::user("go")], LONG)).await.unwrap();
    reply.extra["thinking_gemini"]["items"][2]["thoughtSignature"] = "YW5vdGhlcg==".into();
    let messages = answered(&reply);
    for notes in [1, 0] {
        let reply = model.call(request(&messages, LONG)).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.notes.len()), ("Done.", notes), "{:?}", reply.notes);
    }
    let requests = server.requests();
    let seen: Vec<bool> =
        requests.iter().map(|request| request.body.to_string().contains("YW5vdGhlcg==")).collect();
    assert_eq!(seen, [false, true, false, false]);
}

#[tokio::test]
async fn errors_have_their_class_by_status_and_in_the_stream() {
    let policy = Policy::builtin();
    for (status, kind, message, class) in [
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ErrorClass::Overloaded),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", ErrorClass::AuthError),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ErrorClass::ContextOverflow,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "Quota exceeded for metric: x, limit: 0, model: y",
            ErrorClass::QuotaExceeded,
        ),
    ] {
        for way in BOTH {
            // In a stream the status is that of a success; the event alone tells.
            for sent in [status, 200] {
                let body = json!([{"error": {"code": status, "message": message, "status": kind}}]);
                let error = ErrorReply { body: Some(body.to_string()), ..ErrorReply::new(sent, "", message) };
                let entry = ScriptEntry::new(ScriptOutcome::Error(error));
                let failure = ask(way, script(entry), LONG).await.unwrap_err();
                assert_eq!(failure.classified(&policy).class, class, "{way:?} {sent} {failure:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_whole_says_so() {
    for (finish, expected) in [
        ("length", Ok(FinishReason::Length)),
        ("content_filter", Ok(FinishReason::ContentFilter)),
        (
            "MALFORMED_FUNCTION_CALL",
            Err("the model stopped with `MALFORMED_FUNCTION_CALL` before the answer was whole"),
        ),
    ] {
        let answer =
            ScriptAnswer { text: "Half".into(), finish: Some(finish.into()), ..ScriptAnswer::default() };
        for way in BOTH {
            let told = ask(way, script(ScriptEntry::new(ScriptOutcome::Answer(answer.clone()))), LONG).await;
            let told = told.map(|reply| reply.finish).map_err(|failure| failure.message);
            assert_eq!(told, expected.clone().map_err(str::to_owned), "{way:?}");
        }
    }
}
