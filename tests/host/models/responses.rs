//! `OpenAI`'s Responses over real sockets: what is sent, what comes back, and what goes back after that, to the same server
//! and to others.

use serde_json::{Value, json};

use unfazed::engine::{FinishReason, ModelReply, ToolChoice, ToolSpec};
use unfazed::host::scripted::{
    ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome, ScriptedCall, ScriptedServer,
};
use unfazed::host::{HttpModel, Model, ModelConfig, ModelRequest, Provider};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, ToolCall, Usage};

use super::{LONG, Way, anthropic, ask, client, request, responses, script};

const BOTH: [Way; 2] = [Way::Responses, Way::ResponsesStreamed];

fn thoughtful() -> ScriptAnswer {
    let call = |name: &str, arguments: &str, id: &str| ScriptedCall {
        name: name.into(),
        arguments: arguments.into(),
        id: Some(id.into()),
    };
    let extra = json!({"reasoning_content": "First the price, then the rest.", "phase": "commentary"});
    ScriptAnswer {
        text: "Let me look. 🦊".into(),
        calls: vec![call("look", r#"{"item":42}"#, "call_1"), call("rest", "", "call_2")],
        usage: Some(Usage { input: 500, output: 20, cache_read: 300, cache_write: 100, reasoning: 12 }),
        extra: extra.as_object().cloned().unwrap(),
        ..ScriptAnswer::default()
    }
}

fn assistant(reply: &ModelReply) -> Message {
    let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() }
}

fn result(call: &str, text: &str) -> Message {
    Message::Tool { call: call.into(), tool: "t".into(), text: text.into(), error: false, handle: None }
}

/// The messages after a first answer, with a result of each call.
fn answered(reply: &ModelReply) -> Vec<Message> {
    let mut messages = vec![Message::user("What does it cost?"), assistant(reply)];
    messages.extend(reply.calls.iter().map(|proposal| result(&proposal.call.id, "12.50")));
    messages
}

async fn thoughtful_server(then: usize) -> ScriptedServer {
    let then = (0..then).map(|_| ScriptEntry::text("Done."));
    let entries = [ScriptEntry::new(ScriptOutcome::Answer(thoughtful()))].into_iter().chain(then);
    ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap()
}

#[tokio::test]
async fn an_answer_is_the_same_whole_and_streamed() {
    let call = |id: &str, name: &str, arguments: &str| {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
    };
    for way in BOTH {
        let entry = ScriptEntry::new(ScriptOutcome::Answer(thoughtful()));
        let mut reply = ask(way, script(entry), LONG).await.unwrap();
        let kept = reply.extra.shift_remove("output_responses").unwrap();
        let kinds: Vec<_> = kept["items"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"], "{way:?}");
        let expected = ModelReply {
            text: "Let me look. 🦊".into(),
            calls: vec![call("call_1", "look", r#"{"item":42}"#), call("call_2", "rest", "{}")],
            finish: FinishReason::ToolCalls,
            usage: thoughtful().usage,
            ..ModelReply::default()
        };
        assert_eq!(reply, expected, "{way:?}");
    }
}

#[tokio::test]
async fn all_items_go_back_as_they_came_with_the_results_after_them() {
    let server = thoughtful_server(1).await;
    let model = responses(&server.base_url(), true);
    let reply = model.call(request(&[Message::user("go")], LONG)).await.unwrap();
    let mut messages = vec![Message::System { text: "Be brief.".into() }];
    messages.extend(answered(&reply));
    messages.push(Message::User { text: "Answer now.".into(), guidance: Some("final_turn".into()) });
    assert_eq!(model.call(request(&messages, LONG)).await.unwrap().text, "Done.");
    insta::assert_json_snapshot!(server.requests()[1].body);
}

#[tokio::test]
async fn a_conversation_goes_on_with_any_other_provider_and_comes_back() {
    for (first, second) in [(false, true), (true, false)] {
        let server = thoughtful_server(4).await;
        let url = server.base_url();
        let own = responses(&url, first);
        let reply = own.call(request(&[Message::user("go")], LONG)).await.unwrap();
        let mut messages = answered(&reply);
        let others: [Box<dyn Model>; 3] = [
            Box::new(client(&url, second)),
            Box::new(anthropic(&url, second)),
            Box::new(
                HttpModel::new(ModelConfig {
                    base_url: url.clone(),
                    stream: second,
                    ..ModelConfig::new(Provider::RESPONSES, "another")
                })
                .unwrap(),
            ),
        ];
        for other in others {
            let reply = other.call(request(&messages, LONG)).await.unwrap();
            messages.extend([assistant(&reply), Message::user("and?")]);
            let sent = server.requests().pop().unwrap().body.to_string();
            for foreign in ["output_responses", "encrypted_content\":", "rs_1", "fc_1", "msg_1"] {
                assert!(!sent.contains(foreign), "{foreign} is in {sent}");
            }
            assert!(sent.contains("call_1") && sent.contains("Let me look."), "{sent}");
        }
        assert_eq!(own.call(request(&messages, LONG)).await.unwrap().text, "Done.");
        let sent = server.requests().pop().unwrap().body;
        assert_eq!(sent["input"][1]["id"], "rs_1", "{sent}");
        assert_eq!(sent["input"][3]["id"], "fc_1_1", "{sent}");
    }
}

#[tokio::test]
async fn a_conversation_of_any_other_provider_goes_on_here() {
    for stream in [false, true] {
        for speaks_anthropic in [false, true] {
            let server = thoughtful_server(1).await;
            let url = server.base_url();
            let other = if speaks_anthropic { anthropic(&url, stream) } else { client(&url, stream) };
            let reply = other.call(request(&[Message::user("go")], LONG)).await.unwrap();
            let messages = answered(&reply);
            assert_eq!(responses(&url, stream).call(request(&messages, LONG)).await.unwrap().text, "Done.");
            let call = |id: &str, name: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
            let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "12.50"});
            assert_eq!(
                server.requests()[1].body["input"],
                json!([
                    {"type": "message", "role": "user", "content": "What does it cost?"},
                    {"type": "message", "role": "assistant", "content": "Let me look. 🦊"},
                    call("call_1", "look", r#"{"item":42}"#),
                    call("call_2", "rest", "{}"),
                    result("call_1"),
                    result("call_2"),
                ])
            );
        }
    }
}

#[tokio::test]
async fn reasoning_that_the_server_refuses_is_left_out_from_then_on() {
    let server = thoughtful_server(2).await;
    let model = responses(&server.base_url(), true);
    let mut reply = model.call(request(&[Message::user("go")], LONG)).await.unwrap();
    reply.extra["output_responses"]["items"][0]["encrypted_content"] = "of another account".into();
    let messages = answered(&reply);
    for notes in [1, 0] {
        let reply = model.call(request(&messages, LONG)).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.notes.len()), ("Done.", notes), "{:?}", reply.notes);
    }
    let seen: Vec<bool> =
        server.requests().iter().map(|request| request.body.to_string().contains("rs_1")).collect();
    assert_eq!(seen, [false, true, false, false]);
}

#[tokio::test]
async fn the_request_is_what_the_api_asks_for() {
    let server = ScriptedServer::start(script(ScriptEntry::text("ok").times(2)), 0).await.unwrap();
    let tool = ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object", "properties": {"item": {"type": "integer"}}}),
        effect: None,
    };
    let messages = [Message::System { text: "Be brief.".into() }, Message::user("go")];
    let with_tool = || ModelRequest {
        tools: vec![&tool],
        tool_choice: ToolChoice::Tool("look".into()),
        ..request(&messages, LONG)
    };
    for stream in [false, true] {
        responses(&server.base_url(), stream).call(with_tool()).await.unwrap();
    }
    let requests: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    insta::assert_json_snapshot!(requests);
}

#[tokio::test]
async fn errors_of_the_api_have_their_class_by_status_and_in_the_stream() {
    let table = [
        (503, "server_is_overloaded", "The server is overloaded", ErrorClass::Overloaded),
        (429, "rate_limit_exceeded", "slow down", ErrorClass::RateLimit),
        (429, "insufficient_quota", "no money left", ErrorClass::QuotaExceeded),
        (401, "invalid_api_key", "Incorrect API key provided", ErrorClass::AuthError),
        (
            400,
            "context_length_exceeded",
            "Your input exceeds the context window",
            ErrorClass::ContextOverflow,
        ),
        (400, "image_too_large", "The image is too large", ErrorClass::InvalidRequest),
    ];
    let policy = Policy::builtin();
    for (status, code, message, class) in table {
        for way in BOTH {
            // In a stream the status is that of a success; the event alone tells.
            for status in [status, 200] {
                let entry = ScriptEntry::new(ScriptOutcome::Error(ErrorReply::new(status, code, message)));
                let failure = ask(way, script(entry), LONG).await.unwrap_err();
                assert_eq!(failure.code.as_deref(), Some(code), "{way:?} {failure:?}");
                assert_eq!(failure.classified(&policy).class, class, "{way:?} {status} {failure:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_whole_says_so() {
    for (finish, expected) in [
        ("length", Ok(FinishReason::Length)),
        ("content_filter", Ok(FinishReason::ContentFilter)),
        ("error", Err("the model stopped with `error`")),
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
