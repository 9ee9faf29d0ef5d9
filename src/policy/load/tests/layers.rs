//! Layers of one policy, and which of them wins.

use super::*;

const TEAM: &str = "\
version: 1
retry: {max_attempts: 5}
tools:
  \"*\": {retry: {max_attempts: 6}}
  http.*: {retry: {max_attempts: 7}, on_exhausted: fail}
  http.get:
    retry: {max_attempts: 8}
    calls:
      - {when: args.slow == true, retry: {max_attempts: 9}}
models:
  gpt-*: {retry: {deadline: 1m}}
";

#[test]
fn the_most_specific_wins() {
    let policy = policy(TEAM);
    assert_eq!(attempts(&policy, "http.get"), 8);
    assert_eq!(attempts(&policy, "http.put"), 7);
    assert_eq!(attempts(&policy, "file.read"), 6);
    assert_eq!(
        policy.tool("http.get").on_exhausted.value,
        OnExhausted::Fail,
        "a leaf comes from wherever it is set"
    );
    assert_eq!(
        policy.model("gpt-5").retry.deadline.value,
        TimeBound::Within(crate::time::Nanos::from_secs(60))
    );
    assert_eq!(policy.model("claude").retry.deadline.value, TimeBound::Unlimited);
}

#[test]
fn a_call_has_a_layer_of_its_own_if_its_condition_holds() {
    let policy = policy(TEAM);
    let of = |args: Value| policy.call("http.get", &args, None).policy.retry.max_attempts;
    assert_eq!(of(json!({"slow": true})).value, AttemptLimit::Limited(9.try_into().unwrap()));
    assert_eq!(of(json!({"slow": true})).origin.scope, LayerKind::Call);
    assert_eq!(of(json!({"slow": false})).value, AttemptLimit::Limited(8.try_into().unwrap()));
    assert_eq!(of(json!({})).value, AttemptLimit::Limited(8.try_into().unwrap()));
    let left_out = policy.call("http.get", &json!({}), None).left_out;
    assert_eq!(left_out.len(), 1, "a condition without a value is reported, not guessed");
    assert!(left_out[0].contains("no such key `slow`"), "{left_out:?}");
    assert!(left_out[0].ends_with("nothing of its layer applies, as nothing tightens"), "{left_out:?}");
}

#[test]
fn of_a_layer_without_a_value_what_tightens_applies_and_nothing_else() {
    let policy = policy(
            "version: 1
retry: {max_attempts: 4, deadline: 1m, retry_on: [timeout, overloaded], by_class: {overloaded: {max_attempts: 2}}}
tools:
  a:
    calls:
      - when: args.n > 1
        approval: always
        retry: {max_attempts: 3, deadline: 5m, retry_on: [timeout], never_retry: {add: [empty_response]}, enabled: false}
        limits: {total_delay: 7s}
      - when: args.m > 1
        approval: never
        retry: {enabled: true, max_attempts: 1, by_class: {timeout: {max_attempts: 9}}}
",
        );
    let call = |args: Value| policy.call("a", &args, None).policy;
    let unsure = call(json!({}));
    assert_eq!(unsure.approval.value, crate::policy::Approval::Always);
    assert_eq!((unsure.retry.enabled.value, unsure.approval.origin.scope), (false, LayerKind::Call));
    assert_eq!(unsure.retry.deadline.value, TimeBound::Within(crate::time::Nanos::from_secs(60)));
    assert_eq!(unsure.retry.total_delay.value, TimeBound::Within(crate::time::Nanos::from_secs(7)));
    assert!(!unsure.retry.retry_on.value.contains(ErrorClass::Overloaded));
    assert!(unsure.retry.never_retry.value.contains(ErrorClass::EmptyResponse));
    assert_eq!(unsure.retry.max_attempts.value, AttemptLimit::Limited(1.try_into().unwrap()));
    assert!(
        unsure
            .retry
            .by_class
            .iter()
            .all(|(_, own)| own.max_attempts.value != AttemptLimit::Limited(9.try_into().unwrap()))
    );
    // Of all failures fewer attempts, but of one class more: that is no tightening.
    let first = call(json!({"m": 0}));
    let overloaded = first.retry.for_class(ErrorClass::Overloaded).max_attempts.value;
    assert_eq!(overloaded, AttemptLimit::Limited(2.try_into().unwrap()));
    assert_eq!(first.retry.max_attempts.value, AttemptLimit::Limited(4.try_into().unwrap()));
    let told = policy.call("a", &json!({"n": "2", "m": 0}), None).left_out;
    assert!(told[0].contains("`approval`") && !told[0].contains("`retry.deadline`"), "{told:?}");
}

#[test]
fn the_planner_stands_above_all() {
    let planner = CallOverride::new(json!({"retry": {"max_attempts": 2}})).unwrap();
    let policy = policy(TEAM);
    let call = policy.call("http.get", &json!({"slow": true}), Some(&planner)).policy;
    assert_eq!(call.retry.max_attempts.value, AttemptLimit::Limited(2.try_into().unwrap()));
    assert_eq!(policy.place(call.retry.max_attempts.origin).to_string(), "(planner):1:26");
}

#[test]
fn a_planner_cannot_ask_for_attempts_without_end() {
    let endless = CallOverride::new(json!({"retry": {"max_attempts": "unlimited"}})).unwrap();
    let call = policy(TEAM).call("x", &json!({}), Some(&endless));
    assert_ne!(call.policy.retry.max_attempts.value, AttemptLimit::Unlimited);
    let told = ["(planner):1:26: the attempts of this call have no end; set a `deadline`, or a number"];
    assert_eq!(call.left_out, told);
}

#[test]
fn a_later_file_wins_within_a_scope_but_not_over_a_narrower_one() {
    let base =
        ("base.yaml", "version: 1\nretry: {max_attempts: 4}\ntools: {pay.*: {retry: {max_attempts: 1}}}");
    let team = ("team.yaml", "version: 1\nretry: {max_attempts: 9}\n");
    let policy = files(&[base, team]).unwrap();
    assert_eq!(attempts(&policy, "pay.card"), 1);
    assert_eq!(attempts(&policy, "search"), 9);
}

#[test]
fn null_goes_back_to_the_default() {
    let policy = policy(
        "version: 1\nretry: {max_attempts: 9, deadline: 1m}\ntools: {a: {retry: {max_attempts: null}}, b: {retry: null}}",
    );
    assert_eq!(attempts(&policy, "a"), 4);
    assert_eq!(policy.tool("a").retry.deadline.value, TimeBound::Within(crate::time::Nanos::from_secs(60)));
    assert_eq!(
        policy.tool("b").retry.deadline.value,
        TimeBound::Unlimited,
        "null in place of a block unsets all of it"
    );
    assert_eq!(attempts(&policy, "c"), 9);
}

#[test]
fn a_list_is_replaced_or_edited() {
    let policy = policy(
        "version: 1\nretry: {retry_on: [timeout, rate_limit]}\ntools:\n  a: {retry: {retry_on: {add: [overloaded], remove: [timeout]}}}\n  b: {retry: {retry_on: [model_error]}}",
    );
    let on = |tool: &str| policy.tool(tool).retry.retry_on.value.to_string();
    assert_eq!(on("a"), "[rate_limit, overloaded]");
    assert_eq!(on("b"), "[model_error]");
}

#[test]
fn a_report_is_asked_for_by_an_output_block_and_not_by_null() {
    let asks = "version: 1\noutput: {tool: done, retry: {max_attempts: 2}}";
    let output = policy(asks);
    let output = output.output().unwrap();
    assert_eq!(output.tool.value, "done");
    assert_eq!(output.retry.max_attempts.value, AttemptLimit::Limited(2.try_into().unwrap()));
    assert!(files(&[("a", asks), ("b", "version: 1\noutput: null")]).unwrap().output().is_none());
}

#[test]
fn reducers_are_merged_by_name_in_the_order_of_first_declaration() {
    let base = "version: 1\nsession:\n  slices: {n: {initial: 0}}\n  reducers:\n    a: {on: tool_failed, slice: n, do: {kind: increment, value: '1'}}\n    b: {on: tool_failed, slice: n, do: {kind: increment, value: '1'}}\n";
    let team = "version: 1\nsession:\n  reducers:\n    bound_feedback: null\n    c: {on: [tool_failed, model_failed], slice: n, do: {kind: set, value: '0'}}\n    a: {on: tool_succeeded, slice: n, do: {kind: set, value: '0'}}\n";
    let policy = files(&[("base", base), ("team", team)]).unwrap();
    let names: Vec<&str> = policy.session().reducers.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(
        names,
        ["remember_feedback", "remember_reducer_errors", "bound_reducer_errors", "a", "b", "c"]
    );
    let a = policy.session().reducers.iter().find(|r| r.name == "a").unwrap();
    assert_eq!(policy.place(a.origin).to_string(), "team:6:5");
}
