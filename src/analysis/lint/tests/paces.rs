//! Paces: two rates of one pool, budgets that they make idle, deadlines that are too early for them.

use super::*;

#[test]
fn two_rates_of_one_pool_name_both_places() {
    let text = "\
models:
  a: {provider: one, pace: {requests: {limit: 10, per: 1m}}}
  b: {provider: one, pace: {requests: {limit: 20, per: 1m, burst: 2}}}
";
    assert_eq!(
        one(text),
        "a.yaml:4:39: warning[W0271]: provider one has two rates of requests: 20 in 1m with a burst of 2 for model `b`, and 10 in 1m for model `a`; that of the latest call holds for all"
    );
    let shown = linted(&[&format!("version: 1\n{text}")], &LintOptions::default()).human(false);
    assert!(shown.contains("the other rate"), "{shown}");
    // Pools of their own, one rate, and a rate of which only one speaks are no contradiction.
    for apart in [
        "{a: {pace: {pool: x, requests: {limit: 10, per: 1m}}}, b: {pace: {pool: y, requests: {limit: 20, per: 1m}}}}",
        "{a: {provider: one, pace: {requests: {limit: 9, per: 1m}}}, b: {provider: one, pace: {requests: {limit: 9, per: 60s}}}}",
        "{a: {provider: one, pace: {requests: {limit: 9, per: 1m}}}, b: {provider: one, pace: {tokens: {limit: 20, per: 1m}}}}",
    ] {
        assert_eq!(one(&format!("models: {apart}\n")), "");
    }
}

#[test]
fn a_tool_and_a_model_of_one_name_of_a_pool_share_its_rate() {
    let text = "\
tools: {search: {pace: {pool: api, requests: {limit: 10, per: 1m}}}}
models: {main: {pace: {pool: api, requests: {limit: 20, per: 1m}}}}
";
    assert!(one(text).contains("W0271"));
    assert!(!one(&text.replace("20", "10")).contains("W0271"));
}

#[test]
fn a_budget_is_idle_only_if_all_paces_together_leave_some_of_it() {
    let limits = |calls: u64| format!("limits: {{run: {{time: 10m, model_calls: {calls}}}}}\n");
    let paced = "models: {\"*\": {provider: one, pace: {requests: {limit: 10, per: 1m}}}}\n";
    // A burst of ten, and ten in each of ten minutes.
    assert_eq!(one(&format!("{}{paced}", limits(110))), "");
    assert_eq!(
        one(&format!("{}{paced}", limits(111))),
        "a.yaml:2:40: warning[W0272]: `model_calls` is 111, and no run uses more than 110: the paces of its models allow no more in 10m"
    );
    let more =
        paced.replace("models: {", "models: {two: {provider: two, pace: {requests: {limit: 1, per: 1m}}}, ");
    assert_eq!(one(&format!("{}{more}", limits(121))), "");
    assert!(one(&format!("{}{more}", limits(122))).contains("W0272"));
    // Each of the models that `*` stands for has a pool of its own, and how many there are is unknown.
    let own = paced.replace("provider: one, ", "");
    assert_eq!(one(&format!("{}{own}", limits(1000))), "");
    let free = paced.replace("models: {", "models: {b: {provider: b, pace: {requests: unlimited}}, ");
    assert_eq!(one(&format!("{}{free}", limits(1000))), "");
    let tokens = "limits: {run: {time: 1m, tokens: 20001}}\nmodels: {\"*\": {provider: one, pace: {tokens: {limit: 10000, per: 1m}}}}\n";
    assert!(one(tokens).contains("`tokens` is 20001, and no run uses more than 20000"), "{}", one(tokens));
}

#[test]
fn a_pace_is_held_against_the_earliest_end_of_a_call() {
    let slow =
        |more: &str| one(&format!("models: {{m: {{pace: {{requests: {{limit: 1, per: 2m}}}}{more}}}}}\n"));
    assert_eq!(slow(""), "");
    let late = slow(", retry: {deadline: 1m}");
    assert!(late.contains("W0270") && late.contains("`retry.deadline` is 1m"), "{late}");
    let run = one("limits: {run: {time: 1m}}\nmodels: {m: {pace: {requests: {limit: 1, per: 2m}}}}\n");
    assert!(run.contains("W0270") && run.contains("`limits.run.time` is 1m"), "{run}");
}
