//! Traces and metrics that `unfazed run` exports, and what happens when they cannot be.

use std::fs;
use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use tempfile::TempDir;

use crate::collector::{Collector, only, tree};
use crate::command;

const AGENT: &str = "version: 1
task: the secret task
policy: policy.yaml
models:
  main: {api: scripted, script: model.yaml}
tools:
  look: {kind: process, description: looks, parameters: {type: object}, command: [sh, -c, 'echo the secret result'], effect: read_only}
";
const POLICY: &str = "version: 1
retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms, jitter: none}}
";
const SCRIPT: &str = "version: 1
replies:
  - error: {status: 503, message: the secret message}
  - {calls: [{name: look, arguments: {where: the secret place}}], usage: {input: 100, output: 10, cache_read: 40}}
  - {text: the secret answer, usage: {input: 120, output: 7}}
";

fn folder(script: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("agent.yaml", AGENT), ("policy.yaml", POLICY), ("model.yaml", script)] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn run(script: &str, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let dir = folder(script);
    let mut command = command::unfazed(dir.path(), &[&["run", "agent.yaml"], args].concat());
    command.envs(variables.iter().copied()).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_is_a_tree_of_spans() {
    let collector = Collector::start();
    let url = collector.url();
    let ended = run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let spans = collector.spans();
    let chat = "invoke_agent > chat main";
    assert_eq!(tree(&spans), ["invoke_agent", chat, chat, "invoke_agent > execute_tool look", chat]);
    assert!(spans.iter().all(|span| span.trace == spans[0].trace));

    let agent = &spans[0];
    assert_eq!((agent.kind, agent.status, agent.parent.as_str()), (1, 0, ""));
    assert_eq!(agent.attribute("gen_ai.operation.name"), "invoke_agent");
    assert!(!agent.attribute("gen_ai.conversation.id").is_empty());

    let failed = &spans[1];
    assert_eq!((failed.kind, failed.status), (3, 2));
    assert_eq!(failed.attribute("error.type"), "overloaded");
    assert_eq!(failed.attribute("http.response.status_code"), "503");
    assert_eq!((failed.attribute("unfazed.turn"), failed.attribute("unfazed.attempt")), ("1", "1"));

    let asks = &spans[2];
    assert_eq!((asks.kind, asks.status), (3, 0));
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "scripted"),
        ("gen_ai.request.model", "main"),
        ("gen_ai.response.finish_reasons", "tool_call"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "10"),
        ("gen_ai.usage.cache_read.input_tokens", "40"),
        ("unfazed.attempt", "2"),
        ("unfazed.status", "success"),
    ] {
        assert_eq!(asks.attribute(name), value, "{name}: {asks:#?}");
    }

    let tool = &spans[3];
    assert_eq!((tool.kind, tool.status), (1, 0));
    assert_eq!(tool.attribute("gen_ai.operation.name"), "execute_tool");
    assert_eq!(tool.attribute("gen_ai.tool.name"), "look");
    assert!(!tool.attribute("gen_ai.tool.call.id").is_empty());
}

#[test]
fn decisions_are_events_with_the_places_of_their_rules() {
    let collector = Collector::start();
    run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())]);
    let spans = collector.spans();
    let retry = spans[0].event("model retry");
    assert_eq!(retry["error.type"], "overloaded");
    let wait = spans[0].event("retry after a wait");
    assert_eq!(wait["unfazed.delay_ms"], "1");
    assert!(
        wait["unfazed.rule"].contains("retry.backoff") && wait["unfazed.rule"].contains("policy.yaml:2:"),
        "{wait:?}"
    );
    assert_eq!(spans[0].event("run finished")["unfazed.status"], "answered");
}

#[test]
fn nothing_that_was_said_is_exported() {
    let collector = Collector::start();
    let url = collector.url();
    run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    let fails =
        "version: 1\nrepeat_last: true\nreplies: [{error: {status: 400, message: the secret message}}]\n";
    run(fails, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    assert!(collector.has_text("chat main") && !collector.has_text("secret"));
}

#[test]
fn a_run_that_fails_is_a_span_that_fails() {
    let collector = Collector::start();
    let fails = "version: 1\nrepeat_last: true\nreplies: [{error: {status: 401, code: invalid_api_key, message: bad key}}]\n";
    let ended = run(fails, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())]);
    assert_eq!(ended.status.code(), Some(10));
    let spans = collector.spans();
    let agent = only(&spans, "invoke_agent");
    assert_eq!((agent.status, agent.attribute("error.type")), (2, "auth_error"));
    assert_eq!(agent.event("attempts exhausted")["error.type"], "auth_error");
}

#[test]
fn metrics_are_those_of_prometheus() {
    let collector = Collector::start();
    run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())]);
    let metrics = collector.metrics();
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Histogram(durations)) = &named("gen_ai.client.operation.duration").data else { panic!() };
    assert_eq!(durations.data_points.iter().map(|point| point.count).sum::<u64>(), 3);
    assert_eq!(named("gen_ai.client.operation.duration").unit, "s");
    let Some(Data::Histogram(tokens)) = &named("gen_ai.client.token.usage").data else { panic!() };
    let sum: f64 = tokens.data_points.iter().filter_map(|point| point.sum).sum();
    assert!((sum - 237.0).abs() < 0.1, "{sum}");
    let Some(Data::Sum(calls)) = &named("ai_agent_llm_requests_total").data else { panic!() };
    assert!(calls.is_monotonic && calls.aggregation_temporality == 2);
    let values: Vec<_> = calls.data_points.iter().map(|point| point.value.unwrap()).collect();
    assert_eq!(values, [Value::AsInt(1), Value::AsInt(2)], "failed, success");
}

#[test]
fn the_environment_says_what_is_exported_by_whom() {
    let collector = Collector::start();
    let url = collector.url();
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")] {
        assert_eq!(run(SCRIPT, &[], &[all, off]).status.code(), Some(0));
        assert!(collector.heads().is_empty(), "{off:?}");
    }
    run(SCRIPT, &[], &[all, ("OTEL_TRACES_EXPORTER", "none")]);
    assert!(collector.heads().iter().all(|head| head.starts_with("POST /v1/metrics ")));
    run(SCRIPT, &[], &[all, ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_TRACES_SAMPLER", "always_off")]);
    assert!(collector.spans().is_empty());
    run(
        SCRIPT,
        &[],
        &[
            all,
            ("OTEL_SERVICE_NAME", "desk"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b"),
        ],
    );
    let resource = collector.resource();
    assert_eq!((&*resource["service.name"], &*resource["deployment.environment.name"]), ("desk", "test"));
    let last = collector.heads().pop().unwrap();
    assert!(last.contains("api-key: a b") && last.contains("content-type: application/x-protobuf"), "{last}");
}

#[test]
fn who_says_no_name_is_unfazed() {
    let collector = Collector::start();
    run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/v1/traces", collector.url()))]);
    assert_eq!(collector.resource()["service.name"], "unfazed");
    assert!(collector.heads().iter().all(|head| head.starts_with("POST /v1/traces ")));
}

#[test]
fn an_environment_that_cannot_be_read_is_said_and_does_no_harm() {
    let ended = run(SCRIPT, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")]);
    assert_eq!(ended.status.code(), Some(0));
    let said = err(&ended);
    assert!(
        said.contains(
            "warning: no telemetry is exported: the environment's OTEL_EXPORTER_OTLP_ENDPOINT is no address"
        ),
        "{said}"
    );
}

#[test]
fn a_sampler_that_is_none_is_said_once_and_traces_are_exported() {
    let collector = Collector::start();
    let url = collector.url();
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url);
    let said = err(&run(SCRIPT, &[], &[at, ("OTEL_TRACES_SAMPLER", "nonsense")]));
    let warning = "warning: the environment's OTEL_TRACES_SAMPLER names a sampler that is not here";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    assert!(!collector.spans().is_empty());
    let part = [at, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "half")];
    let said = err(&run(SCRIPT, &[], &part));
    assert_eq!(said.matches("OTEL_TRACES_SAMPLER_ARG is no part of all traces").count(), 1, "{said}");
    let part = [at, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.5")];
    assert!(!err(&run(SCRIPT, &[], &part)).contains("SAMPLER"));
}

#[test]
fn a_collector_that_is_away_is_said_once_and_not_waited_for() {
    // One that takes the connection and never answers, and one that is not there.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [silent.local_addr().unwrap(), gone] {
        let began = Instant::now();
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*format!("http://u:sk-otlp@{address}")),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sk-otlp"),
        ];
        let ended = run(SCRIPT, &[], &variables);
        assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        let said = err(&ended);
        assert_eq!(said.matches("telemetry cannot be exported").count(), 1, "{said}");
        let all = "trace,hyper=trace,hyper_util=trace,reqwest=trace";
        let logged = err(&run(SCRIPT, &["--log", all], &variables));
        assert!(logged.contains("hyper_util") && !logged.contains("sk-otlp"), "{logged}");
    }
}

#[test]
fn log_lines_do_not_change() {
    let collector = Collector::start();
    let lines = |variables: &[(&str, &str)]| {
        let logged = err(&run(SCRIPT, &["--log", "debug", "--log-json"], variables));
        let lines = logged.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let shown = |line: serde_json::Value| {
            format!("{} {}", line["message"], line["spans"].as_array().map_or(0, Vec::len))
        };
        // What libraries log is about their connections.
        lines
            .filter(|line| line["target"].as_str().is_some_and(|target| target.starts_with("unfazed")))
            .map(shown)
            .collect::<Vec<_>>()
    };
    let exported = lines(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())]);
    assert!(exported.len() > 5);
    assert_eq!(exported, lines(&[]));
}

/// As Arize Phoenix and Jaeger do.
#[test]
fn a_collector_that_takes_traces_alone_is_said_once() {
    let collector = Collector::without("/v1/metrics");
    let url = collector.url();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_METRIC_EXPORT_INTERVAL", "1")];
    let ended = run(SCRIPT, &[], &variables);
    let said = err(&ended);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("takes nothing at this address").count(), 1, "{said}");
    assert!(
        said.contains("path=\"/v1/metrics\" status=405 without=\"OTEL_METRICS_EXPORTER=none\""),
        "{said}"
    );
    assert!(!said.contains("takes it again") && !collector.spans().is_empty(), "{said}");
}
