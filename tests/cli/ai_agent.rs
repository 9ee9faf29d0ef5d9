//! ai-agent by its document, from outside: what `unfazed run` logs, counts and ends with under that preset.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const AGENT: &str = "version: 1
task: What does the lamp cost?
policy: policy.yaml
models:
  main: {api: scripted, script: model.yaml, price: {input: 2.50, output: 10}}
tools:
  calc: {kind: builtin}
";
const POLICY: &str = "version: 1
extends: builtin:presets/ai-agent
output: {schema: {type: object, required: [price], properties: {price: {type: number}}}}
";
const STORY: &str = "
  - text: I think it is 12.50.
  - {calls: [{name: calc, arguments: '{\"expression\": '}], usage: {input: 120, output: 20}}
  - calls: [{name: calc, arguments: {expression: 5 * 2.5}}]
  - calls: [{name: final_report, arguments: {}}]
  - calls: [{name: final_report, arguments: {price: 12.5}}]
";

fn folder(policy: &str, replies: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("version: 1\nrepeat_last: true\nreplies:{replies}");
    for (name, text) in [("agent.yaml", AGENT), ("policy.yaml", policy), ("model.yaml", &script)] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn run(dir: &TempDir, args: &[&str]) -> Output {
    command::unfazed(dir.path(), &[&["run", "agent.yaml"], args].concat()).output().unwrap()
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn what_is_logged_stands_for_what_ai_agent_logs() {
    let run = run(&folder(POLICY, STORY), &["--log", "info", "--log-json", "--format", "json"]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let told = lines(&run.stderr).into_iter().map(|line| {
        let shown = ["error_type", "status", "tool", "reason", "turn", "attempt", "source"];
        let shown = shown.iter().filter(|name| !line[**name].is_null());
        let shown: Vec<_> = shown.map(|name| format!("{name}={}", line[*name])).collect();
        format!(
            "{} {} {}",
            line["level"].as_str().unwrap(),
            line["message"].as_str().unwrap_or_default(),
            shown.join(" ")
        )
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_metric_of_ai_agent_is_counted_but_those_of_queues() {
    let policy =
        format!("{POLICY}models: {{\"*\": {{context_window: 20000, retry: {{max_attempts: 5}}}}}}\n");
    let story = format!("\n  - error: {{status: 500, message: oops}}{STORY}");
    let run = run(&folder(&policy, &story), &["--format", "json"]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let result = lines(&run.stdout).pop().unwrap();
    let counted = result["metrics"].to_string();
    for name in [
        "llm_latency_ms",
        "llm_requests_total",
        "llm_prompt_tokens_total",
        "llm_completion_tokens_total",
        "llm_cache_read_tokens_total",
        "llm_cache_write_tokens_total",
        "llm_bytes_in_total",
        "llm_bytes_out_total",
        "llm_errors_total",
        "llm_retries_total",
        "llm_cost_usd_total",
        "tool_latency_ms",
        "tool_invocations_total",
        "tool_bytes_in_total",
        "tool_bytes_out_total",
        "context_guard_remaining_tokens",
        "final_report_total",
        "final_report_attempts_total",
        "final_report_turns",
        "retry_collapse_total",
    ] {
        assert!(counted.contains(&format!("\"ai_agent_{name}\"")), "{name}: {counted}");
    }
}

#[test]
fn two_refused_reports_of_one_reply_are_told_and_counted_as_one_collapse() {
    let story = "
  - {times: 2, calls: [{name: calc, arguments: {expression: 1 + 1}}]}
  - calls: [{name: final_report, arguments: {}}, {name: final_report, arguments: {price: low}}]
  - calls: [{name: final_report, arguments: {price: 12.5}}]
";
    let run = run(&folder(POLICY, story), &["--log", "info", "--log-json", "--format", "json"]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let logged = lines(&run.stderr).into_iter().filter(|line| line["message"] == "final turn");
    let logged: Vec<Value> = logged.map(|line| line["reason"].clone()).collect();
    assert_eq!(logged, ["report_attempt"]);
    let records = lines(&run.stdout);
    let told = records.iter().filter(|record| record["directive"] == "final_turn");
    let told: Vec<_> = told.map(|record| (record["turn"].clone(), record["max_turns"].clone())).collect();
    assert_eq!(told, [(4.into(), 10.into())]);
    let counters = records.last().unwrap()["metrics"]["counters"].as_array().unwrap();
    let collapses = counters.iter().filter(|counter| counter["name"] == "ai_agent_retry_collapse_total");
    let collapses: Vec<_> =
        collapses.map(|counter| (&counter["labels"]["reason"], &counter["value"])).collect();
    assert_eq!(collapses, [(&"report_attempt".into(), &1.into())]);
}

#[test]
fn the_exit_codes_are_those_its_document_names() {
    let error = |fields: &str| format!("\n  - error: {{{fields}}}\n");
    let report = "\n  - calls: [{name: final_report, arguments: {}}]\n";
    let one_turn = format!("{POLICY}turn: {{max_turns: 1}}\n");
    let small = format!("{POLICY}models: {{\"*\": {{context_window: 100, output_reserve: 99}}}}\n");
    for (what, policy, replies, code) in [
        ("EXIT-FINAL-ANSWER", POLICY, STORY.to_owned(), 0),
        ("EXIT-AUTH-FAILURE", POLICY, error("status: 401, code: invalid_api_key, message: no such key"), 10),
        (
            "EXIT-QUOTA-EXCEEDED",
            POLICY,
            error("status: 429, code: insufficient_quota, message: pay first"),
            11,
        ),
        ("EXIT-MAX-RETRIES", POLICY, error("status: 500, message: oops"), 12),
        ("EXIT-TOKEN-LIMIT", &*small, "\n  - text: soon\n".to_owned(), 13),
        ("EXIT-MAX-TURNS-NO-RESPONSE", &*one_turn, report.to_owned(), 14),
    ] {
        let run = run(&folder(policy, &replies), &[]);
        assert_eq!(run.status.code(), Some(code), "{what}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
