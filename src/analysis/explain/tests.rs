//! What people see of a policy.

use insta::{assert_json_snapshot, assert_snapshot};
use serde_json::json;

use super::*;
use crate::analysis::ComparedNames;
use crate::policy::ErrorClass;

const BASE: (&str, &str) = (
    "base.yaml",
    "\
version: 1
limits: {max_attempts: 6, max_turns: 10}
retry:
  max_attempts: 4
  retry_on: [timeout, invalid_args]
tools:
  http.*:
    retry: {max_attempts: 9}
",
);
const TEAM: (&str, &str) = (
    "team.yaml",
    "\
version: 1
retry: {deadline: 1m}
tools:
  http.get:
    retry:
      retry_on: {add: [rate_limit], remove: [invalid_args]}
      backoff: {kind: linear, base: 1s, step: 2s, jitter: none}
      deadline: null
    calls:
      - when: args.slow
        retry: {deadline: 10m}
        limits: {max_attempts: 2}
output:
  schema: {type: object, required: [total]}
",
);

fn policy() -> Policy {
    let files = [BASE, TEAM].map(|(name, text)| (name.to_owned(), text));
    Policy::load(files.to_vec()).unwrap()
}

/// The parts about retries; the messages are long and say little here.
fn retry_part(text: &str) -> String {
    let blocks =
        text.split("\n\n").filter(|block| !block.contains("messages.") && !block.contains("breaker."));
    blocks.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn a_tool_shows_what_won_and_what_lost() {
    assert_snapshot!(retry_part(&policy().explain_tool("http.get").human()));
}

#[test]
fn a_call_shows_its_own_layers() {
    let planner = CallOverride::new(json!({"retry": {"emit_feedback": false}})).unwrap();
    let explained = policy().explain_call("http.get", &json!({"slow": true}), Some(&planner));
    let shown = ["retry.max_attempts", "retry.deadline", "retry.emit_feedback"];
    let shown: String = shown.iter().map(|path| explained.get(path).unwrap().to_string()).collect();
    assert_snapshot!(shown);
}

#[test]
fn models_turns_and_the_output_are_explained_too() {
    let policy = policy();
    assert_snapshot!("model", policy.explain_model("main").human());
    assert_snapshot!("turn", policy.explain_turn().human());
    assert_snapshot!("output", retry_part(&policy.explain_output().unwrap().human()));
}

#[test]
fn machines_get_json() {
    let json = policy().explain_tool("http.get").to_json();
    let attempts = json["values"].as_array().unwrap().iter().find(|v| v["path"] == "retry.max_attempts");
    assert_json_snapshot!(
        json!({"attempts": attempts, "conditional": json["conditional"], "delays": json["delays"]})
    );
}

fn tool(rules: &str) -> Policy {
    Policy::from_yaml("team.yaml", &format!("version: 1\ntools:\n  t: {{{rules}}}\n")).unwrap()
}

/// A tool that waits a second after each timeout, and whatever else its rules say.
fn each_second(rules: &str) -> Policy {
    let global = "retry_on: [timeout], backoff: {kind: constant, delay: 1s, jitter: none}, server_delay: {mode: ignore}";
    let tool = format!("{{breaker: {{failures: never}}, retry: {{{rules}}}}}");
    Policy::from_yaml("team.yaml", &format!("version: 1\nretry: {{{global}}}\ntools: {{t: {tool}}}\n"))
        .unwrap()
}

fn worst(policy: &Policy) -> String {
    let text = policy.explain_tool("t").human();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("worst case: "));
    line.unwrap().to_owned()
}

#[test]
fn the_worst_case_is_what_the_engine_grants() {
    let worst = |rules| worst(&each_second(rules));
    assert_snapshot!(worst("max_attempts: 5"), @"5 calls, 4s waiting, 5m in attempts, 5m4s in all");
    assert_snapshot!(worst("max_attempts: 5, deadline: 3s"), @"3 calls, 2s waiting, 3s in attempts, 3s in all");
    assert_snapshot!(worst("max_attempts: 5, total_delay: 2500ms"), @"3 calls, 2s waiting, 3m in attempts, 3m2s in all");
    assert_snapshot!(worst("max_attempts: 5, total_delay: 2s"), @"3 calls, 2s waiting, 3m in attempts, 3m2s in all");
    assert_snapshot!(worst("max_attempts: unlimited, deadline: 10s"), @"10 calls, 9s waiting, 10s in attempts, 10s in all");
    assert_snapshot!(worst("max_attempts: 5, retry_on: []"), @"1 call, 0s waiting, 1m in attempts, 1m in all");
    assert_snapshot!(worst("max_attempts: 5, never_retry: [timeout]"), @"1 call, 0s waiting, 1m in attempts, 1m in all");
    assert_snapshot!(worst("max_attempts: 5, enabled: false"), @"1 call, 0s waiting, 1m in attempts, 1m in all");
    assert_snapshot!(worst("max_attempts: 2, attempt_timeout: unlimited"), @"2 calls, 1s waiting, unbounded in attempts, unbounded in all");
    assert_snapshot!(worst("max_attempts: unlimited, deadline: 10s, backoff: {kind: constant, delay: 1s, jitter: full}"), @"unbounded calls, 10s waiting, 10s in attempts, 10s in all");
}

#[test]
fn the_breaker_ends_the_runs_of_a_call() {
    let policy = |failures: &str| {
        tool(&format!(
            "breaker: {{failures: {failures}}}, retry: {{max_attempts: 5, backoff: {{kind: constant, delay: 1s, jitter: none}}, server_delay: {{mode: ignore}}}}"
        ))
    };
    assert_snapshot!(worst(&policy("2")), @"2 calls, 1s waiting, 2m in attempts, 2m1s in all");
    assert_snapshot!(worst(&policy("never")), @"5 calls, 4s waiting, 5m in attempts, 5m4s in all");
}

#[test]
fn a_layer_for_some_calls_may_be_the_worst() {
    let rules = "breaker: {failures: never}, retry: {max_attempts: 2, backoff: {kind: constant, delay: 1s, jitter: none}, server_delay: {mode: ignore}}, calls: [{when: args.slow, retry: {max_attempts: 50}}, {when: args.late, retry: {backoff: {kind: constant, delay: 2s, jitter: none}}}]";
    assert_snapshot!(worst(&tool(rules)), @"50 calls, 1m38s waiting, 50m in attempts, 51m40s in all");
}

#[test]
fn what_the_other_side_asks_for_counts() {
    let policy = |server_delay: &str| {
        tool(&format!(
            "breaker: {{failures: never}}, retry: {{max_attempts: 3, backoff: {{kind: constant, delay: 1s, jitter: none}}, server_delay: {server_delay}, deadline: 1h}}"
        ))
    };
    assert_snapshot!(worst(&policy("{mode: floor, max: 1m}")), @"3 calls, 2s waiting (2m if the server asks for a delay), 3m in attempts, 5m in all");
    assert_snapshot!(worst(&policy("{mode: floor}")), @"3 calls, 2s waiting (1h if the server asks for a delay), 3m in attempts, 1h in all");
    let shorter = tool(
        "breaker: {failures: never}, retry: {max_attempts: 9, deadline: 3s, backoff: {kind: constant, delay: 2s, jitter: none}, server_delay: {mode: replace, min: 1s, max: 5s}}",
    );
    assert_snapshot!(worst(&shorter), @"3 calls, 2s waiting (3s if the server asks for a delay), 3s in attempts, 3s in all");
}

#[test]
fn what_cannot_be_counted_is_said() {
    let long = each_second("max_attempts: 4000000000, backoff: {kind: constant, delay: 300d, jitter: none}");
    assert_snapshot!(worst(&long), @"4000000000 calls, more than 584 years waiting, more than 584 years in attempts, more than 584 years in all");
    let asked = tool(
        "retry: {max_attempts: 2, backoff: {kind: constant, delay: 1s, jitter: none}, server_delay: {mode: floor}}",
    );
    assert_snapshot!(worst(&asked), @"2 calls, 1s waiting (unbounded if the server asks for a delay), 2m in attempts, unbounded in all");
}

#[test]
fn what_a_planner_may_do_is_said() {
    let last = |policy: &Policy| policy.explain_tool("t").human().lines().last().unwrap().trim().to_owned();
    assert_snapshot!(last(&tool("effect: read_only")), @"a planner may raise this for a call: no limits.max_attempts bounds it");
    assert_snapshot!(last(&tool("limits: {max_attempts: 6}")), @"a planner may change this for a call, up to limits.max_attempts: 6");
}

#[test]
fn layers_for_some_calls_and_idle_limits_are_shown() {
    let text = tool(
        "limits: {max_attempts: 9}, calls: [{when: args.slow, retry: {deadline: 10m, backoff: null, retry_on: {add: [overloaded]}}, limits: {max_attempts: 2}}]",
    )
    .explain_tool("t")
    .human();
    let blocks: Vec<_> =
        text.split("\n\n").filter(|b| b.contains("  when args") || b.contains("limits that")).collect();
    assert_snapshot!(blocks.join("\n\n"));
}

/// What the engine would see, without the places.
fn seen(policy: &Policy) -> String {
    let values = |explained: PolicyExplanation| explained.effective().to_string();
    let call = policy.explain_call("http.get", &json!({"slow": true}), None);
    let parts = [policy.explain_tool("http.get"), call, policy.explain_model("main"), policy.explain_turn()];
    let parts = parts.into_iter().chain(policy.explain_output()).map(values);
    parts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_document_says_the_same_by_itself() {
    let (policy, builtin) = (policy(), Policy::builtin());
    let explained = [
        policy.explain_tool("http.get"),
        policy.explain_model("main"),
        policy.explain_turn(),
        policy.explain_output().unwrap(),
    ];
    let documents: Vec<_> =
        explained.iter().enumerate().map(|(i, e)| (format!("{i}.yaml"), e.document().to_string())).collect();
    let again = Policy::load(documents).unwrap();
    assert_ne!(seen(&policy), seen(&builtin));
    assert_eq!(seen(&again).replace("},", "},\n"), seen(&policy).replace("},", "},\n"));
}

#[test]
fn a_call_shows_which_layers_hold_for_it() {
    let text = "\
version: 1
tools:
  http.get:
    calls:
      - when: args.slow
        retry: {deadline: 10m}
      - when: has(args.url)
        retry: {max_attempts: 5}
      - when: size(args.parts) > 2
        retry: {max_attempts: 1}
";
    let call =
        Policy::from_yaml("x.yaml", text).unwrap().explain_call("http.get", &json!({"slow": true}), None);
    assert_eq!(call.get("retry.deadline").unwrap().value, "10m");
    assert_eq!(call.get("retry.max_attempts").unwrap().value, 1, "fewer attempts tighten");
    let holds: Vec<_> = call.conditional.iter().map(|layer| layer.holds.clone().unwrap()).collect();
    assert!(
        matches!(holds.as_slice(), [ConditionState::Yes, ConditionState::No, ConditionState::NoValue(_)]),
        "{holds:?}"
    );
    let human = call.human();
    let shown: Vec<_> =
        human.lines().filter(|line| line.starts_with("  when") || line.contains("not apply")).collect();
    let shown: Vec<_> = shown.iter().map(|line| line.trim()).collect();
    assert_snapshot!(shown.join("\n"), @"
    when args.slow (x.yaml:5:15): holds
    when has(args.url) (x.yaml:7:15): does not hold
    when size(args.parts) > 2 (x.yaml:9:15): has no value, only what tightens applies; `size(args.parts) > 2`: no such key `parts`
    ");
}

#[test]
fn a_planner_that_would_never_stop_is_left_out() {
    let planner = CallOverride::new(json!({"retry": {"max_attempts": "unlimited"}})).unwrap();
    let call = Policy::builtin().explain_call("t", &json!({}), Some(&planner));
    assert_eq!(call.get("retry.max_attempts").unwrap().value, 4);
    assert_snapshot!(call.left_out.join("\n"), @"(planner):1:26: the attempts of this call have no end; set a `deadline`, or a number");
}

#[test]
fn one_value_or_block_is_shown_alone() {
    let tool = policy().explain_tool("http.get");
    assert_snapshot!(tool.only("retry.max_attempts").unwrap().human());
    let block: Vec<_> = tool.only("breaker").unwrap().values.into_iter().map(|value| value.path).collect();
    assert_eq!(
        block,
        [
            "breaker.failures",
            "breaker.count",
            "breaker.scope",
            "breaker.open_for",
            "breaker.probes",
            "breaker.successes",
            "breaker.hide",
            "breaker.message"
        ]
    );
}

#[test]
fn what_holds_for_a_class_is_shown_by_its_key() {
    let text = "version: 1\nretry: {max_attempts: 3, by_class: {timeout: {max_attempts: 2}}}\n";
    let tool = Policy::from_yaml("x.yaml", text).unwrap().explain_tool("t");
    let shown = |key: &str| {
        let values = tool.only(key).unwrap().values.into_iter();
        values.map(|value| format!("{} = {}", value.path, value.value)).collect::<Vec<_>>()
    };
    assert_eq!(shown("by_class"), ["retry.by_class.timeout.max_attempts = 2"]);
    assert_eq!(shown("by_class.timeout.max_attempts"), ["retry.by_class.timeout.max_attempts = 2"]);
    assert_eq!(shown("retry.by_class.overloaded.max_attempts"), ["retry.max_attempts = 3"]);
    assert_eq!(shown("by_class.timeout").len(), 3);
    let told = |key: &str| tool.only(key).unwrap_err().to_string();
    assert_snapshot!(told("by_class.timeuot"), @"tool `t` has no `by_class.timeuot`; there is no class `timeuot` (did you mean `timeout`?)");
    let plain = Policy::builtin().explain_tool("t");
    assert_snapshot!(plain.only("by_class").unwrap_err().to_string(), @"tool `t` has no `by_class`; no class of errors has rules of its own");
}

#[test]
fn a_class_whose_waits_are_others_has_a_table_of_its_own() {
    let text = "\
version: 1
retry:
  by_class:
    timeout: {max_attempts: 2, backoff: {kind: constant, delay: 7s, jitter: none}}
    rate_limit: {max_attempts: 6, backoff: {kind: exponential, base: 1s, factor: 3, cap: 9s, jitter: decorrelated}}
    auth_error: {max_attempts: 9}
";
    let delays = Policy::from_yaml("x.yaml", text).unwrap().explain_tool("t").delays.unwrap();
    assert_snapshot!(delays.to_string());
    assert_json_snapshot!(delays.to_json());
}

#[test]
fn a_key_that_is_not_there_is_told_with_what_is_meant() {
    let turn = policy().explain_turn();
    let told = |key: &str| turn.only(key).unwrap_err().to_string();
    assert_snapshot!(told("max_turn"), @"the loop of turns has no `max_turn` (did you mean `max_turns`?)");
    assert_snapshot!(policy().explain_tool("x").only("deadline").unwrap_err().to_string(), @"tool `x` has no `deadline` (did you mean `retry.deadline`?)");
    let unknown = told("xyz");
    assert!(
        unknown.starts_with("the loop of turns has no `xyz`; there are max_turns, total_delay, "),
        "{unknown}"
    );
    assert!(turn.only("max_turnsx").is_err() && turn.only("").is_err());
}

#[test]
fn what_is_done_about_an_error_is_told_with_the_rules_that_say_so() {
    let policy = policy();
    let evidence = crate::policy::FailureEvidence {
        status: Some(429),
        code: Some("insufficient_quota"),
        ..Default::default()
    };
    let (row, at) = policy.error_row(&evidence).unwrap();
    let tool = policy.explain_tool("http.get");
    let told = [
        tool.on_error(ErrorClass::RateLimit).human(),
        tool.on_error(ErrorClass::InvalidArgs).human(),
        tool.on_row(row, at).human(),
        policy.explain_model("main").on_error(ErrorClass::Timeout).human(),
        policy.explain_output().unwrap().on_error(ErrorClass::TextOnly).human(),
    ];
    assert_snapshot!(told.join("\n"));
    assert_json_snapshot!(policy.explain_model("main").on_error(ErrorClass::AuthError).to_json());
}

#[test]
fn what_is_done_about_an_error_says_which_calls_it_does_not_speak_of() {
    let policy = policy();
    let told = policy.explain_tool("http.get").on_error(ErrorClass::Timeout);
    let end = "\n  all of it for calls that none of these layers holds for\n      when args.slow (team.yaml:10:15)\n";
    assert!(told.human().ends_with(end), "{}", told.human());
    let at = json!({"file": "team.yaml", "line": 10, "column": 15});
    assert_eq!(told.to_json()["conditional"], json!([{"when": "args.slow", "at": at}]));
    let one = policy.explain_call("http.get", &json!({"slow": true}), None).on_error(ErrorClass::Timeout);
    assert!(one.conditional.is_empty() && !one.human().contains("args.slow"), "{}", one.human());
}

#[test]
fn a_bound_is_the_length_that_is_written_not_a_nanosecond_less() {
    let text = "version: 1\nlimits: {total_delay: 30s}\nretry: {max_attempts: 3, backoff: &b {kind: exponential, base: 500ms, factor: 2, jitter: full}, correction_backoff: *b}\n";
    let bounds = Policy::from_yaml("x.yaml", text).unwrap().bounds(&ComparedNames::default(), 1).to_json();
    assert_eq!(bounds["run"]["correcting"], "11s");
    assert_eq!(bounds["models"][0]["turn"]["waiting"], "1.5s");
    assert_eq!(bounds["tools"][0]["correction"], "1s");
    let late = "version: 1\nretry: {max_attempts: 9, deadline: 3s, backoff: {kind: constant, delay: 1s, jitter: full}}\n";
    let late = Policy::from_yaml("x.yaml", late).unwrap().explain_model("m").to_json();
    assert_eq!(late["delays"]["waiting"], "3s");
}

#[test]
fn characters_of_two_columns_keep_the_columns() {
    let text = "version: 1\ntools: {日本語ツール: {retry: {max_attempts: 2}}, plain: {}}\n";
    let policy = Policy::from_yaml("x.yaml", text).unwrap();
    let columns = |text: &str, word: &str| -> Vec<usize> {
        let ends = |line: &str| line.find(word).map(|at| crate::text::columns(&line[..at]));
        text.lines().filter_map(ends).collect()
    };
    let value = policy.explain_tool("日本語ツール").get("retry.max_attempts").unwrap().to_string();
    let places = [columns(&value, "x.yaml:"), columns(&value, "builtin:default")].concat();
    assert!(places.len() == 2 && places[0] == places[1], "{value}");
    let bounds = policy
        .bounds(&ComparedNames { tools: vec!["日本語ツール".into(), "plain".into()], models: vec![] }, 1);
    let human = bounds.human();
    let rows: Vec<_> =
        human.lines().filter(|line| line.starts_with("  日本語") || line.starts_with("  plain")).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(crate::text::columns(rows[0]), crate::text::columns(rows[1]), "{human}");
}

#[test]
fn classes_after_which_no_other_model_is_called_are_told_with_the_rule() {
    let model = |rules: &str| {
        let policy = Policy::from_yaml("team.yaml", &format!("version: 1\n{rules}\n")).unwrap();
        policy.explain_model("main")
    };
    let aborts = model("models: {main: {no_fallback_on: [auth_error, timeout]}}");
    let round = model("turn: {targets: {fallback: attempt}}");
    // The waits are reported elsewhere.
    let told = [
        aborts.on_error(ErrorClass::AuthError),
        ErrorExplanation { delays: None, ..aborts.on_error(ErrorClass::Timeout) },
        ErrorExplanation { delays: None, ..round.on_error(ErrorClass::Timeout) },
    ];
    assert_snapshot!(told.map(|told| told.human()).join("\n"));
}

#[test]
fn a_class_is_retried_if_the_engine_retries_it() {
    let policy = policy();
    for tool in ["http.get", "http.post", "other"] {
        let (explained, rules) = (policy.explain_tool(tool), policy.tool(tool));
        for class in ErrorClass::ALL {
            let action = explained.on_error(*class).action;
            let stops = matches!(action, ErrorAction::NotRetried | ErrorAction::NeverRetried);
            assert_eq!(!stops, rules.retry.retries(*class), "{tool} {class}");
            assert_eq!(action == ErrorAction::NeverRetried, rules.retry.never_retry.value.contains(*class));
        }
    }
}

#[test]
fn a_class_with_rules_of_its_own_is_told_by_them() {
    let text = "\
version: 1
retry:
  max_attempts: 3
  by_class: {timeout: {max_attempts: 2, backoff: {kind: constant, delay: 7s, jitter: none}}}
";
    let policy = Policy::from_yaml("x.yaml", text).unwrap();
    assert_snapshot!(policy.explain_model("m").on_error(ErrorClass::Timeout).human());
    let shadow = Policy::from_yaml("x.yaml", &format!("{text}  shadow: true\n")).unwrap().explain_model("m");
    let told = shadow.on_error(ErrorClass::Timeout);
    assert_eq!((told.action, told.reasons[0].path.as_str()), (ErrorAction::NotRetried, "retry.shadow"));
}

#[test]
fn every_reason_about_a_list_is_the_layer_that_wrote_the_class() {
    let text = "\
version: 1
limits: {never_retry: [overloaded]}
retry: {retry_on: {add: [execution_error]}}
tools: {t: {retry: {retry_on: {remove: [timeout]}}}}
";
    let tool = Policy::from_yaml("x.yaml", text).unwrap().explain_tool("t");
    let reason = |class: ErrorClass| {
        let reason = tool.on_error(class).reasons.remove(0);
        format!("{} {}: {} {}", reason.path, reason.says, reason.layer, reason.at)
    };
    assert_snapshot!(reason(ErrorClass::ExecutionError), @"retry.retry_on holds execution_error: retry x.yaml:3:19");
    assert_snapshot!(reason(ErrorClass::Timeout), @r#"retry.retry_on does not hold timeout: tools["t"] x.yaml:4:31"#);
    assert_snapshot!(reason(ErrorClass::Overloaded), @"retry.never_retry holds overloaded: limit x.yaml:2:23");
    let inherited = reason(ErrorClass::NetworkError);
    assert!(
        inherited.starts_with("retry.retry_on holds network_error: built-in tools[\"*\"] builtin:default:"),
        "{inherited}"
    );
}

#[test]
fn the_waits_of_every_jitter_have_a_shortest_a_middle_and_a_longest() {
    let table = |backoff: &str| {
        let text = format!("version: 1\nretry: {{max_attempts: 4, backoff: {{{backoff}}}}}\n");
        let delays = Policy::from_yaml("x.yaml", &text).unwrap().explain_model("m").delays.unwrap();
        let row = |row: &DelayRow| format!("{}: {} {} {}", row.attempt, row.min, row.median, row.max);
        format!("{backoff}\n{}", delays.waits.rows.iter().map(row).collect::<Vec<_>>().join("\n"))
    };
    let jitters = ["none", "full", "equal", "plus_minus, spread: 0.5", "decorrelated"];
    let tables = jitters
        .map(|jitter| table(&format!("kind: exponential, base: 1s, factor: 2, cap: 9s, jitter: {jitter}")));
    assert_snapshot!(tables.join("\n\n"));
}

#[test]
fn the_bounds_of_a_run_are_shown_with_what_they_are_made_of() {
    assert_snapshot!(policy().bounds(&ComparedNames::default(), 2).human());
    let names = ComparedNames { tools: vec!["http.get".into()], models: vec!["main".into(), "spare".into()] };
    assert_json_snapshot!(policy().bounds(&names, 1).to_json());
}

#[test]
fn what_nothing_bounds_is_said_to_be_unbounded() {
    let text = "\
version: 1
models: {m: {retry: {max_attempts: unlimited, deadline: 1m, backoff: {kind: constant, delay: 0s}}}}
";
    let bounds = Policy::from_yaml("x.yaml", text)
        .unwrap()
        .bounds(&ComparedNames { models: vec!["m".into()], ..ComparedNames::default() }, 1);
    assert_eq!((bounds.run.calls, bounds.models[0].calls, bounds.tools[0].product), (None, None, None));
    assert!(bounds.human().contains("model calls     unbounded"));
}

#[test]
fn a_request_that_is_itself_at_fault_is_told_with_the_row() {
    let text = "version: 1\nerrors:\n  - {status: 500, class: model_error, request_at_fault: true}\n";
    let policy = Policy::from_yaml("x.yaml", text).unwrap();
    let evidence = crate::policy::FailureEvidence { status: Some(500), ..Default::default() };
    let (row, at) = policy.error_row(&evidence).unwrap();
    let told = policy.explain_model("m").on_row(row, at);
    assert_eq!((told.action, told.delays.is_none()), (ErrorAction::NotAsItIs, true));
    assert_snapshot!(told.human());
}

#[test]
fn the_wait_of_a_row_is_told_where_it_is_retried() {
    let text = "version: 1\nerrors:\n  - {status: 418, class: rate_limit, wait: 1m}\n  - {status: 419, class: auth_error, wait: 1m}\n";
    let policy = Policy::from_yaml("x.yaml", text).unwrap();
    let wait = |status| {
        let evidence = crate::policy::FailureEvidence { status: Some(status), ..Default::default() };
        let (row, at) = policy.error_row(&evidence).unwrap();
        let reasons = policy.explain_model("m").on_row(row, at).reasons;
        reasons.into_iter().find(|reason| reason.path == "errors.wait")
    };
    let told = wait(418).unwrap();
    assert!(told.says.starts_with("= 1m") && told.at.line == 3, "{told:?}");
    assert_eq!(wait(419), None, "what is not retried waits for nothing");
}

#[test]
fn a_value_that_is_asked_for_alone_is_shown_whole() {
    let policy = Policy::from_yaml("a.yaml", "version: 1").unwrap();
    let alone = policy.explain_tool("t").only("retry.retry_on").unwrap().human();
    let first = alone.lines().find(|line| line.contains("retry.retry_on = ")).unwrap();
    assert!(first.ends_with(']'), "{first}");
}

#[test]
fn the_short_form_answers_in_five_lines_with_the_text_that_the_model_reads() {
    let explained = Policy::builtin().explain_tool("look");
    let brief = explained.brief();
    let lines: Vec<&str> = brief.lines().take(5).collect();
    for (line, begins) in lines.iter().zip([
        "effective policy for tool `look`",
        "  how often  4 attempts; retried: ",
        "  how long   first wait 100ms to 200ms; ",
        "  the model  reads `look` failed 4 times, the last time with timeout: … (builtin:default:",
        "  ends with  max_attempts 4 (builtin:default:",
    ]) {
        assert!(line.starts_with(begins), "{line}");
    }
}
