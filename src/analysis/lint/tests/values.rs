//! Values that exclude each other, and rules that never decide.

use insta::assert_snapshot;

use super::*;

#[test]
fn a_shortest_wait_above_the_longest_is_told() {
    let delay = |rule: &str| one(&format!("models: {{m: {{retry: {{server_delay: {{{rule}}}}}}}}}\n"));
    assert_snapshot!(delay("mode: floor, min: 2m, max: 1m"), @"a.yaml:2:55: warning[W0212]: `min` is 2m, and `max` is 1m: every server delay ends the attempts (longer than `max`)");
    assert_snapshot!(delay("mode: floor, min: 2m, max: 1m, above_max: clamp"), @"a.yaml:2:55: warning[W0212]: `min` is 2m, and `max` is 1m: every server delay becomes `max` (longer than `max`)");
    assert_eq!(delay("mode: floor, min: 1m, max: 1m"), "");
    let class = "retry: {by_class: {timeout: {server_delay: {mode: floor, min: 2m, max: 1m}}}}\n";
    assert!(one(class).contains("W0212"));
}

#[test]
fn a_delay_above_its_cap_is_told() {
    let backoff = |rule: &str| one(&format!("retry: {{backoff: {{{rule}}}}}\n"));
    assert_snapshot!(backoff("kind: exponential, base: 1m, factor: 2, cap: 30s"), @"a.yaml:2:44: warning[W0213]: a delay of 1m is longer than the `cap` of 30s, and has no effect");
    assert!(backoff("kind: schedule, delays: [1s, 2m], cap: 1m").contains("a delay of 2m"));
    assert!(backoff("kind: constant, delay: 2s, cap: 1s").contains("W0213"));
    assert_eq!(backoff("kind: fibonacci, base: 1s, cap: 1s"), "");
}

#[test]
fn a_retry_that_no_budget_grants_is_told() {
    let budget = |rule: &str| one(&format!("retry: {{budget: {{kind: tokens, {rule}}}}}\n"));
    assert_snapshot!(budget("capacity: 10, cost: 5, cost_of: {timeout: 11}"), @"a.yaml:2:17: warning[W0214]: a retry after timeout costs 11, and the capacity of the budget is 10 (never granted)");
    assert!(budget("capacity: 4, cost: 5").contains("a retry costs 5"));
    assert_eq!(budget("capacity: 10, cost: 10"), "");
}

#[test]
fn a_class_in_both_lists_is_told() {
    assert_snapshot!(one("tools: {t: {retry: {retry_on: [timeout, overloaded], never_retry: [timeout]}}}\n"), @"a.yaml:2:31: warning[W0215]: `retry_on` names `timeout`, which `never_retry` excludes; `never_retry` takes precedence");
    assert_snapshot!(one("models: {m: {retry: {retry_on: {add: [auth_error]}}}}\n"), @"a.yaml:2:32: warning[W0215]: `retry_on` names `auth_error`, which `never_retry` excludes; `never_retry` takes precedence");
    let elsewhere =
        "retry: {retry_on: [timeout, rate_limit]}\ntools: {t: {retry: {never_retry: [timeout]}}}\n";
    assert_eq!(one(elsewhere), "", "it is retried elsewhere");
    let freed = "retry: {retry_on: [timeout, auth_error], never_retry: {remove: [auth_error]}}\n";
    assert_eq!(one(freed), "");
}

#[test]
fn rules_for_a_class_that_is_not_retried_are_told() {
    assert_snapshot!(one("models: {m: {retry: {by_class: {auth_error: {max_attempts: 2}}}}}\n"), @"a.yaml:2:60: warning[W0216]: `by_class.auth_error.max_attempts` has no effect: auth_error is not retried here");
    assert!(one("models: {m: {retry: {by_class: {invalid_args: {max_attempts: 2}}}}}\n").contains("W0216"));
    assert_eq!(one("retry: {by_class: {invalid_args: {max_attempts: 2}}}\n"), "", "tools retry it");
}

#[test]
fn a_null_that_no_file_has_a_value_for_is_told() {
    assert_snapshot!(one("retry: {by_class: null}\ntools: {t: {priority: null}}\n"), @"
    a.yaml:2:19: warning[W0211]: `by_class` is unset, and no file sets it below (unsets nothing)
    a.yaml:3:23: warning[W0211]: `priority` is unset, and no file sets it below (unsets nothing)
    ");
    assert_snapshot!(one("models: {m: {retry: {by_class: {timeout: {max_attempts: null}}}}}\n"), @"a.yaml:2:57: warning[W0211]: `by_class.timeout` is unset, and no file sets it below (unsets nothing)");
    let base = "version: 1\nretry: {by_class: {timeout: {max_attempts: 2}}}\ntools: {t: {priority: 1}}\n";
    let team = "version: 1\nretry: {by_class: {timeout: null}}\ntools: {t: {priority: null}}\n";
    assert_eq!(lint(&[base, team]), "");
}

#[test]
fn a_rule_for_a_class_is_called_by_its_path() {
    let said = one(
        "retry: {by_class: {timeout: {max_attempts: 2}}}\ntools: {t: {retry: {by_class: {timeout: {max_attempts: 2}}}}}\n",
    );
    assert_snapshot!(said, @r#"a.yaml:3:56: warning[W0205]: `tools["t"].retry.by_class.timeout.max_attempts` is redundant: it inherits 2 already"#);
}

#[test]
fn retries_of_what_must_not_act_twice_are_found_wherever_they_are_asked_for() {
    let pay = |rules: &str| one(&format!("tools: {{pay: {{effect: non_idempotent, {rules}}}}}\n"));
    assert!(pay("retry: {max_attempts: 1, by_class: {timeout: {max_attempts: 2}}}").contains("W0207"));
    assert!(pay("calls: [{when: args.x == 1, retry: {max_attempts: 2}}]").contains("W0207"));
    assert_eq!(pay("retry: {by_class: {invalid_args: {max_attempts: 5}}}"), "");
    let wide = "version: 1\ntools: {\"p*\": {retry: {max_attempts: 2}}}\n";
    let host = |effect| LintOptions {
        tools: Some(vec![tool("pay", Effect::NonIdempotent, 0), tool("print", effect, 0)]),
        ..LintOptions::default()
    };
    assert!(linted(&[wide], &host(Effect::NonIdempotent)).to_string().contains("W0207"));
    assert_eq!(linted(&[wide], &host(Effect::Idempotent)).to_string(), "", "it counts for one of them");
}

#[test]
fn a_policy_that_knows_better_than_the_host_is_told() {
    let text = "version: 1\ntools: {pay: {effect: idempotent, retry: {max_attempts: 2}}}\n";
    let host =
        LintOptions { tools: Some(vec![tool("pay", Effect::NonIdempotent, 0)]), ..LintOptions::default() };
    assert_snapshot!(linted(&[text], &host).to_string(), @"a.yaml:2:23: warning[W0207]: the host declares tool `pay` non-idempotent, and this policy `idempotent`: it is run again");
}

#[test]
fn an_argument_that_no_tool_has_is_told_and_one_that_some_tool_has_is_not() {
    let known = |name: &str, arguments: &[&str]| KnownTool {
        arguments: Some(arguments.iter().map(|argument| (*argument).to_owned()).collect()),
        ..tool(name, Effect::ReadOnly, 0)
    };
    let tools = vec![known("fs.read", &["path"]), known("fs.find", &["path", "depth"])];
    let options = LintOptions { tools: Some(tools), ..LintOptions::default() };
    let check = |names: &str| {
        let text = format!(
            "version: 1\ntools: {{'fs.*': {{validate: [{{name: a, check: \"args.{names} != ''\", message: m}}]}}}}\n"
        );
        let report = Policy::from_yaml("p.yaml", &text).unwrap().lint(&options);
        report.diagnostics().iter().filter(|d| d.code.as_str() == "W0217").count()
    };
    assert_eq!((check("path"), check("depth"), check("dept")), (0, 0, 1));
}

#[test]
fn values_are_shown_as_they_are_written() {
    let said = one(
        "retry: {backoff: {kind: constant, delay: 1s, jitter: none}}  # unfazed: ignore[W0260] in a test\ntools: {t: {retry: {backoff: {kind: constant, delay: 1s, jitter: none}}}}\n",
    );
    assert_snapshot!(said, @r#"a.yaml:3:30: warning[W0205]: `tools["t"].retry.backoff` is redundant: it inherits {kind: constant, delay: 1s, jitter: none} already"#);
}
