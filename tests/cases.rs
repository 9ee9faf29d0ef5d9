//! The cases below tests/cases hold: the manual by example, played through the library.
#![cfg(feature = "host")]

use std::fs;
use std::path::{Path, PathBuf};

use unfazed::cases::{Coverage, Loader, Suite};

fn load(paths: &[PathBuf]) -> Vec<Suite> {
    let mut loader = Loader::new(open);
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let read = loader.read(&name, &fs::read(path).unwrap());
        read.unwrap_or_else(|reports| {
            panic!("{}", reports.iter().map(|report| report.human(false)).collect::<String>())
        })
    };
    paths.iter().map(read).collect()
}

fn open(test: &str, path: &str) -> Result<(String, Vec<u8>), String> {
    let path = Path::new(test).parent().unwrap().join(path);
    let bytes = fs::read(root().join(&path)).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), bytes))
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/cases")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut tests: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(".test.yaml")).collect();
    tests.sort();
    tests
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_case_holds() {
    let (mut played, mut failed) = (0, Vec::new());
    for suite in load(&files()) {
        for case in suite.cases() {
            played += 1;
            let verdict = case.run();
            if !verdict.passed() {
                failed.push(format!("{}: {}: {:#?}", case.place(), case.name(), verdict.mismatches));
            }
        }
    }
    assert!(played >= 40, "only {played} cases were found");
    assert!(failed.is_empty(), "{} of {played} fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn the_same_case_always_has_the_same_verdict() {
    let text = "
version: 1
tools: {search: {effect: read_only}}
cases:
  - name: fails
    tool: search
    seed: 3
    outcomes: [rate_limit x9]
    expect: {delays: []}
";
    let suite = Loader::new(open).read("a.test.yaml", text.as_bytes()).unwrap();
    let case = &suite.cases()[0];
    let (first, second) = (case.run(), case.run());
    assert!(!first.passed());
    assert_eq!(first.mismatches, second.mismatches);
    assert_eq!(first.timeline, second.timeline);
}

fn mistakes(text: &str) -> String {
    let reports = Loader::new(open).read("a.test.yaml", text.as_bytes()).unwrap_err();
    reports.iter().map(|report| report.human(false)).collect()
}

#[test]
fn mistakes_in_a_test_file_are_told_with_their_places() {
    insta::assert_snapshot!(mistakes(
        "version: 1
policy: nowhere.yaml
tols: {}
cases:
  - name: a
    tool: search
    outcomes: [rate_limt x2, timeout x0, 99, {error: timeout, status: 429}]
    expect: {}
  - name: b
    expect: {never: [run_toool], directives: [{directive: wait, dely: 1s}], delays: [1]}
"
    ));
}

#[test]
fn a_case_that_expects_nothing_is_an_error() {
    insta::assert_snapshot!(mistakes(
        "version: 1
cases:
  - {name: a, tool: t, expect: {}}
  - {name: b, tool: t, expect: {told: [], never: [], slices: {}}}
  - {name: c, tool: t, replies: [{text: hi}], expect: {attempts: 1}}
  - {name: d, replies: [{text: hi}], outcomes: [ok], expect: {why: {max_attempts: limt}}}
  - {name: e, expect: {attempts: 1}}
"
    ));
}

#[test]
fn a_mistake_in_an_inline_policy_has_its_place_in_the_test_file() {
    insta::assert_snapshot!(mistakes(
        "version: 1
inline:
  # What is tested.
  retry:
    max_atempts: 3
cases: []
"
    ));
}

#[test]
fn coverage_knows_the_values_that_never_win() {
    let policy = "version: 1
limits: {max_attempts: 9}
tools:
  '*': {effect: read_only, retry: {max_attempts: 2, backoff: {kind: constant, delay: 1s}}}
  search: {retry: {max_attempts: 3}}
  never: {retry: {max_attempts: 4}}
errors:
  - {status: 429, code: daily, class: quota_exceeded}
  - {status: 418, class: overloaded}
";
    let test = "version: 1
policy: p.yaml
cases:
  - {name: a, tool: search, outcomes: [418, ok], expect: {final: ok}}
";
    let open = |_: &str, _: &str| Ok(("p.yaml".to_owned(), policy.as_bytes().to_vec()));
    let suite = Loader::new(open).read("a.test.yaml", test.as_bytes()).unwrap();
    let mut coverage = Coverage::new();
    assert!(suite.cases()[0].run_counted(&mut coverage).passed());
    let lost: Vec<_> = coverage.leaves().filter(|leaf| leaf.cases == 0).map(|leaf| leaf.path).collect();
    assert_eq!(
        lost,
        [
            "limits.max_attempts",
            "tools.*.retry.max_attempts",
            "tools.never.retry.max_attempts",
            "errors[0].class"
        ]
    );
    assert_eq!(coverage.count(), (8, 4));
}
