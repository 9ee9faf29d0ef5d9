//! Reducers: how events change slices, and what a reducer that fails does.

use serde_json::json;
use unfazed::engine::{MetricName, Note};
use unfazed::policy::ErrorClass;
use unfazed::session::StopReason;

use super::drive::Host;

fn policy(change: &str, initial: &str) -> String {
    format!(
        "
version: 1
tools: {{'*': {{effect: read_only, retry: {{max_attempts: 1}}, breaker: {{failures: never}}}}}}
session:
  slices: {{seen: {{initial: {initial}}}}}
  reducers:
    note: {{on: tool_succeeded, slice: seen, do: {change}}}
"
    )
}

/// The slice after three successes that returned 1, 2 and 3.
fn after(change: &str, initial: &str) -> serde_json::Value {
    let mut host = Host::calls(&policy(change, initial), &["a"]);
    for n in 1..=3 {
        host.propose(&[("x", "a", json!({"n": n}))]);
        host.tool_succeeds(json!(n));
    }
    assert_eq!(host.state.slices().reducer_errors().count(), 0);
    host.state.slices().get("seen").cloned().unwrap()
}

#[test]
fn each_kind_of_change() {
    assert_eq!(after("{kind: append, value: event.data}", "[]"), json!([1, 2, 3]));
    assert_eq!(after("{kind: set, value: event.data}", "0"), json!(3));
    assert_eq!(after("{kind: increment, value: event.data}", "10"), json!(16));
    assert_eq!(
        after("{kind: merge, value: \"{'last': event.data}\"}", "{first: 0}"),
        json!({"first": 0, "last": 3})
    );
    assert_eq!(after("{kind: remove, where: item == event.data}", "[1, 2, 9]"), json!([9]));
    assert_eq!(after("{kind: keep_last, count: 2}", "[7, 8, 9]"), json!([8, 9]));
}

#[test]
fn a_slice_that_doubles_stops_at_its_budget_and_keeps_its_value() {
    let double = policy("{kind: set, value: slice + slice}", &"x".repeat(1000));
    let mut host = Host::calls(&double, &["a"]);
    for n in 0..20 {
        host.propose(&[("x", "a", json!({"n": n}))]);
        host.tool_succeeds(json!(n));
    }
    let held = host.state.slices().get("seen").and_then(|value| value.as_str()).map(str::len);
    assert_eq!(held, Some(1000 << 14), "16 MiB are enough for 14 doublings of 1000 bytes");
    let errors: Vec<String> = host.state.slices().reducer_errors().map(|error| error.message).collect();
    assert_eq!(errors.len(), 6, "{errors:?}");
    assert!(errors[0].contains("is larger than 16 MiB"), "{}", errors[0]);

    // Many small values, and one that is put into a list again and again.
    let grow = policy("{kind: append, value: 'event.data'}", "[]");
    let mut host = Host::calls(&grow, &["a"]);
    for n in 0..20 {
        host.propose(&[("x", "a", json!({"n": n}))]);
        host.tool_succeeds(json!("y".repeat(1 << 20)));
    }
    assert_eq!(host.state.slices().get("seen").and_then(|value| value.as_array()).map(Vec::len), Some(15));
    let error = host.state.slices().reducer_errors().next().unwrap().message;
    assert_eq!(error, "the value of the slice `seen` would be larger than 16 MiB; keep less of it");
}

#[test]
fn a_condition_decides_whether_it_runs() {
    let policy = policy("{kind: append, value: event.data}", "[]")
        .replace("slice: seen,", "slice: seen, when: event.data > 1,");
    let mut host = Host::calls(&policy, &["a"]);
    for n in 1..=3 {
        host.propose(&[("x", "a", json!({"n": n}))]);
        host.tool_succeeds(json!(n));
    }
    assert_eq!(host.state.slices().get("seen"), Some(&json!([2, 3])));
}

const CHECKED: &str = "
version: 1
tools:
  '*': {retry: {max_attempts: 5, retry_on: [invalid_args], backoff: {kind: constant, delay: 0s}}}
session:
  slices: {failures: {initial: 0}}
  reducers:
    count:
      on: retry_feedback
      slice: failures
      do: {kind: increment, value: '1'}
      check: slice < 2
";

#[test]
fn a_reducer_that_fails_stops_the_retries_and_is_what_the_model_is_told() {
    let mut host = Host::calls(CHECKED, &["a"]);
    host.propose(&[("1", "a", json!({}))]);
    assert_eq!(host.exhausted(), None);
    host.propose(&[("2", "a", json!({}))]);
    let exhausted = host.exhausted().expect("the check of the reducer does not hold");
    assert_eq!(exhausted.reason, StopReason::ReducerError);
    let told = host.last_told();
    assert!(told.contains("count") && told.contains("slice < 2"), "{told}");
    assert_eq!(
        host.state.slices().get("failures"),
        Some(&json!(1)),
        "a reducer changes its slice wholly or not at all"
    );
}

#[test]
fn its_error_stands_in_a_slice_of_its_own_and_is_told_to_the_host() {
    let mut host = Host::calls(CHECKED, &["a"]);
    host.propose(&[("1", "a", json!({}))]);
    host.propose(&[("2", "a", json!({}))]);
    let error = host.state.slices().reducer_errors().next().unwrap();
    assert_eq!(error.reducer, "count");
    assert_eq!(error.payload["feedback"]["attempt"], 2);
    let told = host
        .notes
        .iter()
        .any(|note| matches!(note, Note::ReducerError { error } if error.reducer == "count"));
    assert!(told);
}

#[test]
fn failures_are_counted() {
    let mut host = Host::calls(CHECKED, &["a"]);
    host.propose(&[("1", "a", json!({}))]);
    host.propose(&[("2", "a", json!({}))]);
    let count = |name| {
        host.notes.iter().filter(|note| matches!(note, Note::Metric(metric) if metric.name == name)).count()
    };
    assert_eq!(count(MetricName::ValidationRetryTotal), 2);
    assert_eq!(count(MetricName::ReducerErrorTotal), 1);
    assert_eq!(count(MetricName::RetryDelaySeconds), 1);
    assert_eq!(count(MetricName::RetryAttempts), 1);
}

#[test]
fn the_latest_feedback_can_be_asked_for() {
    let mut host = Host::calls(CHECKED, &["a", "b"]);
    host.propose(&[("1", "a", json!({}))]);
    let latest = host.state.slices().latest_feedback().unwrap();
    assert_eq!((latest.tool_name.as_deref(), latest.error_type), (Some("a"), ErrorClass::InvalidArgs));
    assert_eq!(host.state.slices().latest_feedback_of("b"), None);
}

/// A policy in which the reducer `strict` fails on `trigger`.
fn strict(trigger: &str, rest: &str) -> String {
    format!(
        "
version: 1
session:
  slices: {{seen: {{initial: 0}}}}
  reducers:
    strict: {{on: {trigger}, slice: seen, do: {{kind: set, value: '1'}}, check: slice == 0}}
{rest}
"
    )
}

fn reducer_told(host: &Host) -> bool {
    assert_eq!(host.state.slices().reducer_errors().count(), 1);
    host.last_told().contains("strict")
}

#[test]
fn a_success_that_is_not_taken_is_answered_with_the_reason() {
    let mut host = Host::calls(&strict("tool_succeeded", ""), &["a"]);
    host.propose(&[("1", "a", json!({"n": 1}))]);
    host.tool_succeeds(json!(1));
    assert!(reducer_told(&host), "{}", host.last_told());
}

#[test]
fn a_failure_that_is_not_taken_is_answered_with_the_reason() {
    let mut host = Host::calls(&strict("tool_failed", ""), &["a"]);
    host.propose(&[("1", "a", json!({"n": 1}))]);
    host.tool_fails(ErrorClass::PermissionDenied);
    assert!(reducer_told(&host), "{}", host.last_told());
}

#[test]
fn a_refusal_that_is_not_taken_ends_the_corrections() {
    let mut host = Host::calls(&strict("tool_refused", ""), &["a"]);
    host.propose(&[("1", "a", json!({}))]);
    assert!(reducer_told(&host), "{}", host.last_told());
    host.propose(&[("2", "a", json!({}))]);
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::ReducerError));
}

#[test]
fn a_reply_that_is_not_taken_is_no_answer() {
    let mut host = Host::turns(&strict("model_responded", ""), &["a"]);
    host.model_says("done");
    assert!(reducer_told(&host), "{}", host.last_told());
    assert!(host.outcome().is_none());
}

#[test]
fn what_a_reducer_has_against_a_reply_with_calls_is_told_after_their_results() {
    let mut host = Host::turns(&strict("model_responded", ""), &["a"]);
    host.model_calls(&[("1", "a", json!({"n": 1}))]);
    assert!(!host.last_told().contains("strict"), "a message between calls and results breaks the history");
    host.tool_succeeds(json!(1));
    assert!(reducer_told(&host), "{}", host.last_told());
}

#[test]
fn a_model_failure_that_is_not_taken_is_not_retried() {
    let mut host = Host::turns(&strict("model_failed", "models: {'*': {on_exhausted: fail}}"), &["a"]);
    host.model_fails(unfazed::engine::Failure::of(ErrorClass::RateLimit, "slow down"));
    assert!(host.idle());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::ReducerError));
}

const REPORT: &str = "
turn: {text_only: reject}
output: {schema: {type: object, required: [total]}, on_exhausted: fail, retry: {max_attempts: 3}}
";

#[test]
fn a_report_that_is_not_taken_is_answered_with_the_reason() {
    let mut host = Host::turns(&strict("output_accepted", REPORT), &[]);
    host.model_calls(&[("1", "final_report", json!({"total": 1}))]);
    assert!(reducer_told(&host), "{}", host.last_told());
    assert!(host.outcome().is_none(), "the model may answer it in the turns that are left");
}

#[test]
fn a_refused_report_that_is_not_taken_does_not_end_the_run() {
    let mut host = Host::turns(&strict("output_refused", REPORT), &[]);
    host.model_calls(&[("1", "final_report", json!({}))]);
    assert!(reducer_told(&host), "{}", host.last_told());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::ReducerError));
    assert!(host.outcome().is_none());
}
