//! What a file says by itself that means nothing.

use super::*;
use insta::assert_snapshot;

fn search(said: &str) -> String {
    one(&format!("tools: {{search: {{{said}}}}}\n"))
}

#[test]
fn a_timeout_as_long_as_the_deadline_is_told_with_both() {
    assert_snapshot!(search("retry: {attempt_timeout: 1m, deadline: 30s}"), @"a.yaml:2:43: warning[W0218]: one attempt may take 1m, and all together 30s: after a timeout there is no other one");
    assert_eq!(search("retry: {attempt_timeout: 10s, deadline: 30s}"), "");
    assert_eq!(search("retry: {attempt_timeout: 30s, deadline: 30s, max_attempts: 1}"), "");
}

#[test]
fn a_timeout_of_a_step_that_the_whole_call_ends_before_is_told() {
    let model = |said: &str| one(&format!("models: {{m: {{{said}}}}}\n"));
    assert_snapshot!(model("timeouts: {first_token: 30s}, retry: {attempt_timeout: 20s}"), @"a.yaml:2:38: warning[W0226]: `timeouts.first_token` is 30s and never fires: `attempt_timeout` ends the call after 20s");
    assert_snapshot!(model("timeouts: {idle: 1m}, retry: {deadline: 1m, attempt_timeout: 2m, max_attempts: 1}"), @"a.yaml:2:31: warning[W0226]: `timeouts.idle` is 1m and never fires: `deadline` ends the call after 1m");
    assert_eq!(model("timeouts: {first_token: 10s, idle: unlimited}, retry: {attempt_timeout: 20s}"), "");
    // The built-in timeouts of steps are nobody's mistake; that of the whole call may be the reason.
    assert_eq!(model("retry: {attempt_timeout: 2s}"), "");
    assert_snapshot!(model("timeouts: {first_token: 15m}"), @"a.yaml:2:38: warning[W0226]: `timeouts.first_token` is 15m and never fires: `attempt_timeout` ends the call after 10m");
}

#[test]
fn a_timeout_of_a_step_that_fires_for_some_model_is_left_alone() {
    let all = "models: {\"*\": {timeouts: {idle: 30s}}, brief: {retry: {attempt_timeout: 20s}}}\n";
    assert_eq!(one(all), "");
}

#[test]
fn a_row_that_rows_before_it_match_is_told() {
    let rows = |rows: &str| one(&format!("errors: [{rows}]\n"));
    let (a, b) = ("{status: [500, 501], class: timeout}", "{status: 500, code: x, class: overloaded}");
    assert_snapshot!(rows(&format!("{a}, {b}")), @"a.yaml:2:78: warning[W0219]: this row is unreachable: rows before it match status: [500], code: [x]");
    assert_eq!(rows(&format!("{b}, {a}")), "");
    // Each half is matched by another row.
    let halves = "{status: 500, class: timeout}, {status: 501, class: timeout}";
    assert!(rows(&format!("{halves}, {a}")).contains("W0219"));
    // The built-in table has it, below.
    assert_eq!(rows("{status: 503, class: overloaded}"), "");
    assert!(
        rows("{message: [limit], class: rate_limit}, {message: [Limit reached], class: timeout}")
            .contains("W0219")
    );
}

#[test]
fn a_row_that_takes_quotas_for_something_else_is_told() {
    let rows = |rows: &str| one(&format!("errors: [{rows}]\n"));
    assert_snapshot!(rows("{status: 429, class: rate_limit}"), @"a.yaml:2:31: warning[W0227]: this row classifies exhausted quotas as `rate_limit` too: they also have status 429");
    assert_snapshot!(rows("{class: timeout}"), @"a.yaml:2:18: warning[W0227]: this row classifies every failure as `timeout`: rows below it are unreachable");
    assert!(rows("{status: 4xx, class: overloaded}").contains("W0227"));
    assert_eq!(rows("{status: 429, message: slow, class: rate_limit}"), "");
    assert_eq!(rows("{status: 429, class: quota_exceeded}"), "");
    assert_eq!(rows("{status: 5xx, class: timeout}"), "");
}

#[test]
fn a_breaker_without_a_pause_is_told() {
    assert_snapshot!(search("breaker: {open_for: 0s}"), @"a.yaml:2:38: warning[W0220]: the breaker is open for no time: the next call is already a probe");
    assert_eq!(search("breaker: {open_for: 1s}"), "");
}

#[test]
fn a_window_that_never_opens_the_breaker_is_told() {
    assert_snapshot!(search("breaker: {failures: 5, count: {kind: window, calls: 4}}"), @"a.yaml:2:48: warning[W0230]: the breaker of tool `search` never opens: it needs 5 failures, and its window holds 4");
    assert_snapshot!(search("breaker: {count: {kind: window, calls: 4, min_calls: 5}}"), @"a.yaml:2:35: warning[W0230]: the breaker of tool `search` never opens: it needs 5 failures, and its window holds 4");
    assert_eq!(search("breaker: {failures: 4, count: {kind: window, calls: 4, min_calls: 4}}"), "");
    assert_eq!(search("breaker: {failures: never, count: {kind: window, calls: 1}}"), "");
}

#[test]
fn a_stage_that_never_comes_is_told() {
    assert_snapshot!(search("loop_guard: {same_call: {nudge: 6, block: 4}}"), @"a.yaml:2:50: warning[W0231]: `loop_guard.same_call.nudge` of tool `search` is unreachable: it is 6, and `block` is 4");
    assert_snapshot!(search("loop_guard: {cycle: {block: 9}}"), @"a.yaml:2:46: warning[W0231]: `loop_guard.cycle.block` of tool `search` is unreachable: it is 9, and `final_turn` is 8");
    assert_eq!(search("loop_guard: {same_call: {nudge: never, block: 2}}"), "");
    assert_eq!(
        search("loop_guard: {same_error: {nudge: 3, block: 3}}"),
        "",
        "the model is informed when the third has failed"
    );
    assert_eq!(search("loop_guard: {enabled: false, same_call: {nudge: 6, block: 4}}"), "");
}

#[test]
fn probes_of_a_breaker_that_stays_open_are_told() {
    assert_snapshot!(search("breaker: {open_for: unlimited, successes: 2}"), @"a.yaml:2:60: warning[W0232]: `successes` has no effect: the breaker stays open and lets no probe through");
    assert_eq!(search("breaker: {open_for: 1m, successes: 2, probes: 2}"), "");
}

#[test]
fn a_breaker_that_stays_open_for_all_hosts_is_told() {
    assert_snapshot!(search("breaker: {scope: shared}"), @"a.yaml:2:35: warning[W0249]: once the breaker of tool `search` opens, it stays open in all runs of all hosts");
    assert_snapshot!(search("breaker: {scope: shared, open_for: unlimited}"), @"a.yaml:2:53: warning[W0249]: once the breaker of tool `search` opens, it stays open in all runs of all hosts");
    assert_eq!(search("breaker: {scope: shared, open_for: 1m}"), "");
    assert_eq!(search("breaker: {scope: shared, failures: never}"), "");
    assert_eq!(search("breaker: {scope: session}"), "");
}

#[test]
fn conditions_that_do_not_speak_of_the_call_are_told() {
    let when = |when: &str| search(&format!("calls: [{{when: \"{when}\", retry: {{max_attempts: 2}}}}]"));
    assert_snapshot!(when("false"), @"a.yaml:2:33: warning[W0221]: `when` is never true");
    assert_snapshot!(when("1 < 2"), @"a.yaml:2:33: warning[W0221]: `when` is always true");
    assert_eq!(when("args.x"), "");
    assert_eq!(when("tool == 'search'"), "");
}

#[test]
fn a_rule_for_calls_that_says_nothing_is_told() {
    assert_snapshot!(search("calls: [{when: args.x}]"), @"a.yaml:2:33: warning[W0222]: the rule for these calls has no effect");
    assert_eq!(search("calls: [{when: args.x, limits: {max_attempts: 2}}]"), "");
}

#[test]
fn what_stands_beside_the_switch_is_told_unless_something_switches_retries_on() {
    let said = search(
        "retry: {enabled: false, max_attempts: 2, backoff: {kind: constant, delay: 1s, jitter: none}}",
    );
    assert!(
        said.starts_with("a.yaml:2:35: warning[W0223]: `enabled: false` ends all retries, and"),
        "{said}"
    );
    assert!(said.lines().next().is_some_and(|line| line.ends_with("beside it have no effect")), "{said:?}");
    assert_eq!(search("retry: {enabled: false}"), "");
    assert_eq!(one("retry: {enabled: false, max_attempts: 2}\ntools: {t: {retry: {enabled: true}}}\n"), "");
}

#[test]
fn a_class_that_stands_twice_in_a_list_is_told() {
    assert_snapshot!(search("retry: {retry_on: [timeout, timeout]}"), @"a.yaml:2:36: warning[W0224]: the list names `timeout` twice");
    assert!(search("retry: {never_retry: {add: [not_found, timeout, timeout]}}").contains("W0224"));
    assert!(!search("retry: {retry_on: {add: [execution_error], remove: [timeout]}}").contains("W0224"));
}

#[test]
fn two_validators_of_one_name_are_told_with_the_first() {
    let validators = |a: &str, b: &str| {
        search(&format!(
            "validate: [{{name: {a}, check: args.x, message: m}}, {{name: {b}, check: args.y, message: m}}]"
        ))
    };
    assert_snapshot!(validators("a", "a"), @"a.yaml:2:67: warning[W0225]: there are two validators `a` here");
    assert_eq!(validators("a", "b"), "");
}

#[test]
fn runs_that_are_not_repeated_anyway_are_told_once() {
    let said = search("effect: non_idempotent, retry: {max_attempts: 5}");
    assert!(said.contains("W0207") && !said.contains("W0203"), "{said}");
    assert!(search("retry: {max_attempts: 6}").contains("W0203"));
}
