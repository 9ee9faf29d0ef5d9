//! Traces and metrics of guards, exported by a library host.
//!
//! Alone in its file: `tracing` remembers for the whole process what nobody listened to.

#![cfg(feature = "otlp")]

#[path = "cli/collector.rs"]
#[expect(dead_code, reason = "the tests of the command need more of it")]
mod collector;

use tracing_subscriber::layer::SubscriberExt;
use unfazed::engine::{Failure, ModelReply};
use unfazed::host::otlp::Otlp;
use unfazed::host::{Guard, GuardConfig, ModelFacts, ToolError};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Usage;

use self::collector::{Collector, only, tree};

#[tokio::test]
async fn guards_are_within_the_spans_of_their_host() {
    let collector = Collector::start();
    let url = collector.url();
    let otlp =
        Otlp::from_variables(|name| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.clone())).unwrap();
    assert!(otlp.is_on());
    let subscriber = tracing_subscriber::registry().with(otlp.layer());
    let listening = tracing::subscriber::set_default(subscriber);

    let facts = ModelFacts { provider: "openai".into(), model: "gpt-5".into(), price: None };
    let guard =
        Guard::new(GuardConfig::new(Policy::builtin()).targets(["main"]).facts("main", facts).run("run-1"));
    let counted = guard.clone();
    otlp.export_metrics(move || counted.metrics());
    guard.tool("search").call((), |(), _| async { Ok::<_, ToolError>("found") }).await.unwrap();
    guard
        .tool("fetch")
        .call((), |(), _| async { Err::<(), _>(ToolError::failed("the secret reason")) })
        .await
        .unwrap_err();
    let turn = guard.turn(());
    let reply = turn.call_with_usage(
        |reply: &ModelReply| reply.usage,
        |_, ()| async {
            // What is made in a call is within it.
            tracing::debug_span!(target: "unfazed::gen_ai", "of the host").in_scope(|| ());
            let usage = Some(Usage { input: 9, output: 4, ..Usage::default() });
            Ok::<_, Failure>(ModelReply { text: "the secret answer".into(), usage, ..ModelReply::default() })
        },
    );
    reply.await.unwrap();
    let turn = guard.turn(());
    let lost =
        turn.call(|_, ()| async { Err::<(), _>(Failure::of(ErrorClass::AuthError, "the secret key")) });
    lost.await.unwrap_err();
    drop(listening);
    otlp.end().await;

    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        [
            "call search",
            "call search > execute_tool search",
            "call fetch",
            "call fetch > execute_tool fetch",
            "turn",
            "turn > chat gpt-5",
            "turn > chat gpt-5 > of the host",
            "turn",
            "turn > chat gpt-5",
        ]
    );
    assert_eq!(spans[0].attribute("gen_ai.conversation.id"), "run-1");
    assert_eq!(only(&spans, "execute_tool search").status, 0);
    let fetch = only(&spans, "execute_tool fetch");
    assert_eq!((fetch.status, fetch.attribute("error.type")), (2, "execution_error"));
    let exhausted = only(&spans, "call fetch").event("attempts exhausted");
    assert!(exhausted["unfazed.rule"].contains("retry."), "{exhausted:?}");
    assert_eq!((spans[5].attribute("gen_ai.usage.input_tokens"), spans[5].status), ("9", 0));
    assert_eq!((spans[7].status, spans[8].attribute("error.type")), (2, "auth_error"));
    assert!(!collector.has_text("secret"));
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|metric| metric.name == "gen_ai.client.token.usage"), "{metrics:#?}");
}
