//! Bedrock's Converse over real sockets: what comes back, whole and in frames, and what goes back after that.

use serde_json::{Value, json};

use unfazed::engine::FinishReason;
use unfazed::host::Model;
use unfazed::host::scripted::{ErrorReply, ScriptEntry, ScriptOutcome, ScriptedServer};
use unfazed::session::{Message, Usage};

use super::pairs::{answered, thoughtful, thoughtful_server};
use super::{LONG, Way, ask, converse, request, script};

const BOTH: [Way; 2] = [Way::Converse, Way::ConverseStreamed];

#[tokio::test]
async fn an_answer_is_the_same_whole_and_streamed() {
    for way in BOTH {
        let entry = ScriptEntry::new(ScriptOutcome::Answer(thoughtful()));
        let reply = ask(way, script(entry), LONG).await.unwrap();
        let calls: Vec<_> = reply
            .calls
            .iter()
            .map(|proposal| (proposal.call.id.as_str(), proposal.call.arguments.as_str()))
            .collect();
        assert_eq!(reply.text, "Let me look. 🦊", "{way:?}");
        assert_eq!(calls, [("call_1", r#"{"item":42}"#), ("call_2", "{}")], "{way:?}");
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(reply.usage, Some(Usage { input: 500, output: 20, cache_read: 300, ..Usage::default() }));
    }
}

#[tokio::test]
async fn reasoning_goes_back_in_its_place() {
    for stream in [false, true] {
        let server = thoughtful_server().await;
        let model = converse(&server.base_url(), stream);
        let reply = model.call(request(&[Message::user("What does it cost?")], LONG)).await.unwrap();
        let done = model.call(request(&answered(&reply), LONG)).await.unwrap();
        assert_eq!(done.text, "Done.");
        let sent = server.requests().pop().unwrap().body;
        let kinds: Vec<Value> = sent["messages"][1]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| json!(block.as_object().unwrap().keys().next()))
            .collect();
        assert_eq!(kinds, ["reasoningContent", "text", "toolUse", "toolUse"], "{sent}");
        assert_eq!(
            sent["messages"][1]["content"][0]["reasoningContent"]["reasoningText"]["signature"],
            "c2NyaXB0ZWQ="
        );
    }
}

#[tokio::test]
async fn the_class_of_an_error_stands_in_a_header_or_in_a_frame() {
    for (way, status) in [(Way::Converse, 429), (Way::ConverseStreamed, 429), (Way::ConverseStreamed, 200)] {
        let error = ErrorReply {
            kind: Some("throttlingException".into()),
            ..ErrorReply::new(status, "", "slow down")
        };
        let failure =
            ask(way, script(ScriptEntry::new(ScriptOutcome::Error(error))), LONG).await.unwrap_err();
        let told = (failure.kind.as_deref(), failure.message.as_str());
        assert_eq!(told, (Some("throttlingException"), "slow down"), "{way:?} {status}");
    }
}

#[tokio::test]
async fn what_the_api_refuses_uses_no_reply_up() {
    let server = ScriptedServer::start(script(ScriptEntry::text("fine")), 0).await.unwrap();
    let client = reqwest::Client::new();
    let url = format!("http://{}/model/m/converse", server.address());
    let body = json!({"messages": [{"role": "assistant", "content": [{"text": "hi"}]}]});
    let refused = client.post(&url).body(body.to_string()).send().await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["x-amzn-errortype"]),
        (400, &"ValidationException".parse().unwrap())
    );
    let reply = converse(&server.base_url(), false).call(request(&[Message::user("go")], LONG)).await;
    assert_eq!(reply.unwrap().text, "fine");
}
