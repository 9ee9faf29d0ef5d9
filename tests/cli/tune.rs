//! `unfazed tune` as people use it: policies and scenarios in, a better policy out.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const POLICY: &str = "version: 1
models:
  \"*\":
    retry: {max_attempts: 2, backoff: {kind: exponential, base: 200ms, factor: 2, cap: 2s}}
";
/// One that no backoff of a second or two outlasts.
const OUTAGE: &str = "version: 1
agents: 4
arrival: {kind: spread, over: 10s}
duration: 2m
runs: 2
models:
  main:
    latency: {kind: lognormal, median: 2s, p99: 8s}
    trace: [{from: 5s, to: 20s, fault: overloaded}]
";
const CALM: &str = "version: 1\nagents: 2\nduration: 1m\nruns: 2\nmodels: {main: {latency: 2s}}\n";
/// A search of a second.
const SMALL: [&str; 8] = [
    "policy.yaml",
    "--scenario",
    "outage.yaml",
    "--vary",
    "models.*.retry.max_attempts=2..8",
    "--points=6",
    "--seeds=3",
    "--vary=models.*.retry.backoff.cap=2s..16s",
];

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
    fs::write(dir.path().join("outage.yaml"), OUTAGE).unwrap();
    fs::write(dir.path().join("calm.yaml"), CALM).unwrap();
    dir
}

fn tune(dir: &Path, args: &[&str]) -> Output {
    command::unfazed(dir, &[&["tune"], args].concat()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The success of a policy under the outage.
fn success(dir: &Path, policy: &str) -> f64 {
    let args = ["simulate", policy, "--scenario", "outage.yaml", "--seed=77", "--format=json"];
    let played = command::unfazed(dir, &args).output().unwrap();
    let played: Value = serde_json::from_str(&out(&played)).unwrap();
    played["scenarios"][0]["policies"][0]["success"].as_f64().unwrap()
}

#[test]
fn the_written_policy_is_one_and_does_better_with_a_seed_that_the_search_has_not_seen() {
    let dir = folder();
    let output =
        tune(dir.path(), &[&SMALL[..], &["--write", "tuned.yaml", "--plot", "frontier.svg"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    insta::assert_snapshot!("the_page", out(&output));
    insta::assert_snapshot!("the_policy", fs::read_to_string(dir.path().join("tuned.yaml")).unwrap());
    let check = command::unfazed(dir.path(), &["check", "tuned.yaml", "--deny-warnings"]).output().unwrap();
    assert!(check.status.success(), "{}", out(&check));
    assert!(success(dir.path(), "tuned.yaml") > success(dir.path(), "policy.yaml") + 0.1);
    let plot = fs::read_to_string(dir.path().join("frontier.svg")).unwrap();
    assert!(plot.starts_with("<svg ") && plot.contains("class=\"line chosen\""), "{plot}");
}

#[test]
fn a_search_that_finds_nothing_says_so_and_writes_nothing() {
    let dir = folder();
    let args = [
        "policy.yaml",
        "--scenario=calm.yaml",
        "--vary=models.*.retry.max_attempts=2..8",
        "--points=4",
        "--seeds=2",
    ];
    let output = tune(dir.path(), &[&args[..], &["--write=tuned.yaml"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(out(&output).contains("No point is better than the policy as it is"), "{}", out(&output));
    assert!(!dir.path().join("tuned.yaml").exists());
}

#[test]
fn a_search_that_was_stopped_continues_where_it_was() {
    let dir = folder();
    let plays = dir.path().join("plays.jsonl");
    let kept = || tune(dir.path(), &[&SMALL[..], &["--resume=plays.jsonl", "--format=json"]].concat());
    let whole = kept();
    let lines = fs::read_to_string(&plays).unwrap();
    // Half of the plays, and a line that was cut off by the stop.
    let half: usize = lines.lines().take(lines.lines().count() / 2).map(|line| line.len() + 1).sum();
    fs::write(&plays, &lines[..half + 20]).unwrap();
    assert_eq!(out(&kept()), out(&whole));
    let again = fs::read_to_string(&plays).unwrap();
    let sorted = |text: &str| {
        let whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
        let mut lines: Vec<String> = text.lines().filter(whole).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&again), sorted(&lines), "each play is kept once");
    let size = again.len();
    assert_eq!(out(&kept()), out(&whole));
    assert_eq!(fs::read_to_string(&plays).unwrap().len(), size, "nothing is played a second time");
}

#[test]
fn what_the_search_has_not_seen_is_played_afterwards() {
    let dir = folder();
    let output = tune(dir.path(), &[&SMALL[..], &["--hold-out=calm.yaml", "--format=json"]].concat());
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    let held = &found["held_out"][0];
    assert_eq!((&held["scenario"], &held["base"]["success"]), (&"calm.yaml".into(), &1_000_000.into()));
    assert_eq!(held["chosen"], held["base"], "nothing fails there, so retries change nothing");
}

#[test]
fn every_bad_range_is_an_error_with_its_place() {
    let dir = folder();
    let vary = [
        "models.*.retry.max_attempts=16..2",
        "models.*.retry.backoff.cap=1s..many",
        "retry.max_attempts",
        "limits.deadline=1m..5m",
        "turn.max_turns=3..9",
        "turn.max_turns=5..9",
    ];
    let args: Vec<String> = vary.iter().map(|vary| format!("--vary={vary}")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = tune(dir.path(), &[&["policy.yaml", "--scenario=outage.yaml"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("bad_ranges", err(&output));
    // What the policy language refuses has its words.
    let args = [
        "policy.yaml",
        "--scenario=outage.yaml",
        "--vary=models.*.retry.max_atempts=2..8",
        "--vary=turn.targets.fallback=never|now",
    ];
    let output = tune(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("refused_values", err(&output));
}

#[test]
fn what_does_not_count_does_not_decide() {
    let dir = folder();
    let output = tune(dir.path(), &[&SMALL[..], &["--objective=calls", "--format=json"]].concat());
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    let calls = |point: &Value| point["measure"]["calls"].as_u64().unwrap();
    let frontier = found["frontier"].as_array().unwrap();
    assert!(frontier.iter().all(|point| calls(point) >= calls(&frontier[0])), "{frontier:?}");
}

#[test]
fn what_sessions_met_is_a_scenario() {
    let dir = folder();
    let sessions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/1");
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart/policy.yaml");
    let vary = "--vary=models.clerk.retry.max_attempts=2..5";
    let args = [
        policy,
        "--from",
        sessions,
        vary,
        "--write-scenario=met.yaml",
        "--points=3",
        "--seeds=2",
        "--format=json",
    ];
    let output = tune(dir.path(), &args);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        found["base"]["scenarios"][0]["measure"]["success"], 1_000_000,
        "the fitted runs end as the recorded ones"
    );
    let met = fs::read_to_string(dir.path().join("met.yaml")).unwrap();
    insta::with_settings!({filters => vec![(sessions, "SESSIONS")]}, {
        insta::assert_snapshot!("fitted", met);
    });
    let check = command::unfazed(dir.path(), &["check", "met.yaml"]).output().unwrap();
    assert!(check.status.success(), "{}", out(&check));
    let nothing = tune(dir.path(), &["policy.yaml", "--from=.", vary]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(err(&nothing).contains("has no session with a run that called a model"), "{}", err(&nothing));
}

#[test]
fn runs_that_fail_because_of_their_report_are_said_to() {
    let dir = folder();
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart/policy.yaml");
    let args = [
        policy,
        "--scenario=calm.yaml",
        "--vary=models.clerk.retry.max_attempts=2..5",
        "--points=2",
        "--seeds=2",
    ];
    let output = tune(dir.path(), &args);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(err(&output).contains("warning: the report of calm.yaml does not hold"), "{}", err(&output));
}
