//! The cases below tests/cases hold: the manual by example, played through the library.

use std::fs;
use std::path::{Path, PathBuf};

use unfazed::cases::{PolicyCoverage, SuiteLoader, TestSuite};

fn load(paths: &[PathBuf]) -> Vec<TestSuite> {
    let mut loader = SuiteLoader::new(open);
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

/// A key that no case flips is one that nobody has shown to do anything.
#[test]
fn every_key_decides_something_in_a_case_that_comes_out_otherwise_without_it() {
    let mut coverage = PolicyCoverage::new().with_inline_policies();
    for suite in load(&files()) {
        for case in suite.cases() {
            case.run_counted(&mut coverage);
        }
    }
    let decided: Vec<String> =
        coverage.leaves().filter(|leaf| leaf.cases > 0).map(|leaf| leaf.path).collect();
    let keys = unfazed::analysis::keys();
    assert!(keys.len() > 150, "only {} keys were found", keys.len());
    // A run of cases has one model call at a time; `tests/host/guard_pace.rs` has several.
    // Several runs share a pace: `tests/host/shared.rs`, `src/simulate/tests.rs`.
    let elsewhere = ["models.*.pace.concurrency", "models.*.pace.scope", "tools.*.pace.scope"];
    let all = keys.into_iter().map(|(path, _)| path).filter(|path| !elsewhere.contains(&&**path));
    let all = all.chain(limits());
    let idle: Vec<String> = all.filter(|key| !decided.iter().any(|path| is_of(path, key))).collect();
    assert!(idle.is_empty(), "{} keys: {idle:#?}", idle.len());
}

/// The keys of limits, which are not merged but the tightest of which counts.
fn limits() -> Vec<String> {
    let schema = unfazed::policy::json_schema();
    let keys =
        |of: &str| schema["$defs"][of]["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let own = keys("TopLimits").into_iter().filter(|name| name != "run").map(|name| format!("limits.{name}"));
    own.chain(keys("RunLimitsRule").into_iter().map(|name| format!("limits.run.{name}"))).collect()
}

/// Whether a path of a file is one of that key, whatever the names in it; what stands under `retry` may stand anywhere.
fn is_of(path: &str, key: &str) -> bool {
    let (block, name) = key.split_once(".*").unwrap_or((key, ""));
    if block == "retry.by_class" {
        return path.contains(".by_class.") && path.ends_with(name);
    }
    if key.starts_with("retry.") || key.starts_with("limits.") {
        return !path.contains(".by_class.") && (path == key || path.ends_with(&format!(".{key}")));
    }
    let path = path
        .strip_prefix("profiles.")
        .map_or(path, |path| path.split_once('.').map_or(path, |(_, path)| path));
    path.starts_with(block) && path.ends_with(name)
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
    let suite = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap();
    let case = &suite.cases()[0];
    let (first, second) = (case.run(), case.run());
    assert!(!first.passed());
    assert_eq!(first.mismatches, second.mismatches);
    assert_eq!(first.timeline, second.timeline);
}

fn mistakes(text: &str) -> String {
    let reports = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap_err();
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
fn an_expectation_that_cannot_fail_or_cannot_hold_is_an_error() {
    insta::assert_snapshot!(mistakes(
        "version: 1
cases:
  - {name: a, tool: t, outcomes: [ok], expect: {told: ''}}
  - {name: b, tool: t, outcomes: [ok], expect: {messages: [{text: {contains: ''}}]}}
  - {name: c, tool: t, outcomes: [ok], expect: {never: [{directive: wait, call: x}]}}
  - {name: d, tool: t, outcomes: [ok], expect: {never: [{event: tool_finished, outcome: {dta: 1}}]}}
  - {name: e, tool: t, outcomes: [ok], expect: {never: [{subject: a, target: b}]}}
  - {name: f, tool: t, outcomes: [ok], expect: {never: [{directive: wait, error_type: tmeout}]}}
  - {name: g, tool: t, outcomes: [ok], expect: {output: {matches: '('}}}
  - {name: h, tool: t, outcomes: [ok], expect: {why: {max_attempts: []}}}
"
    ));
}

#[test]
fn what_can_never_come_is_an_error() {
    insta::assert_snapshot!(mistakes(
        "version: 1
cases:
  - {name: a, tool: t, outcomes: [ok], expect: {never: [{directive: run_tool, tool: nosuch}]}}
  - {name: b, tool: t, outcomes: [ok], expect: {never: [{directive: run_tool, attempt: '3'}]}}
  - {name: c, tool: t, outcomes: [ok], expect: {never: [{directive: exhausted, decision: nope}]}}
  - {name: d, tool: t, outcomes: [ok], expect: {never: [{exhausted: {reason: nope}}]}}
  - {name: e, tool: t, outcomes: [ok], expect: {never: [{directive: metric, name: nope}]}}
  - {name: f, tool: t, outcomes: [ok], expect: {never: [{directive: breaker, state: opened}]}}
  - {name: g, replies: [{text: a}], expect: {never: [{event: model_failed, failure: {class: timeot}}]}}
  - {name: h, tool: t, outcomes: [ok], expect: {never: [model_failed]}}
  - {name: i, tool: t, outcomes: [ok], expect: {never: [prepare_turn]}}
  - {name: j, tool: t, outcomes: [ok], expect: {turns: 0}}
  - {name: k, tool: t, outcomes: [ok], expect: {unused: 0}}
  - {name: l, tool: t, outcomes: [ok], expect: {never: [{directive: finish, outcome: {status: fialed}}]}}
  - {name: m, tool: t, outcomes: [ok], expect: {never: [{directive: finish, outcome: {status: failed, output: 1}}]}}
  - {name: n, tool: t, outcomes: [ok], expect: {never: [{directive: wait, subject: tool nosuch}]}}
  - {name: o, tool: t, outcomes: [ok], expect: {never: [{directive: wait, at: 3}]}}
  - {name: p, tool: t, outcomes: [ok], expect: {never: [{directive: wait, delay: soon}]}}
  - {name: q, replies: [{text: a}], expect: {never: [tools_proposed]}}
"
    ));
}

#[test]
fn what_may_come_is_no_error() {
    for expect in [
        "never: [{directive: run_tool, attempt: 3, timeout: 20s, max_attempts: null}]",
        "never: [{directive: exhausted, decision: tell_model, exhausted: {reason: attempts, action: tool t}}]",
        "never: [{exhausted: {attempts: [{error_type: timeout, delay: 1s}]}}]",
        "never: [{directive: metric, name: retry_attempts, value: 3}, {directive: breaker, state: open}]",
        "never: [{event: tool_finished, outcome: {outcome: failed, failure: {class: rate_limit, status: 429}}}]",
        "never: [{directive: finish, outcome: {status: failed, exhausted: {reason: attempts}}}, finish]",
        "never: [{directive: append, message: {role: tool, text: {contains: never said}}}]",
        "never: [{directive: run_tool, arguments: {any: [1, x]}, at: 3s}, {because: [{rule: limits}]}]",
    ] {
        assert_eq!(failures(&format!("tool: t, outcomes: [ok], expect: {{{expect}}}")), [""; 0], "{expect}");
    }
}

#[test]
fn what_a_case_says_twice_or_without_use_is_an_error() {
    insta::assert_snapshot!(mistakes(
        "version: 1
cases:
  - {name: same, tool: t, outcomes: [ok], expect: {final: ok}}
  - {name: same, tool: t, outcomes: [200], expect: {final: ok}}
  - {name: same, tool: t, order: [1], outcomes: [ok], expect: {final: ok}}
  - {name: other, replies: [{text: a}], order: [2, 1, 2], resume_at: [3, 3], expect: {turns: 1}}
"
    ));
}

#[test]
fn a_mistake_in_one_case_does_not_hide_those_in_others() {
    let said = mistakes(
        "version: 1
inline: {retry: {max_atempts: 3}}
cases:
  - {name: a, tool: t, outcome: [ok], expect: {final: ok}}
  - {name: b, tool: t, outcomes: [okay], expect: {final: ok}}
  - {name: c, expect: {final: ok}}
  - {name: d, profile: night, tool: t, expect: {}}
",
    );
    for told in ["`max_atempts`", "`outcome`", "`okay`", "exactly one of", "expects nothing"] {
        assert!(said.contains(told), "{told} is not in\n{said}");
    }
}

#[test]
fn a_profile_that_is_not_there_is_told_with_the_case_that_asks_for_it() {
    insta::assert_snapshot!(mistakes(
        "version: 1
inline: {profiles: {night: {retry: {max_attempts: 2}}}}
cases:
  - {name: a, tool: t, outcomes: [ok], expect: {final: ok}}
  - {name: b, tool: t, profile: nite, outcomes: [ok], expect: {final: ok}}
"
    ));
}

fn failures(case: &str) -> Vec<String> {
    let text = format!("version: 1\ncases:\n  - {{name: a, {case}}}\n");
    let suite = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap();
    let verdict = suite.cases()[0].run();
    let rows = verdict.mismatches.iter().flat_map(|mismatch| &mismatch.rows).filter(|row| !row.same);
    rows.map(|row| row.got.clone()).collect()
}

#[test]
fn what_is_scripted_and_never_used_fails_the_case() {
    let run = "tool: t, outcomes: [ok, timeout, ok x9]";
    assert_eq!(
        failures(&format!("{run}, expect: {{final: ok}}")),
        ["these are never used:", "outcome 2 of `t`", "outcome 3 of `t`"]
    );
    assert_eq!(failures(&format!("{run}, expect: {{final: ok, unused: 2}}")), [""; 0]);
    assert_eq!(failures("tool: t, outcomes: [ok x9], expect: {final: ok}"), [""; 0], "one use is enough");
    assert_eq!(
        failures("replies: [{text: a}, {text: b}], tools: {t: {outcomes: [ok]}}, expect: {turns: 1}"),
        ["these are never used:", "outcome 1 of `t`", "reply 2"]
    );
    assert_eq!(
        failures(
            "tool: t, outcomes: [ok], planner: {decisions: [fail], calls: {u: {retry: {max_attempts: 2}}}}, \
             expect: {final: ok}"
        ),
        ["these are never used:", "decision 1 of the planner", "the planner's layer for `u`"]
    );
}

#[test]
fn what_a_case_waits_for_and_never_reaches_fails_it() {
    assert_eq!(
        failures("tool: t, outcomes: [ok], cancel: 5s, expect: {final: ok}"),
        ["`cancel` is at 5s, but all is over at 0s"]
    );
    assert_eq!(
        failures("tool: t, outcomes: [ok], resume_at: [2, 9], expect: {final: ok}"),
        ["`resume_at` names event 9, but the last is event 3"]
    );
    assert_eq!(
        failures("replies: [{text: a}], order: [2], expect: {turns: 1}"),
        ["`order` names call 2, but no such call runs"]
    );
}

#[test]
fn ten_thousand_attempts_of_one_call_are_no_more_work_than_ten_thousand() {
    let policy = "{tools: {t: {effect: read_only, breaker: {failures: never}, retry: {max_attempts: 10000, \
                  retry_on: [rate_limit], backoff: {kind: constant, delay: 1s, jitter: none}}}}}";
    let case =
        format!("inline: {policy}, tool: t, outcomes: [rate_limit x10000], expect: {{attempts: 10000}}");
    assert_eq!(failures(&case), [""; 0]);
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
  '*': {effect: read_only, retry: {max_attempts: 2, backoff: {kind: constant, delay: 1s, jitter: none}}}
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
    let suite = SuiteLoader::new(open).read("a.test.yaml", test.as_bytes()).unwrap();
    let mut coverage = PolicyCoverage::new();
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

#[test]
fn a_value_that_is_in_force_and_decides_nothing_is_not_covered() {
    let policy = "version: 1
tools:
  search:
    effect: read_only
    on_exhausted: fail
    messages: {failed: no luck, exhausted: never again}
    retry: {max_attempts: 2, attempt_timeout: 5s, total_delay: 9s, backoff: {kind: constant, delay: 1s, jitter: none}}
";
    let lost = |case: &str| -> Vec<String> {
        let text = format!("version: 1\npolicy: p.yaml\ncases:\n  - {{name: a, tool: search, {case}}}\n");
        let open = |_: &str, _: &str| Ok(("p.yaml".to_owned(), policy.as_bytes().to_vec()));
        let suite = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap();
        let mut coverage = PolicyCoverage::new();
        assert!(suite.cases()[0].run_counted(&mut coverage).passed());
        let lost = coverage.leaves().filter(|leaf| leaf.cases == 0);
        lost.map(|leaf| leaf.path.trim_start_matches("tools.search.").to_owned()).collect()
    };
    assert_eq!(
        lost("outcomes: [ok], expect: {final: ok}").len(),
        7,
        "a success needs no rule but how long it may take"
    );
    assert_eq!(
        lost("outcomes: [timeout x2], expect: {final: retry_exhausted}"),
        ["messages.failed", "retry.total_delay"]
    );
    assert_eq!(
        lost("outcomes: [auth_error], expect: {final: failed}"),
        [
            "effect",
            "on_exhausted",
            "messages.exhausted",
            "retry.max_attempts",
            "retry.total_delay",
            "retry.backoff"
        ]
    );
}
