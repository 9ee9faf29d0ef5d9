//! What `unfazed run` tells other programs: its exit code, its metrics over HTTP, one line for each call of a model.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const AGENT: &str = "version: 1
task: do it
policy: policy.yaml
models:
  main: {api: scripted, script: model.yaml, price: {input: 2.50, output: 10}}
";
const POLICY: &str = "version: 1\nretry: {max_attempts: 2, backoff: {kind: constant, delay: 1ms, jitter: none}, server_delay: {mode: floor, max: 60s}}\n";

fn folder(policy: &str, replies: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("version: 1\nrepeat_last: true\nreplies:\n{replies}");
    for (name, text) in [("agent.yaml", AGENT), ("policy.yaml", policy), ("model.yaml", &script)] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn starting(dir: &TempDir, args: &[&str]) -> Command {
    command::unfazed(dir.path(), &[&["run", "agent.yaml"], args].concat())
}

fn run(dir: &TempDir, args: &[&str]) -> Output {
    starting(dir, args).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_that_fails_says_by_its_code_why() {
    let error = |fields: &str| format!("  - error: {{{fields}}}\n");
    let output =
        "output: {schema: {type: object, required: [n]}, on_exhausted: fail}\nturn: {max_turns: 1}\n";
    for (policy, replies, code) in [
        (POLICY.to_owned(), error("status: 401, code: invalid_api_key, message: no such key"), 10),
        (POLICY.to_owned(), error("status: 429, code: insufficient_quota, message: pay first"), 11),
        (POLICY.to_owned(), error("status: 503, message: come back later"), 12),
        (POLICY.to_owned(), error("status: 400, code: context_length_exceeded, message: too long"), 13),
        (format!("{POLICY}{output}"), "  - calls: [{name: final_report, arguments: {m: 1}}]\n".into(), 14),
        ("version: 1\nretry: {deadline: 1ms}\n".into(), error("status: 503, message: come back later"), 15),
        (POLICY.to_owned(), error("status: 400, message: what is this"), 1),
        (
            format!("{POLICY}limits: {{run: {{model_calls: 1}}}}\n"),
            error("status: 503, message: come back later"),
            16,
        ),
        (format!("{POLICY}limits: {{run: {{tokens: 10}}}}\n"), "  - {text: hello}\n".into(), 16),
    ] {
        let run = run(&folder(&policy, &replies), &[]);
        assert_eq!(run.status.code(), Some(code), "{replies}{}", err(&run));
    }
}

#[test]
fn the_help_tells_every_code() {
    let dir = folder(POLICY, "  - text: done\n");
    let help = String::from_utf8(run(&dir, &["--help"]).stdout).unwrap();
    insta::assert_snapshot!(help);
}

#[test]
fn each_call_of_a_model_is_a_line() {
    let replies =
        "  - error: {status: 503, message: busy}\n  - {text: done, usage: {input: 100, output: 10}}\n";
    let run = run(&folder(POLICY, replies), &["--format", "json"]);
    let out = String::from_utf8(run.stdout).unwrap();
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "attempt").collect();
    assert_eq!(calls.len(), 2, "{out}");
    assert_eq!((&calls[0]["status"], &calls[0]["http_status"]), (&"failed".into(), &503.into()));
    assert_eq!((&calls[0]["action"], &calls[0]["delay_ms"]), (&"retry".into(), &1.into()));
    assert_eq!((&calls[1]["provider"], &calls[1]["target"]), (&"scripted".into(), &"main".into()));
    assert_eq!((&calls[1]["status"], &calls[1]["cost_usd"]), (&"success".into(), &0.00035.into()));
    let result = lines.last().unwrap();
    assert_eq!(result["cost_usd"], 0.00035);
    assert_eq!(calls[1]["correlation_id"], lines[0]["run"]);
}

#[test]
fn people_see_what_a_run_cost() {
    let run = run(&folder(POLICY, "  - {text: done, usage: {input: 100, output: 10}}\n"), &[]);
    assert!(err(&run).contains("\ncost     0.00035 USD\n"), "{}", err(&run));
}

/// A run that is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_while_the_run_goes_on() {
    let busy = "  - error: {status: 429, message: busy, headers: {retry-after: 50}}\n";
    let dir = folder(POLICY, busy);
    let mut running = starting(&dir, &["--metrics-addr", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = running.stderr.take().unwrap();
    let _running = Running(running);
    let mut said = BufReader::new(stderr).lines().map(Result::unwrap);
    let first = said.find(|line| line.starts_with("metrics  ")).unwrap();
    let address = first.trim_start_matches("metrics  http://").trim_end_matches("/metrics").to_owned();
    // The first call has failed when its wait is informed.
    said.find(|line| line.contains("attempt 2 of 2")).unwrap();
    let answer = get(&address, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let line = "ai_agent_llm_requests_total{model=\"main\",provider=\"scripted\",status=\"failed\",target=\"main\"} 1";
    assert!(body.lines().any(|found| found == line), "{body}");
    assert!(get(&address, "/").starts_with("HTTP/1.1 404"), "only /metrics is there");
}

#[test]
fn an_address_that_is_refused_is_an_error_before_anything_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = taken.local_addr().unwrap().to_string();
    let dir = folder(POLICY, "  - text: done\n");
    for (address, says) in [
        (in_use.as_str(), "it is in use; stop what uses it, or take port 0 for any free one"),
        ("192.0.2.1:9464", "this machine has no address 192.0.2.1; 127.0.0.1 is always there"),
        ("9464", "write an address and a port, such as 127.0.0.1:9464"),
        ("localhost:9464", "write an address and a port, such as 127.0.0.1:9464"),
    ] {
        let run = run(&dir, &["--metrics-addr", address]);
        assert_eq!(run.status.code(), Some(2), "{address}");
        assert!(err(&run).contains(says), "{}", err(&run));
    }
    assert!(!dir.path().join(".unfazed").exists(), "no session was begun");
}

const BUDGETS: &str = "version: 1
limits: {run: {time: 1h, tokens: 9000, cost: 0.05, model_calls: 9, tool_calls: 9}}
";

#[test]
fn what_is_spent_of_a_budget_is_in_the_summary_and_in_the_last_line() {
    let reply = "  - {text: done, usage: {input: 1000, output: 100, cache_read: 500}}\n";
    let dir = folder(BUDGETS, reply);
    let shown = run(&dir, &[]);
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let spent = "of 1h, 1100 of 9000 tokens, 0.0035 of 0.05 USD, 1 of 9 model calls, 0 of 9 tool calls";
    assert!(err(&shown).contains(spent), "{}", err(&shown));
    let lines = run(&dir, &["--format", "json"]);
    let lines = String::from_utf8(lines.stdout).unwrap();
    let result: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let spent = &result["spent"];
    assert_eq!(
        (&spent["tokens"], &spent["cost_usd"], &spent["model_calls"], &spent["tool_calls"]),
        (&Value::from(1100), &Value::from(0.0035), &Value::from(1), &Value::from(0))
    );
}

#[test]
fn a_budget_of_money_and_a_model_without_a_price_is_an_error_before_anything_begins() {
    let dir = folder(BUDGETS, "  - {text: done}\n");
    let agent = AGENT.replace(", price: {input: 2.50, output: 10}", "");
    fs::write(dir.path().join("agent.yaml"), &agent).unwrap();
    for args in [&["run", "agent.yaml"][..], &["check", "agent.yaml"]] {
        let refused = command::unfazed(dir.path(), args).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        let said = format!("{}{}", err(&refused), String::from_utf8_lossy(&refused.stdout));
        assert!(
            said.contains("P0206") && said.contains("the price of the model `main` is unknown"),
            "{said}"
        );
        assert!(said.contains("policy.yaml:2"), "{said}");
    }
    // A price in the policy will do.
    fs::write(
        dir.path().join("policy.yaml"),
        format!("{BUDGETS}models: {{main: {{price: {{input: 1, output: 1}}}}}}\n"),
    )
    .unwrap();
    assert_eq!(command::unfazed(dir.path(), &["run", "agent.yaml"]).output().unwrap().status.code(), Some(0));
}

#[test]
fn the_catalogue_has_the_prices_of_hosted_models_alone() {
    let dir = folder(BUDGETS, "  - {text: done}\n");
    let checked = |entry: &str| {
        let agent = format!("version: 1\nmodels: {{main: {{api: openai, {entry}}}}}\npolicy: policy.yaml\n");
        fs::write(dir.path().join("agent.yaml"), agent).unwrap();
        let checked = command::unfazed(dir.path(), &["check", "agent.yaml"]).output().unwrap();
        let said = format!("{}{}", err(&checked), String::from_utf8_lossy(&checked.stdout));
        (checked.status.code(), said.contains("P0206"))
    };
    assert_eq!(checked("model: gpt-4.1-mini, base_url: 'https://api.openai.com/v1'"), (Some(0), false));
    assert_eq!(checked("model: gpt-4.1-mine, base_url: 'https://api.openai.com/v1'"), (Some(1), true));
    // A server of one's own may have a model of that name, and asks no money, or other money.
    assert_eq!(checked("model: gpt-4.1-mini, base_url: 'http://localhost:8000/v1'"), (Some(1), true));
}
