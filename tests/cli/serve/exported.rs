//! Traces of requests: within the client's, and on to the model.

use super::{CHAT, Gateway, POLICY, Reply, Upstream, folder, model, one, said};
use crate::collector::{Collector, only, tree};
use crate::command;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const BODY: &str = r#"{"model":"main","messages":[{"role":"user","content":"the secret question"}]}"#;

fn gateway(collector: &Collector, file: &str) -> Gateway {
    let folder = folder(POLICY, file);
    let mut command = command::unfazed(folder.path(), &["serve", "gateway.yaml", "--addr", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).env("OTEL_BSP_SCHEDULE_DELAY", "20");
    Gateway::of_command(folder, command)
}

#[tokio::test]
async fn a_request_continues_the_trace_of_its_client() {
    let collector = Collector::start();
    let upstream =
        Upstream::start([Reply::json(503, "", "{}"), Reply::json(200, "", &said("the secret answer"))]);
    let gateway = gateway(&collector, &one("openai", &upstream));
    let traceparent = format!("00-{TRACE}-{SPAN}-01");
    let answer = gateway.post(CHAT, &[("traceparent", &traceparent), ("tracestate", "a=b")], BODY).await;
    assert_eq!(answer.status, 200);

    let route = "POST /v1/chat/completions";
    let spans = collector.spans_with(route);
    let chat = format!("{route} > turn > chat real-main");
    assert_eq!(tree(&spans), [route.to_owned(), format!("{route} > turn"), chat.clone(), chat]);
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let request = only(&spans, route);
    assert_eq!((request.kind, request.parent.as_str()), (2, SPAN));
    assert_eq!(request.attribute("http.response.status_code"), "200");
    assert_eq!(request.attribute("http.route"), "/v1/chat/completions");
    let (failed, answered) = (&spans[2], &spans[3]);
    assert_eq!((failed.status, failed.attribute("error.type")), (2, "overloaded"));
    assert_eq!(answered.attribute("gen_ai.provider.name"), "openai");
    assert_eq!((answered.attribute("gen_ai.usage.input_tokens"), answered.status), ("3", 0));
    let turn = only(&spans, "turn");
    let wait = turn.event("retry after a wait");
    assert!(wait["unfazed.rule"].contains("policy.yaml:4:"), "{wait:?}");
    assert!(!collector.has_text("secret"));

    // Each attempt says to the model which span it is.
    let told: Vec<String> = upstream.seen();
    for (span, request) in [failed, answered].into_iter().zip(&told) {
        let header = format!("traceparent: 00-{TRACE}-{}-01", span.id);
        assert!(request.to_lowercase().contains(&header), "{header}: {request}");
        assert!(request.contains("tracestate: a=b"), "{request}");
    }
}

#[tokio::test]
async fn a_stream_is_a_span_until_its_end() {
    let collector = Collector::start();
    let chunk = |delta: &str| {
        format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let upstream = Upstream::start([Reply::cut(&chunk(r#"{"content":"Hel"}"#))]);
    let gateway = gateway(&collector, &one("openai", &upstream));
    let body = BODY.replace("\"model\"", "\"stream\":true,\"model\"");
    let answer = gateway.post(CHAT, &[], body).await;
    assert_eq!(answer.status, 200);
    let spans = collector.spans_with("POST /v1/chat/completions");
    let request = only(&spans, "POST /v1/chat/completions");
    assert_eq!((request.status, request.parent.as_str()), (2, ""), "{spans:#?}");
    assert!(!request.attribute("error.type").is_empty());
    assert!(tree(&spans).contains(&"POST /v1/chat/completions > turn > chat real-main".to_owned()));
    assert!(request.ended >= only(&spans, "turn").ended, "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_its_client_cancels_is_a_span_until_then() {
    let collector = Collector::start();
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let upstream = Upstream::start([Reply::open(chunk)]);
    let gateway = gateway(&collector, &one("openai", &upstream));
    let body = BODY.replace("\"model\"", "\"stream\":true,\"model\"");
    let mut answer = gateway.http.post(format!("{}{CHAT}", gateway.url)).body(body).send().await.unwrap();
    answer.chunk().await.unwrap();
    drop(answer);
    upstream.wait_until_gone();
    let spans = collector.spans_with("POST /v1/chat/completions");
    let (request, turn) = (only(&spans, "POST /v1/chat/completions"), only(&spans, "turn"));
    assert!(request.ended >= turn.ended, "{spans:#?}");
}

#[tokio::test]
async fn metrics_are_exported_when_it_stops() {
    let collector = Collector::start();
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let file = format!(
        "models:\n{}{}routes: {{main: [main, spare]}}\n",
        model("main", "openai", &upstream),
        model("spare", "openai", &upstream)
    );
    let mut gateway = gateway(&collector, &file);
    gateway.chat().await;
    gateway.signal("-TERM");
    assert!(gateway.child.wait().unwrap().success());
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|metric| metric.name == "ai_agent_llm_requests_total"), "{metrics:#?}");
}

#[tokio::test]
async fn a_busy_collector_is_asked_once_more() {
    let collector = Collector::start();
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let gateway = gateway(&collector, &one("openai", &upstream));
    collector.refuse_next(503);
    gateway.chat().await;
    assert!(tree(&collector.spans_with("turn")).iter().any(|name| name.ends_with("chat real-main")));
}
