//! `diff`, `explain` and `init` as people use them: files in, output and exit codes out.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const OLD: &str = "\
version: 1
retry: {max_attempts: 3}
tools:
  http.get: {effect: read_only}
";
const NEW: &str = "\
version: 1
extends: shared.yaml
retry: {max_attempts: 5}
tools:
  http.get: {effect: read_only, breaker: {failures: 2}}
profiles:
  ci: {retry: {max_attempts: 3}}
";
const SHARED: &str = "version: 1\nturn: {max_turns: 8}\n";
const AGENT: &str = "\
version: 1
policy: old.yaml
models: {main: {api: scripted, script: model.yaml}}
tools: {calc: {kind: builtin}}
";
const SCRIPT: &str = "version: 1\nmodel: m\nreplies:\n  - text: done\n";

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
    for (name, text) in [
        ("old.yaml", OLD),
        ("new.yaml", NEW),
        ("shared.yaml", SHARED),
        ("agent.yaml", AGENT),
        ("model.yaml", SCRIPT),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn unfazed(dir: &TempDir, args: &[&str]) -> Output {
    command::unfazed(dir.path(), args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(output)))
}

#[test]
fn diff_shows_what_a_new_policy_does_differently() {
    let dir = folder();
    let diff = unfazed(&dir, &["diff", "old.yaml", "new.yaml"]);
    assert_eq!(code(&diff), 0);
    shown!(out(&diff));
}

#[test]
fn diff_ends_with_1_where_that_is_asked_for() {
    let dir = folder();
    assert_eq!(code(&unfazed(&dir, &["diff", "old.yaml", "new.yaml", "--exit-code"])), 1);
    assert_eq!(code(&unfazed(&dir, &["diff", "old.yaml", "old.yaml", "--exit-code"])), 0);
    assert_eq!(code(&unfazed(&dir, &["diff", "old.yaml", "none.yaml"])), 2);
}

#[test]
fn policies_that_ship_are_compared_and_explained_by_their_names() {
    let dir = folder();
    let diff = unfazed(&dir, &["diff", "builtin:default", "builtin:presets/supyagent", "--exit-code"]);
    assert_eq!(code(&diff), 1, "{}", err(&diff));
    assert!(out(&diff).contains("breaker"), "{}", out(&diff));
    let same = ["diff", "builtin:presets/supyagent", "preset.yaml", "--exit-code"];
    fs::write(dir.path().join("preset.yaml"), "version: 1\nextends: builtin:presets/supyagent\n").unwrap();
    assert_eq!(code(&unfazed(&dir, &same)), 0);
    let explained =
        unfazed(&dir, &["explain", "search", "builtin:presets/supyagent", "old.yaml", "--key", "retry"]);
    assert!(out(&explained).contains("builtin:presets/supyagent:"), "{}{}", out(&explained), err(&explained));
    let missing = unfazed(&dir, &["explain", "search", "builtin:presets/supyagnt"]);
    assert_eq!(code(&missing), 2);
    assert!(err(&missing).contains("did you mean `builtin:presets/supyagent`?"), "{}", err(&missing));
}

#[test]
fn diff_compares_the_profile_that_is_chosen() {
    let dir = folder();
    fs::write(dir.path().join("a.yaml"), format!("{OLD}profiles: {{ci: {{}}}}\n")).unwrap();
    let diff = json(&unfazed(&dir, &["diff", "a.yaml", "new.yaml", "--profile", "ci", "--format", "json"]));
    let fields: Vec<_> =
        diff["groups"].as_array().unwrap().iter().map(|group| &group["rows"][0]["field"]).collect();
    assert_eq!(fields, ["breaker.failures", "max_turns"]);
}

#[test]
fn diff_compares_every_profile_if_none_is_chosen() {
    let dir = folder();
    let text =
        |attempts: u8| format!("version: 1\nprofiles: {{ci: {{retry: {{max_attempts: {attempts}}}}}}}\n");
    fs::write(dir.path().join("a.yaml"), text(2)).unwrap();
    fs::write(dir.path().join("b.yaml"), text(4)).unwrap();
    let diff = unfazed(&dir, &["diff", "a.yaml", "b.yaml", "--exit-code"]);
    assert_eq!(code(&diff), 1);
    shown!(out(&diff));
    let json = json(&unfazed(&dir, &["diff", "a.yaml", "b.yaml", "--format", "json"]));
    assert_eq!(json["profiles"]["ci"]["groups"][0]["rows"][0]["new"], 4);
    let same = unfazed(&dir, &["diff", "a.yaml", "a.yaml", "--exit-code"]);
    assert_eq!(code(&same), 0);
    assert!(out(&same).ends_with("no further difference with each profile: ci\n"), "{}", out(&same));
}

#[test]
fn diff_takes_the_names_of_agents_and_of_flags() {
    let dir = folder();
    let args = ["diff", "agent.yaml", "new.yaml", "--tool", "mine", "--model", "spare", "--format", "json"];
    let diff = json(&unfazed(&dir, &args));
    assert_eq!(diff["compared"], serde_json::json!({"tools": 4, "models": 3, "incomplete": false}));
}

#[test]
fn diff_reports_the_mistakes_of_a_policy() {
    let dir = folder();
    fs::write(dir.path().join("bad.yaml"), "version: 1\nretri: {}\n").unwrap();
    let diff = unfazed(&dir, &["diff", "old.yaml", "bad.yaml"]);
    assert_eq!(code(&diff), 1);
    assert!(err(&diff).contains("unknown field `retri`"), "{}", err(&diff));
}

#[test]
fn explain_shows_the_policy_of_one_call() {
    let dir = folder();
    let call = "arguments: {size: big}\nplanner: {retry: {max_attempts: 2}}\n";
    fs::write(dir.path().join("call.yaml"), call).unwrap();
    let explain = ["explain", "http.get", "old.yaml", "--call", "call.yaml", "--key", "retry.max_attempts"];
    shown!(out(&unfazed(&dir, &explain)));
    fs::write(
        dir.path().join("call.yaml"),
        "arguments: {}\nplaner: {}\nplanner: {retry: {max_atempts: 1}}\n",
    )
    .unwrap();
    let bad = unfazed(&dir, &explain);
    assert_eq!(code(&bad), 1);
    assert!(err(&bad).contains("call.yaml:2:1") && err(&bad).contains("call.yaml:3:19"), "{}", err(&bad));
}

#[test]
fn explain_says_what_is_done_about_an_error() {
    let dir = folder();
    let told = unfazed(&dir, &["explain", "http.get", "old.yaml", "--error", "rate_limit"]);
    shown!(out(&told));
    let args = ["explain", "--model", "main", "old.yaml", "--status", "429", "--code", "insufficient_quota"];
    let told = json(&unfazed(&dir, &[&args[..], &["--format", "json"]].concat()));
    assert_eq!((&told["class"], &told["action"]), (&"quota_exceeded".into(), &"never_retried".into()));
    assert_eq!(told["row"]["at"]["file"], "builtin:errors/openai");
    let args =
        ["explain", "--model", "main", "old.yaml", "--status", "418", "--message", "Model is OVERLOADED"];
    assert!(out(&unfazed(&dir, &args)).starts_with("overloaded of model `main`"));
}

#[test]
fn explain_says_what_is_meant_by_an_unknown_class_or_key() {
    let dir = folder();
    let class = unfazed(&dir, &["explain", "t", "old.yaml", "--error", "rate_limits"]);
    assert_eq!(code(&class), 2);
    assert!(err(&class).contains("did you mean `rate_limit`?"), "{}", err(&class));
    let key = unfazed(&dir, &["explain", "t", "old.yaml", "--key", "max_attempts"]);
    assert_eq!(code(&key), 2);
    assert!(err(&key).contains("did you mean `retry.max_attempts`?"), "{}", err(&key));
}

#[test]
fn explain_shows_the_bounds_of_an_agent() {
    let dir = folder();
    shown!(out(&unfazed(&dir, &["explain", "--bounds", "agent.yaml", "--inner", "3"])));
    let tool = json(&unfazed(&dir, &["explain", "calc", "agent.yaml", "--format", "json"]));
    assert_eq!(tool["bounds"]["product"], 15);
    let model = json(&unfazed(&dir, &["explain", "--model", "main", "agent.yaml", "--format", "json"]));
    assert_eq!(model["bounds"]["calls"], 60);
}

#[test]
fn init_writes_a_policy_that_checks_and_a_test_that_passes() {
    let dir = tempfile::tempdir().unwrap();
    let init = unfazed(&dir, &["init"]);
    assert_eq!(code(&init), 0, "{}", err(&init));
    shown!(out(&init));
    let check = unfazed(&dir, &["check", ".", "--deny-warnings"]);
    assert_eq!(code(&check), 0, "{}{}", out(&check), err(&check));
    let test = unfazed(&dir, &["test"]);
    assert_eq!(code(&test), 0, "{}", out(&test));
    assert!(out(&test).contains("5 passed"), "{}", out(&test));
}

#[test]
fn every_value_of_the_first_policy_is_another_than_the_built_in_one() {
    let dir = tempfile::tempdir().unwrap();
    unfazed(&dir, &["init"]);
    let coverage = out(&unfazed(&dir, &["test", "--coverage"]));
    fs::write(dir.path().join("empty.yaml"), "version: 1\n").unwrap();
    let diff = out(&unfazed(&dir, &["diff", "empty.yaml", "policy.yaml"]));
    for field in [
        "limits.total_delay",
        "retry.attempt_timeout",
        "retry.backoff",
        "retry.server_delay",
        "breaker.failures",
        "breaker.open_for",
        "effect",
        "validate",
        "max_turns",
        "tenant_budget_spent",
    ] {
        assert!(diff.contains(field), "{field} is not in\n{diff}\n{coverage}");
    }
}

#[test]
fn editors_have_nothing_against_what_init_writes() {
    let dir = tempfile::tempdir().unwrap();
    unfazed(&dir, &["init", "rules"]);
    let read = |name: &str| fs::read_to_string(dir.path().join("rules").join(name)).unwrap();
    for (file, schema) in [("policy.yaml", "policy.schema.json"), ("policy.test.yaml", "test.schema.json")] {
        let text = read(file);
        assert_eq!(text.lines().next().unwrap(), format!("# yaml-language-server: $schema={schema}"));
        let value: Value = serde_yaml::from_str(&text).unwrap();
        let schema = jsonschema::validator_for(&serde_json::from_str(&read(schema)).unwrap()).unwrap();
        let problems: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{file}: {problems:#?}");
    }
    let schema: Value = serde_json::from_str(&read("policy.schema.json")).unwrap();
    for name in ["Duration", "PositiveDuration"] {
        let says = schema["$defs"][name]["patternErrorMessage"].as_str().unwrap();
        assert!(says.starts_with("A duration is a number with a unit"), "{says}");
    }
}

#[test]
fn init_overwrites_nothing_unless_it_is_told_to() {
    let dir = folder();
    fs::write(dir.path().join("policy.yaml"), "mine").unwrap();
    let init = unfazed(&dir, &["init"]);
    assert_eq!(code(&init), 1);
    assert!(err(&init).contains("there is already policy.yaml; --force overwrites"), "{}", err(&init));
    assert!(!dir.path().join("policy.test.yaml").exists());
    assert_eq!(fs::read_to_string(dir.path().join("policy.yaml")).unwrap(), "mine");
    assert_eq!(code(&unfazed(&dir, &["init", "--force"])), 0);
    assert_ne!(fs::read_to_string(dir.path().join("policy.yaml")).unwrap(), "mine");
}

#[test]
fn a_policy_with_mistakes_is_told_to_machines_as_check_tells_it() {
    let dir = folder();
    fs::write(dir.path().join("m.yaml"), "version: 1\nretyr: {max_attempts: 3}\n").unwrap();
    let check = unfazed(&dir, &["check", "m.yaml", "--format", "json"]);
    for args in [
        &["explain", "t", "m.yaml", "--format", "json"][..],
        &["diff", "m.yaml", "old.yaml", "--format", "json"],
        &["diff", "old.yaml", "m.yaml", "--format", "json"],
    ] {
        let output = unfazed(&dir, args);
        assert_eq!((out(&output), err(&output), code(&output)), (out(&check), String::new(), 1), "{args:?}");
    }
}

#[test]
fn a_policy_that_cannot_be_read_is_told_to_machines_too() {
    let dir = folder();
    let check = unfazed(&dir, &["check", "nofile.yaml", "--format", "json"]);
    for args in [
        &["explain", "t", "nofile.yaml", "--format", "json"][..],
        &["diff", "old.yaml", "nofile.yaml", "--format", "json"],
    ] {
        let output = unfazed(&dir, args);
        assert_eq!((out(&output), err(&output), code(&output)), (out(&check), err(&check), 2), "{args:?}");
    }
}

#[test]
fn no_tool_has_an_empty_name() {
    let dir = folder();
    for args in [
        &["explain", "", "old.yaml"][..],
        &["explain", "--model", "", "old.yaml"],
        &["diff", "old.yaml", "new.yaml", "--tool", ""],
    ] {
        let output = unfazed(&dir, args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(err(&output).contains("is empty; no tool and no model has such a name"), "{}", err(&output));
    }
}

#[test]
fn the_usage_of_explain_tells_which_flags_take_the_place_of_the_name() {
    let dir = folder();
    let output = unfazed(&dir, &["explain", "--turn", "--output", "old.yaml"]);
    let usage = "Usage: unfazed explain [OPTIONS] <NAME> [POLICY]...\n       unfazed explain [OPTIONS] --output|--turn|--history|--context|--bounds [POLICY]...\n";
    assert!(err(&output).contains(usage), "{}", err(&output));
}

#[test]
fn colours_tell_apart_what_matters_where_they_are_wanted() {
    let dir = folder();
    let run = |color: &str, args: &[&str]| {
        let output = unfazed(&dir, &[&["--color", color], args].concat());
        (out(&output), out(&unfazed(&dir, args)))
    };
    for (args, styled) in [
        (&["diff", "old.yaml", "new.yaml"][..], &["\u{1b}[33mlooser", "\u{1b}[32mtighter"][..]),
        (&["explain", "search", "new.yaml"], &["\u{1b}[32m      won ", "\u{1b}[2m      lost "]),
        (&["explain", "--bounds", "new.yaml"], &["\u{1b}[1m"]),
        (&["explain", "--model", "m", "new.yaml", "--error", "rate_limit"], &["\u{1b}[1m"]),
    ] {
        let (shown, plain) = run("always", args);
        for style in styled {
            assert!(shown.contains(style), "{args:?}: {style:?}: {shown}");
        }
        assert!(!plain.contains('\u{1b}'), "{args:?}: {plain}");
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), plain, "{args:?}");
        assert_eq!(run("never", args).0, plain, "{args:?}");
    }
}

#[test]
fn what_is_written_is_listed() {
    let dir = folder();
    let listed = out(&unfazed(&dir, &["schema", "--write", "schemas"]));
    assert!(
        listed.starts_with("wrote schemas/policy.schema.json\nwrote schemas/agent.schema.json\n"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), fs::read_dir(dir.path().join("schemas")).unwrap().count());
}

#[test]
fn a_budget_of_calls_bounds_the_replies_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.yaml"), "version: 1\nlimits: {run: {model_calls: 5}}\n").unwrap();
    let mut explain = command::unfazed(dir.path(), &["explain", "--bounds", "p.yaml"]);
    let said = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(said.contains("  model replies   5\n  model calls     5\n"), "{said}");
}
