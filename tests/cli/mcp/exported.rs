//! Traces of calls: within the client's, and on to the server.

use serde_json::json;
use tempfile::TempDir;

use super::{Client, POLICY, server_script};
use crate::collector::{Collector, only, tree};
use crate::command;

#[test]
fn a_call_is_within_the_trace_of_its_client_and_goes_on_to_the_server() {
    let collector = Collector::start();
    let folder: TempDir = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
    let (notes, script) =
        (folder.path().join("notes").display().to_string(), server_script().display().to_string());
    let args = ["mcp", "--policy", "p.yaml", "--", "python3", &script, &notes, "plain"];
    let mut command = command::unfazed(folder.path(), &args);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let mut client = Client::of_command(folder, command);
    client.shake_hands(&json!({}));
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let params = json!({
        "name": "flaky", "arguments": {"text": "the secret text"}, "_meta": {"traceparent": format!("00-{trace}-{span}-01")},
    });
    client.ask("tools/call", &params);
    let sent = client.calls_of("flaky");
    assert_eq!(client.end(), Some(0));

    let spans = collector.spans();
    let run = "tools/call flaky > call flaky > execute_tool flaky";
    assert_eq!(tree(&spans), ["tools/call flaky", "tools/call flaky > call flaky", run, run, run]);
    let request = only(&spans, "tools/call flaky");
    assert_eq!((request.kind, request.parent.as_str(), request.trace.as_str()), (2, span, trace));
    assert_eq!(request.attribute("mcp.method.name"), "tools/call");
    let call = only(&spans, "call flaky");
    let wait = call.event("retry after a wait");
    assert!(wait["unfazed.rule"].contains("p.yaml:4:"), "{wait:?}");
    let (failed, succeeded) = (&spans[2], &spans[4]);
    assert_eq!((failed.status, failed.attribute("error.type")), (2, "execution_error"));
    assert_eq!((succeeded.status, succeeded.attribute("unfazed.attempt")), (0, "3"));
    for (attempt, call) in spans[2..].iter().zip(&sent) {
        assert_eq!(call["params"]["_meta"]["traceparent"], format!("00-{trace}-{}-01", attempt.id));
    }
    assert!(!collector.has_text("secret") && !collector.has_text("the disk is full"));
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|metric| metric.name == "gen_ai.execute_tool.duration"));
}
