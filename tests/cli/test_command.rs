//! `unfazed test` as a command: which files it takes, how it ends, what it writes.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::command;

const POLICY: &str = "version: 1
tools:
  search: {effect: read_only, retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}}
  other: {retry: {max_attempts: 2}}
";

const CASES: &str = "version: 1
policy: p.yaml
cases:
  - name: gives up
    tool: search
    outcomes: [rate_limit x9]
    expect:
      attempts: 3           # the first counts
      delays: [1s, 1s]
  - {name: finds <it>, tool: search, outcomes: [ok], expect: {final: ok}}
";

fn folder(cases: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.yaml"), POLICY).unwrap();
    fs::write(dir.path().join("p.test.yaml"), cases).unwrap();
    dir
}

fn test(dir: &Path, args: &[&str]) -> Output {
    command::unfazed(dir, &[&["test"], args].concat()).env("NO_COLOR", "1").output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn of_a_folder_the_test_files_are_played() {
    let dir = folder(CASES);
    let output = test(dir.path(), &[]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "2 passed, 0 failed\n"));
}

#[test]
fn a_case_that_fails_is_told_with_its_place() {
    let dir = folder(&CASES.replace("attempts: 3  ", "attempts: 4  "));
    let output = test(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = out(&output);
    assert!(said.starts_with("FAILED p.test.yaml:4: gives up\n"), "{said}");
    assert!(said.ends_with("1 passed, 1 failed\n"), "{said}");
    let json = test(dir.path(), &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["failed"], 1);
    assert_eq!(json["files"][0]["cases"][0]["failures"][0]["what"], "attempts");
}

#[test]
fn without_cases_there_is_nothing_to_do() {
    let dir = folder("version: 1\ncases: []\n");
    assert_eq!(test(dir.path(), &[]).status.code(), Some(3));
    let dir = folder(CASES);
    assert_eq!(test(dir.path(), &["--run", "no such case"]).status.code(), Some(3));
    assert_eq!(out(&test(dir.path(), &["--run", "finds"])), "1 passed, 0 failed\n");
}

#[test]
fn a_file_with_mistakes_and_one_that_is_not_there() {
    let dir = folder("version: 1\ncasess: []\n");
    let output = test(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `cases`?"));
    assert_eq!(test(dir.path(), &["none.test.yaml"]).status.code(), Some(2));
}

#[test]
fn values_that_never_win_are_listed_and_may_be_too_many() {
    let dir = folder(CASES);
    let output = test(dir.path(), &["--coverage", "--lcov", "lcov.info"]);
    let expected = "p.yaml:4:33: `tools.other.retry.max_attempts` never decides anything\n\
                    coverage: 3 of 4 values decide something in a case, 75 %\n2 passed, 0 failed\n";
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), expected));
    let lcov = fs::read_to_string(dir.path().join("lcov.info")).unwrap();
    assert_eq!(lcov, "TN:\nSF:p.yaml\nDA:3,1\nDA:4,0\nLF:2\nLH:1\nend_of_record\n");
    assert_eq!(test(dir.path(), &["--coverage=75"]).status.code(), Some(0));
    assert_eq!(test(dir.path(), &["--coverage=76"]).status.code(), Some(1));
}

#[test]
fn without_a_policy_file_no_coverage_is_enough() {
    let dir = folder("version: 1\ncases:\n  - {name: a, tool: t, outcomes: [ok], expect: {final: ok}}\n");
    let output = test(dir.path(), &["--coverage=100"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the cases name no policy file"), "{said}");
    assert_eq!(test(dir.path(), &["--coverage"]).status.code(), Some(0));
}

#[test]
fn a_file_that_is_named_twice_is_played_once() {
    let dir = folder(CASES);
    let whole = dir.path().join("p.test.yaml");
    let output = test(dir.path(), &[".", "p.test.yaml", "./p.test.yaml", whole.to_str().unwrap()]);
    assert_eq!(out(&output), "2 passed, 0 failed\n");
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_in_every_format() {
    let dir = folder(CASES);
    fs::write(dir.path().join("bad.test.yaml"), "version: 1\ncasess: []\n").unwrap();
    fs::write(dir.path().join("lost.test.yaml"), "version: 1\npolicy: gone.yaml\ncases: []\n").unwrap();
    let output = test(dir.path(), &["--junit", "junit.xml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out(&output), "2 passed, 0 failed, 2 files cannot be used\n");
    let junit = fs::read_to_string(dir.path().join("junit.xml")).unwrap();
    assert!(
        junit.contains("<testsuite name=\"bad.test.yaml\" tests=\"1\" failures=\"0\" errors=\"1\""),
        "{junit}"
    );
    assert!(
        junit.contains("<error message=\"lost.test.yaml:2:9: error[P0201]: cannot read gone.yaml"),
        "{junit}"
    );
    let json = test(dir.path(), &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["passed"], &json["broken"]), (&2.into(), &2.into()));
    assert_eq!(json["files"][0]["errors"][0]["message"], "unknown field `casess`");
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_others_from_being_played() {
    let dir = folder(CASES);
    let output = test(dir.path(), &["none.test.yaml", ".", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["passed"], &json["broken"]), (&2.into(), &1.into()));
}

#[test]
fn on_a_narrow_terminal_what_came_stands_below_what_was_expected() {
    let dir = folder(&CASES.replace("[1s, 1s]", "[1s, 2s]"));
    let mut command = command::unfazed(dir.path(), &["test"]);
    let command = command.env("NO_COLOR", "1").env("COLUMNS", "40");
    let said = out(&command.output().unwrap());
    assert!(said.contains("  ≠ expected 2s\n  ≠ got      1s\n"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn machines_get_junit() {
    let dir = folder(&CASES.replace("[1s, 1s]", "[2s]"));
    test(dir.path(), &["--junit", "junit.xml"]);
    let junit = fs::read_to_string(dir.path().join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"2\" failures=\"1\""), "{junit}");
    assert!(junit.contains("<failure message=\"delays\">"), "{junit}");
    assert!(junit.contains("name=\"finds &lt;it&gt;\""), "{junit}");
}

#[test]
fn an_update_writes_the_exact_numbers_and_keeps_the_comments() {
    let whole = CASES.replace("      attempts: 3", "      elapsed:   2s     # two waits\n      attempts: 3");
    let wrong =
        whole.replace("attempts: 3  ", "attempts: 7  ").replace("[1s, 1s]", "[9s]").replace("  2s ", "  9s ");
    let dir = folder(&wrong);
    let output = test(dir.path(), &["--update"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "2 passed, 0 failed\n"));
    assert_eq!(fs::read_to_string(dir.path().join("p.test.yaml")).unwrap(), whole);
}

#[test]
fn a_run_bounded_by_money_needs_the_price_of_its_models() {
    const CASE: &str = "version: 1
inline: {limits: {run: {cost: 0.5}}}
cases: [{name: costs, models: [cheap], replies: [{text: hi}], expect: {final: answered}}]
";
    let dir = folder(CASE);
    let output = test(dir.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the price of the model `cheap` is unknown"), "{said}");
    let priced = CASE.replace("inline: {", "inline: {models: {cheap: {price: {input: 1, output: 2}}}, ");
    assert_eq!(test(folder(&priced).path(), &[]).status.code(), Some(0));
}

#[test]
fn check_knows_test_files() {
    let dir = folder(&CASES.replace("outcomes: [ok]", "outcomes: [okay]"));
    let check = command::unfazed(dir.path(), &["check", ".", "--format", "short"]).output().unwrap();
    assert_eq!(check.status.code(), Some(1));
    assert!(out(&check).contains("`okay` is neither `ok` nor a class nor an HTTP status"), "{}", out(&check));
}
