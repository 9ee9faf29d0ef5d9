//! `unfazed simulate` as people use it: policies and scenarios in, tables and plots out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const POLICY: &str = "version: 1
tools:
  search:
    effect: read_only
    retry: {max_attempts: 3, backoff: {kind: exponential, base: 1s, factor: 2, jitter: none}}
models:
  main: {retry: {max_attempts: 2, backoff: {kind: constant, delay: 5s, jitter: none}}}
";
const SCENARIO: &str = "version: 1
about: The model is down for a while.
agents: 3
duration: 3m
pause: 5s
models:
  main:
    latency: {kind: lognormal, median: 3s, p99: 12s}
    trace: [{from: 1m, to: 2m, fault: overloaded}]
tools:
  search: {effect: read_only, latency: 200ms, faults: {timeout: 0.05}}
";

/// A snapshot without the lines of the built-in policy, which are its own affair.
macro_rules! shown {
    ($text:expr) => {
        insta::with_settings!({filters => vec![(r"builtin:default:\d+:\d+", "builtin:default:LINE")]}, {
            insta::assert_snapshot!($text);
        })
    };
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
    fs::write(dir.path().join("outage.yaml"), SCENARIO).unwrap();
    dir
}

fn simulate(dir: &Path, args: &[&str]) -> Output {
    command::unfazed(dir, &[&["simulate"], args].concat()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn clean(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    out(output)
}

#[test]
fn a_call_is_told_with_its_waits_and_the_lines_that_decided() {
    let args = ["policy.yaml", "--tool", "search", "--outcomes", "timeout x2, ok"];
    shown!(clean(&simulate(folder().path(), &args)));
}

#[test]
fn the_last_outcome_comes_again_and_again() {
    let args =
        ["policy.yaml", "--model", "main", "--model", "spare", "--outcomes", "429 retry-after 2, overloaded"];
    shown!(clean(&simulate(folder().path(), &args)));
}

#[test]
fn a_call_is_decided_about_with_the_arguments_it_is_given() {
    let dir = folder();
    let policy = "version: 1
tools:
  search:
    effect: read_only
    calls: [{when: \"args.n > 5\", retry: {max_attempts: 1}}]
";
    fs::write(dir.path().join("calls.yaml"), policy).unwrap();
    let with = |json: &str| {
        simulate(
            dir.path(),
            &["calls.yaml", "--tool", "search", "--outcomes", "timeout", "--arguments", json],
        )
    };
    let told = clean(&with(r#"{"n":9}"#));
    assert!(told.contains(r#"search({"n":9}) runs"#), "{told}");
    assert!(told.contains("retry.max_attempts = 1 (calls.yaml:5:56, call layer)"), "{told}");
    assert!(clean(&with(r#"{"n":2}"#)).contains("after 4 attempts"), "the rule is of larger numbers");
    let bad = with("{bad");
    assert_eq!(bad.status.code(), Some(2));
    let expected = "invalid value '{bad' for '--arguments <JSON>': not JSON: key must be a string at line 1 column 2; \
                    write such as '{\"query\": \"tea\"}'";
    assert!(err(&bad).contains(expected), "{}", err(&bad));
}

#[test]
fn several_policies_are_told_one_after_the_other_and_machines_get_json() {
    let dir = folder();
    let args =
        ["policy.yaml", "builtin:presets/supyagent", "--model", "main", "--outcomes", "overloaded, ok"];
    let told = clean(&simulate(dir.path(), &args));
    assert!(told.starts_with("policy.yaml\n") && told.contains("\nbuiltin:presets/supyagent\n"), "{told}");
    let json: Value =
        serde_json::from_str(&clean(&simulate(dir.path(), &[&args[..], &["--format", "json"]].concat())))
            .unwrap();
    assert_eq!(json["policies"][0]["delays"], serde_json::json!([5_000_000_000_u64]));
    assert_eq!(json["policies"][1]["delays"], serde_json::json!([1_000_000_000_u64]));
    assert_eq!(json["policies"][1]["status"], "answered");
}

#[test]
fn the_name_of_a_policy_stays_on_its_line() {
    let dir = folder();
    fs::write(dir.path().join("odd\u{1b}[2J\nname.yaml"), "version: 1\n").unwrap();
    let args = ["odd\u{1b}[2J\nname.yaml", "policy.yaml", "--model", "main", "--outcomes", "ok"];
    let told = clean(&simulate(dir.path(), &args));
    let heading = told.lines().next().unwrap();
    assert!(heading.ends_with("name.yaml") && !told.contains('\u{1b}'), "{told:?}");
}

#[test]
fn policies_stand_side_by_side() {
    let args = ["builtin:default", "policy.yaml", "--scenario", "outage.yaml"];
    let table = clean(&simulate(folder().path(), &args));
    assert!(
        table.starts_with("outage.yaml: The model is down for a while.\n3 agents for 3m, seed 1\n\npolicy"),
        "{table}"
    );
    let rows: Vec<&str> = table.lines().skip(4).collect();
    assert_eq!(rows.len(), 2, "{table}");
    // The last column says nothing of a policy that loses no run.
    let place = |row: &str| row.find(" %").unwrap();
    assert_eq!(place(rows[0]), place(rows[1]), "{table}");
}

#[test]
fn the_same_seed_comes_to_the_same_byte_for_byte() {
    let dir = folder();
    let with = |more: &[&str]| {
        let args = ["policy.yaml", "--scenario", "outage.yaml", "--format", "json"];
        clean(&simulate(dir.path(), &[&args[..], more].concat()))
    };
    assert_eq!(with(&[]), with(&["--seed", "1"]));
    assert_ne!(with(&[]), with(&["--seed", "2"]));
    let json: Value = serde_json::from_str(&with(&["--agents", "1"])).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!((&scenario["agents"], &scenario["seed"]), (&Value::from(1), &Value::from(1)));
    let result = &scenario["policies"][0];
    assert_eq!(
        result["runs"],
        result["over_time"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["runs"].as_u64().unwrap())
            .sum::<u64>()
    );
    assert!(
        result["success"].as_f64().unwrap() < 1.0 && result["amplification"].as_f64().unwrap() > 1.0,
        "{result}"
    );
}

#[test]
fn machines_are_told_why_runs_failed() {
    let args = ["policy.yaml", "--scenario", "outage.yaml", "--format", "json"];
    let json: Value = serde_json::from_str(&clean(&simulate(folder().path(), &args))).unwrap();
    let result = &json["scenarios"][0]["policies"][0];
    let expected = serde_json::json!([{
        "reason": "session_failed", "stopped_by": "attempts", "error_type": "overloaded", "runs": result["failed"],
    }]);
    assert_eq!(result["ended_by"], expected);
    assert!(result["failed"].as_u64() > Some(0), "{result}");
}

#[test]
fn a_report_that_cannot_hold_is_warned_of() {
    let dir = folder();
    let policy = "version: 1\noutput: {schema: {type: object, required: [price]}}\n";
    fs::write(dir.path().join("report.yaml"), policy).unwrap();
    let args = ["report.yaml", "policy.yaml", "--scenario", "outage.yaml"];
    let output = simulate(dir.path(), &args);
    let table = clean(&output);
    assert!(table.lines().nth(4).is_some_and(|row| row.contains("100.0 %")), "{table}");
    let warning = "warning: the report of outage.yaml does not hold by the `output` of report.yaml, so every run fails: \
                   `price` is missing\n  = help: write one that holds, as `work: {report: …}`\n";
    assert_eq!(err(&output), warning);
    let whole = format!("{SCENARIO}work: {{report: {{price: 2}}}}\n");
    fs::write(dir.path().join("outage.yaml"), whole).unwrap();
    assert_eq!(err(&simulate(dir.path(), &args)), "");
}

#[test]
fn layers_are_joined_by_a_plus() {
    let dir = folder();
    fs::write(dir.path().join("team.yaml"), "version: 1\nmodels: {main: {retry: {max_attempts: 7}}}")
        .unwrap();
    let args = ["policy.yaml+team.yaml", "--model", "main", "--outcomes", "overloaded"];
    let told = clean(&simulate(dir.path(), &args));
    assert!(told.contains("retry_exhausted (attempts) after 7 attempts"), "{told}");
}

#[test]
fn a_plot_has_a_line_of_each_policy_in_both_drawings() {
    let dir = folder();
    let args = ["builtin:default", "policy.yaml", "--scenario", "outage.yaml", "--plot", "out.svg"];
    clean(&simulate(dir.path(), &args));
    let svg = fs::read_to_string(dir.path().join("out.svg")).unwrap();
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert_eq!(svg.matches("<polyline").count(), 4);
    assert_eq!(svg.matches("class=\"down\"").count(), 2);
    for text in [
        "The model is down for a while.",
        "complete runs",
        "calls of models a minute",
        "policy.yaml",
        "100 %",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    clean(&simulate(dir.path(), &args));
    assert_eq!(svg, fs::read_to_string(dir.path().join("out.svg")).unwrap());
}

#[test]
fn what_cannot_be_played_is_told() {
    let dir = folder();
    fs::write(
        dir.path().join("bad.yaml"),
        "version: 1\nagents: 1\nduration: 1m\nmodels: {main: {latency: fast}}",
    )
    .unwrap();
    for (args, code, told) in [
        (&["policy.yaml"][..], 2, "say what happens: `--tool NAME --outcomes"),
        (&["--outcomes", "ok"], 2, "say whose outcomes these are"),
        (
            &["--tool", "t", "--outcomes", "timout"],
            2,
            "`timout` is neither `ok` nor a class nor an HTTP status",
        ),
        (&["builtin:presets/supyagnt", "--model", "m", "--outcomes", "ok"], 2, "builtin:presets/supyagent"),
        (&["--scenario", "bad.yaml"], 1, "bad.yaml:4:26"),
        (&["--scenario", "policy.yaml"], 2, "policy.yaml is a policy; give it as POLICY"),
        (&["--scenario", "none.yaml"], 2, "cannot read none.yaml"),
        (&["none.yaml", "--scenario", "outage.yaml"], 2, "cannot read none.yaml"),
        (
            &["--scenario", "outage.yaml", "--scenario", "outage.yaml", "--plot", "a.svg"],
            2,
            "a plot is of one scenario",
        ),
    ] {
        let output = simulate(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(told), "{args:?}: {}", err(&output));
    }
}

#[test]
fn a_tool_of_the_name_of_the_report_cannot_be_called() {
    let dir = folder();
    fs::write(dir.path().join("report.yaml"), "version: 1\noutput: {schema: {type: object}}\n").unwrap();
    let output = simulate(dir.path(), &["report.yaml", "--tool", "final_report", "--outcomes", "ok"]);
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    let expected = "report.yaml: a tool is named `final_report`, by which the policy takes the final report";
    assert!(err(&output).contains(expected) && !err(&output).contains("--outcomes"), "{}", err(&output));
}

#[test]
fn a_scenario_is_checked_with_the_other_files() {
    let dir = folder();
    fs::write(
        dir.path().join("bad.yaml"),
        "version: 1\nagents: 0\nduration: 1m\nmodels: {main: {faults: {oveloaded: 0.1}}}",
    )
    .unwrap();
    let output = command::unfazed(dir.path(), &["check", ".", "--format", "short"]).output().unwrap();
    shown!(out(&output));
}

/// The policies that ship with the product, by the names they have here.
fn shipped() -> Vec<String> {
    let presets = root().join("policies/presets");
    let files = fs::read_dir(presets).unwrap().map(|file| file.unwrap().path());
    let names = files.map(|path| format!("builtin:presets/{}", path.file_stem().unwrap().to_str().unwrap()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.insert(0, "builtin:default".to_owned());
    names
}

#[test]
fn ten_outages_under_every_policy_that_ships() {
    let mut scenarios: Vec<PathBuf> =
        fs::read_dir(root().join("examples/simulations")).unwrap().map(|file| file.unwrap().path()).collect();
    scenarios.sort();
    assert_eq!(scenarios.len(), 10);
    let mut args = shipped();
    assert!(args.len() >= 6, "{args:?}");
    for path in scenarios {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        args.extend(["--scenario".to_owned(), name]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    insta::assert_snapshot!(clean(&simulate(root(), &args)));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
