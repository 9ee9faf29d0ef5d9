//! Deployments of Azure `OpenAI` over real sockets: where they are asked, and what only they answer.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use unfazed::engine::{Failure, ModelReply};
use unfazed::host::{HttpModel, Model, ModelConfig, Provider};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Message;

use super::{LONG, ok, request};

/// What comes of this answer, and the head of the request.
async fn asked(answer: &[u8]) -> (Result<ModelReply, Failure>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = HttpModel::new(ModelConfig {
        base_url: format!("http://{}?api-version=2024-10-21", listener.local_addr().unwrap()),
        api_key: Some("azure-key-1".into()),
        stream: true,
        ..ModelConfig::new(Provider::AZURE, "my-gpt")
    })
    .unwrap();
    let messages = [Message::user("go")];
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 8192];
        let read = socket.read(&mut buffer).await.unwrap();
        let _ = socket.write_all(answer).await;
        let _ = socket.shutdown().await;
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    };
    tokio::join!(model.call(request(&messages, LONG)), server)
}

#[tokio::test]
async fn a_deployment_is_asked_at_its_address_and_may_begin_with_what_its_filters_say() {
    let filters = json!({"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]});
    let part = json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "content_filter_results": {}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let body = format!("data: {filters}\n\ndata: {part}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let (reply, head) = asked(&ok("text/event-stream", &body)).await;
    assert_eq!(reply.unwrap().text, "hi");
    let line = "POST /openai/deployments/my-gpt/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    assert!(head.contains("\r\napi-key: azure-key-1\r\n") && !head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn a_prompt_that_is_filtered_is_known_as_such() {
    let body = json!({"error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": null, "param": "prompt", "code": "content_filter", "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": true}}},
    }});
    let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n{body}");
    let failure = asked(answer.as_bytes()).await.0.unwrap_err();
    assert_eq!(failure.classified(&Policy::builtin()).class, ErrorClass::ContentFilter, "{failure:?}");
}
